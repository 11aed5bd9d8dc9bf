"""Override text: what is found, and that Hydra's own parser agrees on every span."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_legacy_patch.languages.hydra import leaves, overrides


def found(text: str, word: bool = False) -> list[tuple[str, str, str]]:
    result: list[tuple[str, str, str]] = []
    for override in overrides(text, word):
        assert text[override.start : override.end] == override.value
        result.append((".".join(override.path), override.value, override.position))
    return result


def plain(text: str, word: bool = False) -> list[tuple[str, str]]:
    return [(key, value) for key, value, _ in found(text, word)]


@pytest.mark.parametrize("prefix", ["", "+", "++", "~"])
@pytest.mark.parametrize("written", ["bf16", "'bf16'", '"bf16"', '\\"bf16\\"'])
@pytest.mark.parametrize("word", [True, False])
def test_one_override(prefix: str, written: str, word: bool) -> None:
    assert plain(f"{prefix}a.b.dtype={written}", word) == [("a.b.dtype", "bf16")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "m={param_dtype: bf16, reduce_dtype: fp32}",
            [("m.param_dtype", "bf16"), ("m.reduce_dtype", "fp32")],
        ),
        ("m={a:{b:bf16,c:'x y'},d:[fp16]}", [("m.a.b", "bf16"), ("m.a.c", "x y"), ("m.d", "fp16")]),
        ('h={"dtype": "bf16", \'e\': 1}', [("h.dtype", "bf16"), ("h.e", "1")]),
        ('h={\\"dtype\\": \\"bf16\\"}', [("h.dtype", "bf16")]),
        ("--dtype=bfloat16", [("dtype", "bfloat16")]),
        ("--kv-cache-dtype=bf16", [("kv_cache_dtype", "bf16")]),
        ("--actor.param-dtype=bf16", [("actor.param_dtype", "bf16")]),
        ("${prefix}.dtype=bf16", [("${prefix}.dtype", "bf16")]),
        (".dtype=bf16", [("dtype", "bf16")]),
        ("project_name=bfloat16_flash_attention_2", [("project_name", "bfloat16_flash_attention_2")]),
        ("a.dtype=torch.bfloat16", [("a.dtype", "torch.bfloat16")]),
        ("note=trained in bf16", [("note", "trained in bf16")]),
        ("note='bf16'x", [("note", "'bf16'x")]),
        ("note={bf16", [("note", "{bf16")]),
        ("note=a=bf16", [("note", "a=bf16")]),
    ],
)
def test_words(text: str, expected: list[tuple[str, str]]) -> None:
    assert plain(text, word=True) == expected


def test_positions() -> None:
    assert found("a.dtype=bf16,fp32", True) == [("a.dtype", "bf16", "item"), ("a.dtype", "fp32", "item")]
    assert found("a.dtype=bf16,fp32") == [("a.dtype", "bf16", "item"), ("a.dtype", "fp32", "item")]
    assert found("a.dtype=choice(bf16, fp32)", True) == [("a.dtype", v, "item") for v in ("bf16", "fp32")]
    assert found("a.dtype=[bf16,fp16]", True) == [("a.dtype", "bf16", "item"), ("a.dtype", "fp16", "item")]
    assert found("a.dtype=${oc.env:DTYPE,bfloat16}", True) == [("a.dtype", "bfloat16", "default")]
    assert found("a.dtype=${oc.select:x.y,bf16}") == [("a.dtype", "bf16", "default")]
    assert found("a.dtype=${oc.decode:${oc.env:D,bf16}}") == [("a.dtype", "bf16", "default")]
    assert found("a.dtype=${actor.dtype}") == [("a.dtype", "${actor.dtype}", "value")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python -m x a.dtype=bf16 +b.c='fp 32' d=1", [("a.dtype", "bf16"), ("b.c", "fp 32"), ("d", "1")]),
        ("python x --dtype bfloat16 --k=v", [("dtype", "bfloat16"), ("k", "v")]),
        ("bash -c 'python x a.dtype=bf16'", [("a.dtype", "bf16")]),
        ("cd /x; a.dtype=bf16; echo", [("a.dtype", "bf16")]),
        ("a.m={x: bf16} b=1", [("a.m.x", "bf16"), ("b", "1")]),
        ("--flag --dtype bf16", [("dtype", "bf16")]),
        ("use dtype=bf16, please", [("dtype", "bf16,")]),
    ],
)
def test_free_text(text: str, expected: list[tuple[str, str]]) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bf16",
        "dtype bf16",
        "a dtype == bf16 test",
        "f(dtype=bf16)",
        "model@pkg.x=bf16",
        "optim/adam=bf16",
        "-- bf16",
        "a.dtype=",
        "https://x.org/?dtype=bf16",
        "=bf16",
        "--enforce-eager",
    ],
)
def test_no_override(text: str) -> None:
    assert plain(text) == []
    assert plain(text, word=True) == []


@pytest.mark.parametrize("text", ["${a}" * 60, "a.b" * 5000, "x={" * 3000, "x=[" * 3000, "x=${a:" * 3000, "'" * 9000])
def test_odd_text_takes_no_time(text: str) -> None:
    list(overrides(text))
    list(overrides("k=" + text, word=True))


def test_leaves() -> None:
    assert [(leaf.path, leaf.value) for leaf in leaves('{"a": "bf16"}', ("x",))] == [(("x", "a"), "bf16")]


# Hydra's parser as the judge

NAME = st.from_regex(r"[a-z][a-z_0-9]{0,7}", fullmatch=True).filter(
    lambda text: text not in {"true", "false", "null", "nan", "inf", "choice", "sort", "shuffle"}
)
BARE = st.one_of(NAME, st.sampled_from(["bf16", "bfloat16", "torch.bfloat16", "True", "1", "a/b", "x-y:z"]))
QUOTED = st.tuples(st.sampled_from("'\""), st.one_of(BARE, st.just("two words"), st.just("a, b=c"))).map(
    lambda pair: pair[0] + pair[1] + pair[0]
)
SCALAR = st.one_of(BARE, QUOTED)
SPACE = st.sampled_from(["", " ", "  "])


def _braced(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(NAME, SPACE, inner), max_size=3, unique_by=lambda pair: pair[0])
    dicts = st.tuples(pairs, SPACE).map(
        lambda made: "{" + f",{made[1]}".join(f"{k}:{space}{value}" for k, space, value in made[0]) + "}"
    )
    lists = st.tuples(st.lists(inner, max_size=3), SPACE).map(lambda made: f"[{(',' + made[1]).join(made[0])}]")
    return st.one_of(dicts, lists)


VALUE = st.recursive(SCALAR, _braced, max_leaves=6)
SWEEP = st.lists(VALUE, min_size=2, max_size=4).map(",".join)
KEY = st.tuples(st.sampled_from(["", "+", "++"]), st.lists(NAME, min_size=1, max_size=4)).map(
    lambda made: made[0] + ".".join(made[1])
)


def _flat(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:
    from hydra.core.override_parser.types import ChoiceSweep, QuotedString

    if isinstance(value, ChoiceSweep):
        value = value.list
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _flat(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for at, item in enumerate(value) for leaf in _flat(item, (*path, at))]
    return [(path, value.text if isinstance(value, QuotedString) else str(value))]


@settings(max_examples=300, deadline=None)
@given(KEY, st.one_of(VALUE, SWEEP))
def test_every_span_is_a_leaf_of_hydra(key: str, value: str) -> None:
    parser = pytest.importorskip("hydra.core.override_parser.overrides_parser").OverridesParser.create()
    text = f"{key}={value}"
    parsed = parser.parse_override(text)
    before = _flat(parsed._value)
    yielded = list(overrides(text, word=True))
    assert len(yielded) == len(before)
    for override, (_, leaf) in zip(yielded, before, strict=True):
        assert override.path[: len(parsed.key_or_group.split("."))] == tuple(parsed.key_or_group.split("."))
        assert override.value.lower() == leaf.lower()
    for index, override in enumerate(yielded):
        edited = text[: override.start] + "zz9" + text[override.end :]
        after = _flat(parser.parse_override(edited)._value)
        expected = [(path, "zz9" if at == index else leaf) for at, (path, leaf) in enumerate(before)]
        assert after == expected
