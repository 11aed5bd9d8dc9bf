"""Random modules of known shapes: the right places change, nothing else does, whatever encoding and white space."""

from __future__ import annotations

from hypothesis import given, settings
from python_shapes import Module, modules

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.rewrite import Rewritten, rewrite
from verl_legacy_patch.target import make_target

TARGET = make_target()
CODEMODS = [discover()["attention"], discover()["dtype"]]


def rewritten(source: bytes) -> Rewritten:
    return rewrite("verl/module.py", source, CODEMODS, TARGET)


@settings(max_examples=150, deadline=None)
@given(modules())
def test_the_right_places_change(module: Module) -> None:
    result = rewritten(module.before)
    assert result.after == module.after
    assert not rewritten(result.after).changed
