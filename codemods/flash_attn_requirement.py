"""Report flash-attn in requirements and package extras.

What it does: nothing is rewritten. Requirement files, setup.py, pyproject.toml, Conda environments and pip commands in
scripts that ask for flash-attn are listed.

Why: flash-attn does not build or load below compute capability 8.0, so `pip install -r requirements.txt` fails on the
card. The rewritten checkout runs without it; which requirements to install is for a person to choose.

What it leaves alone: container files and documentation.

Source: https://github.com/Dao-AILab/flash-attention#nvidia-cuda-support
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target

_REQUIREMENT = lazy(r"flash[-_]attn(\s*(?:\[[^\]]*\])?\s*(?:==|[<>!~@;])[^:]*)?$")
_LISTS = ("requirement", "command word")
_NAMES = "a collection of names"


class FlashAttnRequirement(Codemod):
    """See the module's docstring."""

    name = "flash-attn-requirement"
    does = "reports"
    words = ("flash-attn", "flash_attn")
    reach = 0
    trigger = r"[\"']flash[-_]attn\b|(?m:^[ \t]*(?:-[ \t]+)?flash[-_]attn\b)|install\b[^\n]*\bflash[-_]attn\b"
    when = "with compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """From Ampere on flash-attn runs."""
        return target.capability < Capability(8, 0)

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Report a requirement, whether it stands in a list or on a line of its own."""
        requirement = None if setting.code else _REQUIREMENT.match(setting.value)
        if requirement is None:
            return None
        if not requirement[1] and not setting.position.startswith(_LISTS) and setting.names != _NAMES:
            return None  # the bare name elsewhere: a probe for the package
        return self.report(setting, "does not install on this card: leave it out, the rewritten code does without")
