"""The checks on every rewritten file: it parses, nothing else changed, and a second run finds nothing.

A file that fails is never written. The checks look at results, not at how they came about, so they hold for
codemods that others write.

Most edits put one word in the place of another (``bfloat16``, ``float32``). Where that provably leaves every token
as it is, nothing is parsed again: a whole word goes, a word of the same kind comes, and the bytes around are the same.
Any other edit has its file parsed and compared.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Sequence

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Span, moved

#: Decides about a file; with spans, only about what is near them.
Decide = Callable[[bytes, "Sequence[Span] | None"], "Sequence[Edit]"]


class CheckFailed(SourceError):
    """A rewritten file is not what it should be: a bug in a codemod, so nothing is written."""


#: A name, dotted or not, as a token of every language that is rewritten.
_WORD = lazy(rb"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_PART_OF_A_WORD = lazy(rb"[A-Za-z0-9_\x80-\xff]")
#: Words that are no names in some language, but values of one kind among themselves.
_VALUES = frozenset((b"true", b"false"))
_RESERVED = frozenset(word.lower().encode() for word in keyword.kwlist) | {
    b"null",
    b"yes",
    b"no",
    b"on",
    b"off",
    b"y",
    b"n",
}
#: Bytes around an edit in which a trigger that touches it would show.
_NEAR = 200


def verify(
    language: str,
    before: bytes,
    after: bytes,
    edits: Sequence[Edit],
    decide: Decide,
    triggered: Callable[[bytes], Iterable[Span]],
) -> None:
    """Check one rewritten file.

    Args:
        language: of both versions.
        before: the file as it was.
        after: the file as it would be written.
        edits: what was decided; the rewrites among them lead from ``before`` to ``after``.
        decide: what decided about ``before``; asked once more about every place that was edited.
        triggered: returns where a trigger of a codemod matches in some text.

    Raises:
        CheckFailed: with the reason and the line.
        SourceError: the file was broken before, in a place that nobody looked at.
    """
    changes = [edit for edit in edits if edit.replacement is not None]
    now = moved(changes)
    if all(is_word_for_word(before, edit) for edit in changes) and not _touched(after, now, triggered):
        return
    try:
        problem = _same_elsewhere(language, before, after, changes)
    except SourceError as error:
        broken = _own_error(language, before)
        raise broken or CheckFailed(f"the rewritten file would not parse: {error}", error.line) from None
    if problem:
        raise CheckFailed(problem)
    for edit in decide(after, now):
        if edit.replacement is not None:
            line = after.count(b"\n", 0, edit.span.start) + 1
            raise CheckFailed(f"{edit.codemod} would rewrite its own result", line)


def is_word_for_word(before: bytes, edit: Edit) -> bool:
    """Return whether a whole word makes way for one of the same kind: then all tokens stay what they are."""
    old, new = before[edit.span.start : edit.span.end], (edit.replacement or "").encode()
    if not (_WORD.fullmatch(old) and _WORD.fullmatch(new)) or old.count(b".") != new.count(b"."):
        return False
    if _PART_OF_A_WORD.match(before, edit.span.end) or _PART_OF_A_WORD.match(
        before[edit.span.start - 1 : edit.span.start]
    ):
        return False
    words = {old.lower(), new.lower()}
    return words <= _VALUES or not any(part in _RESERVED for word in words for part in word.split(b"."))


def _touched(after: bytes, now: Sequence[Span], triggered: Callable[[bytes], Iterable[Span]]) -> bool:
    """Return whether a trigger matches again at one of the edited places: only then can a second run differ."""
    for span in now:
        start = max(0, span.start - _NEAR)
        window = after[start : span.end + _NEAR]
        if any(hit.start + start < span.end and hit.end + start > span.start for hit in triggered(window)):
            return True
    return False


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
