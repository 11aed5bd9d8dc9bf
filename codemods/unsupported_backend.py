"""Report training and rollout backends that cannot run on the card.

What it does: nothing is rewritten. Scripts and configuration that select Megatron, VeOmni, TorchTitan, Automodel,
MindSpeed, FSDP-Turbo or TensorRT-LLM are listed, and SGLang below compute capability 7.5; also where a script gives
the name through a variable.

Why: these backends need Ampere kernels (Transformer Engine, flash-attn, fp8) whatever dtype is asked for, and
SGLang's own kernels start at 7.5. The FSDP workers with vLLM are the way that old cards can go.

What it leaves alone: files and keys that belong to such a backend; they are listed as out of scope.

Source: https://docs.sglang.ai/get_started/install.html and https://github.com/NVIDIA/TransformerEngine#installation
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import ReportCodemod, Rule
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target

TRAINERS = r"megatron|veomni|torchtitan|automodel|mindspeed\w*|fsdp_turbo"
ROLLOUTS = r"sglang|trtllm"
#: In scripts and configuration these select a backend, in Python they are parameters of many things.
_SCRIPT_KEYS = ("engine", "backend", "config_name")


class UnsupportedBackend(ReportCodemod):
    """See the module's docstring."""

    name = "unsupported-backend"
    languages = ("shell", "yaml", "json")
    words = ("megatron", "veomni", "torchtitan", "automodel", "mindspeed", "fsdp_turbo", "sglang", "trtllm")
    # it starts at a sign, which is rarer in code than the first letters of the names; comparisons select nothing
    reach = 0
    trigger = (
        rf"[=:](?<![=!<>]=)-?[ \t]?[\"']?(?:(?:fully_async_|one_step_off_)?ppo_)?(?:{TRAINERS}|{ROLLOUTS})"
        r"(?:\b|_trainer)"
    )
    when = "with compute capability below 8.0"
    rules = (
        Rule(
            r"strategy|model_engine|engine|backend",
            TRAINERS,
            "this backend needs compute capability 8.0: use fsdp",
        ),
        Rule(
            r"config_name", rf"\w*(?:{TRAINERS})\w*(?:\.yaml)?", "this backend needs compute capability 8.0: use fsdp"
        ),
        Rule(r"rollout\.name", r"trtllm", "TensorRT-LLM needs compute capability 8.0: use vllm"),
        Rule(r"rollout\.name", r"sglang", "SGLang needs compute capability 7.5: use vllm", Capability(7, 5)),
    )

    def applies(self, target: Target) -> bool:
        """From Ampere on they run."""
        return target.capability < Capability(8, 0)

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Report a backend where one is selected."""
        if setting.key.lower() in _SCRIPT_KEYS and not setting.position.startswith(
            ("shell", "Hydra", "command", "env")
        ):
            return None
        return super().decide(setting, target)
