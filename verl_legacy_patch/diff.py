"""Unified diffs that ``git apply`` takes, built from the edits themselves.

The edits are the difference, so nothing has to be searched for: a diff costs the lines it prints, and every hunk
knows its edits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from verl_legacy_patch.setting import Edit, splice

CONTEXT = 3
#: What a line begins with that git shows behind the place of a hunk.
_TITLES = frozenset(bytes([code]) for code in range(128) if chr(code).isalpha() or chr(code) in "_$")
_NO_NEWLINE = b"\\ No newline at end of file\n"


class Block(NamedTuple):
    """A run of lines that changes: lines ``start`` to ``end`` (from 0, ``end`` not included) become ``new``."""

    start: int
    end: int
    new: tuple[bytes, ...]
    edits: tuple[Edit, ...]


class Hunk(NamedTuple):
    """Blocks that are near each other, with the lines around them. ``old`` and ``new`` count lines from 0."""

    header: bytes
    lines: tuple[bytes, ...]
    edits: tuple[Edit, ...]
    old: int
    new: int


def file_patch(
    path: str, before: bytes | None, after: bytes, edits: Sequence[Edit], mode: str, context: int = CONTEXT
) -> bytes:
    """Return the patch of one file, headers included; empty when nothing changes.

    Args:
        path: path in the repository.
        before: the old bytes; None for a new file.
        after: the new bytes of a new file.
        edits: the rewrites that lead from ``before`` to the new bytes.
        mode: git's mode of a new file, such as ``100644``.
        context: lines around each change.
    """
    head = b"diff --git %s %s\n" % (_name("a/", path), _name("b/", path))
    if before is None:
        lines = split_lines(after)
        body = b"".join(map(_line, [b"+"] * len(lines), lines))
        header = b"new file mode %s\n--- /dev/null\n+++ %s\n" % (mode.encode(), _name("b/", path))
        return head + header + (b"@@ -0,0 +%s @@\n" % _range(0, len(lines)) + body if lines else b"")
    found = b"".join(hunk.header + b"".join(hunk.lines) for hunk in hunks(before, edits, context))
    return head + b"--- %s\n+++ %s\n" % (_name("a/", path), _name("b/", path)) + found if found else b""


def hunks(before: bytes, edits: Sequence[Edit], context: int = CONTEXT) -> Iterator[Hunk]:
    """Yield the hunks of the rewrites among ``edits``."""
    lines = split_lines(before)
    group: list[Block] = []
    shift = 0
    for block in blocks(before, lines, edits):
        if block.start == block.end and not block.new:
            continue  # a rewrite to the same text: git takes no hunk that changes nothing
        if group and block.start - group[-1].end > 2 * context:
            yield _hunk(lines, group, shift, context)
            shift += sum(len(b.new) - (b.end - b.start) for b in group)
            group = []
        group.append(block)
    if group:
        yield _hunk(lines, group, shift, context)


def blocks(before: bytes, lines: Sequence[bytes], edits: Sequence[Edit]) -> Iterator[Block]:
    """Yield the runs of lines that change, without lines that stay the same at either end."""
    starts = list(accumulate(map(len, lines), initial=0))
    group: list[Edit] = []
    first = last = -1
    rewrites = sorted((e for e in edits if e.replacement is not None), key=lambda e: e.span)
    if rewrites and not lines:
        yield Block(0, 0, tuple(split_lines(splice(before, rewrites))), tuple(rewrites))
        return
    for edit in rewrites:
        begin = min(bisect_right(starts, edit.span.start) - 1, len(lines) - 1)
        end = min(bisect_right(starts, max(edit.span.start, edit.span.end - 1)) - 1, len(lines) - 1)
        if group and begin > last:
            yield _block(before, lines, starts, first, last + 1, group)
            group = []
        first = begin if not group else first
        last = max(last, end) if group else end
        group.append(edit)
    if group:
        yield _block(before, lines, starts, first, last + 1, group)


def _block(
    before: bytes, lines: Sequence[bytes], starts: Sequence[int], start: int, end: int, group: list[Edit]
) -> Block:
    offset = starts[start]
    moved = [
        Edit(type(e.span)(e.span.start - offset, e.span.end - offset), e.codemod, e.action, e.replacement)
        for e in group
    ]
    new = split_lines(splice(before[offset : starts[end]], moved))
    while start < end and new and new[0] == lines[start]:
        start, new = start + 1, new[1:]
    while start < end and new and new[-1] == lines[end - 1]:
        end, new = end - 1, new[:-1]
    return Block(start, end, tuple(new), tuple(group))


def _hunk(lines: Sequence[bytes], group: Sequence[Block], shift: int, context: int) -> Hunk:
    start = max(0, group[0].start - context)
    stop = min(len(lines), group[-1].end + context)
    out: list[bytes] = []
    position, added = start, 0
    for block in group:
        out += [_line(b" ", line) for line in lines[position : block.start]]
        out += [_line(b"-", line) for line in lines[block.start : block.end]]
        out += [_line(b"+", line) for line in block.new]
        added += len(block.new) - (block.end - block.start)
        position = block.end
    out += [_line(b" ", line) for line in lines[position:stop]]
    old, new = _range(start, stop - start), _range(start + shift, stop - start + added)
    where = next((line for line in reversed(lines[:start]) if line[:1] in _TITLES), b"")
    title = b" " + where.rstrip()[:80] if where else b""
    header = b"@@ -%s +%s @@%s\n" % (old, new, title)
    edits = tuple(edit for block in group for edit in block.edits)
    return Hunk(header, tuple(out), edits, start, start + shift)


def split_lines(text: bytes) -> list[bytes]:
    """Split at line feeds only, as git does: a lone carriage return is no line end to it."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n" + _NO_NEWLINE


def _range(start: int, count: int) -> bytes:
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _name(prefix: str, path: str) -> bytes:
    """Quote a path as git does: C escapes inside double quotes when it has special characters."""
    raw = (prefix + path).encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        # git puts a tab after a name with spaces in "---" lines; without one "git apply" still reads it
        return raw
    escapes = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    out = "".join(
        f"\\{escapes[byte]}" if byte in escapes else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in raw
    )
    return b'"' + out.encode() + b'"'
