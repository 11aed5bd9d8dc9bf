"""What an installed flash-attn wheel is on a card older than Ampere: imports work, kernels do not."""

from typing import Any

from legacy_gpu.violations import flash

__version__ = "2.7.4"


# transformers reads the parameters' names to find out which flash-attn this is
def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: Any = 0.0, softmax_scale: Any = None, causal: Any = False, **more: Any
) -> None:
    flash("flash_attn_func")


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, **more: Any
) -> None:
    flash("flash_attn_varlen_func")
