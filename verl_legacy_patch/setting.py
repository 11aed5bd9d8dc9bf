"""The vocabulary of the engine: settings are found, edits are wanted, sites are reported.

This module imports nothing of the project. Spans are half-open byte offsets into the file as it is on disk
(or in git), so that what is not edited stays byte-identical whatever the encoding or the line endings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, NamedTuple

Action = Literal["rewrite", "keep", "report"]
Grade = Literal["safe", "review"]


class Span(NamedTuple):
    """Bytes ``start`` (included) to ``end`` (not included) of a file."""

    start: int
    end: int


class Setting(NamedTuple):
    """One place that holds a value under a key, as a language adapter found it.

    Attributes:
        path: the dotted key, outermost part first. ``path[-1]`` is the nearest name: the keyword, the YAML
            key, the last part of a Hydra override, the method of a cast (``"bfloat16"``, ``"to"``).
        value: the value without quotes: ``bf16``, ``torch.bfloat16``, ``True``.
        span: the bytes that a new value replaces: inside the quotes of a string.
        position: where the value stands, in words for people (``keyword argument``, ``YAML value``).
        names: why this place only names its value and must stay; empty where it chooses one.
        advice: true where a kept place may still pick the wrong path on an old GPU: a person should look.
        code: true where the value is an expression of the language and no text (``torch.bfloat16``).
        allowed: the values that this place accepts, when it says so itself (``choices=``, ``Literal``).
        around: names and tests of the code around it (classes, functions, calls), which may put it out of scope.
    """

    path: tuple[str, ...]
    value: str
    span: Span
    position: str
    names: str = ""
    advice: bool = False
    code: bool = False
    allowed: tuple[str, ...] = ()
    around: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The nearest name, or an empty string for a value without any."""
        return self.path[-1] if self.path else ""

    @property
    def full_key(self) -> str:
        """The whole dotted key."""
        return ".".join(self.path)


class Edit(NamedTuple):
    """What a codemod wants done (or deliberately not done) with a span.

    ``replacement`` is None for ``keep`` and ``report``. ``reason`` is a phrase for people; empty for a plain
    rewrite, which the codemod's own summary explains. ``key`` is the dotted key of a setting; empty for other places.
    """

    span: Span
    codemod: str
    action: Action
    replacement: str | None = None
    reason: str = ""
    grade: Grade = "safe"
    key: str = ""


class Site(NamedTuple):
    """One row of the result. Lines and columns start at 1; columns count characters."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    codemod: str
    action: Action
    grade: Grade
    before: str
    after: str | None
    reason: str
    key: str = ""


class OverlappingEdits(ValueError):
    """Two codemods want different text for the same bytes: a bug in one of them."""


def splice(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Return ``source`` with the spans of the rewrites replaced.

    Raises:
        OverlappingEdits: two rewrites overlap and are not the same one.
    """
    parts: list[bytes] = []
    position = 0
    last: Edit | None = None
    for edit in sorted((e for e in edits if e.replacement is not None), key=lambda e: e.span):
        if last is not None and edit.span == last.span and edit.replacement == last.replacement:
            if edit.span.start != edit.span.end:
                continue
            raise OverlappingEdits(f"{last.codemod} and {edit.codemod} insert the same text at byte {edit.span.start}")
        if edit.span.start < position or (last is not None and edit.span == last.span):
            other = last.codemod if last else "?"
            raise OverlappingEdits(f"{other} and {edit.codemod} both edit bytes {edit.span.start}-{edit.span.end}")
        assert edit.replacement is not None
        parts += [source[position : edit.span.start], edit.replacement.encode()]
        position, last = edit.span.end, edit
    parts.append(source[position:])
    return b"".join(parts)


def moved(changes: Iterable[Edit]) -> list[Span]:
    """Return where the replacements of non-overlapping rewrites stand in the new text, in order."""
    spans, shift = [], 0
    for edit in sorted(changes, key=lambda edit: edit.span):
        size = len((edit.replacement or "").encode())
        start = edit.span.start + shift
        spans.append(Span(start, start + size))
        shift += size - (edit.span.end - edit.span.start)
    return spans


class Places:
    """Spans of one file, asked which of them meet another span: cheaply, also where there are thousands."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans)
        self._starts = [span.start for span in self._spans]
        self._reach = list(accumulate((span.end for span in self._spans), max))

    def overlapping(self, span: Span) -> list[Span]:
        """Return those that share a byte with ``span``."""
        first, last = bisect_right(self._reach, span.start), bisect_left(self._starts, span.end)
        return [one for one in self._spans[first:last] if one.end > span.start]

    def touching(self, span: Span) -> list[Span]:
        """Return those that share a byte or an end with ``span``."""
        first, last = bisect_left(self._reach, span.start), bisect_right(self._starts, span.end)
        return [one for one in self._spans[first:last] if one.end >= span.start]


class Lines:
    """Line and column (both from 1, columns in characters) of byte offsets in one file."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._last = (0, 1, 1)  # offset, line and column of the place asked for before

    def locate(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of the byte at ``offset``."""
        start, line, column = self._last if offset >= self._last[0] else (0, 1, 1)
        if lines := self._source.count(b"\n", start, offset):
            start, line, column = self._source.rfind(b"\n", 0, offset) + 1, line + lines, 1
        column += len(self._source[start:offset].decode("utf-8", "replace"))
        self._last = (offset, line, column)
        return line, column
