"""The script that ``launch`` writes for a rewritten release trains; what is added is for a CPU and for toys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import runs, trees
from e2e.logs import ppo_problems, sft_problems

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
STEPS = {"grpo": 6, "ppo": 2, "sft": 8}
#: The learning rates and lengths of toys; a cluster for two cores; no files.
TOYS = {
    "rl": [
        "actor_rollout_ref.actor.optim.lr=1e-2",
        "critic.optim.lr=1e-3",
        f"custom_reward_function.path={runs.TOYS}/reward.py",
        "ray_init.num_cpus=4",
    ],
    "sft": ["optim.lr=2e-3", "data.num_workers=0"],
}
COMMON = ["trainer.total_epochs=50", "trainer.save_freq=-1", "trainer.test_freq=-1", "trainer.resume_mode=disable"]


def launch(tree: Path, machine: runs.Machine, script: Path, algorithm: str) -> str:
    """Write the script as a user does, and return what was said."""
    kind = "sft" if algorithm == "sft" else "rl"
    options = {
        "gpu": "p40",
        "algorithm": algorithm,
        "model": machine.model,
        "train": machine.data / f"{kind}_train.parquet",
        "val": machine.data / f"{kind}_val.parquet",
        "prompt-length": 64,
        "response-length": 64 if algorithm == "sft" else 16,
        "batch-size": 8,
        "output": script,
    }
    command = [sys.executable, "-m", "verl_legacy_patch", "launch", str(tree)]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "PYTHONPATH": str(trees.PROJECT), "LANG": "C", "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verl-patch apply" not in done.stderr  # the tree is rewritten
    return done.stderr


def started(script: Path, *more: str) -> list[str]:
    """Return the arguments of Python that run the script with itself as ``python3``."""
    code = (
        "import os, subprocess, sys; "
        "os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH']; "
        "sys.exit(subprocess.call(['bash', *sys.argv[1:]]))"
    )
    return ["-c", code, str(script), *more]


@pytest.mark.parametrize(("release", "algorithm"), [("0.4.1", "grpo"), ("0.5.0", "ppo"), ("0.9.0", "sft")])
def test_the_script_trains(release, algorithm, machine_for, record, tmp_path):
    machine, tree = machine_for(release), trees.make_tree(release, tmp_path / "verl", trees.FULL)
    script = tmp_path / "train.sh"
    said = launch(tree, machine, script, algorithm)
    cure = re.search(r"sed -i .*", said)
    assert bool(cure) == (release == "0.4.1")
    steps = STEPS[algorithm]
    more = [*TOYS["sft" if algorithm == "sft" else "rl"], *COMMON, f"trainer.total_training_steps={steps}"]
    if cure:
        refused = runs.run(f"{release} launch, not cured", machine, tree, started(script, *more))
        assert refused.code == 1 and "needs one line first" in refused.log and not refused.steps, refused.tail()
        subprocess.run(["bash", "-c", cure[0]], check=True)
    outcome = runs.run(f"{release} {algorithm} by launch", machine, tree, started(script, *more))
    record(outcome)
    if algorithm == "sft":
        assert sft_problems(outcome, steps) == [], outcome.tail()
    else:
        assert ppo_problems(outcome, steps, reward_rises=algorithm == "grpo") == [], outcome.tail()
