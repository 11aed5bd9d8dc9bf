"""The dry run as one self-contained page: to read, filter, tick off and hand on."""

from __future__ import annotations

import re
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from verl_legacy_patch import __version__
from verl_legacy_patch.capability import AMPERE
from verl_legacy_patch.html.lines import Highlighter, Row, hunk_rows
from verl_legacy_patch.plan import FileChange, Plan
from verl_legacy_patch.report import About
from verl_legacy_patch.rewrite import WHOLE_FILE
from verl_legacy_patch.roles import role_of
from verl_legacy_patch.setting import Edit, Site, Span
from verl_legacy_patch.summary import in_verl, kind_of, number
from verl_legacy_patch.view import in_order


def render(plan: Plan, about: About) -> str:
    """Return the page. Nothing in it is loaded from anywhere else."""
    from jinja2 import Environment
    from markupsafe import Markup

    here = files("verl_legacy_patch.html")
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    page.filters["number"] = number
    template = page.from_string((here / "page.html.j2").read_text("utf-8"))
    highlighter = Highlighter()
    changed = [_file(plan, change, highlighter) for change in in_order(plan)]
    return template.render(
        version=__version__,
        about=about,
        target=plan.target,
        old_card=plan.target.capability < AMPERE,
        files=changed,
        hunks=sum(len(file["hunks"]) for file in changed),
        codemods=_codemods(plan),
        first=_first(plan),
        problems=[str(problem) for problem in plan.problems],
        kept=_kept([site for site in plan.sites if site.action == "keep" and site.codemod != WHOLE_FILE]),
        unread=_kept([site for site in plan.sites if site.action == "keep" and site.codemod == WHOLE_FILE]),
        counts=_counts(plan),
        style=Markup((here / "page.css").read_text("utf-8")),
        script=Markup((here / "page.js").read_text("utf-8")),
        key=f"verl-patch:{about.base or about.path}",
    )


def _file(plan: Plan, change: FileChange, highlighter: Highlighter) -> dict[str, Any]:
    """Return what the page shows of one file: its hunks, each with its codemods, reasons and rows."""
    summaries = {codemod.name: codemod.summary_for(plan.target) for codemod in plan.codemods}
    hunks = []
    for edits, where, rows in hunk_rows(change, highlighter):
        new = Edit(Span(0, 0), change.codemod, "rewrite", "", "a new file that the rewritten code imports")
        wanted = edits or [new]
        hunks.append(
            {
                "id": _id(change.path, rows),
                "where": where,
                "rows": rows,
                "indent": min((row.indent for row in rows if row.html), default=0),
                "codemods": sorted({edit.codemod for edit in wanted}),
                "grade": "review" if any(edit.grade == "review" for edit in wanted) else "safe",
                "why": sorted({(e.codemod, e.reason or summaries.get(e.codemod, ""), e.grade) for e in wanted}),
            }
        )
    where = "verl" if in_verl(change.path) else "beside"
    about = {"path": change.path, "status": change.status, "role": role_of(change.path), "where": where}
    return {**about, "hunks": hunks}


def _id(path: str, rows: list[Row]) -> str:
    """Return a name that follows from the content: a tick must not stay when the next run changes something else."""
    text = "\n".join(f"{row.sign}{row.old}:{row.new}:{row.html}" for row in rows)
    return blake2b(f"{path}\n{text}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _codemods(plan: Plan) -> list[dict[str, Any]]:
    """Return the codemods that have something to say, with how many places in how many files."""
    sites: dict[str, list[Site]] = {}
    for site in plan.sites:
        if site.action != "keep":
            sites.setdefault(site.codemod, []).append(site)
    rows = []
    for codemod in plan.codemods:
        mine = sites.get(codemod.name, [])
        rewritten = [site for site in mine if site.action == "rewrite"]
        if mine:
            rows.append(
                {
                    "name": codemod.name,
                    "grade": codemod.grade,
                    "when": codemod.when,
                    "summary": codemod.summary_for(plan.target),
                    "doc": _paragraphs(codemod.doc()),
                    "places": len(rewritten),
                    "files": len({site.path for site in rewritten}),
                    "reported": len(mine) - len(rewritten),
                }
            )
    return sorted(rows, key=lambda row: not row["places"])


def _paragraphs(doc: str) -> list[tuple[str, str]]:
    """Return what stands below a docstring's first line, as (heading, text)."""
    joined = [" ".join(part.split()) for part in doc.partition("\n")[2].strip().split("\n\n")]
    heads = (re.match(r"(What it does|Why|What it leaves alone|Source)s?: ", text) for text in joined)
    return [(head[0], text[head.end() :]) if head else ("", text) for head, text in zip(heads, joined, strict=True)]


def _first(plan: Plan) -> list[dict[str, Any]]:
    """Return what a person has to look at first: places that could not be rewritten, by reason."""
    groups: dict[tuple[str, str], list[tuple[Site, str]]] = {}
    for site in plan.sites:
        if site.action == "report":
            groups.setdefault((site.codemod, site.reason), []).append((site, ""))
    known = {codemod.name for codemod in plan.codemods}
    return [
        {"codemod": name, "known": name in known, "reason": reason, "sites": sites}
        for (name, reason), sites in groups.items()
    ]


def _kept(sites: list[Site]) -> list[dict[str, Any]]:
    """Return sites that stay by the kind of their reason; what is particular to one is said beside it."""
    groups: dict[str, list[tuple[Site, str]]] = {}
    counts: dict[str, int] = {}
    for site in sites:
        kind, count = kind_of(site)
        groups.setdefault(kind, []).append((site, site.reason if site.reason != kind else ""))
        counts[kind] = counts.get(kind, 0) + count
    ordered = sorted(groups, key=lambda kind: -counts[kind])
    return [{"reason": kind, "count": counts[kind], "sites": groups[kind]} for kind in ordered]


def _counts(plan: Plan) -> dict[str, int]:
    rewritten = plan.rewritten()
    kept = [site for site in plan.sites if site.action == "keep"]
    added = sum(change.status == "added" for change in plan.changes)
    return {
        "places": len(rewritten),
        "files": len(plan.changes) - added,
        "added": added,
        "review": sum(site.grade == "review" for site in rewritten),
        "review_in_verl": sum(site.grade == "review" and in_verl(site.path) for site in rewritten),
        "report": sum(site.action == "report" for site in plan.sites),
        "keep": sum(kind_of(site)[1] for site in kept if site.codemod != WHOLE_FILE),
        "unread": sum(site.codemod == WHOLE_FILE for site in kept),
    }
