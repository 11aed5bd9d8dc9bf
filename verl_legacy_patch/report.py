"""What a plan says to programs: patch and JSON. What it says to people is in ``summary``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from verl_legacy_patch import __version__
from verl_legacy_patch.diff import CONTEXT, file_patch
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.setting import Site

#: Version of the JSON, which ``schema/plan-1.json`` describes.
FORMAT = 1


class About(NamedTuple):
    """The checkout that a report is about."""

    path: str
    verl_version: str | None
    base: str | None
    branch: str | None = None


def patch(plan: Plan, context: int = CONTEXT) -> Iterator[bytes]:
    """Yield the patch of each changed file, as ``git apply`` takes it."""
    for change in plan.changes:
        yield file_patch(change.path, change.before, change.after, change.edits, change.mode, context)


def as_json(plan: Plan, about: About) -> dict[str, Any]:
    """Return the plan as JSON data; the shape is part of the contract with other tools."""
    capability = str(plan.target.capability)
    return {
        "format": FORMAT,
        "version": __version__,
        "verl_version": about.verl_version,
        "base": about.base,
        "target": {
            "dtype": plan.target.dtype,
            "attn": plan.target.attn,
            "gpu": plan.target.gpu,
            "compute_capability": capability,
        },
        "notes": list(plan.target.notes),
        "sites": [site._asdict() for site in plan.sites],
        "files": [{"path": change.path, "status": change.status} for change in plan.changes],
        "summary": {
            "files_read": plan.files_read,
            "files_changed": len(plan.changes),
            "rewrite": _count(plan.sites, "rewrite"),
            "keep": _count(plan.sites, "keep"),
            "report": _count(plan.sites, "report"),
            "skipped": [problem._asdict() for problem in plan.problems],
        },
    }


def _count(sites: Sequence[Site], action: str) -> int:
    return sum(site.action == action for site in sites)
