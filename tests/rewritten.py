"""Real releases, rewritten: the plan for one, made once, and the tree that it leaves."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from releases import release, sdist

from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.plan import Plan, make_plan
from verl_legacy_patch.target import make_target


def source(version: str, kind: str = "wheel") -> Path:
    """Return the unpacked release."""
    return release(version) if kind == "wheel" else sdist(version)


@cache
def plan_for(
    version: str, gpu: str | None = None, dtype: str | None = None, attn: str | None = None, kind: str = "wheel"
) -> Plan:
    """Return what all codemods would do to a release; a file that fails is a failed test."""
    return plan_of(source(version, kind), gpu, dtype, attn)


def plan_of(folder: Path, gpu: str | None = None, dtype: str | None = None, attn: str | None = None) -> Plan:
    """Return what all codemods would do to a tree."""
    plan = make_plan(open_checkout(folder), list(discover().values()), make_target(gpu, dtype, attn))
    assert not plan.problems
    return plan


def carry_out(plan: Plan, tree: Path) -> Path:
    """Write what a plan says into a copy of the tree it was made for."""
    for change in plan.changes:
        (tree / change.path).parent.mkdir(parents=True, exist_ok=True)
        (tree / change.path).write_bytes(change.after)
    return tree


def rewritten(version: str, folder: Path, kind: str = "wheel") -> Path:
    """Return a copy of a release in ``folder``, rewritten for the default target."""
    tree = folder / f"verl-{version}"
    shutil.copytree(source(version, kind), tree)
    return carry_out(plan_for(version, kind=kind), tree)
