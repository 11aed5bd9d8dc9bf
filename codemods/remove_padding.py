"""Turn sequence packing off: attention that is not flash cannot be trusted with it.

What it does: use_remove_padding (in some forks padding_free) becomes false in configuration, defaults, fallbacks and
launch scripts.

Why: packing puts several samples into one row and relies on flash attention to keep them apart. With eager or
sdpa, transformers before 4.53.1 (or torch before 2.6) lets each sample attend to those before it: no error, finite
losses, wrong log-probabilities. Padded rows are exact everywhere.

What it leaves alone: values that are read from the configuration; the parameter of the function that patches a
model for packing, whose callers decide and whose guard (codemod packing-guard) raises.

Source: https://github.com/huggingface/transformers/pull/39228
"""

from verl_legacy_patch.codemod import SwitchCodemod
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target


class RemovePadding(SwitchCodemod):
    """See the module's docstring."""

    name = "remove-padding"
    grade = "review"
    keys = ("use_remove_padding", "padding_free")
    when = "with attention that is not flash"

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Flip the switch; a parameter default stays, because False there would hide a caller that packs."""
        edit = super().decide(setting, target)
        if edit is not None and setting.position == "parameter default":
            return self.keep(setting, "a parameter default: the callers decide, and packing-guard checks them")
        return edit
