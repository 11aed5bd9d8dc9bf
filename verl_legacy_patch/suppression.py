"""Places that a person keeps as they are, by a comment on the line.

``# verl-patch: keep`` keeps whatever the line chooses, ``# verl-patch: keep[dtype, attention]`` only what these
codemods would change. The comment works in every language with ``#`` comments, also inside the backtick comments
of continued shell commands, and in programs that stand in a string of another.

A comment that keeps nothing is a mistake or out of date: ``check`` names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, splice

WORD = b"verl-patch:"
REASON = "kept by a comment on the line"

_COMMENT = lazy(rb"#[ \t]*verl-patch:[ \t]*([\w-]*)(?:[ \t]*\[([^\]\n]*)(\]?))?", re.IGNORECASE)


class Unused(NamedTuple):
    """A comment, or one name in it, that keeps nothing in its file.

    Attributes:
        line: where it stands, from 1.
        text: the comment.
        codemod: the name in brackets that is meant; empty for a comment without.
        wrong: whether the comment does not say what to keep at all.
    """

    line: int
    text: str
    codemod: str = ""
    wrong: bool = False


class _Comment(NamedTuple):
    line: int
    start: int
    text: str
    codemods: tuple[str, ...] | None  # None: all of them
    wrong: bool


def suppressed(source: bytes, edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits, with ``keep`` for those that stand on a line with a comment for them."""
    edits = list(edits)
    comments = _comments(source)
    if not comments:
        return edits
    return [_kept(edit) if any(_means(source, comments, edit)) else edit for edit in edits]


def unused(source: bytes, edits: Sequence[Edit], language: str) -> list[Unused]:
    """Return the comments that keep nothing. ``edits`` are those before ``suppressed``."""
    comments = _comments(source)
    used = {found for edit in edits for found in _means(source, comments, edit)}
    rows = []
    for comment in comments:
        names = ("",) if comment.codemods is None or comment.wrong else comment.codemods
        rows += [
            Unused(comment.line, comment.text, name, comment.wrong)
            for name in names
            if (comment.start, name) not in used
        ]
    if rows and language == "python":
        written = _python_comments(source)
        rows = [row for row in rows if row.line in written]  # a string may be about such comments
    return rows


def takes_comment(source: bytes, edit: Edit, language: str) -> bool:
    """Return whether what an edit inserts at the end of a line is a comment there.

    In the middle of a string it would be text: of a message, of a block scalar, of a here-document.
    """
    after = splice(source, [edit])
    if language == "python":
        return source.count(b"\n", 0, edit.span.start) + 1 in _python_comments(after)
    if language == "shell":
        from verl_legacy_patch.languages.shell.tree import descend, parse

        return descend(parse(after), edit.span.start + 2)[-1].type == "comment"
    if language == "yaml":
        from verl_legacy_patch.languages import SourceError
        from verl_legacy_patch.languages.yaml.compare import difference

        try:
            return not difference(source, after, ())
        except SourceError:  # it would end a value that goes on in the next line
            return False
    return False


def complaint(row: Unused, active: Collection[str], known: Collection[str], *, all_ran: bool) -> str:
    """Return what to say about an unused comment; empty when this run cannot tell.

    Args:
        row: the comment.
        active: names of the codemods that ran.
        known: names of all codemods.
        all_ran: whether no codemod was left out for this run only.
    """
    if row.wrong:
        return f"'{row.text}' keeps nothing: write 'verl-patch: keep' or 'verl-patch: keep[codemod]'"
    if not row.codemod:
        return "this 'verl-patch: keep' keeps nothing, remove it" if all_ran else ""
    if row.codemod not in known:
        import difflib

        close = difflib.get_close_matches(row.codemod, known, 1)
        hint = f"did you mean {close[0]}?" if close else "see verl-patch codemods"
        return f"'verl-patch: keep' names {row.codemod!r}, which is no codemod; {hint}"
    if row.codemod in active or all_ran:
        return f"this 'verl-patch: keep[{row.codemod}]' keeps nothing, remove it"
    return ""


def _comments(source: bytes) -> list[_Comment]:
    if WORD not in source.lower():
        return []
    found = []
    for match in _COMMENT.finditer(source):
        verb, names, end = match[1], match[2], match[3]
        codemods = None
        if names is not None:
            codemods = tuple(name for part in names.decode("utf-8", "replace").split(",") if (name := part.strip()))
        wrong = verb.lower() != b"keep" or (names is not None and not (end and codemods))
        text = match[0].decode("utf-8", "replace").lstrip("# \t")
        found.append(_Comment(source.count(b"\n", 0, match.start()) + 1, match.start(), text, codemods, wrong))
    return found


def _means(source: bytes, comments: Iterable[_Comment], edit: Edit) -> Iterable[tuple[int, str]]:
    """Yield each comment for an edit, by its start and the name in it."""
    if edit.action == "keep":
        return
    first = last = 0
    for comment in comments:
        if not first:
            first = source.count(b"\n", 0, edit.span.start) + 1
            last = first + source.count(b"\n", edit.span.start, max(edit.span.start, edit.span.end - 1))
        if comment.wrong or not first <= comment.line <= last:
            continue
        if comment.codemods is None:
            yield comment.start, ""
        elif edit.codemod in comment.codemods:
            yield comment.start, edit.codemod


def _kept(edit: Edit) -> Edit:
    return edit._replace(action="keep", replacement=None, reason=REASON)


def _python_comments(source: bytes) -> set[int]:
    """Return the lines with a comment; for a file that is no Python, all lines."""
    import tokenize
    from io import BytesIO

    try:
        tokens = list(tokenize.tokenize(BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):
        return set(range(1, source.count(b"\n") + 2))
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
