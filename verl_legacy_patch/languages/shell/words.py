"""What a shell word means: its text without quotes and escapes, and where each character of it stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.setting import Span

if TYPE_CHECKING:
    from tree_sitter import Node

#: Stands for text that is only known when the script runs.
UNKNOWN = "\0"
EXPANSIONS = frozenset(
    {
        "expansion",
        "simple_expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    }
)
_ESCAPE = re.compile(rb"\\(\r?\n|.)", re.DOTALL)
_STRING_ESCAPE = re.compile(rb"\\(\r?\n|[$`\"\\])")
_ANSI = {b"n": "\n", b"t": "\t", b"r": "\r", b"'": "'", b'"': '"', b"\\": "\\"}


class Cooked:
    """Text in latin-1 (a character is a byte) with the source offset of every piece.

    Attributes:
        text: what the shell hands over; expansions are runs of ``UNKNOWN`` of their own length.
        expansions: (start in ``text``, node) of each.
        braces: the shell cuts the word apart at the commas of its braces.
    """

    __slots__ = ("_at", "_from", "_parts", "_size", "_text", "braces", "expansions", "source")

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.expansions: list[tuple[int, Node]] = []
        self.braces = False
        self._parts: list[str] = []
        self._text: str | None = None
        self._size = 0
        self._at: list[int] = []
        self._from: list[int] = []

    @property
    def text(self) -> str:
        """The text."""
        if self._text is None:
            self._text = "".join(self._parts)
        return self._text

    def add(self, start: int, end: int, text: str | None = None) -> None:
        """Append source bytes, or ``text`` in their place."""
        if text is None:
            text = self.source[start:end].decode("latin-1")
        if text:
            self._at.append(self._size)
            self._from.append(start)
            self._parts.append(text)
            self._size += len(text)
            self._text = None

    def add_escaped(self, start: int, end: int, escape: re.Pattern[bytes]) -> None:
        """Append source bytes in which a backslash quotes the next character."""
        if self.source.find(b"\\", start, end) >= 0:
            for found in escape.finditer(self.source, start, end):
                self.add(start, found.start())
                if not found[1].endswith(b"\n"):
                    self.add(found.start(1), found.end(1))
                start = found.end()
        self.add(start, end)

    def add_expansion(self, node: Node) -> None:
        """Append an expansion, opaque and as long as it is written."""
        start, end = node.start_byte, node.end_byte
        # inside strings the grammar counts the blank in front of a $ to the expansion
        while start < end and self.source[start] in b" \t\r\n":
            start += 1
        self.add(node.start_byte, start)
        self.expansions.append((self._size, node))
        self.add(start, end, UNKNOWN * (end - start))

    def offset(self, position: int) -> int:
        """Return where the character at ``position`` stands in the source."""
        index = bisect_right(self._at, position) - 1
        return self._from[index] + position - self._at[index]

    def span(self, start: int, end: int) -> Span | None:
        """Return the source bytes of ``text[start:end]``; None when they are not written in one piece."""
        if start >= end:
            return None
        span = Span(self.offset(start), self.offset(end - 1) + 1)
        written = self.source[span.start : span.end].decode("latin-1")
        return span if written == self.text[start:end] else None

    def around(self, start: int, end: int) -> Span:
        """Return the source bytes from the first to the last character of ``text[start:end]``."""
        return Span(self.offset(start), self.offset(end - 1) + 1)

    def within(self, hits: Sequence[Span]) -> list[Span]:
        """Return where ``hits``, spans of the source, are in ``text``."""
        found: list[Span] = []
        if not self._at:
            return found
        first, last = self._from[0], self.offset(self._size - 1)
        hits = hits[bisect_right(hits, first, key=lambda hit: hit.end) :]
        hits = hits[: bisect_right(hits, last, key=lambda hit: hit.start)]
        ends = [*self._at[1:], self._size]
        for hit in hits:
            inside = [
                (at + max(hit.start - begin, 0), at + min(hit.end - begin, end - at))
                for at, end, begin in zip(self._at, ends, self._from, strict=True)
                if begin < hit.end and hit.start < begin + end - at
            ]
            if inside:
                found.append(Span(inside[0][0], inside[-1][1]))
        return found

    def known(self, fill: str | None) -> bytes:
        """Return the text with expansions as they are written, or as runs of ``fill``."""
        if fill is not None:
            return self.text.replace(UNKNOWN, fill).encode("latin-1")
        text = bytearray(self.text.encode("latin-1"))
        for at, node in self.expansions:
            end = node.end_byte
            start = self.offset(at)
            text[at : at + end - start] = self.source[start:end]
        return bytes(text)

    def expansion_at(self, start: int, end: int) -> Node | None:
        """Return the expansion that is exactly ``text[start:end]``."""
        for at, node in self.expansions:
            if at == start and UNKNOWN * (end - start) == self.text[start:end]:
                return node if self.offset(end - 1) + 1 == node.end_byte else None
        return None


def cook(node: Node, source: bytes) -> Cooked:
    """Return what the word ``node`` means."""
    cooked = Cooked(source)
    _cook(node, cooked)
    return cooked


def _cook(node: Node, cooked: Cooked) -> None:
    kind = node.type
    start, end = node.start_byte, node.end_byte
    if kind == "string":
        _cook_string(node, cooked)
    elif kind == "raw_string":
        cooked.add(start + 1, end - 1)
    elif kind == "ansi_c_string":
        _cook_ansi(start + 2, end - 1, cooked)
    elif kind in EXPANSIONS:
        cooked.add_expansion(node)
    elif kind in ("concatenation", "command_name", "translated_string"):
        children = node.children
        if kind == "translated_string":
            children = children[1:]
        for child in children:
            _cook(child, cooked)
        bare = [source_text(child, cooked.source) for child in children if child.type == "word"]
        # {a:1,b:2} outside quotes is cut apart by the shell
        cooked.braces = b"{" in bare and any(b"," in text for text in bare)
    else:
        cooked.add_escaped(start, end, _ESCAPE)


def _cook_string(node: Node, cooked: Cooked) -> None:
    position = node.start_byte + 1
    end = node.end_byte - 1
    if node.child_count > 3 or (node.child_count == 3 and node.children[1].type != "string_content"):
        # blanks between children belong to no node: take what is between the expansions from the source
        for child in node.children:
            if child.type in EXPANSIONS:
                cooked.add_escaped(position, child.start_byte, _STRING_ESCAPE)
                cooked.add_expansion(child)
                position = child.end_byte
    cooked.add_escaped(position, end, _STRING_ESCAPE)


def _cook_ansi(start: int, end: int, cooked: Cooked) -> None:
    for found in _ESCAPE.finditer(cooked.source, start, end):
        cooked.add(start, found.start())
        cooked.add(found.start(), found.end(), _ANSI.get(found[1], UNKNOWN))
        start = found.end()
    cooked.add(start, end)


def source_text(node: Node, source: bytes) -> bytes:
    """Return the source bytes of a node."""
    return source[node.start_byte : node.end_byte]
