"""Choose eager (or sdpa) attention wherever FlashAttention is chosen.

What it does: every value that selects flash_attention_2 (or 3, 4) as the attention implementation becomes the
target, in Python, YAML, JSON and shell; the old switches such as use_flash_attention_2=True become False.

Why: the flash-attn kernels need compute capability 8.0. On an older card transformers stops with "FlashAttention2
has been toggled on, but it cannot be used", or flash-attn itself with "FlashAttention only supports Ampere GPUs or
newer".

What it leaves alone: comparisons, registries and lookup tables keyed by the name, accepted values, messages.

Source: https://github.com/Dao-AILab/flash-attention#nvidia-cuda-support
"""

import re

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target

FLASH = re.compile(r"flash_attention_[234]")
KEY = re.compile(r"(?:attn|attention)_impl(?:ementation)?(?:_internal)?$", re.IGNORECASE)
SWITCHES = ("use_flash_attention_2", "use_flash_attention", "use_flash_attn", "use_flash_attn_2")


class Attention(Codemod):
    """See the module's docstring."""

    name = "attention"
    words = ("flash_attention_", *SWITCHES[1:3])
    trigger = r"flash_attention_[234]|use_flash_att(?:entio)?n(?:_2)?[^\n]{0,80}?true"

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Rewrite a chosen flash attention; keep, with the reason, one that is only named."""
        if setting.key in SWITCHES and setting.value.lower() == "true":
            return self.rewrite(setting, "False" if setting.value[0] == "T" else "false")
        if not FLASH.fullmatch(setting.value) or setting.code:
            return None
        if setting.names and setting.names != "a dictionary key":
            return self.keep(setting, setting.names)
        if not KEY.search(setting.key) and setting.key.lower() not in self.extra_keys:
            return self.report(setting, f"`{setting.key}` is no attention key: look whether it selects flash attention")
        if setting.allowed and target.attn not in setting.allowed:
            return self.report(setting, f"{target.attn} is not among the accepted values {', '.join(setting.allowed)}")
        return self.rewrite(setting, target.attn)
