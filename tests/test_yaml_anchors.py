"""Anchors, aliases and merge keys of YAML: whose value it is, and where it stands."""

from __future__ import annotations

import pytest
from yaml_settings import found, short

pytestmark = pytest.mark.usefixtures("loader")


def test_anchor_that_only_holds_a_value_is_neutral() -> None:
    assert short('_shared: &dt "bfloat16" # x\nrollout:\n  dtype: *dt\n') == [
        ("_shared", "bfloat16", "YAML anchor"),
        ("rollout.dtype", "bfloat16", "YAML alias"),
    ]


def test_all_uses_of_an_anchor_share_its_span() -> None:
    rows = found("a: {dtype: &x bf16, tag: *x}\n")
    assert [(r.key, r.position) for r in rows] == [("dtype", "YAML value"), ("tag", "YAML alias")]
    assert len({r.span for r in rows}) == 1


def test_later_anchor_wins() -> None:
    assert short("_a: &x bf16\n_b: &x fp32\ndtype: *x\n") == [
        ("_a", "bf16", "YAML value"),
        ("_b", "fp32", "YAML anchor"),
        ("dtype", "fp32", "YAML alias"),
    ]


def test_aliased_switch_is_found_without_a_hit_of_its_own() -> None:
    rows = short("_on: &on True\nx: bf16\nuse_remove_padding: *on\n")
    assert ("use_remove_padding", "True", "YAML alias") in rows


def test_merge_keys() -> None:
    source = """
    _base: &base {dtype: bf16, sub: {y: bf16}}
    one: {<<: *base}
    two: {<<: [*base], dtype: fp32}
    """
    rows = short(source)
    assert ("one.dtype", "bf16", "YAML alias") in rows
    assert ("two.sub.y", "bf16", "YAML alias") in rows
    assert not [row for row in rows if row[0] == "two.dtype"]


def test_nested_aliases_multiply() -> None:
    source = "_a: &a {dtype: bf16}\n_b: &b {x: *a, y: *a}\nc: *b\n"
    assert {row[0] for row in short(source)} == {
        "_a.dtype", "_b.x.dtype", "_b.y.dtype", "c.x.dtype", "c.y.dtype",
    }  # fmt: skip


def test_a_flood_of_aliases_is_one_uncertain_setting() -> None:
    source = "_0: &a0 {dtype: bf16}\n"
    for level in range(1, 30):
        source += f"_{level}: &a{level} {{" + ", ".join(f"k{n}: *a{level - 1}" for n in range(9)) + "}\n"
    [one] = found(source)
    assert one.names and one.advice
    [one] = found("a: &a [*a, bf16]\n")
    assert one.names and one.advice
