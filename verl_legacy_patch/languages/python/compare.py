"""Whether two versions of a Python file have the same syntax tree but for the edited spans.

Bytes outside the edits are the same by construction, so statements without an edit need no look: only the path
down to each edited node is compared.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.python.context import check, parse, parse_around
from verl_legacy_patch.languages.python.depth import parse_module
from verl_legacy_patch.languages.python.source import Source, read
from verl_legacy_patch.setting import Edit, Places, Span, moved


def difference(before: bytes, after: bytes, changes: Sequence[Edit]) -> str:
    """Return what differs outside the edits, in words; empty when nothing does.

    Args:
        before: the file as it was.
        after: the file as rewritten.
        changes: the rewrites that lead from one to the other.

    Raises:
        SourceError: ``after`` cannot be parsed.
    """
    was, now = read(before), read(after)
    old = [was.utf8_span(span) for span in sorted(edit.span for edit in changes)]
    new = [now.utf8_span(span) for span in moved(changes)]
    try:
        check(now)
    except SourceError:
        if own_error(before) is None:
            raise
        return _libcst_only(now)
    return _Comparison(was, now, old, new).nodes(parse_around(was, old), parse_around(now, new))


def own_error(before: bytes) -> SourceError | None:
    """Return why a file cannot be parsed, also where nobody looked; None for a sound one."""
    try:
        parse(read(before))
    except SourceError as error:
        return error
    return None


def _libcst_only(now: Source) -> str:
    """For a file that only LibCST reads: it must still read it."""
    import libcst as cst

    try:
        parse_module(now.text)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise SourceError(str(error).splitlines()[0]) from None
    return ""


class _Comparison:
    def __init__(self, was: Source, now: Source, old: Sequence[Span], new: Sequence[Span]) -> None:
        self._was, self._now = was, now
        self._old, self._new = Places(old), Places(new)

    def nodes(self, left: Any, right: Any) -> str:
        """Compare two nodes; statements and expressions without an edit inside are taken as the same."""
        span = _span(self._was, left)
        if span is not None:
            near = self._old.touching(span)
            if any(edit.start <= span.start and span.end <= edit.end and edit.start < edit.end for edit in near):
                return ""
            if not near:
                return "" if type(left) is type(right) or _cut(left) or _cut(right) else self._say(left)
        if type(left) is not type(right):
            return self._say(left)
        for name in left._fields:
            problem = self._field(left, getattr(left, name, None), getattr(right, name, None))
            if problem:
                return problem
        return ""

    def _field(self, owner: Any, left: Any, right: Any) -> str:
        if isinstance(left, list) and isinstance(right, list):
            kept = [item for item in left if not self._covered(self._was, item, self._old)]
            same = [item for item in right if not self._covered(self._now, item, self._new)]
            if len(kept) != len(same):
                kept, same = left, right  # a replaced item with a new one in its place
            if len(kept) != len(same):
                return self._say(owner)
            return next(filter(None, (self._field(owner, a, b) for a, b in zip(kept, same, strict=True))), "")
        if isinstance(left, ast.AST) and isinstance(right, ast.AST):
            return self.nodes(left, right)
        return "" if left == right or self._edited(owner) else self._say(owner)

    def _covered(self, source: Source, item: Any, edits: Places) -> bool:
        span = _span(source, item)
        return span is not None and any(e.start <= span.start and span.end <= e.end for e in edits.touching(span))

    def _edited(self, node: Any) -> bool:
        span = _span(self._was, node)
        return span is None or bool(self._old.touching(span))

    def _say(self, node: Any) -> str:
        return f"the statement at line {getattr(node, 'lineno', 1)} would change outside the edited places"


def _cut(node: Any) -> bool:
    """Return whether a statement stands for a definition that was cut: one text may be long enough to cut, one not."""
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_"


def _span(source: Source, node: Any) -> Span | None:
    if getattr(node, "end_lineno", None) is None:
        return None
    start = source.offset(node.lineno, node.col_offset)
    if getattr(node, "decorator_list", None):
        first = node.decorator_list[0]
        start = source.utf8.rfind(b"@", 0, source.offset(first.lineno, first.col_offset))
    return Span(start, source.offset(node.end_lineno, node.end_col_offset))
