"""Reads what a run printed: did it train, and if not, with which error did it stop?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

#: Errors that users of such cards post, by the name that the tests use for them. What is not in this table is another
#: failure, and a failing original must not count as proof then.
REPORTED = {
    "bf16": "Bfloat16 is only supported on GPUs with compute capability of at least 8.0",
    "no-flash-attn": "No module named 'flash_attn'",
    "flash-attention-2": "FlashAttention2 has been toggled on, but it cannot be used",
    "flash-on-cpu": "Flash Attention 2 is not available on CPU",
    "ampere": "FlashAttention only supports Ampere GPUs or newer",
    "triton": "too old to be supported by the triton GPU compiler",
    "value-head": "is not a value head model",
    "packing-guard": "use_remove_padding packs samples into one row",
}

_STEP = re.compile(r"\bstep:(\d+) - (.*)")
_PAIR = re.compile(r"(\S+?):(?:np\.\w+\()?([-+.\deE]+|nan|inf|-inf)\)?(?:\s|$)")
_ERROR = re.compile(r"((?:\w+\.)*\w*(?:Error|Exception)(?:\(\w+\))?: .+)")


@dataclass
class Outcome:
    """What came out of one run."""

    name: str
    code: int
    seconds: float
    log: str = field(repr=False)

    @property
    def steps(self) -> list[dict[str, float]]:
        """Return the metrics of each training step that was logged."""
        found = []
        for number, rest in _STEP.findall(self.log):
            metrics = {key: float(value) for key, value in _PAIR.findall(rest)}
            found.append({"step": float(number), **metrics})
        return [step for step in found if "train/loss" in step or "actor/pg_loss" in step]

    @property
    def reported(self) -> list[str]:
        """Return the names of the errors of REPORTED that the log has, in the order of the log."""
        places = {name: self.log.find(text) for name, text in REPORTED.items()}
        return sorted((name for name, place in places.items() if place >= 0), key=lambda name: places[name])

    @property
    def error(self) -> str:
        """Return the last error line, without Ray's wrapping."""
        lines = [line for line in _ERROR.findall(self.log) if "RayTaskError" not in line and "ChildFailed" not in line]
        return lines[-1].strip()[:400] if lines else ""

    def series(self, metric: str) -> list[float]:
        """Return one metric over the steps."""
        return [step[metric] for step in self.steps if metric in step]

    def tail(self, lines: int = 40) -> str:
        """Return the end of the log for a failing test."""
        return "\n".join(self.log.splitlines()[-lines:])


def sft_problems(outcome: Outcome, steps: int) -> list[str]:
    """Return why an SFT run did not train; empty when it did."""
    losses = outcome.series("train/loss")
    problems = _unfinished(outcome, len(losses), steps)
    if losses and not all(map(math.isfinite, losses)):
        problems.append(f"losses are not finite: {losses}")
    elif losses and losses[-1] > 0.9 * losses[0]:
        problems.append(f"the loss does not fall: {losses}")
    return problems


def ppo_problems(outcome: Outcome, steps: int, *, reward_rises: bool) -> list[str]:
    """Return why a GRPO or PPO run did not train, or trained on wrong log-probabilities; empty when all is well.

    The last is what nothing else shows: when packed samples attend to each other, no error comes up, and all losses
    are finite. But at step 1 the reference model is the actor, so ``kl_loss`` must be 0; with one minibatch per batch
    old and new log-probabilities are the same, so ``ppo_kl`` must be 0 in every step.
    """
    rows = outcome.steps
    problems = _unfinished(outcome, len(rows), steps)
    if not rows:
        return problems
    for row in rows:
        for key in ("actor/pg_loss", "actor/entropy", "actor/grad_norm", "critic/vf_loss", "critic/grad_norm"):
            if not math.isfinite(row.get(key, 0.0)):
                problems.append(f"step {row['step']:.0f}: {key} is {row[key]}")
        if abs(row.get("actor/ppo_kl", 0.0)) > 1e-3:
            problems.append(f"step {row['step']:.0f}: ppo_kl is {row['actor/ppo_kl']}, old and new log-probs disagree")
        difference = row.get("training/rollout_probs_diff_max", 0.0)
        if difference > 1e-2:
            problems.append(f"step {row['step']:.0f}: rollout and actor disagree by {difference}")
    if abs(rows[0].get("actor/kl_loss", 0.0)) > 1e-4:
        problems.append(f"step 1: kl_loss is {rows[0]['actor/kl_loss']}, but the reference is the actor")
    if not rows[0].get("actor/grad_norm", 0.0) > 0:
        problems.append("step 1: the gradient is zero")
    rewards = outcome.series("critic/score/mean")
    if reward_rises and not sum(rewards[-2:]) / 2 > rewards[0] + 0.05:
        problems.append(f"the reward does not rise: {rewards}")
    return problems


def _unfinished(outcome: Outcome, found: int, wanted: int) -> list[str]:
    problems = []
    if outcome.code:
        problems.append(f"exit code {outcome.code}: {outcome.error}")
    if found < wanted:
        problems.append(f"{found} steps were logged, {wanted} wanted")
    return problems
