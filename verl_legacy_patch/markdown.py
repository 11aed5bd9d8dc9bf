"""A plan as Markdown: for the description of a pull request, or an issue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from verl_legacy_patch import __version__
from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.formats import Note, message
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.report import About
from verl_legacy_patch.setting import Site
from verl_legacy_patch.summary import DECIDE, REVIEW, number


def markdown(plan: Plan, about: About, notes: Iterable[Note] = ()) -> Iterator[str]:
    """Yield the lines of the report: what changes by codemod, what needs a person, and every place."""
    rewritten = plan.rewritten()
    verl = f"verl {about.verl_version}" if about.verl_version else "this checkout"
    base = f" at `{about.base[:10]}`" if about.base else ""
    yield f"# verl-patch {__version__}: {plan.target}"
    yield ""
    new = sum(change.status == "added" for change in plan.changes)
    files = number(len(plan.changes) - new, "file") + (f", {number(new, 'new file')}" if new else "")
    yield f"{_text(verl)}{base}: {number(len(rewritten), 'place')} in {files}."
    if rewritten:
        yield from _by_codemod(plan, rewritten)
    yield from _section(REVIEW, [_place(site) for site in rewritten if site.grade == "review"])
    yield from _section(DECIDE, [_place(site) for site in plan.sites if site.action == "report"])
    yield from _section("Rewritten", [_place(site) for site in rewritten if site.grade != "review"])
    yield from _section("Comments that keep nothing", [f"{_code(f'{n.path}:{n.line}')} {_text(n.text)}" for n in notes])
    yield from _section("Not read", [_text(str(problem)) for problem in plan.problems])


def _by_codemod(plan: Plan, rewritten: Sequence[Site]) -> Iterator[str]:
    counts = Counter(site.codemod for site in rewritten)
    yield from ("", "| codemod | places | files | what it does |", "| --- | ---: | ---: | --- |")
    for codemod in plan.codemods:
        if count := counts[codemod.name]:
            files = len({site.path for site in rewritten if site.codemod == codemod.name})
            yield f"| {codemod.name} | {count} | {files} | {_text(codemod.summary_for(plan.target))} |"


def _section(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield from ("", f"## {title} ({len(rows)})", "", *(f"* {row}" for row in rows))


def _place(site: Site) -> str:
    return f"{_code(f'{site.path}:{site.line}')} {site.codemod}: {_code(message(site))}"


def _code(text: str) -> str:
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {show(text)} {fence}" if len(fence) > 1 else f"{fence}{show(text)}{fence}"


def _text(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", show(text))
