"""Shell scripts inside YAML: block scalars and strings that hold commands (``run: |``, ``command: >``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from verl_legacy_patch.setting import Setting, Span

if TYPE_CHECKING:
    from verl_legacy_patch.languages.yaml.reader import Reader

_BLOCK = re.compile(r"[|>][0-9+-]*[ \t]*(?:#[^\n]*)?\r?\n")
_LINE = re.compile(r"([^\r\n]*)(\r?\n)?")
_PROGRAMS = (
    r"python[\d.]*|torchrun|accelerate|deepspeed|ray|uv|srun|sbatch|bash|sh|ssh|nohup|sudo|exec|env|export|set|cd|source"
    r"|pip[\d.]*|conda|docker"
)
#: A line that calls a program, behind variables for it, or a script's first line.
_LOOKS_SHELL = re.compile(rf"^[ \t]*(?:#!.*sh\b|(?:\w+=\S*[ \t]+)*(?:[\w./-]*/)?(?:{_PROGRAMS})[ \t]+\S)", re.MULTILINE)


class Piece(NamedTuple):
    """Characters ``start`` to ``end`` of a file that are a part of a scalar's value.

    ``text`` is what they stand for where that is something else: a line break that is folded into a blank.
    """

    start: int
    end: int
    text: str | None = None


def looks_like_shell(value: str) -> bool:
    """Return whether a text holds shell commands."""
    return " " in value and _LOOKS_SHELL.search(value) is not None


def pieces(reader: Reader, event: Any) -> list[Piece] | None:
    """Return the parts of the file that are the value of a block scalar, or of a string without escapes.

    None when they do not add up to the value: then nothing in it may be edited.
    """
    if event.style not in ("|", ">"):
        place = reader.inside(event)
        if place is None or reader.text[place[0] : place[1]] != event.value:
            return None
        return [Piece(*place)]
    start, end = event.start_mark.index, event.end_mark.index
    header = _BLOCK.search(reader.text, start, end)
    if header is None or "\n" in reader.text[start : header.start()]:
        return None
    lines = [line for line in _LINE.finditer(reader.text, header.end(), end) if line[0]]
    first = next((line[1] for line in lines if line[1].strip()), "")
    for indent in range(len(first) - len(first.lstrip(" ")), 0, -1):
        found = (_literal if event.style == "|" else _folded)(lines, indent)
        if found is not None and _joined(reader, found) == event.value.rstrip("\n"):
            return found
    return None


def settings(reader: Reader, event: Any, hits: Sequence[Span]) -> Iterator[Setting]:
    """Yield the settings of a scalar that holds shell commands, by the shell's adapter."""
    found = pieces(reader, event)
    if found is None:
        return
    from verl_legacy_patch.languages.shell.embedded import embedded
    from verl_legacy_patch.languages.shell.words import Cooked

    cooked = Cooked(reader.source)
    for piece in found:
        cooked.add(*reader.span(piece.start, piece.end), piece.text)
    yield from embedded(cooked, "shell", hits, "a script in YAML")


def _literal(lines: Sequence[re.Match[str]], indent: int) -> list[Piece] | None:
    found = []
    for line in lines:
        start = min(line.start() + indent, line.end(1))
        if line[0][: start - line.start()].strip(" "):
            return None
        if start < line.end(1):
            found.append(Piece(start, line.end(1)))
        if line[2]:
            found.append(Piece(line.start(2), line.end(), "\n"))
    return found


def _folded(lines: Sequence[re.Match[str]], indent: int) -> list[Piece] | None:
    """Return the pieces of a folded scalar whose lines are all folded; blank and deeper ones are not read."""
    found: list[Piece] = []
    while lines and not lines[-1][1].strip():
        lines = lines[:-1]
    for number, line in enumerate(lines):
        start = line.start() + indent
        if line[1][:indent].strip(" ") or not line[1][indent : indent + 1].strip():
            return None
        found.append(Piece(start, line.end(1)))
        if number < len(lines) - 1:
            found.append(Piece(line.start(2), line.end(), " "))
    return found


def _joined(reader: Reader, found: Sequence[Piece]) -> str:
    texts = [reader.text[piece.start : piece.end] if piece.text is None else piece.text for piece in found]
    return "".join(texts).rstrip("\n")
