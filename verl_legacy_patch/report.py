"""What a plan says to people and to programs: patch, JSON, summary, commit message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verl_legacy_patch import __version__
from verl_legacy_patch.diff import CONTEXT, file_patch
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.setting import Site

SUBJECT = "Choose {dtype} and {attn} attention for GPUs without bfloat16"
_LISTED = 12  # rows of a list in the summary; all of them are in the JSON


@dataclass(frozen=True, slots=True)
class About:
    """The checkout that a report is about."""

    path: str
    verl_version: str | None
    base: str | None


def patch(plan: Plan, context: int = CONTEXT) -> Iterator[bytes]:
    """Yield the patch of each changed file, as ``git apply`` takes it."""
    for change in plan.changes:
        yield file_patch(change.path, change.before, change.after, change.edits, change.mode, context)


def as_json(plan: Plan, about: About) -> dict[str, Any]:
    """Return the plan as JSON data; the shape is part of the contract with other tools."""
    capability = str(plan.target.capability)
    return {
        "version": __version__,
        "verl_version": about.verl_version,
        "base": about.base,
        "target": {
            "dtype": plan.target.dtype,
            "attn": plan.target.attn,
            "gpu": plan.target.gpu,
            "compute_capability": capability,
        },
        "sites": [asdict(site) for site in plan.sites],
        "files": [{"path": change.path, "status": change.status} for change in plan.changes],
        "problems": [problem._asdict() for problem in plan.problems],
        "summary": {
            "files_read": plan.files_read,
            "files_changed": len(plan.changes),
            "rewrite": _count(plan.sites, "rewrite"),
            "keep": _count(plan.sites, "keep"),
            "report": _count(plan.sites, "report"),
        },
    }


def summary(plan: Plan, about: About) -> list[str]:
    """Return the lines of the end summary: what changes, what needs a person, what was left alone and why."""
    base = f" at {about.base[:10]}" if about.base else ""
    verl = f"verl {about.verl_version}" if about.verl_version else "this checkout"
    rewritten = plan.rewritten()
    lines = [f"{verl}{base} for {plan.target}", ""]
    if rewritten:
        added = sum(change.status == "added" for change in plan.changes)
        new = f" ({added} new)" if added else ""
        lines.append(f"{_number(len(rewritten), 'place')} in {_number(len(plan.changes), 'file')}{new}:")
        lines += [f"  {row}" for row in _by_codemod(plan)]
    else:
        lines.append("Nothing to rewrite: no place is left that chooses what this GPU cannot do.")
    review = [site for site in rewritten if site.grade == "review"]
    lines += _list("Review these: they change behaviour, not only precision", review, plan)
    lines += _list("Look at these: not rewritten, a person has to decide", _only(plan.sites, "report"), plan)
    kept = list(_only(plan.sites, "keep"))
    if kept:
        lines += ["", f"Left alone, {_number(len(kept), 'row')}:"]
        files: dict[str, set[str]] = {}
        counts = Counter(_reason(site) for site in kept)
        for site in kept:
            files.setdefault(_reason(site), set()).add(site.path)
        for reason, count in counts.most_common():
            lines.append(f"  {count:4}  {reason} ({_number(len(files[reason]), 'file')})")
    return lines


def commit_message(plan: Plan, about: About) -> str:
    """Return the message of the patch commit: what, why, what to review, and the trailers that find it again."""
    subject = SUBJECT.format(dtype=plan.target.dtype, attn=plan.target.attn)
    lines = [
        subject,
        "",
        f"Rewritten by verl-patch {__version__} for compute capability {plan.target.capability}:",
        "",
    ]
    lines += [f"  {row}" for row in _by_codemod(plan)]
    for title, sites in (
        ("Please review, these change behaviour:", [s for s in plan.rewritten() if s.grade == "review"]),
        ("Not rewritten, a person has to decide:", list(_only(plan.sites, "report"))),
    ):
        if sites:
            lines += ["", title, ""] + [
                f"  {site.path}:{site.line} {site.codemod} {site.reason}".rstrip() for site in sites
            ]
    lines += [
        "",
        f"Verl-Patch-Version: {__version__}",
        f"Verl-Patch-Target: {plan.target.dtype} {plan.target.attn} {plan.target.capability}",
    ]
    if about.base:
        lines.append(f"Verl-Patch-Base: {about.base}")
    return "\n".join(lines) + "\n"


def _by_codemod(plan: Plan) -> Iterator[str]:
    sites, files = Counter[str](), {codemod.name: set[str]() for codemod in plan.codemods}
    for site in plan.rewritten():
        sites[site.codemod] += 1
        files[site.codemod].add(site.path)
    width = max((len(name) for name in sites), default=0)
    for codemod in plan.codemods:
        if count := sites[codemod.name]:
            grade = " (review)" if codemod.grade == "review" else ""
            where = _number(len(files[codemod.name]), "file")
            yield f"{codemod.name:{width}} {count:4} in {where:9} {codemod.summary()}{grade}"


def _list(title: str, sites: Iterable[Site], plan: Plan) -> list[str]:
    rows = list(sites)
    if not rows:
        return []
    lines = ["", f"{title} ({len(rows)}):"]
    for site in rows[:_LISTED]:
        change = (
            f"{_short(site.before)} -> {_short(site.after or '')}" if site.action == "rewrite" else _short(site.before)
        )
        lines.append(f"  {site.path}:{site.line}:{site.column} {site.codemod}: {change}  {site.reason}".rstrip())
    if len(rows) > _LISTED:
        lines.append(f"  … and {len(rows) - _LISTED} more (all of them: --format json)")
    return lines


def _reason(site: Site) -> str:
    """Return the reason without its count, so that equal ones add up."""
    text = site.reason.partition(" (")[0] if site.reason.endswith("places)") else site.reason
    if text.startswith("follows ") and text.endswith(", which stays"):
        return "follows a file that stays"
    return "a key that is no dtype key" if text.endswith("is no dtype key") else text


def _only(sites: Sequence[Site], action: str) -> Iterator[Site]:
    return (site for site in sites if site.action == action)


def _count(sites: Sequence[Site], action: str) -> int:
    return sum(1 for _ in _only(sites, action))


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."
