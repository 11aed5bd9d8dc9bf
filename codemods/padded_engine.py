"""Report verl 0.7's new engine workers with padding: they build a wrong attention mask.

What it does: nothing is rewritten. Where trainer.use_legacy_worker_impl is set to disable, the place is listed.

Why: with packing off, which is what verl-patch chooses, padded PPO on the new engine workers of v0.7.1 computes with a
wrong mask. The default path (the legacy workers) is right.

What it leaves alone: the default, and releases without the switch.

Source: https://github.com/volcengine/verl/blob/v0.7.1/verl/trainer/config/ppo_trainer.yaml
"""

from verl_legacy_patch.codemod import ReportCodemod, Rule

KEY = r"use_legacy_worker_impl"


class PaddedEngine(ReportCodemod):
    """See the module's docstring."""

    name = "padded-engine"
    grade = "review"
    words = (KEY,)
    reach = 2
    trigger = rf"{KEY}[\"']?\s*[=:]\s*[\"']?(?:\$\{{?\w+:?[-=])?[\"']?disable"
    when = "with attention that is not flash"
    rules = (
        Rule(KEY, r"disable", "padded samples get a wrong mask on these workers: leave the default, which is auto"),
    )
