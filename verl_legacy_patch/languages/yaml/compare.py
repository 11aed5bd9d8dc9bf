"""Whether two versions of a YAML or JSON file are the same but for the edited scalars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from verl_legacy_patch.languages.yaml.reader import Reader
from verl_legacy_patch.setting import Edit, Span


def difference(before: bytes, after: bytes, changes: Sequence[Edit]) -> str:
    """Return what differs outside the edits, in words; empty when nothing does.

    Raises:
        SourceError: ``after`` cannot be parsed.
    """
    reader = Reader(before)
    spans = [edit.span for edit in changes]
    for left, right in zip_longest(reader.events(), Reader(after).events()):
        if left is None or right is None or not _same(reader, left, right, spans):
            line = (left or right).start_mark.line + 1
            return f"line {line} would change outside the edited places"
    return ""


def _same(reader: Reader, left: Any, right: Any, spans: Sequence[Span]) -> bool:
    for name in ("anchor", "tag", "style", "flow_style"):
        if getattr(left, name, None) != getattr(right, name, None):
            return False
    if type(left) is not type(right):
        return False
    if getattr(left, "value", None) == getattr(right, "value", None):
        return True
    inside = reader.inside(left)
    if inside is None:
        return False
    scalar = reader.span(*inside)
    return any(scalar.start <= span.start and span.end <= scalar.end for span in spans)
