"""Choose float32 (or float16) wherever bfloat16 is chosen.

What it does: every value that selects bfloat16 becomes the target dtype, in Python, YAML, JSON and shell:
keyword arguments, defaults, fallbacks, casts, autocast, FSDP mixed precision, weight synchronisation,
checkpoint export and Hydra overrides. The family of the spelling stays (bf16 becomes fp32). The switches of Trainer
arguments and DeepSpeed (bf16: true) are turned off.

Why: GPUs before Ampere have no bfloat16 units. The card emulates it slowly, rounds silently, or refuses:
"Bfloat16 is only supported on GPUs with compute capability of at least 8.0".

What it leaves alone: places that name the dtype without choosing it: comparisons, lookup tables, accepted
values, translations between names and dtypes, messages, CPU autocast, reinterpreted bits.

Source: https://docs.vllm.ai/en/latest/usage/faq.html and https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions
"""

import re

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Setting
from verl_legacy_patch.target import Target

#: bfloat16 in every spelling -> what it is called for each target.
SPELLINGS = {
    "bfloat16": {"float32": "float32", "float16": "float16"},
    "Bfloat16": {"float32": "float32", "float16": "float16"},
    "BFloat16": {"float32": "float32", "float16": "float16"},
    "bf16": {"float32": "fp32", "float16": "fp16"},
    "BF16": {"float32": "FP32", "float16": "FP16"},
    "BFLOAT16": {"float32": "FLOAT32", "float16": "FLOAT16"},
    "BFloat16Tensor": {"float32": "FloatTensor", "float16": "HalfTensor"},
}
#: A key that turns bfloat16 on, alone (``bf16=True``) or with ``enabled`` below it.
SWITCH = "bf16"
METHODS = {"float32": "float", "float16": "half"}
TORCH = ("", "torch.", "th.", "torch.cuda.")

_VALUE = lazy(r"((?:\w+\.)*)(\w+)")


class Dtype(Codemod):
    """See the module's docstring."""

    name = "dtype"
    words = ("bfloat16", "bf16")
    reach = 1
    trigger = (
        rf"{SWITCH}(?:\w*[\"']?\s*(?::[\w.\[\]| ]{{1,40}}=|[:=])\s*(?:\{{?\s*[\"']?enabled[\"']?\s*:\s*)?true)?"
        r"|bfloat16"
    )

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Rewrite a chosen bfloat16; keep, with the reason, one that is only named."""
        if setting.value.lower() == "true":
            return self._switch(setting, target)
        match = _VALUE.fullmatch(setting.value)
        if match is None or match[2] not in SPELLINGS:
            return self._odd(setting)
        if setting.position == "cast":
            return self.rewrite(setting, METHODS[target.dtype])
        if setting.code:
            return self._expression(setting, match[1], match[2], target)
        if setting.names and setting.names != "a dictionary key":
            return self.keep(setting, setting.names)
        if not is_dtype_key(setting.key) and setting.key.lower() not in self.extra_keys:
            if setting.position == "positional argument" or "precision" in setting.key.lower():
                return self.report(setting, f"`{setting.key}` is no dtype key: look whether it selects bfloat16")
            return self.keep(setting, f"`{setting.key}` is no dtype key")
        new = match[1] + SPELLINGS[match[2]][target.dtype]
        if setting.allowed and new not in setting.allowed:
            return self.report(setting, f"{new} is not among the accepted values {', '.join(setting.allowed)}")
        return self.rewrite(setting, new)

    def _switch(self, setting: Setting, target: Target) -> Edit | None:
        """Turn ``bf16=True`` off; for float16 another switch and loss scaling are needed as well."""
        path = setting.path[:-1] if setting.key == "enabled" else setting.path
        if path[-1:] not in ((SWITCH,), (f"{SWITCH}_full_eval",)):
            return None
        if target.dtype != "float32":
            return self.report(setting, f"turns bfloat16 on: turn on the switch for {target.dtype} instead")
        return self.rewrite(setting, "False" if setting.value[0] == "T" else "false")

    def _expression(self, setting: Setting, prefix: str, word: str, target: Target) -> Edit | None:
        if not prefix:
            if word == SWITCH:
                return None  # torch has no such name: a variable, most often a flag
            if setting.names:
                return self.keep(setting, setting.names)
            return self.report(setting, "imported by name: write torch.dtype instead, then run again")
        if prefix not in TORCH:
            return self.keep(setting, f"{prefix}{word} is no dtype of torch")
        return self.rewrite(setting, prefix + SPELLINGS[word][target.dtype])

    def _odd(self, setting: Setting) -> Edit | None:
        """Report a dtype key with a value that holds the word but is no dtype name (``precision: bf16-mixed``)."""
        key = setting.key.lower()
        asked = is_dtype_key(key) or "precision" in key
        if asked and not setting.code and re.search(r"bf(?:loat)?16", setting.value.lower()):
            return self.keep(setting, setting.names) if setting.names else self.report(setting, "no known dtype name")
        return None


def is_dtype_key(key: str) -> bool:
    """Return whether a key names a dtype: ``dtype``, ``param_dtype``, ``ROLLOUT_DTYPE``, ``paramDtype``."""
    return key.lower().endswith("dtype")
