"""The checks on every rewritten file: it parses, nothing else changed, and a second run finds nothing.

A file that fails is never written. The checks look at results, not at how they came about, so they hold for
codemods that others write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.setting import Edit, moved

if TYPE_CHECKING:
    from verl_legacy_patch.rewrite import Decide


class CheckFailed(SourceError):
    """A rewritten file is not what it should be: a bug in a codemod, so nothing is written."""


def verify(language: str, before: bytes, after: bytes, edits: Sequence[Edit], decide: Decide) -> None:
    """Check one rewritten file.

    Args:
        language: of both versions.
        before: the file as it was.
        after: the file as it would be written.
        edits: what was decided; the rewrites among them lead from ``before`` to ``after``.
        decide: what decided about ``before``; asked once more about every place that was edited.

    Raises:
        CheckFailed: with the reason and the line.
        SourceError: the file was broken before, in a place that nobody looked at.
    """
    changes = [edit for edit in edits if edit.replacement is not None]
    try:
        problem = _same_elsewhere(language, before, after, changes)
    except SourceError as error:
        broken = _own_error(language, before)
        raise broken or CheckFailed(f"the rewritten file would not parse: {error}", error.line) from None
    if problem:
        raise CheckFailed(problem)
    for edit in decide(after, moved(changes)):
        if edit.replacement is not None:
            line = after.count(b"\n", 0, edit.span.start) + 1
            raise CheckFailed(f"{edit.codemod} would rewrite its own result", line)


def _same_elsewhere(language: str, before: bytes, after: bytes, changes: Sequence[Edit]) -> str:
    if language == "python":
        from verl_legacy_patch.languages.python.compare import difference
    elif language == "shell":
        from verl_legacy_patch.languages.shell.compare import difference
    else:
        from verl_legacy_patch.languages.yaml.compare import difference
    return difference(before, after, changes)


def _own_error(language: str, before: bytes) -> SourceError | None:
    if language != "python":
        return None  # the other languages are read whole
    from verl_legacy_patch.languages.python.compare import own_error

    return own_error(before)
