"""Packing without flash attention: refused where it would be wrong, right where it is allowed.

The leak gives no error and finite losses. What shows it is that log-probabilities which must be the same are not:
``actor/kl_loss`` of the first step and ``actor/ppo_kl`` of every step.
"""

from __future__ import annotations

import pytest

from e2e import runs, trees
from e2e.cases import by_release
from e2e.logs import ppo_problems

pytestmark = pytest.mark.e2e
PACK = ["actor_rollout_ref.model.use_remove_padding=True", "critic.model.use_remove_padding=True"]


def train(release, options, name, machine_for, tree_for, tmp_path):
    machine, tree = machine_for(release), tree_for(release, options)
    arguments = [*runs.ppo(machine, tree, tmp_path, steps=2), *PACK]
    return runs.run(f"{release} grpo packed {name}", machine, tree, arguments)


@by_release(dict.fromkeys(("0.4.1", "0.5.0")))
def test_guard_refuses_old_transformers(release, expected, machine_for, tree_for, record, tmp_path):
    outcome = train(release, trees.FULL, "patched", machine_for, tree_for, tmp_path)
    record(outcome)
    assert outcome.code != 0
    assert outcome.reported[:1] == ["packing-guard"], outcome.tail()
    assert "actor_rollout_ref.model.use_remove_padding=False" in outcome.log
    assert not outcome.steps


@pytest.mark.slow
def test_leak_is_silent_and_the_checks_catch_it(machine_for, tree_for, record, tmp_path):
    outcome = train("0.4.1", trees.without("packing-guard"), "without guard", machine_for, tree_for, tmp_path)
    record(outcome)
    assert outcome.code == 0 and len(outcome.steps) == 2, outcome.tail()
    problems = ppo_problems(outcome, 2, reward_rises=False)
    assert any("kl_loss" in problem for problem in problems), problems
    assert any("ppo_kl" in problem for problem in problems), problems


@pytest.mark.slow
def test_new_transformers_keeps_samples_apart(machine_for, tree_for, record, tmp_path):
    outcome = train("0.9.0", trees.FULL, "patched", machine_for, tree_for, tmp_path)
    record(outcome)
    assert ppo_problems(outcome, 2, reward_rises=False) == [], outcome.tail()
    assert max(outcome.series("training/rollout_probs_diff_max")) < 1e-4
