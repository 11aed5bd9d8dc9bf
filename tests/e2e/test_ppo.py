"""GRPO and PPO: the published release fails as users report, the rewritten one trains on right log-probabilities."""

from __future__ import annotations

import pytest

from e2e import runs, trees
from e2e.logs import ppo_problems

pytestmark = pytest.mark.e2e
#: Release -> the error with which its original stops.
RELEASES = {"0.4.1": "no-flash-attn", "0.5.0": "no-flash-attn", "0.9.0": "flash-attention-2"}
#: Steps until the reward has moved; 0.9.0 takes 8 s for each.
STEPS = 6


@pytest.mark.parametrize("release", RELEASES)
def test_original_grpo_fails_as_users_report(release, machine_for, tree_for, record, tmp_path):
    machine, tree = machine_for(release), tree_for(release, trees.BASE)
    outcome = runs.run(f"{release} grpo original", machine, tree, runs.ppo(machine, tree, tmp_path, steps=STEPS))
    record(outcome)
    assert outcome.code != 0
    assert outcome.reported[:1] == [RELEASES[release]], outcome.tail()
    assert not outcome.steps


@pytest.mark.parametrize("release", RELEASES)
def test_patched_grpo_trains(release, machine_for, tree_for, record, tmp_path):
    machine, tree = machine_for(release), tree_for(release, trees.FULL)
    outcome = runs.run(f"{release} grpo patched", machine, tree, runs.ppo(machine, tree, tmp_path, steps=STEPS))
    record(outcome)
    assert ppo_problems(outcome, STEPS, reward_rises=True) == [], outcome.tail()


@pytest.mark.parametrize("release", RELEASES)
def test_patched_ppo_trains_with_a_critic(release, machine_for, tree_for, record, tmp_path):
    machine, tree = machine_for(release), tree_for(release, trees.FULL)
    arguments = runs.ppo(machine, tree, tmp_path, steps=2, algorithm="gae")
    outcome = runs.run(f"{release} ppo patched", machine, tree, arguments)
    record(outcome)
    assert ppo_problems(outcome, 2, reward_rises=False) == [], outcome.tail()
    assert len(outcome.series("critic/vf_loss")) == 2
