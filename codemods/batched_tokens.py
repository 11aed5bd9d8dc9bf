"""Report launch commands whose token budget is too small once chunked prefill is off.

What it does: nothing is rewritten. A command whose max_num_batched_tokens (verl's default is 8192) is below
max_prompt_length + max_response_length is listed with the numbers.

Why: without chunked prefill a prompt has to fit into one batch: vLLM refuses to start when max_num_batched_tokens is
smaller than the model length that verl asks for, "This effectively limits the maximum sequence length".

What it leaves alone: commands that set no lengths, lengths that only the running shell knows, commands for other
engines and trainers than vLLM and FSDP, which are reported as such, and releases that raise the budget themselves.

Source: https://docs.vllm.ai/en/v0.8.5/serving/engine_args.html and https://github.com/verl-project/verl/pull/7632
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import backend
from verl_legacy_patch.setting import Edit, Site
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.languages.shell.commands import Word

BUDGET, DEFAULT = "max_num_batched_tokens", 8192
#: Names of a length in Hydra, longest form last: the last one given counts.
_PROMPT = ("data.max_prompt_length", "rollout.prompt_length")
_RESPONSE = ("data.max_response_length", "rollout.response_length")
_NAMES = (b"prompt_length", b"response_length")
_OTHER_ENGINE = lazy(r"sglang|trtllm|hf|naive")
#: One of two lengths has to be above half of the default for their sum to be above it.
_LONG = r"(?:409[7-9]|4[1-9]\d\d|[5-9]\d{3}|\d{5,})\b"
#: What the server that does it also speaks of, and the statement.
_SERVER, _RAISES = b"enable_chunked_prefill", b"config.max_num_batched_tokens = self.config.max_model_len"
_SUM = lazy(
    rb"max_num_batched_tokens=[\"']?\$\(+\s*\$?\{?\w*prompt_length\}?\s*\+\s*\$?\{?\w*response_length", re.IGNORECASE
)


class BatchedTokens(Codemod):
    """See the module's docstring."""

    name = "batched-tokens"
    grade = "review"
    does = "reports"
    languages = ("shell", "yaml", "json")
    words = (f"{BUDGET}=", "max_response_length=")
    # the usual way to write the budget is the sum of both, and 1024 * 4 is not long
    trigger = (
        rf"{BUDGET}=(?![\"']?\$\(\(\s*\$?\{{?\w*prompt_length\}}?\s*\+\s*\$?\{{?\w*response_length)\S"
        rf"|max_(?:prompt|response)_length=[\"']?(?:\$\{{\w+:?[-=])?[\"']?"
        rf"(?:{_LONG}|\$\(\((?!\s*1024\s*\*\s*[1-4]\s*\)\))|\$\{{?(?!max_)\w)"
    )
    when = "with compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """It follows from vllm-prefill."""
        return target.capability < Capability(8, 0)

    def inspect(self, source: bytes, language: str, target: Target) -> Iterator[Edit]:
        """Add up the lengths of each command of a script."""
        if language != "shell" or _SUM.search(source) or _plainly_enough(source):
            return
        from verl_legacy_patch.languages.shell.commands import commands

        for command in commands(source, leave_out=backend):
            values = command.values()
            lengths = [_given(values, names) for names in (_PROMPT, _RESPONSE)]
            prompt, response = (int(word.text) if word and word.text.isdigit() else 0 for word in lengths)
            if not (prompt and response) or _not_ours(values):
                continue
            budget, model = _given(values, (BUDGET,)), _given(values, ("max_model_len",))
            needed = int(model.text) if model and model.text.isdigit() else prompt + response
            if budget is None and lengths[1] is not None and needed > DEFAULT:
                reason = f"prompt and response need {needed} tokens, the default budget is {DEFAULT}"
                reason += f": add actor_rollout_ref.rollout.{BUDGET}={needed}"
                yield Edit(lengths[1].span, self.name, "report", None, reason, self.grade)
            elif budget is not None and budget.text.isdigit() and int(budget.text) < needed:
                reason = f"{budget.text} tokens, but prompt and response need {needed}: set at least that"
                yield Edit(budget.span, self.name, "report", None, reason, self.grade)

    def settle(self, sites: list[Site], checkout: "Checkout") -> list[Site]:
        """Drop the rows where verl raises a budget that is too small by itself, as v0.9.1 does."""
        if not any(site.action == "report" for site in sites):
            return sites
        raises = any(_RAISES in content for content in checkout.code([_SERVER]))
        return [site for site in sites if site.action != "report"] if raises else sites


def _plainly_enough(source: bytes) -> bool:
    """Return whether numbers alone show that the budget suffices, which saves reading the script as the shell does."""
    written = [re.findall(rb"max_%s=(\S+)" % name, source) for name in (b"num_batched_tokens", *_NAMES)]
    plain = [[text.strip(b"\"'\\") for text in texts] for texts in written]
    if b"max_model_len" in source or not all(text.isdigit() for texts in plain for text in texts):
        return False
    budgets, prompts, responses = ([*map(int, texts)] for texts in plain)
    return max(prompts, default=0) + max(responses, default=0) <= min(budgets, default=DEFAULT)


def _given(values: "Mapping[str, Word]", names: tuple[str, ...]) -> "Word | None":
    """Return what the command sets one of the keys to, whatever stands before it."""
    found = [word for key, word in values.items() if any(key == name or key.endswith("." + name) for name in names)]
    return found[-1] if found else None


def _not_ours(values: "Mapping[str, Word]") -> bool:
    """Return whether the command runs another engine than vLLM or another trainer than FSDP."""
    engine = _given(values, ("rollout.name",))
    if engine is not None and _OTHER_ENGINE.fullmatch(engine.text.lower()):
        return True
    selects = ("config_name", "strategy", "model_engine")
    return any(
        backend(key) or (key.rpartition(".")[2] in selects and backend(word.text)) for key, word in values.items()
    )
