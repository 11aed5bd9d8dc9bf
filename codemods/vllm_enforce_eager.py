"""Make vLLM run eagerly, without CUDA graphs and torch.compile.

What it does: the rollout's enforce_eager becomes true in Python, YAML and launch scripts.

Why: without it vLLM compiles the model through Triton, which needs compute capability 7.0: "Found Tesla P40 which
is too old to be supported by the triton GPU compiler".

What it leaves alone: values that are read from the configuration.

Source: https://docs.vllm.ai/en/latest/design/torch_compile.html
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import SwitchCodemod
from verl_legacy_patch.target import Target


class VllmEnforceEager(SwitchCodemod):
    """See the module's docstring."""

    name = "vllm-enforce-eager"
    keys = ("enforce_eager",)
    to = True
    when = "with compute capability below 7.0"

    def applies(self, target: Target) -> bool:
        """Triton needs 7.0."""
        return target.capability < Capability(7, 0)
