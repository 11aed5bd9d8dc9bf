"""Imports LibCST in half of its time, which is a tenth of a whole dry run.

LibCST's nodes are 170 frozen dataclasses. ``dataclass`` compiles methods for each of them: ``__repr__`` and ``__eq__``,
which it throws away because the nodes have their own, two that refuse assignments, which differ in nothing but their
class, and ``__init__``, which the parser always calls with keywords. While LibCST is imported, the first are not asked
for, the refusals are closures, and so is ``__init__`` until somebody asks for more than that. Of ``libcst.metadata``
only the two modules are loaded that LibCST needs itself; whoever imports it later gets all of it. The tokenizer, which
finds out the encoding of bytes, is loaded when there are some. The classes are the same to everybody who uses them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from verl_legacy_patch.languages.partial import on_demand, without_init

__all__ = ["cst", "native"]

_CLOSURES, _INIT = "_frozen_get_del_attr", "_init_fn"


class _Later:
    """The ``__init__`` of a frozen dataclass for calls with keywords; it is compiled for any other, and to look at."""

    def __init__(self, make: Callable[[], Callable[..., None]], fields: Sequence[Any], post_init: bool) -> None:
        self._make = make
        self._made: Callable[..., None] | None = None
        names = {field.name for field in fields}
        defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
        put = object.__setattr__

        def __init__(node: Any, /, *arguments: Any, **given: Any) -> None:
            values = {**defaults, **given}
            if arguments or values.keys() != names:
                self._compile(type(node))(node, *arguments, **given)
                return
            for item in values.items():
                put(node, *item)
            if post_init:
                node.__post_init__()

        self._init = __init__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self._compile(owner) if instance is None else MethodType(self._init, instance)

    def _compile(self, owner: type) -> Callable[..., None]:
        place = next((cls for cls in owner.__mro__ if vars(cls).get("__init__") is self), None)
        if place is None:  # another thread was faster, or a method bound before is called again
            assert self._made is not None
            return self._made
        init = self._made = self._make()
        init.__qualname__ = f"{place.__qualname__}.__init__"
        type.__setattr__(place, "__init__", init)
        return init


def _dataclass(cls: Any = None, /, **options: Any) -> Any:
    """Make a dataclass without the methods that the class defines itself."""
    if cls is None:
        return lambda decorated: _dataclass(decorated, **options)
    own = vars(cls)
    if "__repr__" in own:
        options["repr"] = False
    if "__eq__" in own and own.get("__hash__") is not None:  # else it would decide about the hash
        options["eq"] = False
    return _kept["dataclass"](cls, **options)


def _refusals(cls: type, fields: Sequence[Any], _: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return ``__setattr__`` and ``__delattr__`` of a frozen dataclass."""
    names = frozenset(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return __setattr__, __delattr__


def _later(*arguments: Any) -> Any:
    fields, frozen, post_init = arguments[0], arguments[3], arguments[4]
    if not frozen or any(field._field_type.name != "_FIELD" or not field.init for field in fields):
        return _kept[_INIT](*arguments)
    return _Later(lambda: _kept[_INIT](*arguments), fields, post_init)


_changed: dict[str, Any] = {"dataclass": _dataclass}
if sys.version_info < (3, 13):  # later ones compile all methods of a class at once
    if hasattr(dataclasses, _CLOSURES):
        _changed[_CLOSURES] = _refusals
    if hasattr(dataclasses, _INIT):
        _changed[_INIT] = _later
_kept = {name: getattr(dataclasses, name) for name in _changed}
try:
    for _name in _kept:
        setattr(dataclasses, _name, _changed[_name])
    with without_init("libcst.metadata"), on_demand("libcst._parser.detect_config", "convert_to_utf8", "detect_config"):
        import libcst as cst
        from libcst import native  # type: ignore[attr-defined]
finally:
    for _name, _value in _kept.items():
        setattr(dataclasses, _name, _value)
