"""Which values, overrides and defaults of interpolations are found in YAML, and which are not."""

from __future__ import annotations

import contextlib

import pytest
from yaml_settings import found, short

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.yaml import COLLECTION, UNCERTAIN

pytestmark = pytest.mark.usefixtures("loader")


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


# --- interpolations


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
