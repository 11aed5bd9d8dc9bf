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

#: Kind of token -> class in ``page.css``. A kind that is not here looks like the one above it.
_CLASSES = {
    "Comment": "tc",
    "Keyword": "tk",
    "Literal.Number": "tn",
    "Literal.String": "ts",
    "Name.Attribute": "tt",
    "Name.Builtin": "tn",
    "Name.Class": "td",
    "Name.Decorator": "td",
    "Name.Function": "td",
    "Name.Tag": "tt",
    "Name.Variable": "tt",
    "Operator.Word": "tk",
}

#: Lines that are looked back for the definition that holds a hunk.
_LEAD = 400


class Row(NamedTuple):
    """One line of a hunk. ``html`` is markup that is safe to insert; numbers are 0 where the line is not there."""

    sign: str
    old: int
    new: int
    html: Any
    indent: int


class Highlighter:
    """Pygments, with its many kinds of tokens brought down to the few that the page's style sheet colours."""

    def __init__(self) -> None:
        self._lexers: dict[str, Any] = {}
        self._classes: dict[Any, str] = {}

    def tokens(self, language: str, text: str) -> list[list[tuple[str, str]]]:
        """Return for each line of ``text`` its pieces as (CSS class, text); the class is empty for plain text."""
        lines: list[list[tuple[str, str]]] = [[]]
        for kind, piece in self._lexer(language).get_tokens(text):
            css = self._class(kind)
            first, *others = piece.split("\n")
            lines[-1].append((css, first))
            for other in others:
                lines.append([(css, other)])
        return lines

    def _lexer(self, language: str) -> Any:
        if language not in self._lexers:
            from pygments.lexers import get_lexer_by_name

            name = _LEXERS.get(language, "text")
            self._lexers[language] = get_lexer_by_name(name, stripnl=False, ensurenl=False)
        return self._lexers[language]

    def _class(self, kind: Any) -> str:
        if kind not in self._classes:
            parent = kind.parent
            own = _CLASSES.get(str(kind).removeprefix("Token."), "")
            self._classes[kind] = own or (self._class(parent) if parent is not None else "")
        return self._classes[kind]


def hunk_rows(change: FileChange, highlighter: Highlighter) -> Iterator[tuple[list[Edit], str, list[Row]]]:
    """Yield each hunk of a file: its edits, the line of code that it stands under, and its rows."""
    language = language_of(change.path, change.after) or ""
    if change.before is None:
        lines = split_lines(change.after)
        html = _html(lines, 0, len(lines), [], language, highlighter)
        numbered = enumerate(zip(html, lines, strict=True), 1)
        yield [], "new file", [Row("+", 0, number, text, _indent(line)) for number, (text, line) in numbered]
        return
    before, after = split_lines(change.before), split_lines(change.after)
    old_spans, new_spans = [edit.span for edit in change.edits], moved(change.edits)
    for hunk in hunks(change.before, change.edits):
        lines = [line for line in hunk.lines if not line.startswith(b"\\")]
        counts = [sum(line[:1] in signs for line in lines) for signs in (b" -", b" +")]
        old_html = iter(_html(before, hunk.old, hunk.old + counts[0], old_spans, language, highlighter))
        new_html = iter(_html(after, hunk.new, hunk.new + counts[1], new_spans, language, highlighter))
        old, new, rows = hunk.old, hunk.new, []
        for line in lines:
            sign = line[:1].decode()
            left = next(old_html) if sign != "+" else None
            right = next(new_html) if sign != "-" else None
            old, new = old + (sign != "+"), new + (sign != "-")
            numbers = (old if sign != "+" else 0, new if sign != "-" else 0)
            rows.append(Row(sign, *numbers, right if left is None else left, _indent(line[1:])))
        title = hunk.header.rpartition(b"@@")[2].decode("utf-8", "replace").strip()
        yield list(hunk.edits), title, rows


def _html(
    lines: Sequence[bytes], start: int, stop: int, spans: Sequence[Span], language: str, highlighter: Highlighter
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
                # where an edit goes on in the next line, the indentation there is no part of what it says
                first, last = max(span.start - offset, _indent(line)), min(span.end - offset, len(line))
                inside.append((_characters(line, first), _characters(line, last)))
        marks.append(inside)
        offset += len(line)
    return _marked(highlighter.tokens(language, "\n".join(texts))[start - top :], texts[start - top :], marks)


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def _characters(line: bytes, end: int) -> int:
    return len(line[:end].decode("utf-8", "replace"))


def _marked(
    tokens: list[list[tuple[str, str]]], texts: Sequence[str], marks: Sequence[Sequence[tuple[int, int]]]
) -> list[Any]:
    from markupsafe import Markup, escape

    out = []
    for number, text in enumerate(texts):
        ranges = marks[number] if number < len(marks) else ()
        html, column, inside = [], 0, False
        for css, piece in tokens[number] if number < len(tokens) else [("", text)]:
            for part, marked in _cut(piece, column, ranges):
                if marked != inside:  # one mark around all the tokens, not one around each
                    html.append(Markup("<mark>") if marked else Markup("</mark>"))
                    inside = marked
                html.append(Markup('<span class="{}">{}</span>').format(css, part) if css else escape(part))
            column += len(piece)
        out.append(Markup("").join([*html, Markup("</mark>") if inside else ""]))
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
