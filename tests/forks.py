"""Forks of the miniature verl, with the real git and the real pre-commit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from minis import PROJECT, Ran, Verl, make_mini
from repos import git

#: A file with one place left, and the same after a rewrite.
LEFT = "import torch\n\nDTYPE = dict(dtype=torch.bfloat16)\n"
RIGHT = LEFT.replace("bfloat16", "float32")
#: What ``check`` says of it in verl/a.py.
LINE = "verl/a.py:3:20 dtype torch.bfloat16 -> torch.float32\n"


@pytest.fixture
def done(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verl: Verl) -> Path:
    """Return a fork without a place left, which is the current folder."""
    root = make_mini(tmp_path / "fork")
    assert verl("check", "--fix", root).code == 1
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "rewritten")
    monkeypatch.chdir(root)
    return root


def hooks() -> list[dict[str, Any]]:
    """Return the hooks that this project offers."""
    loaded = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
    assert isinstance(loaded, list)
    return loaded


def local_hook(name: str = "verl-patch") -> dict[str, Any]:
    """Return a hook with all of its real settings, run from this tree: no environment has to be installed."""
    hook = next(each for each in hooks() if each["id"] == name)
    command = hook["entry"].removeprefix("verl-patch ")
    entry = f"env PYTHONPATH={PROJECT} {sys.executable} -m verl_legacy_patch {command}"
    return {**hook, "entry": entry, "language": "system"}


def install(fork: Path, *repos: dict[str, Any], types: Sequence[str] = ("pre-commit",)) -> None:
    """Give a fork a pre-commit configuration, committed, and install the git hooks."""
    chosen = list(repos) or [{"repo": "local", "hooks": [local_hook()]}]
    (fork / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": chosen}))
    git(fork, "add", ".pre-commit-config.yaml")
    git(fork, "commit", "-q", "-m", "hooks")
    pre_commit(fork, "install", *(f"--hook-type={each}" for each in types))


def pre_commit(fork: Path, *arguments: str) -> Ran:
    """Run pre-commit in a fork."""
    return _run([sys.executable, "-m", "pre_commit", *arguments], fork)


def try_git(fork: Path, *arguments: str | Path, **env: str) -> Ran:
    """Run a git command that may be refused by a hook."""
    return _run(["git", *map(str, arguments)], fork, **env)


def _run(command: Sequence[str], cwd: Path, **env: str) -> Ran:
    variables = {**os.environ, "PRE_COMMIT_COLOR": "never", "GIT_EDITOR": "true", **env}
    done = subprocess.run(command, cwd=cwd, capture_output=True, env=variables, timeout=120, check=False)
    return Ran(done.returncode, done.stdout, (done.stdout + done.stderr).decode("utf-8", "replace"))
