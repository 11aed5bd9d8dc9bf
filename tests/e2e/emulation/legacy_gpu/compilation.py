"""Refuses compiled functions when they are called: Triton, which torch.compile generates, needs 7.0."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from legacy_gpu import violations


def install(torch: ModuleType) -> None:
    """Replace ``torch.compile``: decorating costs nothing on the card either, calling is what fails."""

    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return refusing
        if isinstance(model, torch.nn.Module):
            model.forward = refusing(model.forward)
            return model
        return refusing(model)

    torch.compile = compile  # type: ignore[attr-defined]


def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as a P40 runs its compiled form: not at all."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        violations.triton(f"torch.compile of {getattr(function, '__qualname__', function)}")
        return function(*args, **kwargs)

    return call
