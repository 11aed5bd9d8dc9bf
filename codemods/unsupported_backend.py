"""Report training and rollout backends that cannot run on the card.

What it does: nothing is rewritten. Scripts and configuration that select Megatron, VeOmni, TorchTitan, Automodel,
MindSpeed or TensorRT-LLM are listed, and SGLang below compute capability 7.5.

Why: these backends need Ampere kernels (Transformer Engine, flash-attn, fp8) whatever dtype is asked for, and
SGLang's own kernels start at 7.5. The FSDP workers with vLLM are the way that old cards can go.

What it leaves alone: files and keys that belong to such a backend; they are listed as out of scope.

Source: https://docs.sglang.ai/get_started/install.html and https://github.com/NVIDIA/TransformerEngine#installation
"""

from verl_legacy_patch.codemod import ReportCodemod
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Capability, Target

TRAINERS = r"megatron|veomni|torchtitan|automodel|mindspeed\w*"


class UnsupportedBackend(ReportCodemod):
    """See the module's docstring."""

    name = "unsupported-backend"
    words = ("strategy=", "strategy: ", "model_engine=", "model_engine: ", "name=sglang", "name: sglang", "name=trtllm")
    trigger = rf"(?:strategy|model_engine)\s*[=:]\s*[\"']?(?:{TRAINERS})|name\s*[=:]\s*[\"']?(?:sglang|trtllm)"
    when = "compute capability below 8.0"
    rules = (
        (r"strategy|model_engine", TRAINERS, "this backend needs compute capability 8.0: use fsdp"),
        (r"rollout\.name", r"trtllm", "TensorRT-LLM needs compute capability 8.0: use vllm"),
        (r"rollout\.name", r"sglang", "SGLang needs compute capability 7.5: use vllm"),
    )

    def applies(self, target: Target) -> bool:
        """From Ampere on they run."""
        return target.capability < Capability(8, 0)

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Report a backend; SGLang is fine from 7.5 on."""
        if setting.value.lower() == "sglang" and target.capability >= Capability(7, 5):
            return None
        return super().decide(setting, target)
