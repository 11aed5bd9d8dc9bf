"""A Python file without what nobody asks about, so that ``ast`` has less to build.

Functions, classes and other blocks that hold no interesting place become an assignment (a function binds a name too,
and ``pass`` would say of a handler that it does nothing); all else keeps its line and its column. Where a block ends is
told by its indentation, outside of strings. What is not sure (tabs, quotes inside of f-strings as in Python 3.12) makes
it give up; what could still go wrong (a bracket that is continued further left, an expression that looks like a block)
leaves a text that does not parse. In both cases the caller parses the whole file.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from verl_legacy_patch.setting import Places, Span

#: Smaller files are parsed faster than cut.
_WORTH_IT = 3000

_TRIPLE = rb'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
_DOCSTRING = re.compile(_TRIPLE, re.DOTALL)
_TOKEN = re.compile(
    rb"#[^\n]*|" + _TRIPLE + rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"(?!"")[^"\\\n]*(?:\\(?:\r\n|.)[^"\\\n]*)*"'
    rb"|'(?!'')[^'\\\n]*(?:\\(?:\r\n|.)[^'\\\n]*)*'"
    rb"|[\"']",
    re.DOTALL,
)
#: Braces that all close again. Where they do not, a quote inside of an f-string has ended the token too early.
_FORMATTED = re.compile(rb"[^{}]*(?:(?:\{\{|\}\}|\{(?!\{)[^{}]*(?:\{[^{}]*\}[^{}]*)*\})[^{}]*)*")
_CUT = re.compile(rb"\n *(?:@|def |class |async def |(?:if |for |while |with |async |try *:)(?:[^\n]*:)?\r?(?=\n))")
_MARKS = re.compile(rb"[\"'#]")
_CONTINUED = re.compile(rb"\\\r?\n")


def skeleton(utf8: bytes, keep: Sequence[Span]) -> bytes | None:
    """Return a file with only those blocks that touch one of the spans, the others as ``_=0``.

    None when that would save nothing, or it is not sure where blocks begin and end.
    """
    if len(utf8) < _WORTH_IT or b"\t" in utf8 or b"\f" in utf8 or utf8.count(b"\r") != utf8.count(b"\r\n"):
        return None
    strings = _long_strings(utf8)
    return None if strings is None else _Cutter(utf8, strings, keep).cut()


@lru_cache(maxsize=4)
def _long_strings(utf8: bytes) -> list[Span] | None:
    """Return the strings of more than one line; None when it is not sure where strings begin and end."""
    found = _docstrings(utf8)
    return _all_strings(utf8) if found is None else found


def _docstrings(utf8: bytes) -> list[Span] | None:
    """Return the strings in triple quotes; None for a file that needs a look at every string and comment."""
    if b"'''" in utf8:
        return None
    found: list[Span] = []
    end = 0
    for match in _DOCSTRING.finditer(utf8):
        start = match.start()
        if _MARKS.search(utf8, max(utf8.rfind(b"\n", 0, start) + 1, end), start) or not _closed(utf8, match):
            return None
        end = match.end()
        found.append(Span(start, end))
    outside = (match for match in _CONTINUED.finditer(utf8) if _span_at(found, match.start()) is None)
    return found if utf8.find(b'"""', end) < 0 and next(outside, None) is None else None


def _all_strings(utf8: bytes) -> list[Span] | None:
    found = []
    for match in _TOKEN.finditer(utf8):
        start, end = match.span()
        if utf8.startswith(b"#", start):
            if utf8.endswith(b"\\", start, end):  # no continuation of the line, but it looks like one
                return None
        elif end == start + 1 or not _closed(utf8, match):
            return None
        elif utf8.find(b"\n", start, end) >= 0:
            found.append(Span(start, end))
    return found


def _closed(utf8: bytes, match: re.Match[bytes]) -> bool:
    """Return whether a string ends where it seems to end."""
    prefix = utf8[max(0, match.start() - 2) : match.start()].lower()
    formatted = prefix.rstrip(b"r")[-1:] in (b"f", b"t")
    return not formatted or _FORMATTED.fullmatch(utf8, *match.span()) is not None


def _span_at(spans: Sequence[Span], offset: int) -> Span | None:
    index = bisect_right(spans, Span(offset, sys.maxsize)) - 1
    return spans[index] if index >= 0 and offset < spans[index].end else None


class _Cutter:
    def __init__(self, utf8: bytes, strings: Sequence[Span], keep: Sequence[Span]) -> None:
        self._utf8 = utf8
        self._strings = strings
        self._keep = Places(keep)
        self._undecorated: set[int] = set()  # indentations with no definition from here on

    def cut(self) -> bytes:
        """Return the file with the blocks cut that no span to keep touches."""
        utf8 = self._utf8
        parts: list[bytes] = []
        position = at = 0
        decorated = -1  # indentation of the definition whose decorators are kept
        while (match := _CUT.search(utf8, at)) is not None:
            start, at = match.start() + 1, match.end()
            if utf8.endswith((b"\\", b"\\\r"), 0, start - 1) or _span_at(self._strings, start):
                continue
            first = start + len(match[0]) - 1 - len(match[0].lstrip())
            indent, decorator = first - start, utf8.startswith(b"@", first)
            if indent == decorated:  # further decorators are kept with the first, up to their definition
                decorated = indent if decorator else -1
                continue
            end = self._end(start, indent, decorator)
            if end < 0:
                continue
            if self._keep.touching(Span(start, end)):
                decorated = indent if decorator else -1
                continue
            parts += (utf8[position:first], b"_=0", b"\n" * utf8.count(b"\n", start, end))
            position = at = end
        parts.append(utf8[position:])
        return b"".join(parts)

    def _end(self, start: int, indent: int, decorator: bool) -> int:
        """Return where a block ends: at the line feed before the next statement that is not further indented.

        -1 for a decorator without a definition.
        """
        if decorator:
            header = None if indent in self._undecorated else self._search(_header(indent), start)
            if header is None:
                self._undecorated.add(indent)
                return -1
            start = header.end()
        found = self._search(_dedent(indent), start)
        return len(self._utf8) if found is None else found.start()

    def _search(self, pattern: re.Pattern[bytes], start: int) -> re.Match[bytes] | None:
        """Return the first match that does not begin inside of a string."""
        while (match := pattern.search(self._utf8, start)) is not None:
            inside = _span_at(self._strings, match.start())
            if inside is None:
                break
            start = inside.end
        return match


@lru_cache(maxsize=64)
def _dedent(indent: int) -> re.Pattern[bytes]:
    """Match the line feed before a statement: no comment, closing bracket, continued line or further part of it."""
    same = rb" {%d}(?!(?:elif|else|except|finally)\b)" % indent
    outer = rb"| {0,%d}" % (indent - 1) if indent else b""
    return re.compile(rb"\n(?<!\\\n)(?<!\\\r\n)(?:%b%b)[^ \r\n#)\]}]" % (same, outer))


@lru_cache(maxsize=64)
def _header(indent: int) -> re.Pattern[bytes]:
    """Match the line feed before a definition, however it is written: a later one would be taken for it."""
    return re.compile(rb"\n {%d}(?:def|class|async(?: |\\\r?\n)+def)\b" % indent)
