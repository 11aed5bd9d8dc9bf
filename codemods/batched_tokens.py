"""Report launch commands whose token budget is too small once chunked prefill is off.

What it does: nothing is rewritten. A command that sets max_num_batched_tokens below max_prompt_length +
max_response_length is listed with the numbers.

Why: without chunked prefill a prompt has to fit into one batch: vLLM refuses to start when max_num_batched_tokens is
smaller than the model length that verl asks for, or truncates what it takes.

What it leaves alone: commands that set none of the three, and values that only the running shell knows.

Source: https://docs.vllm.ai/en/v0.8.5/serving/engine_args.html
"""

import re
from collections.abc import Iterator

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import Capability, Target

_LENGTHS = ("max_prompt_length", "max_response_length")
_SUM = re.compile(rb"max_num_batched_tokens=\$\(+\s*\w*max_prompt_length\s*\+\s*\w*max_response_length", re.IGNORECASE)


class BatchedTokens(Codemod):
    """See the module's docstring."""

    name = "batched-tokens"
    grade = "review"
    words = ("max_num_batched_tokens=",)
    trigger = r"max_num_batched_tokens=\S"
    when = "compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """It follows from vllm-prefill."""
        return target.capability < Capability(8, 0)

    def inspect(self, source: bytes, language: str, target: Target) -> Iterator[Edit]:
        """Add up the lengths of each command of a script."""
        if language != "shell" or _SUM.search(source):
            return
        from verl_legacy_patch.languages.shell.commands import commands

        for command in commands(source):
            values = {path.rpartition(".")[2]: word for path, word in command.values().items()}
            budget = values.get("max_num_batched_tokens")
            lengths = [values[name] for name in _LENGTHS if name in values]
            if budget is None or not budget.text.isdigit() or len(lengths) < 2:
                continue
            if all(word.text.isdigit() for word in lengths):
                needed = sum(int(word.text) for word in lengths)
                if int(budget.text) < needed:
                    reason = f"{budget.text} tokens, but prompt and response need {needed}: set at least that"
                    yield Edit(budget.span, self.name, "report", None, reason, self.grade)
