"""What a dry run prints: the patch, the counts per file, or the summary alone; for people or for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch.commands.output import coloured, emit, emit_json, say, wants_colour

if TYPE_CHECKING:
    from verl_legacy_patch.plan import Plan
    from verl_legacy_patch.report import About


class View(NamedTuple):
    """How a plan is shown.

    Attributes:
        output: ``text`` or ``json``.
        color: ``auto``, ``always`` or ``never``.
        context: lines around each change in the patch.
        part: ``patch``, ``stat`` (counts per file) or ``summary`` (neither).
    """

    output: str = "text"
    color: str = "auto"
    context: int = 3
    part: str = "summary"


def show_plan(plan: Plan, about: About, view: View) -> None:
    """Print a plan: data to stdout, words to stderr; on a terminal through the pager, with reasons and colours."""
    from verl_legacy_patch import report
    from verl_legacy_patch.summary import summary

    if view.output == "json":
        emit_json(report.as_json(plan, about))
        return
    colour = view.color == "always" or (view.color == "auto" and bool(wants_colour(sys.stdout)))
    if view.part == "stat":
        from shutil import get_terminal_size

        from verl_legacy_patch.view import stat

        columns = get_terminal_size().columns if sys.stdout.isatty() else None
        emit(f"{line}\n".encode() for line in stat(plan, columns))
    elif view.part == "patch" and sys.stdout.isatty():
        from verl_legacy_patch.commands.pager import page
        from verl_legacy_patch.view import annotated

        parts = annotated(plan, view.context)
        page(coloured(parts) if colour else parts)
    elif view.part == "patch":
        parts = report.patch(plan, view.context)
        emit(coloured(parts) if colour else parts)
    bold = view.color != "never" and bool(wants_colour(sys.stderr))
    say(_headed(line) if bold else line for line in summary(plan, about))


def _headed(line: str) -> str:
    """Return a heading or a note of the summary as one that catches the eye."""
    catches = line.startswith("Note: ") or (line.endswith(":") and not line.startswith(" "))
    return f"\x1b[1m{line}\x1b[0m" if catches else line
