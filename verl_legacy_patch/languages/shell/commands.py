"""The commands of a script as the shell would run them, as far as the script itself says.

For rules that judge a command as a whole: what it sets, and what it does not set. Variables and arrays that
the script assigns are filled in, in the order of the text; branches and loops are not followed, so the last
assignment above a command counts and every ``+=`` is taken to happen.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch.languages.hydra import overrides
from verl_legacy_patch.languages.shell.context import BRANCHES, asked_for
from verl_legacy_patch.languages.shell.tree import parse
from verl_legacy_patch.languages.shell.words import EXPANSIONS, cook, source_text
from verl_legacy_patch.setting import Span

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_TEXT = 100_000
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?", re.ASCII)
_ARITHMETIC = re.compile(r"[\d\s+*/%()-]{1,200}$", re.ASCII)
_WHOLE_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}$", re.ASCII)
_PLAIN = re.compile(r"\$(?:(\w+)|\{(\w+)\})$", re.ASCII)
_DEFAULT = re.compile(r"\$\{(\w+):?[-=]", re.ASCII)


class Word(NamedTuple):
    """A word of a command.

    Attributes:
        text: what the program receives; what the script does not say is left as written (``$HOME``).
        span: where it is written: at the command, or where the variable or array it comes from is assigned.
    """

    text: str
    span: Span


class Command(NamedTuple):
    """A simple command: its words, expanded, and where it is written."""

    words: tuple[Word, ...]
    span: Span

    def values(self) -> dict[str, Word]:
        """Return what the words set: dotted key (flags too) to value and its place; the last one counts."""
        found: dict[str, Word] = {}
        previous = ""
        for word in self.words:
            if previous.startswith("--") and "=" not in previous and not word.text.startswith("-"):
                found[previous[2:].replace("-", "_")] = word
            for override in overrides(word.text, word=True):
                found[".".join(override.path)] = Word(override.value, word.span)
            previous = word.text
        return found


class _Value(NamedTuple):
    words: list[Word]
    array: bool


def commands(source: bytes, leave_out: Callable[[str], object] | None = None) -> Iterator[Command]:
    """Yield the simple commands of a script in the order of the text, those in substitutions too.

    Args:
        source: the script.
        leave_out: called with each value that a ``case`` pattern or an ``if`` asks for; what runs under such a test
            is skipped, its assignments too, where the answer is true.
    """
    yield from _Reader(source, leave_out).read(parse(source).root_node)


class _Reader:
    def __init__(self, source: bytes, leave_out: Callable[[str], object] | None) -> None:
        self.source = source
        self.leave_out = leave_out
        self.known: dict[str, _Value] = {}

    def read(self, root: Node) -> Iterator[Command]:
        """Walk the statements; what is inside plain words is not visited."""
        pending = [root]
        while pending:
            node = pending.pop()
            kind = node.type
            if kind == "command":
                yield self._command(node)
            elif kind == "variable_assignment":
                self._assign(node)
            elif kind == "for_statement":
                variable = node.child_by_field_name("variable")
                if variable is not None:
                    self.known.pop(self._text(variable), None)
            if node.child_count and (kind not in _WORDS or self._substitutes(node)):
                pending += reversed(self._followed(node))

    def _followed(self, node: Node) -> list[Node]:
        """Return the children that run, as far as ``leave_out`` decides it."""
        if self.leave_out is None or node.type not in BRANCHES:
            return node.named_children
        return [child for child in node.named_children if not self._left_out(node, child)]

    def _left_out(self, node: Node, child: Node) -> bool:
        return self.leave_out is not None and any(map(self.leave_out, asked_for((node, child), self.source)))

    def _substitutes(self, node: Node) -> bool:
        text = source_text(node, self.source)
        return b"$(" in text or b"`" in text or b"(" in text[:2]

    def _text(self, node: Node) -> str:
        return source_text(node, self.source).decode("utf-8", "replace")

    def _command(self, node: Node) -> Command:
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "command_name":
                words += self._expand(child.children[0] if child.children else child)
            elif child.type not in _NO_WORDS:
                words += self._expand(child)
        return Command(tuple(words), Span(node.start_byte, node.end_byte))

    def _assign(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name" or (node.parent and node.parent.type == "command"):
            return  # an assignment in front of a command is for that command only
        key = self._text(name)
        if value is None:
            self.known[key] = _Value([Word("", Span(node.end_byte, node.end_byte))], False)
            return
        if value.type == "array":
            new = _Value([word for child in value.named_children for word in self._expand(child)], True)
        else:
            new = _Value([self._joined(value)], False)
        old = self.known.get(key)
        if old is not None and any(child.type == "+=" for child in node.children):
            if old.array:
                new = old._replace(words=old.words + new.words)
            elif not new.array:
                text = "".join(word.text for word in old.words + new.words)
                new = _Value([Word(text[:_MAX_TEXT], new.words[0].span)], False)
        self.known[key] = _Value(new.words[:_MAX_TEXT], new.array)

    def _expand(self, node: Node) -> list[Word]:
        """Return the words that one written word becomes."""
        if node.type == "comment":
            return []
        inner = node
        quoted = node.type == "string"
        if quoted and node.named_child_count == 1:
            inner = node.named_children[0]
        text = self._text(inner).strip()
        whole = not quoted or len(self._text(node)) == len(text) + 2
        if inner.type in EXPANSIONS and whole:
            array = _WHOLE_ARRAY.match(text)
            held = self.known.get(array[1]) if array else None
            if held is not None and not (quoted and text.endswith("[*]}")):
                return [*held.words]
            value = self._value(inner)
            unknown = value.text == text
            return [value] if quoted or unknown else self._split(value)
        return [self._joined(node)]

    def _split(self, word: Word) -> list[Word]:
        """Return the pieces that an unquoted expansion falls into."""
        start, end = word.span
        exact = self.source[start:end] == word.text.encode("utf-8", "replace") and word.text.isascii()
        return [
            Word(piece[0], Span(start + piece.start(), start + piece.end()) if exact else word.span)
            for piece in re.finditer(r"\S+", word.text)
        ]

    def _joined(self, node: Node) -> Word:
        """Return a word with its expansions filled in."""
        if node.type == "word" and b"\\" not in source_text(node, self.source):
            return Word(self._text(node), Span(node.start_byte, node.end_byte))
        cooked = cook(node, self.source)
        parts: list[str] = []
        position = 0
        only: Word | None = None
        for at, expansion in cooked.expansions:
            only = self._value(expansion)
            parts += [_decoded(cooked.text[position:at]), only.text]
            position = at + len(source_text(expansion, self.source).lstrip(b" \t\r\n"))
        parts.append(_decoded(cooked.text[position:]))
        text = "".join(parts)
        if only is not None and len(cooked.expansions) == 1 and text == only.text:
            return only
        size = len(cooked.text)
        span = cooked.around(0, size) if size else Span(node.start_byte, node.end_byte)
        return Word(text if len(text) <= _MAX_TEXT else self._text(node), span)

    def _value(self, node: Node) -> Word:
        """Return the value of an expansion, or the expansion as it is written."""
        text = self._text(node).strip()
        as_written = Word(text, Span(node.start_byte, node.end_byte))
        if node.type == "arithmetic_expansion":
            number = self._number(text[3:-2] if text.startswith("$((") else text[2:-1])
            return as_written if number is None else Word(str(number), as_written.span)
        plain = _PLAIN.match(text)
        default = None if plain else _DEFAULT.match(text)
        if plain or default:
            name = (plain[1] or plain[2]) if plain else default[1] if default else ""
            held = self.known.get(name)
            if held is not None and held.words and (plain or held.words[0].text):
                return held.words[0]
            if default and node.named_child_count > 1:
                return self._joined(node.named_children[-1])
        array = _WHOLE_ARRAY.match(text)
        held = self.known.get(array[1]) if array else None
        if held is not None:
            return Word(" ".join(word.text for word in held.words), as_written.span)
        return as_written

    def _number(self, expression: str) -> int | None:
        def value(found: re.Match[str]) -> str:
            held = self.known.get(found[1])
            return f"({held.words[0].text})" if held is not None and held.words else found[0]

        filled = _NAME.sub(value, expression).strip()
        if not _ARITHMETIC.match(filled):
            return None
        try:
            return _evaluate(ast.parse(filled.replace("/", "//"), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
            return None


def _evaluate(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    raise ValueError("not integer arithmetic")


def _decoded(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1", "replace").decode("utf-8", "replace")


_WORDS = frozenset({"command", "variable_assignment", "string", "word", "raw_string", "concatenation"})
_NO_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"})
