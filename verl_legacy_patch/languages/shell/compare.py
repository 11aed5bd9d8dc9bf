"""Whether two versions of a shell script have the same syntax tree but for the edited spans."""

from __future__ import annotations

from collections.abc import Sequence

from verl_legacy_patch.languages.shell.tree import parse, reparse, same_shape
from verl_legacy_patch.setting import Edit


def difference(before: bytes, after: bytes, changes: Sequence[Edit]) -> str:
    """Return what differs outside the edits, in words; empty when nothing does."""
    old = parse(before)
    rebuilt, new = reparse(before, old, changes)
    if rebuilt != after or not same_shape(before, old, new, changes):
        return "the script would change outside the edited places"
    return ""
