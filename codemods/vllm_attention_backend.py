"""Report vLLM attention backends that the card cannot run.

What it does: nothing is rewritten. Places that set VLLM_ATTENTION_BACKEND to FLASH_ATTN or FLASHINFER are listed.

Why: vLLM follows the variable even where the kernel needs compute capability 8.0, and stops when the engine starts.
Without it vLLM chooses by the card: XFORMERS or Triton on V0, and newer releases no longer read it at all.

What it leaves alone: XFORMERS and other values.

Source: https://docs.vllm.ai/en/v0.8.5/serving/env_vars.html
"""

from verl_legacy_patch.codemod import ReportCodemod
from verl_legacy_patch.target import Capability, Target


class VllmAttentionBackend(ReportCodemod):
    """See the module's docstring."""

    name = "vllm-attention-backend"
    words = ("vllm_attention_backend",)
    trigger = r"vllm_attention_backend[\"'\])]*\s*[=:,]\s*[\"']?(?:\$\{?\w+:-)?flash"
    when = "compute capability below 8.0"
    rules = ((r"vllm_attention_backend", r"flash_?attn\w*|flashinfer\w*", "needs compute capability 8.0: remove it"),)

    def applies(self, target: Target) -> bool:
        """From Ampere on the kernel runs."""
        return target.capability < Capability(8, 0)
