"""Calls a function on a module right after its code ran, or when somebody asks for it."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Hook = Callable[[ModuleType], None]


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, hooks: Mapping[str, Sequence[Hook]], watched: Mapping[str, Callable[[], None]]) -> None:
        self.hooks = hooks
        self.watched = watched

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None for everything but the hooked modules: the import goes on as usual."""
        if name in self.watched:
            self.watched[name]()
        if name not in self.hooks:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            for hook in self.hooks[name]:
                hook(module)

        spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec


def install(tables: Sequence[Mapping[str, Sequence[Hook]]], watched: Mapping[str, Callable[[], None]]) -> None:
    """Call the hooks of all tables after the module they name was executed, ``watched`` when it is looked for."""
    hooks: dict[str, list[Hook]] = {}
    for table in tables:
        for name, more in table.items():
            hooks.setdefault(name, []).extend(more)
    sys.meta_path.insert(0, _Finder(hooks, watched))
