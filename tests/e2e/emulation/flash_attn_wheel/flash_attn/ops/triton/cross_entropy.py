"""flash-attn's cross entropy is a Triton kernel."""

from typing import Any

from legacy_gpu.violations import triton


def cross_entropy_loss(*args: Any, **kwargs: Any) -> None:
    triton("flash_attn.ops.triton.cross_entropy")
