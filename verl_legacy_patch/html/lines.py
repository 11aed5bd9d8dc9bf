"""Lines of a diff as HTML: highlighted, with the changed part of each line marked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from verl_legacy_patch.diff import hunks, split_lines
from verl_legacy_patch.languages import language_of
from verl_legacy_patch.plan import FileChange
from verl_legacy_patch.setting import Edit, Span, moved

_LEXERS = {"python": "python", "yaml": "yaml", "json": "json", "shell": "bash", "requirements": "ini"}


#: Lines that are looked back for the definition that holds a hunk.
_LEAD = 400


class Row(NamedTuple):
    """One line of a hunk. ``html`` is markup that is safe to insert; numbers are 0 where the line is not there."""

    sign: str
    old: int
    new: int
    html: Any


class Styles:
    """Pygments, loaded once: tokens of a text, and the style sheets for light and dark."""

    def css(self) -> str:
        """Return the rules for both colour schemes."""
        from pygments.formatters import HtmlFormatter

        light = HtmlFormatter(style="default").get_style_defs(".code")  # type: ignore[no-untyped-call]
        dark = HtmlFormatter(style="github-dark").get_style_defs(".dark .code")  # type: ignore[no-untyped-call]
        wanted = (line for line in f"{light}\n{dark}".splitlines() if ".code ." in line)
        return "\n".join(line.partition(" /*")[0] for line in wanted)

    def tokens(self, language: str, text: str) -> list[list[tuple[str, str]]]:
        """Return for each line of ``text`` its pieces as (CSS class, text)."""
        from pygments.lexers import get_lexer_by_name

        lexer = get_lexer_by_name(_LEXERS.get(language, "text"), stripnl=False, ensurenl=False)
        lines: list[list[tuple[str, str]]] = [[]]
        for kind, piece in lexer.get_tokens(text):
            first, *others = piece.split("\n")
            lines[-1].append((_css(kind), first))
            for other in others:
                lines.append([(_css(kind), other)])
        return lines


def _css(kind: Any) -> str:
    """Return the class that Pygments' style sheets give to a type of token; empty for plain text."""
    from pygments.token import STANDARD_TYPES

    while kind is not None and kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES.get(kind, "")


def hunk_rows(change: FileChange, styles: Styles) -> Iterator[tuple[list[Edit], str, list[Row]]]:
    """Yield each hunk of a file: its edits, the line of code that it stands under, and its rows."""
    language = language_of(change.path, change.after) or ""
    if change.before is None:
        lines = split_lines(change.after)
        html = _html(lines, 0, len(lines), [], language, styles)
        yield [], "new file", [Row("+", 0, number, text) for number, text in enumerate(html, 1)]
        return
    before, after = split_lines(change.before), split_lines(change.after)
    old_spans, new_spans = [edit.span for edit in change.edits], moved(change.edits)
    for hunk in hunks(change.before, change.edits):
        lines = [line for line in hunk.lines if not line.startswith(b"\\")]
        counts = [sum(line[:1] in signs for line in lines) for signs in (b" -", b" +")]
        old_html = iter(_html(before, hunk.old, hunk.old + counts[0], old_spans, language, styles))
        new_html = iter(_html(after, hunk.new, hunk.new + counts[1], new_spans, language, styles))
        old, new, rows = hunk.old, hunk.new, []
        for line in lines:
            sign = line[:1].decode()
            left = next(old_html) if sign != "+" else None
            right = next(new_html) if sign != "-" else None
            old, new = old + (sign != "+"), new + (sign != "-")
            rows.append(
                Row(sign, old if sign != "+" else 0, new if sign != "-" else 0, right if left is None else left)
            )
        title = hunk.header.rpartition(b"@@")[2].decode("utf-8", "replace").strip()
        yield list(hunk.edits), title, rows


def _html(
    lines: Sequence[bytes], start: int, stop: int, spans: Sequence[Span], language: str, styles: Styles
) -> list[Any]:
    """Return lines ``start`` to ``stop`` (from 0) of a file as HTML, with the spans marked."""
    # highlighting starts at the definition around the lines: a hunk may begin in the middle of a docstring
    above = range(min(start, len(lines) - 1), max(start - _LEAD, 0), -1)
    top = next((at for at in above if lines[at][:1].isalpha() or lines[at][:1] == b"@"), start)
    texts = [line.decode("utf-8", "replace").rstrip("\r\n") for line in lines[top:stop]]
    offset = sum(map(len, lines[:start]))
    marks: list[list[tuple[int, int]]] = []
    for line in lines[start:stop]:
        inside = []
        for span in spans:
            if span.start < offset + len(line) and span.end > offset:
                cut = (max(span.start - offset, 0), min(span.end - offset, len(line)))
                inside.append((_characters(line, cut[0]), _characters(line, cut[1])))
        marks.append(inside)
        offset += len(line)
    return _marked(styles.tokens(language, "\n".join(texts))[start - top :], texts[start - top :], marks)


def _characters(line: bytes, end: int) -> int:
    return len(line[:end].decode("utf-8", "replace"))


def _marked(
    tokens: list[list[tuple[str, str]]], texts: Sequence[str], marks: Sequence[Sequence[tuple[int, int]]]
) -> list[Any]:
    from markupsafe import Markup, escape

    out = []
    for number, text in enumerate(texts):
        ranges = marks[number] if number < len(marks) else ()
        html, column = [], 0
        for css, piece in tokens[number] if number < len(tokens) else [("", text)]:
            for part, marked in _cut(piece, column, ranges):
                inner = Markup('<span class="{}">{}</span>').format(css, part) if css else escape(part)
                html.append(Markup("<mark>{}</mark>").format(inner) if marked else inner)
            column += len(piece)
        out.append(Markup("").join(html))
    return out


def _cut(piece: str, column: int, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a piece of text that starts at ``column``, and whether each lies in a range."""
    borders = {0, len(piece)}
    for start, end in ranges:
        borders.update(point - column for point in (start, end) if 0 < point - column < len(piece))
    points = sorted(borders)
    for left, right in itertools.pairwise(points):
        at = column + left
        yield piece[left:right], any(start <= at < end for start, end in ranges)
