"""Source trees of a release: as published, and rewritten by verl-patch with one selection of codemods."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from releases import sdist

PROJECT = Path(__file__).parents[2]

#: A launch script that is put into every tree before it is rewritten: the source distributions have none.
SCRIPT = Path("examples/grpo_trainer/run_toy.sh")

#: The whole tree as published; what the patch does by default; what many recipes do: the two obvious replacements.
BASE = None
FULL: tuple[str, ...] = ()
DTYPE_AND_ATTENTION = ("--select", "dtype,attention")


def without(codemod: str) -> tuple[str, ...]:
    """Return the options for everything but one codemod."""
    return ("--ignore", codemod)


def make_tree(release: str, folder: Path, options: tuple[str, ...] | None) -> Path:
    """Copy a release into a folder, and rewrite it in place unless ``options`` is BASE.

    ``VERL_PATCH_VERL_REPO``, a clone of verl, is used instead of the source distribution where it is set: only the
    repository has all of verl's own tests.
    """
    clone = os.environ.get("VERL_PATCH_VERL_REPO")
    if clone:
        subprocess.run(["git", "clone", "--quiet", "--branch", f"v{release}", clone, folder], check=True)
        shutil.rmtree(folder / ".git")
    else:
        shutil.copytree(sdist(release), folder)
    (folder / SCRIPT).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).parent / "toys" / "run_grpo.sh", folder / SCRIPT)
    if options is not BASE:
        patch(folder, options)
    return folder


def patch(tree: Path, options: tuple[str, ...]) -> None:
    """Run verl-patch on a tree, for a P40."""
    command = [sys.executable, "-m", "verl_legacy_patch", "apply", "--in-place", "--gpu", "p40", *options, str(tree)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
