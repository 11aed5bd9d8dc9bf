"""Jupyter notebooks: the code of each cell, and where in the file each character of it stands. For reports only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from verl_legacy_patch.setting import Span

_SHELL_CELL = re.compile(r"%%(?:bash|sh|script)\b")
_COMMAND = re.compile(r"^([ \t]*)[!%][^\n]*(?:(?<=\\)\n[^\n]*)*", re.MULTILINE)
_REST = re.compile(r"[^\n]")


class Cell(NamedTuple):
    """Code of one language from a cell: what belongs to the other one is blank, so that offsets stay.

    Attributes:
        name: a file name that says the language.
        text: the code.
        places: offset in ``text`` and in the file of each string that the cell is written in, with that string.
    """

    name: str
    text: str
    places: tuple[tuple[int, int, str], ...]

    def locate(self, span: Span) -> Span:
        """Return the bytes of the file for bytes of ``text``: one line, as JSON writes it."""
        start, end = (len(self.text.encode()[:at].decode("utf-8", "ignore")) for at in span)
        first, at, string = max(place for place in self.places if place[0] <= start)
        end = min(end, first + len(string))
        return Span(at + _size(string[: start - first]), at + _size(string[: end - first]))


def cells(source: bytes) -> Iterator[Cell]:
    """Yield the Python and the shell code of each code cell; nothing for a file that is no notebook."""
    try:
        notebook = json.loads(source)
        found = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        strings = [_strings(cell["source"]) for cell in found]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    position = 0
    for lines in strings:
        places, size = [], 0
        for line in lines:
            written = json.dumps(line, ensure_ascii=False).encode()
            at = source.find(written, position)
            if at < 0:
                break
            places.append((size, at + 1, line))
            position, size = at + len(written), size + len(line)
        else:
            if places:
                yield from _split("".join(lines), tuple(places))


def _strings(source: Any) -> list[str]:
    return [source] if isinstance(source, str) else [str(line) for line in source]


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _split(text: str, places: tuple[tuple[int, int, str], ...]) -> Iterator[Cell]:
    """Tell the shell's part of a cell (``!…`` and ``%%bash``) from the Python part."""
    if _SHELL_CELL.match(text):
        yield Cell("cell.sh", _blank(text.partition("\n")[0]) + text[text.find("\n") :], places)
        return
    commands = list(_COMMAND.finditer(text))
    python, shell, position = "", "", 0
    for found in commands:
        before, indent, command = text[position : found.start()], found[1], found[0][len(found[1]) :]
        python += before + indent + ("pass" + _blank(command[4:]) if len(command) > 3 else _blank(command))
        shell += _blank(before) + indent + " " + command[1:]
        position = found.end()
    yield Cell("cell.py", python + text[position:], places)
    if commands:
        yield Cell("cell.sh", shell + _blank(text[position:]), places)


def _blank(text: str) -> str:
    return _REST.sub(" ", text)
