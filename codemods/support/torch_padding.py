# Copyright 2025 Individual Contributor: the verl-patch contributors
#
# An addition to verl, which is Copyright 2024 Bytedance Ltd. and/or its affiliates.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""Packing and unpacking of padded batches in plain PyTorch.

Stands in for ``flash_attn.bert_padding``, which needs a GPU that flash-attn supports although the four
functions are index arithmetic. Works on every device and dtype, and is differentiable.

Shapes: ``batch`` rows of ``seqlen`` positions; ``total`` is the number of positions the mask keeps, in
row-major order; ``...`` stands for any number of further dimensions, none included.
"""

from __future__ import annotations

from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

__all__ = ["index_first_axis", "pad_input", "rearrange", "unpad_input"]


def index_first_axis(tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Takes rows of a tensor.

    Args:
        tensor: (n, ...), any dtype.
        indices: (total,), integers in [0, n).

    Returns:
        (total, ...), dtype of ``tensor``. The gradient of a row taken more than once is the sum.

    Raises:
        IndexError or RuntimeError: an index is out of range (as torch reports it on the device).
    """
    return tensor.index_select(0, indices.long())


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Puts packed rows back into a padded batch; the inverse of `unpad_input`.

    Args:
        hidden_states: (total, ...), any dtype.
        indices: (total,), distinct positions in [0, batch * seqlen), as `unpad_input` returns them.
        batch: number of rows.
        seqlen: positions per row.

    Returns:
        (batch, seqlen, ...), dtype of ``hidden_states``; zero where no index points.

    Raises:
        IndexError or RuntimeError: an index is out of range, or the lengths of the arguments differ.
    """
    padded = hidden_states.new_zeros((batch * seqlen, *hidden_states.shape[1:]))
    padded.index_copy_(0, indices.long(), hidden_states)
    return padded.view(batch, seqlen, *hidden_states.shape[1:])


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None
) -> tuple[Any, ...]:
    """Packs the positions that a mask keeps into one row.

    Args:
        hidden_states: (batch, seqlen, ...), any dtype.
        attention_mask: (batch, seqlen), bool, int or float; a position is kept where it is not zero.
        unused_mask: (batch, seqlen), the same; further positions that get a place in the row.

    Returns:
        - packed: (total, ...), dtype of ``hidden_states``
        - indices: (total,) int64, each kept position in the flattened batch
        - cu_seqlens: (batch + 1,) int32, where each sample starts in the row, and ``total``
        - max_seqlen: int, kept positions of the longest sample (0 for an empty batch)
        - used_seqlens: (batch,) int32, positions in ``attention_mask``; only with ``unused_mask``

        flash-attn before 2.7 returns the first four, later releases all five. verl's callers either take
        four or end in ``*_``, so four serve them all; the fifth comes only with the argument it is about.

    Raises:
        IndexError or RuntimeError: the mask is larger than the batch, or the two masks differ in shape.
    """
    used = attention_mask != 0
    kept = used if unused_mask is None else used | (unused_mask != 0)
    seqlens = kept.sum(dim=-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    packed = index_first_axis(hidden_states.flatten(0, 1), indices)
    cu_seqlens = torch.nn.functional.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
    max_seqlen = int(seqlens.max()) if seqlens.numel() else 0
    if unused_mask is None:
        return packed, indices, cu_seqlens, max_seqlen
    return packed, indices, cu_seqlens, max_seqlen, used.sum(dim=-1, dtype=torch.int32)


def rearrange(tensor: torch.Tensor, pattern: str, **axes_lengths: int) -> torch.Tensor:
    """Merges or splits the batch and sequence dimensions, in the notation of einops.

    Args:
        tensor: shape as on the left of the pattern.
        pattern: ``b s ... -> (b s) ...``, ``c b s ... -> (b s) c ...`` or, with ``b`` or ``s`` given,
            ``(b s) ... -> b s ...``. Any other pattern goes to einops.
        axes_lengths: lengths of named axes.

    Returns:
        The same elements, shape as on the right of the pattern; a view where torch can make one.

    Raises:
        ValueError: another pattern, and einops is not installed.
        IndexError or RuntimeError: the tensor does not have the dimensions the pattern names.
    """
    form = " ".join(pattern.replace("->", " -> ").split())
    if form == "b s ... -> (b s) ..." and not axes_lengths:
        return tensor.flatten(0, 1)
    if form == "c b s ... -> (b s) c ..." and not axes_lengths:
        return tensor.movedim(0, 2).flatten(0, 1)
    if form == "(b s) ... -> b s ..." and axes_lengths and axes_lengths.keys() <= {"b", "s"}:
        return torch.unflatten(tensor, 0, (axes_lengths.get("b", -1), axes_lengths.get("s", -1)))
    try:
        import einops  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ValueError(f"rearrange: the pattern {pattern!r} needs einops (pip install einops)") from None
    result: torch.Tensor = einops.rearrange(tensor, pattern, **axes_lengths)
    return result
