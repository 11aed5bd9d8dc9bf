"""The padding functions that are added to a checkout, held against their definition in plain loops."""

from __future__ import annotations

import builtins
import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

SOURCE = Path(__file__).parents[2] / "codemods" / "support" / "torch_padding.py"
DTYPES = ["bool", "int32", "int64", "float16", "float32", "float64"]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torch_padding", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


padding = load()


@st.composite
def masks(draw: st.DrawFn) -> list[list[int]]:
    """A mask of 1 to 5 rows of 1 to 6 positions; empty, full, left-padded, right-padded and ragged rows."""
    batch, seqlen = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    length = st.integers(0, seqlen)
    row = st.one_of(
        st.lists(st.integers(0, 1), min_size=seqlen, max_size=seqlen),
        length.map(lambda n: [0] * (seqlen - n) + [1] * n),
        length.map(lambda n: [1] * n + [0] * (seqlen - n)),
    )
    all_rows = st.sampled_from([[[0] * seqlen] * batch, [[1] * seqlen] * batch])
    return draw(st.one_of(st.lists(row, min_size=batch, max_size=batch), all_rows))


extra_dims = st.lists(st.integers(0, 3), max_size=3)


def values(batch: int, seqlen: int, extra: list[int], dtype: Any = None) -> Any:
    """(batch, seqlen, *extra): every element differs, none is zero (up to rounding of the dtype)."""
    shape = [batch, seqlen, *extra]
    count = int(torch.tensor(shape).prod())
    return (torch.arange(count) + 1).reshape(shape).to(dtype or torch.float32)


def kept_positions(mask: list[list[int]]) -> list[int]:
    return [row * len(line) + column for row, line in enumerate(mask) for column, v in enumerate(line) if v]


def starts(mask: list[list[int]]) -> list[int]:
    return [0, *itertools.accumulate(sum(line) for line in mask)]


@settings(deadline=None)
@given(mask=masks(), extra=extra_dims, mask_dtype=st.sampled_from(DTYPES), dtype=st.sampled_from(DTYPES))
def test_unpad_keeps_what_the_mask_keeps(mask: Any, extra: list[int], mask_dtype: str, dtype: str) -> None:
    batch, seqlen = len(mask), len(mask[0])
    hidden = values(batch, seqlen, extra, getattr(torch, dtype))
    result = padding.unpad_input(hidden, torch.tensor(mask, dtype=getattr(torch, mask_dtype)))
    packed, indices, cu_seqlens, max_seqlen = result
    expected = [hidden[row, column] for row in range(batch) for column in range(seqlen) if mask[row][column]]
    assert packed.dtype == hidden.dtype
    assert list(packed.shape) == [len(expected), *extra]
    assert all(torch.equal(one, other) for one, other in zip(packed, expected, strict=True))
    assert indices.dtype == torch.int64
    assert indices.tolist() == kept_positions(mask)
    assert cu_seqlens.dtype == torch.int32
    assert cu_seqlens.tolist() == starts(mask)
    assert type(max_seqlen) is int
    assert max_seqlen == max(sum(line) for line in mask)


@settings(deadline=None)
@given(mask=masks(), data=st.data(), mask_dtype=st.sampled_from(DTYPES))
def test_unused_positions_get_a_place_but_are_not_used(mask: Any, data: st.DataObject, mask_dtype: str) -> None:
    unused = [[0 if v else data.draw(st.integers(0, 1)) for v in line] for line in mask]
    both = [[a + b for a, b in zip(*lines, strict=True)] for lines in zip(mask, unused, strict=True)]
    hidden = values(len(mask), len(mask[0]), [2])
    kind = getattr(torch, mask_dtype)
    *packed, used_seqlens = padding.unpad_input(
        hidden, torch.tensor(mask, dtype=kind), unused_mask=torch.tensor(unused, dtype=kind)
    )
    same = padding.unpad_input(hidden, torch.tensor(both, dtype=kind))
    assert len(packed) == len(same) == 4
    assert torch.equal(packed[0], same[0])
    assert torch.equal(packed[1], same[1])
    assert torch.equal(packed[2], same[2])
    assert packed[3] == same[3]
    assert used_seqlens.dtype == torch.int32
    assert used_seqlens.tolist() == [sum(line) for line in mask]


@settings(deadline=None)
@given(mask=masks(), extra=extra_dims, dtype=st.sampled_from(DTYPES))
def test_pad_undoes_unpad_and_leaves_zeros(mask: Any, extra: list[int], dtype: str) -> None:
    batch, seqlen = len(mask), len(mask[0])
    hidden = values(batch, seqlen, extra, getattr(torch, dtype))
    packed, indices, *_ = padding.unpad_input(hidden, torch.tensor(mask))
    padded = padding.pad_input(packed, indices, batch, seqlen)
    assert padded.dtype == hidden.dtype
    assert padded.shape == hidden.shape
    for row, column in itertools.product(range(batch), range(seqlen)):
        expected = hidden[row, column] if mask[row][column] else torch.zeros_like(hidden[row, column])
        assert torch.equal(padded[row, column], expected)


@settings(deadline=None)
@given(rows=st.integers(1, 6), extra=extra_dims, data=st.data(), index_dtype=st.sampled_from(["int32", "int64"]))
def test_index_first_axis_takes_rows(rows: int, extra: list[int], data: st.DataObject, index_dtype: str) -> None:
    wanted = data.draw(st.lists(st.integers(0, rows - 1), max_size=8))
    tensor = values(rows, 1, extra)[:, 0]
    taken = padding.index_first_axis(tensor, torch.tensor(wanted, dtype=getattr(torch, index_dtype)))
    assert list(taken.shape) == [len(wanted), *extra]
    assert all(torch.equal(one, tensor[index]) for one, index in zip(taken, wanted, strict=True))


@settings(deadline=None, max_examples=25)
@given(mask=masks(), extra=st.lists(st.integers(1, 2), max_size=2))
def test_gradients_agree_with_finite_differences(mask: Any, extra: list[int]) -> None:
    batch, seqlen = len(mask), len(mask[0])
    hidden = values(batch, seqlen, extra, torch.float64).requires_grad_()
    keep = torch.tensor(mask)
    indices = padding.unpad_input(hidden, keep)[1]

    def round_trip(x: Any) -> Any:
        packed = padding.unpad_input(x, keep)[0]
        return padding.pad_input(packed.square(), indices, batch, seqlen)

    assert torch.autograd.gradcheck(round_trip, (hidden,))
    assert torch.autograd.gradgradcheck(round_trip, (hidden,))
    assert torch.autograd.gradcheck(lambda x: padding.index_first_axis(x, indices), (hidden.flatten(0, 1),))


@settings(deadline=None)
@given(mask=masks(), extra=extra_dims)
def test_the_gradient_is_one_where_the_mask_keeps_and_zero_elsewhere(mask: Any, extra: list[int]) -> None:
    hidden = values(len(mask), len(mask[0]), extra).requires_grad_()
    padding.unpad_input(hidden, torch.tensor(mask))[0].sum().backward()
    for row, line in enumerate(mask):
        for column, v in enumerate(line):
            assert torch.equal(hidden.grad[row, column], torch.full_like(hidden[row, column], float(v)))


def test_a_row_taken_twice_has_the_sum_of_both_gradients() -> None:
    tensor = torch.ones(3, 2, requires_grad=True)
    padding.index_first_axis(tensor, torch.tensor([1, 1, 2])).sum().backward()
    assert tensor.grad.tolist() == [[0, 0], [2, 2], [1, 1]]


def test_autocast_changes_no_dtype_and_no_value() -> None:
    hidden = torch.full((2, 3, 4), 1.0 + 2**-20, requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        packed, indices, *_ = padding.unpad_input(hidden, mask)
        padded = padding.pad_input(packed, indices, 2, 3)
    assert packed.dtype == padded.dtype == torch.float32
    assert torch.equal(padded, hidden * mask.unsqueeze(-1))


def test_transposed_inputs_are_read_by_position_not_by_memory() -> None:
    hidden = values(3, 2, [2]).transpose(0, 1)
    mask = torch.tensor([[1, 0], [0, 1], [1, 1]]).T
    packed, indices, *_ = padding.unpad_input(hidden, mask)
    assert torch.equal(packed, torch.stack([hidden[0, 0], hidden[0, 2], hidden[1, 1], hidden[1, 2]]))
    assert torch.equal(padding.pad_input(packed, indices, 2, 3), hidden * mask.unsqueeze(-1))


def test_a_batch_of_no_rows() -> None:
    packed, indices, cu_seqlens, max_seqlen = padding.unpad_input(torch.ones(0, 4, 2), torch.ones(0, 4))
    assert (packed.shape, indices.tolist(), cu_seqlens.tolist(), max_seqlen) == ((0, 2), [], [0], 0)
    assert padding.pad_input(packed, indices, 0, 4).shape == (0, 4, 2)


def test_the_ways_callers_unpack() -> None:
    hidden, mask = torch.arange(6).reshape(2, 3).unsqueeze(-1), torch.tensor([[0, 1, 1], [1, 0, 0]])
    flat, indices, *_ = padding.unpad_input(hidden, attention_mask=mask)
    four, _, cu_seqlens, longest = padding.unpad_input(hidden, mask)
    five, _, cu, _longest, *_ = padding.unpad_input(hidden, mask)
    assert torch.equal(flat, four)
    assert torch.equal(flat, five)
    assert torch.equal(flat, padding.unpad_input(hidden, mask)[0])
    assert torch.equal(cu_seqlens, cu)
    assert longest == 2
    assert padding.pad_input(hidden_states=flat, indices=indices, batch=2, seqlen=3).squeeze(-1).tolist() == [
        [0, 1, 2],
        [3, 0, 0],
    ]


@pytest.mark.parametrize("call", ["index", "pad", "mask"])
def test_positions_out_of_range_are_refused(call: str) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        if call == "index":
            padding.index_first_axis(torch.ones(2, 2), torch.tensor([2]))
        elif call == "pad":
            padding.pad_input(torch.ones(1, 2), torch.tensor([6]), 2, 3)
        else:
            padding.unpad_input(torch.ones(2, 3, 1), torch.ones(2, 4))


@settings(deadline=None)
@given(sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)), extra=extra_dims)
def test_rearrange_merges_batch_and_sequence(sizes: tuple[int, int], extra: list[int]) -> None:
    batch, seqlen = sizes
    tensor = values(batch, seqlen, extra)
    merged = padding.rearrange(tensor, "b s ... -> (b s) ...")
    assert list(merged.shape) == [batch * seqlen, *extra]
    for row, column in itertools.product(range(batch), range(seqlen)):
        assert torch.equal(merged[row * seqlen + column], tensor[row, column])
    for lengths in ({"b": batch}, {"s": seqlen}, {"b": batch, "s": seqlen}):
        assert torch.equal(padding.rearrange(merged, "(b s) ... -> b s ...", **lengths), tensor)


@settings(deadline=None)
@given(sizes=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)), extra=extra_dims)
def test_rearrange_moves_the_channel_behind_the_row(sizes: tuple[int, int, int], extra: list[int]) -> None:
    channels, batch, seqlen = sizes
    tensor = values(channels, batch, [seqlen, *extra])
    merged = padding.rearrange(tensor, "c b s ... -> (b s) c ...")
    assert list(merged.shape) == [batch * seqlen, channels, *extra]
    for c, row, column in itertools.product(range(channels), range(batch), range(seqlen)):
        assert torch.equal(merged[row * seqlen + column, c], tensor[c, row, column])


def test_rearrange_reads_any_spacing() -> None:
    assert padding.rearrange(torch.ones(2, 3, 4), " b  s ...->(b s) ... ").shape == (6, 4)


def test_rearrange_names_the_pattern_when_einops_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_einops(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "einops":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_einops)
    with pytest.raises(ValueError, match=r"'h w -> w h'.*einops"):
        padding.rearrange(torch.ones(2, 3), "h w -> w h")


def test_rearrange_hands_other_patterns_to_einops() -> None:
    einops = pytest.importorskip("einops")
    tensor = values(2, 3, [4])
    for pattern in ("b s d -> s b d", "b s d -> b (s d)", "b s ... -> (b s) ..."):
        assert torch.equal(padding.rearrange(tensor, pattern), einops.rearrange(tensor, pattern))
    channels = values(3, 2, [5, 2])
    pattern = "c b s ... -> (b s) c ..."
    assert torch.equal(padding.rearrange(channels, pattern), einops.rearrange(channels, pattern))


def test_nothing_but_torch_is_imported() -> None:
    lines = [line.split() for line in SOURCE.read_text(encoding="utf-8").splitlines()]
    top = {words[1] for words in lines if words[:1] in (["import"], ["from"])}
    assert top == {"__future__", "typing", "torch", "einops"}
