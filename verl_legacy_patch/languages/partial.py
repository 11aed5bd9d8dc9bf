"""Modules of a package without the rest of it: what its ``__init__`` imports can cost more than what is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@contextmanager
def without_init(name: str) -> Iterator[None]:
    """Let modules of the package ``name`` be imported inside, without its ``__init__``.

    Whoever imports the package later gets all of it. One that is loaded already stays as it is.
    """
    if name in sys.modules:
        yield
        return
    top, *inner = name.split(".")
    spec = find_spec(top)
    package = ModuleType(name)
    package.__path__ = ["/".join((folder, *inner)) for folder in (spec and spec.submodule_search_locations) or ()]
    sys.modules[name] = package
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def on_demand(name: str, *functions: str) -> Iterator[None]:
    """Let functions of the module ``name`` be imported inside, which is loaded when one of them is called."""
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    for function in functions:
        setattr(module, function, _calling(name, function))
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]


def _calling(module: str, function: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), function)(*arguments, **named)

    return call
