"""Programs inside shell scripts: heredocs, ``python -c "…"``, ``bash -c '…'``, ``ssh host "…"``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.languages import SourceError, language_of
from verl_legacy_patch.languages.shell.words import EXPANSIONS, Cooked, cook, source_text
from verl_legacy_patch.setting import Setting, Span

if TYPE_CHECKING:
    from tree_sitter import Node

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?$")
_SHELL = re.compile(r"(?:ba|z|da|k)?sh$|sbatch$|qsub$")
_WRITES = re.compile(r"(?:cat|tee)$")
_LOOKS_PYTHON = re.compile(r"^(?:import \w|from [\w.]+ import |def \w+\(|class \w|@\w)", re.MULTILINE)
_LOOKS_SHELL = re.compile(r"#!.*sh\b")
_HEREDOC_ESCAPE = re.compile(rb"\\(\r?\n|[$`\\])")
_LINE = re.compile(rb"(\t*)([^\n]*\n?)")


def embedded(cooked: Cooked, language: str, hits: Sequence[Span], where: str) -> Iterator[Setting]:
    """Yield the settings of a program that a shell word or heredoc holds.

    Args:
        cooked: the program.
        language: ``python``, ``yaml``, ``json`` or ``shell``.
        hits: trigger matches in the outer script.
        where: what holds the program, for people.
    """
    inside = cooked.within(hits)
    if not inside:
        return
    try:
        # a name of the same length stands for an expansion: it fits strings and expressions alike
        text = cooked.known(None if language == "shell" else "_")
        found = list(_settings(language, text, inside))
    except (SourceError, RecursionError):
        for span in inside:
            yield unreadable(cooked, span, f"inside {where} that cannot be parsed")
        return
    for setting in found:
        mapped = cooked.span(setting.span.start, setting.span.end)
        position = f"{setting.position} in {where}"
        if mapped is not None:
            yield setting._replace(span=mapped, position=position)
        elif setting.span.start < setting.span.end:
            around = cooked.around(setting.span.start, setting.span.end)
            names = setting.names or "written in several pieces"
            yield setting._replace(span=around, position=position, names=names, advice=True)


def unreadable(cooked: Cooked, span: Span, names: str) -> Setting:
    """Return the row for a trigger match at ``span`` of the text that no adapter can judge."""
    where = cooked.around(span.start, span.end)
    value = cooked.source[where.start : where.end].decode("utf-8", "replace")
    return Setting((), value, where, "embedded text", names, advice=True)


def _settings(language: str, text: bytes, hits: Sequence[Span]) -> Iterator[Setting]:
    if language == "shell":
        from verl_legacy_patch.languages import shell

        return shell.settings(text, hits)
    if language == "python":
        from verl_legacy_patch.languages import python

        return python.settings(text, hits)
    from verl_legacy_patch.languages import yaml

    return yaml.settings(text, hits)


def runs(words: Sequence[str]) -> str | None:
    """Return the language of the program that ``words`` take, by the last interpreter among them."""
    for word in reversed(words):
        name = word.rpartition("/")[2]
        if _PYTHON.match(name):
            return "python"
        if _SHELL.match(name) or name == "ssh":
            return "shell"
    return None


def argument_language(command: Node, node: Node, source: bytes) -> str | None:
    """Return the language of the argument ``node`` where it is a program (``-c``, ``eval``, ``ssh``)."""
    words: list[str] = []
    for child in command.named_children:
        if child.start_byte >= node.start_byte:
            break
        words.append(source_text(child, source).decode("latin-1").strip("\"'"))
    if words and words[-1].startswith("-") and not words[-1].startswith("--") and words[-1].endswith("c"):
        # only options may stand between the interpreter and its -c
        while len(words) > 1 and words[-2].startswith("-") and words[-2] != "-m":
            del words[-2]
        return runs(words[-2:-1])
    if words and (words[0] == "eval" or any(word.rpartition("/")[2] == "ssh" for word in words)):
        return "shell"
    return None


def _words(command: Node, source: bytes) -> list[str]:
    return [cook(word, source).text for word in command.named_children if word.type != "variable_assignment"]


class Heredoc:
    """A heredoc: the command it is for, and its text."""

    def __init__(self, outer: Sequence[Node], body: Node, source: bytes) -> None:
        self.source = source
        redirect = outer[-1]
        first = redirect.children[0]  # where the grammar found no name to end at
        start = next((child for child in redirect.children if child.type == "heredoc_start"), first)
        operator = source_text(redirect.children[0], source)
        if operator not in (b"<<", b"<<-"):
            operator = b"<<-" if b"<<-" in source[redirect.start_byte : start.start_byte] else b"<<"
        self.quoted = any(mark in source_text(start, source) for mark in (b"'", b'"', b"\\"))
        self.words: list[str] = []
        self.destination = ""
        statement = outer[-2] if len(outer) > 1 else redirect
        for child in (*statement.named_children, *redirect.named_children):
            if child.type == "command":
                self.words += _words(child, source)
            elif child.type == "pipeline":
                piped = [part for part in child.named_children if part.type == "command"]
                if piped and self.words[:1] == ["cat"]:
                    self.words = _words(piped[-1], source)
            elif child.type == "file_redirect" and child.named_child_count:
                target = child.named_children[-1]
                self.destination = cook(target, source).text
        # the node of an unquoted body begins behind the blanks of its first line
        begin = source.rfind(b"\n", 0, body.start_byte) + 1
        self.text = Cooked(source)
        self._read(max(begin, start.end_byte), body, operator == b"<<-")

    def _read(self, begin: int, body: Node, strip: bool) -> None:
        position = begin
        inner = [] if self.quoted else [child for child in body.children if child.type in EXPANSIONS]
        for child in inner:
            self._plain(position, child.start_byte, strip)
            self.text.add_expansion(child)
            position = child.end_byte
        self._plain(position, body.end_byte, strip)

    def _plain(self, start: int, end: int, strip: bool) -> None:
        if not strip:
            pieces = [(start, end)]
        else:
            pieces = []
            for line in _LINE.finditer(self.source, start, end):
                at_line_start = line.start() == 0 or self.source[line.start() - 1 : line.start()] == b"\n"
                pieces.append((line.start(2) if at_line_start else line.start(), line.end()))
        for first, last in pieces:
            if self.quoted:
                self.text.add(first, last)
            else:
                self.text.add_escaped(first, last, _HEREDOC_ESCAPE)

    def language(self) -> str | None:
        """Return the language of the text: by the file it goes to, the command it is for, or its looks."""
        files = [self.destination] if self.destination else []
        if any(_WRITES.match(word.rpartition("/")[2]) for word in self.words[:2]):
            files += [word for word in self.words[1:] if not word.startswith("-")]
            for path in files:
                found = language_of(path.rpartition("/")[2], b"")
                if found:
                    return found
        else:
            found = runs(self.words)
            if found:
                return found
        text = self.text.text
        if _LOOKS_SHELL.match(text):
            return "shell"
        return "python" if _LOOKS_PYTHON.search(text) else None

    def printed(self) -> bool:
        """Return whether the text only goes to the screen."""
        return bool(self.words) and self.words[0] == "cat" and len(self.words) == 1 and not self.destination
