"""For any YAML: a span that is replaced changes its value alone, the pieces of a block add up to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.yaml import UNCERTAIN, settings
from verl_legacy_patch.languages.yaml.programs import pieces
from verl_legacy_patch.languages.yaml.reader import Reader
from verl_legacy_patch.setting import Span

pytestmark = pytest.mark.usefixtures("loader")

WORDS = [
    "bfloat16", "bf16", "fp32", "true", "1", "", "it's", 'a "b"', "a: b", "x # y", "bfloat16# odd", "é bf16",
    "日本", "\\n bf16", "- x", "a\nbf16 b", " bf16 ", "😀", "{x", "[bf16", "%", "@bf16", "null",
    "long " * 30 + "bf16",
]  # fmt: skip
KEYS = st.sampled_from(["dtype", "é", "b c", "x-y", "bf16", "key: odd", "it's", "日本", "k", "l"])
TREES = st.recursive(
    st.sampled_from(WORDS) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def strings(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: strings(value) for key, value in node.items()}
    return [strings(value) for value in node] if isinstance(node, list) else str(node)


def flat(node: Any, path: tuple[str, ...] = (), at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from flat(value, (*path, key), (*at, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from flat(value, path, (*at, number))
    else:
        yield at, path, node


@given(
    tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=4),
    flow=st.sampled_from([None, True, False]),
    style=st.sampled_from([None, "'", '"']),
    width=st.sampled_from([20, 80, 10_000]),
    unicode=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    as_json=st.booleans(),
)
@run(max_examples=150, deadline=None)
def test_replacing_a_span_changes_exactly_that_leaf(
    tree: dict[str, Any],
    flow: bool | None,
    style: str | None,
    width: int,
    unicode: bool,
    ending: str,
    bom: bool,
    as_json: bool,
) -> None:
    if as_json:
        text = json.dumps(tree, ensure_ascii=not unicode and "😀" not in str(tree), indent=2)
        text = text.replace("\n", ending)
    else:
        if style:  # quoted numbers come with a tag that no other word satisfies
            tree = strings(tree)
        text = yaml.dump(
            tree, Dumper=NoAliases, default_flow_style=flow, default_style=style, width=width,
            allow_unicode=unicode, line_break=ending,
        )  # fmt: skip
    source = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    hits = [Span(*m.span()) for m in re.finditer(rb"bfloat16|bf16", source)]
    before = {at: (path, value) for at, path, value in flat(yaml.safe_load(source))}
    reached = set()
    for one in settings(source, hits):
        if one.names == UNCERTAIN:
            reached.add((one.path, one.value.split(" ")[0]))
            continue
        changed = source[: one.span.start] + b"other" + source[one.span.end :]
        after = {at: (path, value) for at, path, value in flat(yaml.safe_load(changed))}
        assert before.keys() == after.keys()
        [at] = [at for at in before if before[at] != after[at]]
        assert after[at] == (one.path, "other")
        assert before[at][0] == one.path
        reached.add((one.path, before[at][1]))
    for path, value in before.values():
        if value in ("bfloat16", "bf16"):
            assert (path, value) in reached


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@given(st.lists(st.text("ab \t#'=é\\", max_size=6), min_size=1, max_size=5), st.integers(1, 4), st.sampled_from("|>"))
def test_block_pieces_add_up_to_the_value(lines: list[str], indent: int, style: str) -> None:
    source = f"k: {style}\n" + "".join(" " * indent + line + "\n" for line in lines) + "e: 1\n"
    reader = Reader(source.encode())
    try:
        block = next(event for event in reader.events() if getattr(event, "style", None) == style)
    except (SourceError, StopIteration):
        return
    for piece in pieces(reader, block) or ():
        assert piece.text is not None or reader.text[piece.start : piece.end] in block.value
