"""Places that a person keeps as they are, by a comment on the line.

``# verl-patch: keep`` keeps whatever the line chooses, ``# verl-patch: keep[dtype, attention]`` only what these
codemods would change. The comment works in every language with ``#`` comments, also inside the backtick comments
of continued shell commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from verl_legacy_patch.setting import Edit

WORD = b"verl-patch:"
REASON = "kept by a comment on the line"

_COMMENT = re.compile(rb"#[ \t]*verl-patch:[ \t]*keep\b(?:[ \t]*\[([^\]\n]*)\])?", re.IGNORECASE)


def suppressed(source: bytes, edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits, with ``keep`` for those that stand on a line with a comment for them."""
    edits = list(edits)
    comments = _comments(source)
    if not comments:
        return edits
    return [_kept(edit) if _comment_for(source, edit, comments) is not None else edit for edit in edits]


def unused(source: bytes, edits: Sequence[Edit]) -> list[int]:
    """Return the lines (from 1) of the comments that keep nothing. ``edits`` are those before ``suppressed``."""
    comments = _comments(source)
    used = {_comment_for(source, edit, comments) for edit in edits}
    return [line for line in comments if line not in used]


def _comments(source: bytes) -> dict[int, frozenset[str] | None]:
    """Return line -> codemods that a comment there names; None for all of them."""
    if WORD not in source.lower():
        return {}
    found: dict[int, frozenset[str] | None] = {}
    for match in _COMMENT.finditer(source):
        names = match[1]
        codemods = frozenset(name.strip().decode() for name in names.split(b",")) if names is not None else None
        found[source.count(b"\n", 0, match.start()) + 1] = codemods
    return found


def _comment_for(source: bytes, edit: Edit, comments: dict[int, frozenset[str] | None]) -> int | None:
    if edit.action == "keep":
        return None
    first = source.count(b"\n", 0, edit.span.start) + 1
    last = first + source.count(b"\n", edit.span.start, max(edit.span.start, edit.span.end - 1))
    for line in range(first, last + 1):
        if line in comments:
            codemods = comments[line]
            if codemods is None or edit.codemod in codemods:
                return line
    return None


def _kept(edit: Edit) -> Edit:
    return replace(edit, action="keep", replacement=None, reason=REASON)
