"""Modules of a package without the rest of it: what its ``__init__`` imports can cost more than what is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType


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
