"""Draws what a terminal shows as SVG: one text element per row, the colours of ANSI sequences as spans.

Nothing is fetched and no font is embedded: ``textLength`` keeps the columns where they belong in whatever monospaced
font the reader has. The same text always gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

COLUMN, ROW, SIZE, MARGIN, BAR = 7.8, 18, 13, 16, 30
BACKGROUND, FOREGROUND, FRAME = "#0d1117", "#d1d7e0", "#30363d"
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")

_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")


class Piece(NamedTuple):
    """Characters that look the same."""

    text: str
    colour: str = ""
    bold: bool = False
    dim: bool = False


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a line with ANSI sequences; an unknown sequence is an error, not a wrong picture."""
    colour, bold, dim = "", False, False
    for index, part in enumerate(_SEQUENCE.split(text)):
        if index % 2 == 0:
            if part:
                yield Piece(part, colour, bold, dim)
            continue
        for code in part.split(";"):
            if code in ("", "0"):
                colour, bold, dim = "", False, False
            elif code == "1":
                bold = True
            elif code == "2":
                dim = True
            elif code in COLOURS:
                colour = COLOURS[code]
            else:
                raise ValueError(f"an ANSI code that cannot be drawn: {code}")


def rows(lines: list[str], columns: int) -> Iterator[list[Piece]]:
    """Yield the rows of a terminal: a line that is too long goes on in the next row."""
    for line in lines:
        row: list[Piece] = []
        room = columns
        for piece in pieces(line):
            rest = piece.text
            while len(rest) > room:
                row.append(piece._replace(text=rest[:room]))
                yield row
                row, rest, room = [], rest[room:], columns
            row.append(piece._replace(text=rest))
            room -= len(rest)
        yield row


def draw(lines: list[str], *, columns: int, title: str, description: str) -> str:
    """Return the SVG of a terminal window that shows ``lines``."""
    texts = list(rows(lines, columns))
    width = round(columns * COLUMN + 2 * MARGIN)
    height = BAR + len(texts) * ROW + MARGIN + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(description)}</desc>',
        f"<style>text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{FOREGROUND};white-space:pre}}.b{{font-weight:bold}}.d{{opacity:.6}}</style>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="{BACKGROUND}" stroke="{FRAME}"/>',
    ]
    parts += [f'<circle cx="{20 + 18 * i}" cy="17" r="5.5" fill="{colour}"/>' for i, colour in enumerate(BUTTONS)]
    for index, row in enumerate(texts):
        count = sum(len(piece.text) for piece in row)
        if count:
            spans = "".join(map(_span, row))
            top = BAR + (index + 1) * ROW
            parts.append(
                f'<text x="{MARGIN}" y="{top}" textLength="{count * COLUMN:.1f}" xml:space="preserve">{spans}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _span(piece: Piece) -> str:
    classes = " ".join(name for name, on in (("b", piece.bold), ("d", piece.dim)) if on)
    looks = (f' class="{classes}"' if classes else "") + (f' fill="{piece.colour}"' if piece.colour else "")
    return f"<tspan{looks}>{escape(piece.text)}</tspan>" if looks else escape(piece.text)
