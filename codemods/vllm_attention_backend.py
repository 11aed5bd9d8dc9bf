"""Report vLLM attention backends that the card cannot run.

What it does: nothing is rewritten. Places that set VLLM_ATTENTION_BACKEND to a backend whose kernels need a newer
card are listed: FlashAttention (8.0), FlashInfer (7.5), Triton (7.0), the MLA kernels (9.0).

Why: vLLM follows the variable even where the kernel cannot run on the card, and stops when the engine starts.
Without it vLLM chooses by the card: XFORMERS or Triton on V0, and newer releases no longer read it at all.

What it leaves alone: XFORMERS and other values.

Source: https://docs.vllm.ai/en/v0.8.5/serving/env_vars.html
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import ReportCodemod, Rule
from verl_legacy_patch.target import Target

KEY = r"vllm_attention_backend"


class VllmAttentionBackend(ReportCodemod):
    """See the module's docstring."""

    name = "vllm-attention-backend"
    words = (KEY,)
    reach = 2
    trigger = rf"{KEY}[\"'\])]*\s*[=:,]\s*[\"']?(?:\$\{{?\w+:?-)?[\"']?(?:flash|triton|cutlass)"
    when = "with compute capability below 8.0"
    rules = (
        Rule(KEY, r"flash_?mla\w*|flash_attn_mla|cutlass_mla\w*", "needs compute capability 9.0: remove it"),
        Rule(KEY, r"flash_?att\w*", "needs compute capability 8.0: remove it, vLLM then chooses by the card"),
        Rule(
            KEY,
            r"flashinfer\w*",
            "needs compute capability 7.5: remove it, vLLM then chooses by the card",
            Capability(7, 5),
        ),
        Rule(
            KEY,
            r"triton\w*",
            "Triton needs compute capability 7.0: remove it, vLLM then chooses by the card",
            Capability(7, 0),
        ),
    )

    def applies(self, target: Target) -> bool:
        """From Ampere on the usual kernels run."""
        return target.capability < Capability(8, 0)
