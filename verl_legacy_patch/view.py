"""The dry run as people read it on a terminal: what matters first, and each hunk with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.diff import CONTEXT, Hunk, file_patch, hunks
from verl_legacy_patch.plan import FileChange, Plan
from verl_legacy_patch.roles import importance, role_of
from verl_legacy_patch.setting import Edit

_BAR = 40
#: What a terminal keeps free beside a path: count, bar, role, and a name or two.
_BESIDE = 44


def in_order(plan: Plan) -> list[FileChange]:
    """Return the changed files, those that every training run goes through first; new ones behind their like."""

    def key(change: FileChange) -> tuple[int, bool, int, str]:
        rank, order, path = importance(change.path)
        return rank, change.before is None, order, path

    return sorted(plan.changes, key=key)


def annotated(plan: Plan, context: int = CONTEXT) -> Iterator[bytes]:
    """Yield the patch of each file with a line before each hunk that says which codemod wants it and why.

    This is for reading: ``git apply`` does not take it.
    """
    summaries = {codemod.name: codemod.summary_for(plan.target) for codemod in plan.codemods}
    for change in in_order(plan):
        if change.before is None:
            why = f"# {change.codemod}: a new file that the rewritten code imports\n".encode()
            patch = file_patch(change.path, None, change.after, (), change.mode)
            yield patch.replace(b"\n@@ ", b"\n" + why + b"@@ ", 1)
            continue
        head = file_patch(change.path, change.before, change.after, change.edits, change.mode, context)
        parts = [head.partition(b"@@ ")[0]]
        for hunk in hunks(change.before, change.edits, context):
            parts += [*reasons(hunk, summaries), hunk.header, *hunk.lines]
        yield b"".join(parts)


def reasons(hunk: Hunk, summaries: dict[str, str]) -> Iterator[bytes]:
    """Yield one line for each codemod that has a part in a hunk."""
    said: dict[str, None] = {}
    for edit in hunk.edits:
        said[_why(edit, summaries)] = None
    yield from (f"# {line}\n".encode("utf-8", "replace") for line in said)


def _why(edit: Edit, summaries: dict[str, str]) -> str:
    text = edit.reason or summaries.get(edit.codemod, "")
    review = " (review)" if edit.grade == "review" else ""
    return show(f"{edit.codemod}{review}: {text}")


def stat(plan: Plan, columns: int | None = None) -> Iterator[str]:
    """Yield one line per file: how many places, in which codemods, in the manner of ``git diff --stat``.

    With ``columns``, a terminal's, no line is longer: paths lose their beginning and the last codemods are counted.
    """
    changes = in_order(plan)
    width = min(max((len(show(change.path)) for change in changes), default=0), 70)
    most = max((len(change.edits) for change in changes), default=1)
    if columns:
        width = max(min(width, columns - _BESIDE), 20)
    for change in changes:
        count = len(change.edits)
        bar = "+" * max(1, round(count / most * min(most, _BAR))) if change.before is not None else "new"
        names = sorted({edit.codemod for edit in change.edits}) or [change.codemod]
        start = f" {_tail(show(change.path), width):{width}} | {count:3} {bar} ({role_of(change.path)}: "
        yield f"{start}{_listed(names, columns - len(start) - 1 if columns else None)})"


def _listed(names: list[str], room: int | None) -> str:
    """Return as many names as there is room for, at least one, and the number of the others."""
    for count in range(len(names), 1, -1):
        left = len(names) - count
        text = ", ".join(names[:count]) + (f", +{left}" if left else "")
        if room is None or len(text) <= room:
            return text
    return names[0] + (f", +{len(names) - 1}" if len(names) > 1 else "")


def _tail(path: str, width: int) -> str:
    return path if len(path) <= width else "..." + path[3 - width :]
