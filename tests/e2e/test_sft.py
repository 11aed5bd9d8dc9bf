"""Supervised fine-tuning: the published release fails as users report, the rewritten one trains."""

from __future__ import annotations

import pytest

from e2e import runs, trees
from e2e.logs import sft_problems

pytestmark = pytest.mark.e2e
STEPS = 8
#: Release -> the error with which its original stops.
RELEASES = {"0.4.1": "no-flash-attn", "0.5.0": "no-flash-attn", "0.9.0": "flash-attention-2"}


@pytest.mark.parametrize("release", RELEASES)
def test_original_fails_as_users_report(release, machine_for, tree_for, record, tmp_path):
    machine, tree = machine_for(release), tree_for(release, trees.BASE)
    outcome = runs.run(f"{release} sft original", machine, tree, runs.sft(machine, tree, tmp_path, steps=STEPS))
    record(outcome)
    assert outcome.code != 0
    assert outcome.reported[:1] == [RELEASES[release]], outcome.tail()
    assert not outcome.steps


@pytest.mark.parametrize("strategy", ["fsdp2", "fsdp"])
@pytest.mark.parametrize("release", RELEASES)
def test_patched_trains(release, strategy, machine_for, tree_for, record, tmp_path):
    machine, tree = machine_for(release), tree_for(release, trees.FULL)
    arguments = runs.sft(machine, tree, tmp_path, steps=STEPS, strategy=strategy)
    outcome = runs.run(f"{release} sft {strategy} patched", machine, tree, arguments)
    record(outcome)
    assert sft_problems(outcome, STEPS) == [], outcome.tail()
