"""Shell scripts: Hydra overrides, flags, assignments and defaults, from a real bash grammar.

Only the words that overlap a trigger match are looked at. A word is first read as the shell reads it (quotes
and escapes gone, each character still knowing its byte), then as override text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.languages.hydra import leaves
from verl_legacy_patch.languages.shell.context import asked_for, chosen_under, used_as
from verl_legacy_patch.languages.shell.embedded import Heredoc, argument_language, embedded, unreadable
from verl_legacy_patch.languages.shell.tree import descend, parse, reparse, same_shape
from verl_legacy_patch.languages.shell.values import SEVERAL, Values
from verl_legacy_patch.languages.shell.words import Cooked, cook, source_text
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Setting, Span

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["parse", "reparse", "same_shape", "settings"]

MESSAGE = "a message"
COMPARISON = "comparison"
UNREAD = "the shell grammar cannot read this place"

_MESSAGE_COMMANDS = frozenset({"echo", "printf", "logger", "log", "die", "warn", "info", "error"})
_PATTERN_COMMANDS = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk"})
_TEST_COMMANDS = frozenset({"test", "["})
#: Nodes whose children are words or values of their own.
_HOLDERS = frozenset(
    {
        "command",
        "array",
        "variable_assignment",
        "for_statement",
        "case_item",
        "case_statement",
        "test_command",
        "binary_expression",
        "unary_expression",
        "herestring_redirect",
        "heredoc_redirect",
        "file_redirect",
        "declaration_command",
        "ERROR",
    }
)
_COMPARES = frozenset({"case_item", "test_command", "binary_expression", "unary_expression"})
_FLAG = lazy(r"--?[A-Za-z][\w.-]*$", re.ASCII)
_SEPARATORS = b" \t\r\n(){};&|"
_BLANK = lazy(rb"[\s\\]*")
#: What a word must hold to be a program of its own.
_PROGRAM = lazy(r"[ \t\n(;]")
_ITEM_KEY = lazy(r"\[([^\]=\0]+)\]=")


def settings(source: bytes, hits: Sequence[Span]) -> Iterator[Setting]:
    """Yield the settings of a script that overlap trigger matches.

    Args:
        source: the script.
        hits: spans of the trigger matches, sorted.
    """
    if hits:
        yield from _Script(source, hits).read()


class _Script(Values):
    def __init__(self, source: bytes, hits: Sequence[Span]) -> None:
        super().__init__(source)
        self.hits = hits
        self.tree = parse(source)

    def read(self) -> Iterator[Setting]:
        """Look at every word that a hit overlaps, once."""
        for hit in self.hits:
            position = hit.start
            while position < hit.end:
                path = descend(self.tree, position)
                found, end = self._at(path, position)
                yield from found
                blank = _BLANK.match(self.source, max(end, position + 1))
                assert blank is not None
                position = blank.end()

    def _at(self, path: list[Node], position: int) -> tuple[Sequence[Setting], int]:
        """Return the settings of the innermost word on ``path``, and where the word ends."""
        for index in range(len(path) - 1, 0, -1):
            node, holder = path[index], path[index - 1]
            kind = node.type
            if kind == "comment":
                return (), node.end_byte
            if kind == "heredoc_body":
                return self._heredoc(path, index), node.end_byte
            if kind == "command_substitution":
                break
            if holder.type not in _HOLDERS:
                continue
            if holder.type == "variable_assignment" and node.type != "array":
                node = holder.child_by_field_name("value") or node
            key = (node.start_byte, node.end_byte)
            if key in self.seen:
                return (), node.end_byte
            self.seen.add(key)
            return self._judged(path[:index], node), node.end_byte
        return (), position + 1

    def _judged(self, path: list[Node], node: Node) -> list[Setting]:
        """Return the settings of ``node``, with what its surroundings say about them."""
        holder = path[-1]
        if node.has_error or (self.tree.root_node.has_error and not self._clean(path, node)):
            return self._error(node)
        cooked = cook(node, self.source)
        doubt = self._doubt(node, cooked)
        if doubt:
            return [s._replace(names=doubt, advice=True) for s in self.overrides(cooked, False)]
        kind = holder.type
        if kind in _COMPARES:
            return self._comparison(holder, cooked)
        found = list(self._held(kind, path, node, cooked))
        if any(not setting.names for setting in found):
            whole = [*path, node]
            found = [s if s.names else s._replace(names=chosen_under(whole, s.value, self.source)) for s in found]
            if around := asked_for(whole, self.source):
                found = [s._replace(around=around) for s in found]
        return found

    def _doubt(self, node: Node, cooked: Cooked) -> str:
        """Return why the word may be another one for the shell than for the grammar."""
        if cooked.braces:
            return "the shell cuts these braces apart at the commas"
        start = node.start_byte
        if start > 2 and self.source[start - 2 : start] == b"\\\n" and self.source[start - 3] not in _SEPARATORS:
            return "a word that continues the line above"
        return ""

    def _held(self, kind: str, path: list[Node], node: Node, cooked: Cooked) -> Iterator[Setting]:
        """Yield the settings of a word by the kind of node that holds it."""
        holder = path[-1]
        if kind == "command":
            yield from self._argument(path, node, cooked)
        elif kind == "array":
            yield from self._item(path, node, cooked)
        elif kind == "variable_assignment":
            yield from self._assignment(path, node, cooked)
        elif kind == "for_statement":
            name = holder.child_by_field_name("variable")
            key = (self.text_of(name),) if name else ()
            yield from self.whole(cooked, key, "loop value", SEVERAL, True)
        elif kind == "herestring_redirect":
            yield from self.overrides(cooked, False)
        elif kind in ("declaration_command", "heredoc_redirect", "ERROR"):
            yield from self.overrides(cooked, True)

    # places that cannot be read

    def _clean(self, path: list[Node], node: Node) -> bool:
        """Return whether a word near an error can be trusted: it is not in one, or is all of a plain line."""
        if not any(parent.is_error for parent in path):
            return True
        return node.type in ("word", "concatenation") and b"=" in source_text(node, self.source)

    def _error(self, node: Node) -> list[Setting]:
        """Return rows that ask a person to look, with the keys as far as they can be read."""
        raw = Cooked(self.source)
        raw.add(node.start_byte, node.end_byte)
        found = list(self.overrides(raw, False, UNREAD))
        if found:
            return [setting._replace(advice=True) for setting in found]
        return [unreadable(raw, span, UNREAD)._replace(position="word") for span in raw.within(self.hits)]

    def _heredoc(self, path: list[Node], index: int) -> list[Setting]:
        body = path[index]
        expansion = next((node for node in path[index + 1 :] if node.type == "expansion"), None)
        key = (body.start_byte, body.end_byte)
        if expansion is not None:
            key = (expansion.start_byte, expansion.end_byte)
        if key in self.seen:
            return []
        self.seen.add(key)
        if expansion is not None:
            return list(self.default(cook(expansion, self.source), expansion, ()))
        document = Heredoc(path[:index], body, self.source)
        language = document.language()
        if language:
            return list(embedded(document.text, language, self.hits, "a heredoc"))
        if document.printed():
            return list(self.overrides(document.text, False, MESSAGE))
        reason = "inside a heredoc of an unknown language"
        found = list(self.overrides(document.text, False, reason))
        if not found:
            found = [unreadable(document.text, span, reason) for span in document.text.within(self.hits)]
        return [setting._replace(advice=True) for setting in found]

    # the holders of words

    def _argument(self, path: list[Node], node: Node, cooked: Cooked) -> Iterator[Setting]:
        """Yield the settings of one word of a command."""
        command = path[-1]
        text = cooked.text
        named = command.child_by_field_name("name")
        name = self.text_of(named).strip("\"'").rpartition("/")[2] if named else ""
        names = ""
        if name in _TEST_COMMANDS:
            yield from self._comparison(command, cooked)
            return
        if name in _MESSAGE_COMMANDS and not any(parent.type == "command_substitution" for parent in path):
            names = MESSAGE
        elif name in _PATTERN_COMMANDS:
            names = f"a pattern for {name}"
        elif _PROGRAM.search(text):
            language = argument_language(command, node, self.source)
            if language:
                yield from embedded(cooked, language, self.hits, "a program in quotes")
                return
        found = list(self.overrides(cooked, not names, names))
        if found:
            if name == "env":
                found = [s if s.path[1:] else s._replace(position="environment variable") for s in found]
            yield from found
        elif not names:
            yield from self._bare(node, cooked, "command word")

    def _bare(self, node: Node, cooked: Cooked, position: str, path: tuple[str, ...] = ()) -> Iterator[Setting]:
        """Yield the settings of a word without a key: a flag, the value of the flag before it, a default."""
        text = cooked.text
        if _FLAG.match(text):
            following = node.next_named_sibling
            value = cook(following, self.source) if following is not None else None
            key = _flag_path(text)
            if following is None or value is None or value.text.startswith("-") or not _plain(value.text):
                if text.startswith("--"):
                    span = Span(node.start_byte, node.end_byte)
                    yield Setting(key, "True", span, "command-line flag", "a flag without a value", True)
                return
            if (following.start_byte, following.end_byte) not in self.seen:
                self.seen.add((following.start_byte, following.end_byte))
                yield from self.whole(value, key, "command-line flag")
            return
        before = node.prev_named_sibling
        if before is not None and before.type == "word":
            flag = self.text_of(before)
            if _FLAG.match(flag):
                yield from self.whole(cooked, _flag_path(flag), "command-line flag")
                return
        expansion = cooked.expansion_at(0, len(text))
        if expansion is not None:
            # the variable of a default is a key
            yield from self.default(cooked, expansion, ())
            return
        names = SEVERAL if position == "array item" else "no key says what this word is"
        yield from self.whole(cooked, path, position, names, True)

    def _item(self, path: list[Node], node: Node, cooked: Cooked) -> Iterator[Setting]:
        """Yield the settings of one item of ``NAME=(…)``."""
        outer = path[-2] if len(path) > 1 else None
        name = outer.child_by_field_name("name") if outer is not None else None
        key = (self.text_of(name),) if name is not None else ()
        keyed = _ITEM_KEY.match(cooked.text)
        if keyed:
            for leaf in leaves(cooked.text, (*key, keyed[1]), keyed.end()):
                yield from self.leaf(cooked, leaf, "array item")
            return
        found = list(self.overrides(cooked, True))
        yield from found or self._bare(node, cooked, "array item", key)

    def _assignment(self, path: list[Node], node: Node, cooked: Cooked) -> Iterator[Setting]:
        """Yield the settings of ``NAME=value``."""
        assignment = path[-1]
        name = assignment.child_by_field_name("name")
        if name is None or node.type == "array" or name.start_byte == node.start_byte:
            return
        key = tuple(part for part in re.split(r"[\[\]\"']+", self.text_of(name)) if part)
        before_command = len(path) > 1 and path[-2].type == "command"
        position = "environment variable" if before_command else "shell assignment"
        found = [] if cooked.text[:1] in "{[" else list(self.overrides(cooked, False))
        if found:
            yield from found
            return
        own = list(self.whole(cooked, key, position))
        yield from own
        if len(key) == 1 and not before_command and any(len(setting.path) == 1 for setting in own):
            for use in used_as(key[0], self.source):
                where = f"{position} for {'.'.join(use)}"
                yield from (s._replace(path=use, position=where) for s in own if s.path == key)

    def _comparison(self, holder: Node, cooked: Cooked) -> list[Setting]:
        """Return the value that a test or ``case`` pattern names; its key is the variable that is tested."""
        tested = holder if holder.type != "case_item" else holder.parent
        end = tested.end_byte if tested is not None else 0
        if tested is not None and tested.type == "case_statement":
            subject = tested.child_by_field_name("value")
            tested, end = subject, subject.end_byte if subject else 0
        start = tested.start_byte if tested else 0
        variable = re.search(rb"\$\{?(\w+)", self.source[start:end])
        key = (variable[1].decode(),) if variable else ()
        found = list(self.whole(cooked, key, "test", COMPARISON))
        # a default inside the test takes part in it whatever the rest of the script chooses
        return [s._replace(names=COMPARISON, advice=s.position == "shell default") for s in found]


def _flag_path(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.lstrip("-").replace("-", "_").split(".") if part)


def _plain(text: str) -> bool:
    """Return whether a word can be the value of a flag: it is no override of its own."""
    return "=" not in text.partition("{")[0]
