"""Fixtures: the environment of a release, its trees, and a table of what was run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import trees
from e2e.logs import Outcome
from e2e.pins import TABLE
from e2e.runs import TOYS, Machine
from e2e.venvs import python_for

OUTCOMES: list[Outcome] = []


@pytest.fixture(scope="session")
def machine_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Machine]:
    """Return a function: release -> its environment with model and data, each made once."""
    made: dict[str, Machine] = {}

    def machine(release: str) -> Machine:
        name = TABLE[release].name
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            ready = Machine(python_for(release), folder / "model", folder / "data")
            for script, target in (("model", ready.model), ("data", ready.data)):
                subprocess.run([ready.python, TOYS / f"{script}.py", target], check=True, capture_output=True)
            made[name] = ready
        return made[name]

    return machine


@pytest.fixture(scope="session")
def tree_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, tuple[str, ...] | None], Path]:
    """Return a function: release, options of verl-patch -> tree, each made once."""
    made: dict[tuple[str, tuple[str, ...] | None], Path] = {}

    def tree(release: str, options: tuple[str, ...] | None) -> Path:
        key = (release, options)
        if key not in made:
            made[key] = trees.make_tree(release, tmp_path_factory.mktemp("tree") / f"verl-{release}", options)
        return made[key]

    return tree


@pytest.fixture
def record() -> Callable[[Outcome], None]:
    """Return a function that puts a run into the table at the end, and its log beside the other logs."""

    def add(outcome: Outcome) -> None:
        OUTCOMES.append(outcome)
        folder = os.environ.get("VERL_PATCH_E2E_LOGS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.+-]+", "-", outcome.name)[:100]
            (Path(folder) / f"{name}.log").write_text(outcome.log)

    return add


def pytest_configure(config: pytest.Config) -> None:
    """Declare what ``run quick`` leaves out."""
    config.addinivalue_line("markers", "slow: not part of `tests/e2e/run quick`")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one row per run, as Markdown: README.md's table is made of these."""
    for outcome in OUTCOMES:
        terminalreporter.write_line(f"| {outcome.name} | {_result(outcome)} | {outcome.seconds:.0f} s |")


def _result(outcome: Outcome) -> str:
    if outcome.code:
        return f"stops after {len(outcome.steps)} steps: {outcome.error}"
    figures = []
    for metric in ("train/loss", "critic/score/mean", "critic/vf_loss", "actor/kl_loss"):
        if values := outcome.series(metric):
            figures.append(f"{metric} {values[0]:.3f} to {values[-1]:.3f}")
    for metric in ("actor/ppo_kl", "training/rollout_probs_diff_max"):
        if values := outcome.series(metric):
            figures.append(f"{metric} at most {max(map(abs, values)):.1e}")
    steps = f"{len(outcome.steps)} steps: " if outcome.steps else "done"
    return steps + ", ".join(figures)
