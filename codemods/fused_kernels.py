"""Turn verl's fused linear-and-entropy kernels off, and Liger's where Triton cannot run.

What it does: use_fused_kernels becomes false in Python, YAML and launch scripts; below compute capability 7.0 use_liger
does too.

Why: the Triton implementation needs compute capability 7.0, and both implementations replace a forward that was
written for packed input with flash attention. Liger's kernels are Triton code too.

What it leaves alone: values that are read from the configuration, and the parameter of the function that patches
a model: its callers decide.

Source: https://github.com/volcengine/verl/blob/main/verl/utils/kernel/kernels.py
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import SwitchCodemod
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target

LIGER = "use_liger"


class FusedKernels(SwitchCodemod):
    """See the module's docstring."""

    name = "fused-kernels"
    grade = "review"
    keys = ("use_fused_kernels", LIGER)
    when = "with compute capability below 7.0, or attention that is not flash"

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Flip the switch; a parameter default stays."""
        if setting.key.lower() == LIGER and target.capability >= Capability(7, 0):
            return None
        edit = super().decide(setting, target)
        if edit is not None and setting.position == "parameter default":
            return self.keep(setting, "a parameter default: the callers decide")
        return edit
