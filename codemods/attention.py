"""Choose eager (or sdpa) attention wherever FlashAttention is chosen.

What it does: every value that selects flash_attention_2 (or 3, 4, or a flash kernel from the Hub) as the attention
implementation becomes the target, in Python, YAML, JSON and shell; the old switches such as
use_flash_attention_2=True become False.

Why: the flash-attn kernels need compute capability 8.0. On an older card transformers stops with "FlashAttention2
has been toggled on, but it cannot be used", or flash-attn itself with "FlashAttention only supports Ampere GPUs or
newer".

What it leaves alone: comparisons, lookup tables keyed by the name, accepted values, messages. A forward that is
registered under the name is reported: with the target it is never called.

Source: https://github.com/Dao-AILab/flash-attention#nvidia-cuda-support
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Setting, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

FLASH = lazy(r"flash_attention_[234]")
#: Other spellings of it; only under an attention key do they mean that.
SPELLINGS = lazy(r"(?:[\w.-]+/)?(?:[a-z]+-)?flash[-_]?(?:attention|attn)[-_]?[234]?(?:@[\w.]+)?(?::\w+)?")
KEY = lazy(r"(?:attn|attention)_impl(?:ementation)?(?:_internal)?$", re.IGNORECASE)
SWITCHES = ("use_flash_attention_2", "use_flash_attention", "use_flash_attn", "use_flash_attn_2")


class Attention(Codemod):
    """See the module's docstring."""

    name = "attention"
    words = ("flash_att", "flash-att", "flashatt")
    reach = 3
    trigger = (
        r"flash_attention_[234]|use_flash_att(?:entio)?n(?:_2)?[^\n]{0,80}?true"
        r"|att(?:entio)?n_impl\w*[\"'\])]*\s*[:=,][^\n]{0,60}?flash[-_]?att\w*"
    )

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Rewrite a chosen flash attention; keep, with the reason, one that is only named."""
        if setting.key in SWITCHES and setting.value.lower() == "true":
            return self.rewrite(setting, "False" if setting.value[0] == "T" else "false")
        # {"text_config": …, "vision_config": …} under the key gives each part of a model its own
        key = any(map(KEY.search, setting.path[-2:])) or setting.key.lower() in self.extra_keys
        named = FLASH.fullmatch(setting.value)
        if setting.code or not (named or (key and SPELLINGS.fullmatch(setting.value))):
            return None
        if setting.names and setting.names != "a dictionary key":
            return self.keep(setting, setting.names)
        if not key:
            if setting.key == "register":
                return self.report(setting, unused(target))
            return self.report(setting, f"`{setting.key}` is no attention key: look whether it selects flash attention")
        if setting.allowed and target.attn not in setting.allowed:
            return self.report(setting, f"{target.attn} is not among the accepted values {', '.join(setting.allowed)}")
        return self.rewrite(setting, target.attn)

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Report a forward that is put into a registry under the name of flash attention."""
        import libcst as cst

        from verl_legacy_patch.languages.python.nodes import find

        for target_node, _ in find(statement, cst.AssignTarget):
            place = target_node.target
            index = place.slice[0].slice if isinstance(place, cst.Subscript) else None
            name = index.value if isinstance(index, cst.Index) else None
            if isinstance(name, cst.SimpleString) and FLASH.fullmatch(name.raw_value):
                start, end = statement.span_of(name)
                inside = Span(start + len(name.prefix) + len(name.quote), end - len(name.quote))
                yield Edit(inside, self.name, "report", None, unused(target), self.grade)


def unused(target: Target) -> str:
    """Return what to say of a forward that is registered as flash attention."""
    return f"a forward is registered under this name: with {target.attn} it is not called"
