"""Parsing of shell scripts with tree-sitter: the tree, the way to a byte, the check after a rewrite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from verl_legacy_patch.languages.partial import without_init
from verl_legacy_patch.setting import Edit, splice

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Tree

# The grammar runs a comment to the end of its line and so loses the closing backtick of `# …`, the usual way
# to comment inside a continued command. In bash the backtick ends it.
_BACKTICK_COMMENT = re.compile(rb"`(?<=[ \t\n]`)[ \t]*#[^`\n]*`")


@cache
def language() -> Language:
    """Return the bash grammar."""
    from tree_sitter import Language

    with without_init("tree_sitter_bash"), suppress(ImportError):  # it looks for query files, with half of the library
        return Language(import_module("tree_sitter_bash._binding").language())
    import tree_sitter_bash

    return Language(tree_sitter_bash.language())


@cache
def _parser() -> Parser:
    from tree_sitter import Parser

    return Parser(language())


def _masked(source: bytes) -> bytes:
    """Blank the backtick comments, keeping every offset."""
    if b"#" not in source or b"`" not in source:
        return source
    return _BACKTICK_COMMENT.sub(lambda found: b" " * len(found[0]), source)


@lru_cache(maxsize=8)
def parse(source: bytes) -> Tree:
    """Return the syntax tree of a script. Any bytes parse; what the grammar cannot read is an ERROR node."""
    return _parser().parse(_masked(source))


def descend(tree: Tree, position: int) -> list[Node]:
    """Return the nodes that hold the byte at ``position``, outermost first."""
    cursor = tree.walk()
    path = [tree.root_node]
    # Node.parent walks from the root each time: one way down is kept instead
    while cursor.goto_first_child_for_byte(position) is not None:
        node = cursor.node
        if node is None or node.start_byte > position or node.end_byte <= position:
            break
        path.append(node)
    return path


def _point(source: bytes, offset: int) -> tuple[int, int]:
    return source.count(b"\n", 0, offset), offset - (source.rfind(b"\n", 0, offset) + 1)


def _rewrites(edits: Iterable[Edit]) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and new bytes of the rewrites in order, each once."""
    seen = {(e.span, e.replacement) for e in edits if e.replacement is not None}
    for span, replacement in sorted(seen, key=lambda item: item[0]):
        assert replacement is not None
        yield span.start, span.end, replacement.encode()


def _edited(source: bytes, tree: Tree, edits: Iterable[Edit]) -> Tree:
    """Return a copy of ``tree`` with its spans moved to where they are after ``edits``."""
    moved = tree.copy()
    # from the back, so that offsets in front of an edit are still those of the old source
    for start, end, new in reversed(list(_rewrites(edits))):
        row, column = _point(source, start)
        lines = new.count(b"\n")
        new_end = (row + lines, len(new) - new.rfind(b"\n") - 1 if lines else column + len(new))
        moved.edit(
            start_byte=start,
            old_end_byte=end,
            new_end_byte=start + len(new),
            start_point=(row, column),
            old_end_point=_point(source, end),
            new_end_point=new_end,
        )
    return moved


def reparse(source: bytes, tree: Tree, edits: Iterable[Edit]) -> tuple[bytes, Tree]:
    """Return the source after ``edits`` and its tree, parsed anew only around them."""
    edits = list(edits)
    after = splice(source, edits)
    return after, _parser().parse(_masked(after), _edited(source, tree, edits))


def same_shape(source: bytes, old: Tree, new: Tree, edits: Iterable[Edit]) -> bool:
    """Return whether ``new`` is ``old`` with other text inside the edited spans and nothing else.

    Args:
        source: the text of ``old``.
        old: the tree before the edits.
        new: what ``reparse`` returned.
        edits: the same edits.
    """
    edits = list(edits)
    if old.root_node.descendant_count != new.root_node.descendant_count:
        return False
    if old.root_node.has_error != new.root_node.has_error or _errors(old) != _errors(new):
        return False
    moved = _edited(source, old, edits)
    shift = 0
    spans: list[tuple[int, int]] = []
    for start, end, replacement in _rewrites(edits):
        if b"`" in replacement:
            return False  # the grammar takes it for a letter inside ${…}
        spans.append((start + shift, start + shift + len(replacement)))
        before = [(node.kind_id, node.start_byte) for node in descend(old, start)]
        after = [(node.kind_id, node.start_byte) for node in descend(new, start + shift)]
        if [kind for kind, _ in before] != [kind for kind, _ in after]:
            return False
        shift += len(replacement) - (end - start)
    for change in moved.changed_ranges(new):
        if not any(start <= change.start_byte and change.end_byte <= end for start, end in spans):
            return False
    return True


def _errors(tree: Tree) -> int:
    """Return the number of ERROR and MISSING nodes, looking only where there are some."""
    if not tree.root_node.has_error:
        return 0
    count = 0
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        count += node.is_error or node.is_missing
        pending += [child for child in node.children if child.has_error or child.is_missing]
    return count
