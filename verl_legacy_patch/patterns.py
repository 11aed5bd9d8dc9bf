"""Regular expressions that are compiled when they are first used.

The codemods and rooms of this program hold about a hundred of them, and a run on one file uses a few: compiling all
at import would be a third of what a hook costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, AnyStr, Generic, cast

_compile = re.compile


class _Lazy(Generic[AnyStr]):
    """Stands in for a compiled pattern until something is asked of it."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._source: tuple[AnyStr, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(_compile(*self._source), name)
        setattr(self, name, value)  # the next look-up finds it without coming here
        return value


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what behaves like ``re.compile(pattern, flags)``, compiled on first use.

    Only its attributes are there: it is no ``re.Pattern`` to ``isinstance``, nor to functions of the ``re`` module.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))


@contextmanager
def deferred() -> Iterator[None]:
    """Make the patterns of modules that are imported inside ``lazy``: for modules whose patterns a run rarely needs."""
    kept, re.compile = re.compile, lazy  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = kept
