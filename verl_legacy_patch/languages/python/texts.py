"""Python strings as one text: pieces joined, doubled braces undone, and a hole for everything that is computed.

A hole is a NUL character (several for ``%s`` and ``{}``), which Hydra override text may hold in keys and values. So
``"%s.dtype=%s" % (role, "bf16")`` reads like ``f"{role}.dtype={'bf16'}"``: an override whose value is a hole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import libcst as cst

from verl_legacy_patch.languages.python.nodes import callee, is_text, pieces_of, string
from verl_legacy_patch.setting import Span

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

_HOLE = "\0"
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-#0 +]*(?:\d+|\*)?(?:\.\d+)?[diouxXeEfFgGcrsa]|%%")
_BRACES = re.compile(r"\{(?P<name>\w*)(?:![rsa])?(?::[^{}]*)?\}|\{\{|\}\}")
_DOUBLED = re.compile(r"\{\{|\}\}")


@dataclass
class Text:
    """A string as read.

    Attributes:
        text: the characters as written in the source, holes for what is computed.
        offsets: for each character its byte offset in the file, -1 in holes.
        holes: index in ``text`` -> the expression that fills the hole which starts there.
    """

    text: str = ""
    offsets: list[int] = field(default_factory=list)
    holes: dict[int, cst.BaseExpression] = field(default_factory=dict)

    def span(self, start: int, end: int) -> Span | None:
        """Return the bytes of characters ``start`` to ``end`` when they stand in one piece of the source."""
        part = self.offsets[start:end]
        if not part or part[0] < 0 or part[-1] - part[0] != len(part) - 1 or -1 in part:
            return None
        return Span(part[0], part[-1] + 1)

    def hole(self, start: int, end: int) -> cst.BaseExpression | None:
        """Return the expression that fills characters ``start`` to ``end``, when they are exactly one hole."""
        return self.holes.get(start) if not self.text[start:end].strip(_HOLE) else None

    def _add(self, text: str, start: int, encoding: str) -> None:
        self.text += text
        if text.isascii():
            self.offsets += range(start, start + len(text))
            return
        for character in text:
            self.offsets.append(start)
            start += len(character.encode(encoding))

    def _add_hole(self, node: cst.BaseExpression) -> None:
        self.holes[len(self.text)] = node
        self.text += _HOLE
        self.offsets.append(-1)

    def _dig(self, start: int, end: int, node: cst.BaseExpression | None) -> None:
        self.text = self.text[:start] + _HOLE * (end - start) + self.text[end:]
        self.offsets[start:end] = [-1] * (end - start)
        if node is not None:
            self.holes[start] = node


def read(pieces: Sequence[Any], statement: Statement) -> Text:
    """Return the text of string literals and of the computed parts between them, in order."""
    found = Text()
    for piece in pieces:
        if isinstance(piece, cst.SimpleString):
            start = statement.span_of(piece).start + len(piece.prefix) + len(piece.quote)
            found._add(piece.raw_value, start, statement.source.encoding)
        elif is_text(piece):
            for part in piece.parts:
                if hasattr(part, "expression"):
                    found._add_hole(part.expression)
                else:
                    _literal(found, part.value, statement.span_of(part).start, statement.source.encoding)
        else:
            found._add_hole(piece)
    return found


def _literal(found: Text, text: str, start: int, encoding: str) -> None:
    """Add the text between the braces of an f-string: ``{{`` stands for one brace there."""
    position = 0
    for match in _DOUBLED.finditer(text):
        before = text[position : match.start() + 1]
        found._add(before, start, encoding)
        start += len((before + "{").encode(encoding))
        position = match.end()
    found._add(text[position:], start, encoding)


def template(node: cst.BaseExpression, statement: Statement) -> Text | None:
    """Return the text of ``"…" % values`` or ``"…".format(values)``, the values as holes; None for other code."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo) and is_text(node.left):
        found = read(pieces_of(node.left), statement)
        values = _percent_values(node.right)
        for match in _specs(_PERCENT, found, "%%"):
            found._dig(*match.span(), values.get(match["name"] or next(values.counter)))
        return found
    if isinstance(node, cst.Call) and callee(node.func) == "format" and isinstance(node.func, cst.Attribute):
        if not is_text(node.func.value):
            return None
        found = read(pieces_of(node.func.value), statement)
        values = _Values()
        for arg in node.args:
            values.add(arg.keyword.value if arg.keyword is not None else None, arg.value)
        for match in _specs(_BRACES, found, "{{", "}}"):
            name = match["name"]
            found._dig(*match.span(), values.get(int(name) if name.isdigit() else name or next(values.counter)))
        return found
    return None


class _Values:
    """The values of a template, by number and by name."""

    def __init__(self) -> None:
        self._by: dict[str | int, cst.BaseExpression] = {}
        self._count = 0
        self.counter: Iterator[int] = iter(range(1 << 30))

    def add(self, name: str | None, value: cst.BaseExpression) -> None:
        """Add the next value."""
        if name is None:
            name_or_number: str | int = self._count
            self._count += 1
        else:
            name_or_number = name
        self._by[name_or_number] = value

    def get(self, name: str | int) -> cst.BaseExpression | None:
        """Return a value; None when it is not written here."""
        return self._by.get(name)


def _percent_values(right: cst.BaseExpression) -> _Values:
    values = _Values()
    if isinstance(right, cst.Tuple):
        for element in right.elements:
            values.add(None, element.value)
    elif isinstance(right, cst.Dict):
        for entry in right.elements:
            if isinstance(entry, cst.DictElement):
                values.add(string(entry.key) or "", entry.value)
    else:
        values.add(None, right)
    return values


def _specs(pattern: re.Pattern[str], found: Text, *escaped: str) -> list[re.Match[str]]:
    return [match for match in pattern.finditer(found.text) if match[0] not in escaped]
