"""The dry run as one self-contained page: to read, filter, tick off and hand on."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from verl_legacy_patch import __version__
from verl_legacy_patch.html.lines import Row, Styles, hunk_rows
from verl_legacy_patch.plan import FileChange, Plan
from verl_legacy_patch.report import About
from verl_legacy_patch.roles import role_of
from verl_legacy_patch.setting import Edit, Site
from verl_legacy_patch.view import in_order


def render(plan: Plan, about: About) -> str:
    """Return the page. Nothing in it is loaded from anywhere else."""
    from jinja2 import Environment
    from markupsafe import Markup

    here = files("verl_legacy_patch.html")
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    template = page.from_string((here / "page.html.j2").read_text("utf-8"))
    styles = Styles()
    return template.render(
        version=__version__,
        about=about,
        target=plan.target,
        files=[_file(plan, change, styles) for change in in_order(plan)],
        codemods=_codemods(plan),
        first=_first(plan),
        kept=_kept(plan),
        counts=_counts(plan),
        style=Markup((here / "page.css").read_text("utf-8") + styles.css()),
        script=Markup((here / "page.js").read_text("utf-8")),
        key=f"verl-patch:{about.base or about.path}",
    )


def _file(plan: Plan, change: FileChange, styles: Styles) -> dict[str, Any]:
    """Return what the page shows of one file: its hunks, each with its codemods, reasons and rows."""
    summaries = {codemod.name: codemod.summary() for codemod in plan.codemods}
    hunks = []
    for number, (edits, where, rows) in enumerate(hunk_rows(change, styles)):
        wanted = edits or [Edit((0, 0), change.codemod, "rewrite", "", "a new file that the rewritten code imports")]  # type: ignore[arg-type]
        hunks.append(
            {
                "id": f"{change.path}#{number}",
                "where": where,
                "rows": rows,
                "pairs": _paired(rows),
                "codemods": sorted({edit.codemod for edit in wanted}),
                "grade": "review" if any(edit.grade == "review" for edit in wanted) else "safe",
                "why": sorted({(edit.codemod, edit.reason or summaries.get(edit.codemod, "")) for edit in wanted}),
            }
        )
    return {"path": change.path, "status": change.status, "role": role_of(change.path), "hunks": hunks}


def _paired(rows: list[Row]) -> list[tuple[Row | None, Row | None]]:
    """Return rows side by side: removed lines beside the added ones of the same run."""
    pairs: list[tuple[Row | None, Row | None]] = []
    old: list[Row] = []
    new: list[Row] = []

    def flush() -> None:
        for index in range(max(len(old), len(new))):
            left = old[index] if index < len(old) else None
            pairs.append((left, new[index] if index < len(new) else None))
        old.clear()
        new.clear()

    for row in rows:
        if row.sign == "-":
            old.append(row)
        elif row.sign == "+":
            new.append(row)
        else:
            flush()
            pairs.append((row, row))
    flush()
    return pairs


def _codemods(plan: Plan) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}
    for site in plan.sites:
        if site.action != "keep":
            counts[site.codemod] = counts.get(site.codemod, 0) + 1
    return [
        {
            "name": codemod.name,
            "grade": codemod.grade,
            "when": codemod.when,
            "summary": codemod.summary(),
            "doc": codemod.doc().partition("\n")[2].strip(),
            "count": counts[codemod.name],
        }
        for codemod in plan.codemods
        if codemod.name in counts
    ]


def _first(plan: Plan) -> list[dict[str, Any]]:
    """Return what a person has to look at first: places that could not be rewritten, by reason."""
    groups: dict[tuple[str, str], list[Site]] = {}
    for site in plan.sites:
        if site.action == "report":
            groups.setdefault((site.codemod, site.reason), []).append(site)
    return [{"codemod": name, "reason": reason, "sites": sites} for (name, reason), sites in groups.items()]


def _kept(plan: Plan) -> list[dict[str, Any]]:
    groups: dict[str, list[Site]] = {}
    for site in plan.sites:
        if site.action == "keep":
            groups.setdefault(site.reason.partition(" (")[0], []).append(site)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [{"reason": reason, "sites": sites} for reason, sites in ordered]


def _counts(plan: Plan) -> dict[str, int]:
    rewritten = plan.rewritten()
    return {
        "places": len(rewritten),
        "files": len(plan.changes),
        "review": sum(site.grade == "review" for site in rewritten),
        "report": sum(site.action == "report" for site in plan.sites),
        "keep": sum(site.action == "keep" for site in plan.sites),
    }
