"""Whether two versions of a YAML or JSON file are the same but for the edited scalars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from verl_legacy_patch.languages.yaml.programs import pieces
from verl_legacy_patch.languages.yaml.reader import Reader
from verl_legacy_patch.setting import Edit, Span, splice


def difference(before: bytes, after: bytes, changes: Sequence[Edit]) -> str:
    """Return what differs outside the edits, in words; empty when nothing does.

    Raises:
        SourceError: ``after`` cannot be parsed.
    """
    reader = Reader(before)
    for left, right in zip_longest(reader.events(), Reader(after).events()):
        if left is None or right is None or not _same(reader, left, right, changes):
            line = (left or right).start_mark.line + 1
            return f"line {line} would change outside the edited places"
    return ""


def _same(reader: Reader, left: Any, right: Any, changes: Sequence[Edit]) -> bool:
    for name in ("anchor", "tag", "style", "flow_style"):
        if getattr(left, name, None) != getattr(right, name, None):
            return False
    if type(left) is not type(right):
        return False
    if getattr(left, "value", None) == getattr(right, "value", None):
        return True
    inside = reader.inside(left)
    if inside is None:
        return _same_block(reader, left, right, changes)
    scalar = reader.span(*inside)
    return any(scalar.start <= edit.span.start and edit.span.end <= scalar.end for edit in changes)


def _same_block(reader: Reader, left: Any, right: Any, changes: Sequence[Edit]) -> bool:
    """Return whether a block scalar changed in the edited places only: its pieces with the edits are the new value."""
    value = ""
    for piece in pieces(reader, left) or ():
        span = reader.span(piece.start, piece.end)
        inside = [edit for edit in changes if span.start <= edit.span.start and edit.span.end <= span.end]
        shifted = [edit._replace(span=Span(*(at - span.start for at in edit.span))) for edit in inside]
        value += piece.text or splice(reader.source[span.start : span.end], shifted).decode()
    return value.rstrip("\n") == str(right.value).rstrip("\n")
