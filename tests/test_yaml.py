from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.yaml import COLLECTION, UNCERTAIN, settings
from verl_legacy_patch.languages.yaml.compare import difference
from verl_legacy_patch.languages.yaml.programs import pieces
from verl_legacy_patch.languages.yaml.reader import Reader
from verl_legacy_patch.setting import Edit, Setting, Span, splice

TRIGGER = rb"bfloat16|bf16|(?:use_remove_padding|enable_prefix_caching)[^\n]{0,80}?true"


def found(source: str | bytes) -> list[Setting]:
    data = source.encode() if isinstance(source, str) else source
    result = list(settings(data, [Span(*m.span()) for m in re.finditer(TRIGGER, data, re.I)]))
    for one in result:
        if one.names != UNCERTAIN:
            assert data[slice(*one.span)].decode() == one.value
    return result


def short(source: str | bytes) -> list[tuple[str, str, str]]:
    return [(".".join(one.path), one.value, one.position) for one in found(source)]


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "yaml.cyaml", None)


@pytest.mark.parametrize(
    ("source", "path", "value"),
    [
        ("rollout:\n  dtype: bfloat16 # bfloat16 or float16\n", "rollout.dtype", "bfloat16"),
        ("a: {b: 'bf16', c: fp32}", "a.b", "bf16"),
        ('a: "Bfloat16"', "a", "Bfloat16"),
        ("a: !!str bfloat16", "a", "bfloat16"),
        ("a: &x !!str 'bfloat16'", "a", "bfloat16"),
        ("a: # bf16\n  bfloat16\n", "a", "bfloat16"),
        ("dtype : bfloat16# odd", "dtype", "bfloat16# odd"),
        ("a.b_dtype: bf16", "a.b_dtype", "bf16"),
        ("é:\n  ü: 'öbf16'  # ä", "é.ü", "öbf16"),
        ("x: y\n---\na: bf16\n...\n", "a", "bf16"),
        ("a:\r\n  b: bf16\r\n", "a.b", "bf16"),
        ("- a: x\n- b: bf16", "b", "bf16"),
        ("a: 'it''s bf16'", "a", "it''s bf16"),
        ("use_remove_padding: True", "use_remove_padding", "True"),
        ('{"a": {"enable_prefix_caching":true}}', "a.enable_prefix_caching", "true"),
        ('{\n\t"a":\t"bf16"\n}', "a", "bf16"),
        ("? a\n: bf16", "a", "bf16"),
        ("? [k, l]\n: bf16", "", "bf16"),
        ("a: bf16\na: bf16x", "a", "bf16"),
    ],
)
def test_values(source: str, path: str, value: str) -> None:
    assert (path, value, "YAML value") in short(source)
    assert (path, value, "YAML value") in short(b"\xef\xbb\xbf" + source.encode())


@pytest.mark.parametrize(
    "source",
    [
        "a: fp32 # bf16",
        "bf16x: {b: 1}\n",
        "# dtype: bf16\n",
        "notes: |\n  Train with dtype=bfloat16 first,\n  then without.\n",
        "prompt: >-\n  Reply in bfloat16. Use python only.\n",
        "run: |\n  # python train.py dtype=bfloat16\n  python train.py --fast\n",
        "text: >\n  some bf16\n  words\n",
        "defaults:\n  - rollout: bf16\n  - bf16_base\n  - _self_\n",
        "a:\n",
    ],
)
def test_no_settings(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "dtype: |\n  bfloat16\n",
        "dtype: >-\n  bfloat16\n",
        'dtype: "bfloat\\u00316"\nx: "\\u0062f16 bf16"',
        "a: one\n  bf16",
        '"a": "\\ud83d\\ude00 bf16"'.join("{}"),
    ],
)
def test_uncertain_places_are_said_to_be(source: str) -> None:
    rows = found(source)
    assert rows
    assert all(row.names == UNCERTAIN and row.advice for row in rows)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("${oc.select:a.b.dtype,bfloat16}", "bfloat16"),
        ("${oc.env:VLLM_DTYPE, bf16 }", "bf16"),
        ('${oc.env:X,"bf16"}', "bf16"),
        ("${oc.decode:${oc.env:X,bfloat16}}", "bfloat16"),
        ("${oc.select:a,${oc.select:b,${oc.env:C,'bf16'}}}", "bf16"),
        ("${oc.decode:bf16}", "bf16"),
        ("${oc.select:${a}.b,bf16}", "bf16"),
    ],
)
@pytest.mark.parametrize("quote", ["", "'"])
def test_interpolation_defaults(text: str, default: str, quote: str) -> None:
    written = text.replace("'", "''") if quote else text
    [one] = found(f"é: 1\nr:\n  dtype: {quote}{written}{quote}\n")
    assert (one.path, one.value, one.names) == (("r", "dtype"), default, "")
    assert one.position.startswith("default of oc.")


def test_interpolations_that_do_not_choose() -> None:
    assert found("dtype: ${bf16.dtype}") == [] or found("dtype: ${bf16.dtype}")[0].value == "${bf16.dtype}"
    [one] = found("dtype: ${custom:x,bf16}")
    assert one.names and one.advice
    [one] = found("dtypes: '${oc.select:a,[bf16,fp16]}'")
    assert one.names == COLLECTION
    [one] = found("a: '${oc.select:bf16.x}'") or [None]  # type: ignore[list-item]
    assert one is None
    assert [s.value for s in found("a: torch.${oc.env:X,bf16}_bf16")] == [
        "bf16",
        "torch.${oc.env:X,bf16}_bf16",
    ]
    assert found("a: '" + "${oc.decode:" * 500 + "bf16" + "}" * 500 + "'") is not None


def test_switch_inside_an_interpolation() -> None:
    [one] = found("use_remove_padding: ${oc.select:m.use_remove_padding,True}")
    assert (one.value, one.path) == ("True", ("use_remove_padding",))


def test_overrides_and_options_in_lists() -> None:
    source = """
    task:
      - +actor_rollout_ref.rollout.dtype=bfloat16
      - "trainer.name=run"
      - 'a.b={param_dtype: bf16}'
    args: [serve, --dtype, bfloat16, --kv-cache-dtype=bf16, bf16]
    """
    assert [(r.path[-1], r.value, r.names) for r in found(source)] == [
        ("dtype", "bfloat16", ""),
        ("param_dtype", "bf16", ""),
        ("dtype", "bfloat16", ""),
        ("kv_cache_dtype", "bf16", ""),
        ("args", "bf16", COLLECTION),
    ]


def test_collections_of_names() -> None:
    rows = found("allowed_dtypes: [bfloat16, float16]\nother:\n  - bf16\n")
    assert [(r.key, r.names) for r in rows] == [("allowed_dtypes", COLLECTION), ("other", COLLECTION)]


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


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"a: bf16\n\tb: c\n", 2),
        (b"a: bf16\nb: {{ dtype }}\n", 2),
        (b"{% if x %}\na: bf16\n{% endif %}\n", 1),
        (b"a: [bf16\n", 2),
        (b"a: bf16\nb: \xff\n", 2),
        (b"a: bf16\nb: \x01\n", 2),
        (b"b: *x\na: bf16\n", 1),
        ("a: bf16\n".encode("utf-16"), 1),
    ],
)
def test_errors_name_the_line(source: bytes, line: int) -> None:
    with pytest.raises(SourceError) as error:
        found(source)
    assert error.value.line == line


@pytest.mark.slow
def test_deep_nesting_does_not_blow_up() -> None:
    for source in ("[" * 5000, "{a: " * 5000 + "bf16", "a: " + "[" * 900 + "bf16" + "]" * 900):
        with contextlib.suppress(SourceError):
            found(source)


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


SCRIPT = """\
resources: {gpus: 8}
setup: |
  # dtype=bf16 is a comment
  pip install -e .
run: |-  # the launch
  set -x
  export MODEL=ä

  python3 -m trainer \\
    actor.use_remove_padding=True \\
      'rollout.dtype=bfloat16' $@
    echo "dtype=bf16"
envs:
  DTYPE: bf16
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_script_in_a_literal_block_is_read_by_the_shell_adapter(newline: str) -> None:
    source = SCRIPT.replace("\n", newline)
    where = "in a script in YAML"
    assert short(source) == [
        ("actor.use_remove_padding", "True", f"Hydra override {where}"),
        ("rollout.dtype", "bfloat16", f"Hydra override {where}"),
        ("dtype", "bf16", f"Hydra override {where}"),
        ("envs.DTYPE", "bf16", "YAML value"),
    ]
    assert [one.names for one in found(source)] == ["", "", "a message", ""]


@pytest.mark.parametrize(
    "source",
    [
        "run: >-\n  python -m trainer\n  a.dtype=bf16\n  --x\nb: 1\n",
        "run: >\n    python -m trainer a.dtype=bf16\n",
        "args:\n  - |2\n      bash -c 'python -m trainer a.dtype=bf16'\n",
        "args: [bash, -c, 'python -m trainer a.dtype=bf16 b=1']\n",
        "run: torchrun --standalone -m trainer a.dtype=bf16\n",
        "\ufeffrun: |\n  #!/bin/bash\n  CUDA_VISIBLE_DEVICES=0 ./venv/bin/python train.py a.dtype=bf16\n",
        "a: &x |\n  python train.py a.dtype=bf16\nb: *x\n",
    ],
)
def test_scripts_in_other_scalars(source: str) -> None:
    [one] = found(source)
    assert (".".join(one.path), one.value, one.names) == ("a.dtype", "bf16", "")


@pytest.mark.parametrize(
    "source",
    [
        "run: >\n  python -m trainer\n\n  a.dtype=bf16\n",
        "run: >\n  python -m trainer\n    a.dtype=bf16\n",
        'run: "python -m trainer \\\n  a.dtype=bf16"\n',
    ],
)
def test_a_script_whose_lines_cannot_be_followed_is_left_alone(source: str) -> None:
    assert [one for one in found(source) if not one.names] == []


def test_a_rewritten_block_differs_in_the_edited_place_only() -> None:
    before = SCRIPT.encode()
    at = before.index(b"bfloat16'")
    edit = Edit(Span(at, at + 8), "dtype", "rewrite", "float32")
    after = splice(before, [edit])
    assert difference(before, after, [edit]) == ""
    assert difference(before, after.replace(b"set -x", b"set -e"), [edit]) != ""
    assert difference(before, after.replace(b"float32", b"float16"), [edit]) != ""


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
