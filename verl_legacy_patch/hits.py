"""Where the triggers of codemods match in a file.

Words are found at memory speed, patterns are not: so a pattern is only tried on the lines around the words of its
codemod. Nine files of ten that git finds hold words of a few codemods, and a handful of lines with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from verl_legacy_patch.checkout.words import shortest
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Span

#: Lines around an edit in which its own check looks for hits.
_NEAR = 30


def find_hits(
    source: bytes, codemods: Iterable[Codemod], near: Sequence[Span] | None = None
) -> dict[Codemod, list[Span]]:
    """Return where the trigger of each codemod matches; codemods without a match are left out.

    Args:
        source: the file.
        codemods: whose triggers to look for.
        near: look only around these places.
    """
    lowered = source.lower()
    words, users = _vocabulary(tuple(codemods))
    present = {word for word in words if word in lowered}
    present |= {longer for word in present for longer in words[word] if longer in lowered}
    hits: dict[Codemod, list[Span]] = {}
    if not present:
        return hits
    parts = [Span(0, len(lowered))] if near is None else list(_lines(lowered, near, _NEAR))
    for codemod, own in users:
        if not (here := present & own):
            continue
        windows: Iterable[Span] = parts
        if codemod.reach is not None:
            found = sorted(place for word in here for place in _places(lowered, word, parts))
            windows = _lines(lowered, found, codemod.reach)
        pattern = _compiled(codemod.trigger)
        spans = [Span(*match.span()) for window in windows for match in pattern.finditer(lowered, *window)]
        if spans:
            hits[codemod] = spans
    return hits


@lru_cache(maxsize=8)
def _vocabulary(
    codemods: tuple[Codemod, ...],
) -> tuple[dict[bytes, list[bytes]], list[tuple[Codemod, frozenset[bytes]]]]:
    """Return the words of some codemods, each with the longer ones that hold it, and each codemod with its own."""
    users = [(codemod, frozenset(word.encode() for word in codemod.words)) for codemod in codemods]
    every = {word for _, own in users for word in own}
    return {short: [word for word in every - {short} if short in word] for short in shortest(every)}, users


def _places(text: bytes, word: bytes, parts: Sequence[Span]) -> list[Span]:
    """Return where a word stands in the parts of a text."""
    if not word:
        return list(parts)
    found = []
    for start, end in parts:
        while (start := text.find(word, start, end)) >= 0:
            found.append(Span(start, start + len(word)))
            start += len(word)
    return found


def _lines(text: bytes, places: Iterable[Span], around: int) -> Iterator[Span]:
    """Yield the lines of places (in order) and as many before and behind as said; what overlaps is one span."""
    first, last, line = 0, -1, 0
    for place in places:
        if place.end < line:  # on a line of the one before; on a later one, its own lines go further
            continue
        start, end = place
        for _ in range(around + 1):
            start = text.rfind(b"\n", 0, start)
            if start < 0:
                break
        for count in range(around + 1):
            end = text.find(b"\n", end) + 1 or len(text)
            if not count:
                line = end
            if end == len(text):
                break
        if start + 1 > last:
            if last >= 0:
                yield Span(first, last)
            first = start + 1
        last = end
    if last >= 0:
        yield Span(first, last)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())
