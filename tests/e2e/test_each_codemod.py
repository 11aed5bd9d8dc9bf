"""Each codemod that a run needs is needed: with all of them it works, without that one it fails, and for its reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import runs, trees
from e2e.logs import Outcome, ppo_problems, sft_problems

pytestmark = pytest.mark.e2e

Arguments = Callable[[runs.Machine, Path, Path], list[str]]
PACK = "actor_rollout_ref.model.use_remove_padding=True"
#: Megatron itself cannot run on such a card. Its configuration classes are imported, and composed, by every run.
MEGATRON = "from verl.workers.config.engine import McoreEngineConfig; print(McoreEngineConfig().dtype)"


@dataclass(frozen=True)
class Case:
    """A run that works with all codemods, and what is seen of it without one of them."""

    release: str
    arguments: Arguments
    problems: Callable[[Outcome], list[str]]
    #: The name of a reported error, or a part of a problem that ``problems`` returns.
    without: str
    flash: str = "absent"


def sft(machine: runs.Machine, tree: Path, output: Path) -> list[str]:
    return runs.sft(machine, tree, output)


def grpo(machine: runs.Machine, tree: Path, output: Path) -> list[str]:
    return runs.ppo(machine, tree, output, steps=2)


def grpo_packed(machine: runs.Machine, tree: Path, output: Path) -> list[str]:
    return [*grpo(machine, tree, output), PACK]


def script(machine: runs.Machine, tree: Path, output: Path) -> list[str]:
    """Start the launch script that lies in every tree, and was rewritten with it."""
    names = {"MODEL": machine.model, "DATA": machine.data, "REWARD": runs.TOYS / "reward.py", "OUTPUT": output}
    code = (
        "import os, subprocess, sys; os.environ.update(%r); "
        "os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH']; "
        "sys.exit(subprocess.call(['bash', %r]))"
    )
    return ["-c", code % ({name: str(path) for name, path in names.items()}, str(tree / trees.SCRIPT))]


def exits(outcome: Outcome) -> list[str]:
    return [f"exit code {outcome.code}: {outcome.error}"] if outcome.code else []


def learns(outcome: Outcome) -> list[str]:
    return sft_problems(outcome, 8)


def agrees(outcome: Outcome) -> list[str]:
    return ppo_problems(outcome, 2, reward_rises=False)


CASES = {
    "attention": Case("0.4.1", sft, learns, "flash-attention-2"),
    "dtype": Case("0.4.1", sft, learns, "bf16"),
    "flash-attn-import": Case("0.4.1", sft, learns, "no-flash-attn"),
    # only a machine that has flash-attn's wheel takes its cross entropy
    "flash-attn-cross-entropy": Case("0.4.1", grpo, agrees, "triton", flash="installed"),
    # the script asks for packing; left alone, the guard stops it
    "remove-padding": Case("0.4.1", script, agrees, "packing-guard"),
    # compiled functions are called for packed batches only
    "torch-compile": Case("0.9.0", grpo_packed, agrees, "triton"),
    "dtype-allowlist": Case(
        "0.9.0", lambda machine, tree, output: ["-c", MEGATRON], exits, "AssertionError: dtype float32 not supported"
    ),
}
#: What no run here can show, and why.
NOT_SHOWN = {
    "packing-guard": "without it nothing fails: test_packing.py and test_logprobs.py show what it prevents",
    "vllm-prefill": "only vLLM reads it",
    "vllm-enforce-eager": "only vLLM reads it",
    "fused-kernels": "its Triton kernels need Triton, which a CPU does not have",
}
QUICK = ("attention", "dtype", "flash-attn-import")
PARAMETERS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name) for name in CASES]


def run(name, case, options, machine_for, tree_for, tmp_path):
    machine, tree = machine_for(case.release), tree_for(case.release, options)
    return runs.run(f"{case.release} {name}", machine, tree, case.arguments(machine, tree, tmp_path), flash=case.flash)


@pytest.mark.parametrize("codemod", PARAMETERS)
def test_without_it_the_run_fails(codemod, machine_for, tree_for, record, tmp_path):
    case = CASES[codemod]
    name = f"{case.arguments.__name__.strip('<>')} without {codemod}"
    outcome = run(name, case, trees.without(codemod), machine_for, tree_for, tmp_path)
    record(outcome)
    problems = case.problems(outcome)
    assert problems
    if " " in case.without:
        assert any(case.without in problem for problem in problems), problems
    else:
        assert outcome.reported[:1] == [case.without], outcome.tail()


@pytest.mark.slow
@pytest.mark.parametrize("codemod", ["flash-attn-cross-entropy", "remove-padding", "dtype-allowlist"])
def test_with_all_of_them_it_works(codemod, machine_for, tree_for, record, tmp_path):
    """The other cases are runs that other tests do with all codemods."""
    case = CASES[codemod]
    outcome = run(f"the run of {codemod}, patched", case, trees.FULL, machine_for, tree_for, tmp_path)
    record(outcome)
    assert case.problems(outcome) == [], outcome.tail()


def test_every_codemod_that_rewrites_is_in_a_table(tree_for):
    """A codemod that only reports has nothing that could be missing from a run."""
    rewriting = set()
    for release in ("0.4.1", "0.9.0"):
        tree = tree_for(release, trees.BASE)
        command = [sys.executable, "-m", "verl_legacy_patch", "apply", "--dry-run", "--format", "json", str(tree)]
        environment = {**os.environ, "PYTHONPATH": str(trees.PROJECT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        rewriting |= {site["codemod"] for site in json.loads(done.stdout)["sites"] if site["action"] == "rewrite"}
    assert rewriting <= CASES.keys() | NOT_SHOWN.keys()
    assert not CASES.keys() & NOT_SHOWN.keys()
