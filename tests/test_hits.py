"""A trigger is tried on the lines around the words of its codemod: all of them, also where two words are close."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from verl_legacy_patch.codemod import Codemod, discover
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.setting import Span

CODEMODS = [*discover().values(), *(each.with_keys(("fork_key",)) for each in discover().values())]
WORDS = sorted({word for codemod in CODEMODS for word in codemod.words})
PARTS = [*WORDS, *(word[: len(word) // 2] for word in WORDS), *(word[len(word) // 2 :] for word in WORDS)]
BETWEEN = [
    "\n",
    "\n",
    "\r\n",
    " ",
    "=",
    ": ",
    '"',
    "(",
    ",\n    ",
    "true",
    "False",
    "default",
    "torch.",
    "x",
    "\0",
    "é",
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.sampled_from(BETWEEN), max_size=60).map("".join)


def expected(source: bytes, codemod: Codemod) -> list[Span]:
    """Where the trigger matches in the lines that hold a word, and ``reach`` more on both sides."""
    lowered = source.lower()
    places = [match.span() for word in codemod.words for match in re.finditer(re.escape(word.encode()), lowered)]
    if codemod.reach is None:
        groups, starts = ([lowered], [0]) if places else ([], [])
    else:
        lines = re.findall(rb"[^\n]*\n|[^\n]+", lowered)
        near = {
            number
            for start, end in places
            for number in range(
                lowered.count(b"\n", 0, start) - codemod.reach, lowered.count(b"\n", 0, end) + codemod.reach + 1
            )
        }
        groups, starts, offset = [], [], 0
        for number, line in enumerate(lines):
            if number in near and number - 1 in near and number:
                groups[-1] += line
            elif number in near:
                groups.append(line)
                starts.append(offset)
            offset += len(line)
    pattern = re.compile(codemod.trigger.encode())
    return [
        Span(start + match.start(), start + match.end())
        for start, group in zip(starts, groups, strict=True)
        for match in pattern.finditer(group)
    ]


@given(TEXTS, st.lists(st.sampled_from(CODEMODS), min_size=1, unique=True))
def test_hits_are_those_in_the_lines_around_the_words(text: str, codemods: list[Codemod]) -> None:
    source = text.encode()
    wanted = {codemod: spans for codemod in codemods if (spans := expected(source, codemod))}
    assert find_hits(source, codemods) == wanted


def test_a_switch_is_found_whose_value_stands_below_and_whose_name_stands_above() -> None:
    switch = discover()["remove-padding"]
    source = b'use_remove_padding = x\n\n\nadd("use_remove_padding",\n\n    true)\n'
    [hit] = find_hits(source, [switch])[switch]
    assert source[hit.start : hit.end].endswith(b"true")
