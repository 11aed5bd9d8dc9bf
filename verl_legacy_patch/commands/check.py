"""``verl-patch check``: are there sites left? The hooks of pre-commit run this too."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import (
    codemod_options,
    config_option,
    read_run,
    report_option,
    target_options,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from verl_legacy_patch.checkout.selection import SelectedFiles
    from verl_legacy_patch.commands.options import Run
    from verl_legacy_patch.formats import Note
    from verl_legacy_patch.plan import Plan
    from verl_legacy_patch.setting import Site


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, readable=False))
@click.option("--fix", is_flag=True, help="Rewrite the files on disk. Branches and the index are never touched.")
@target_options
@codemod_options
@config_option
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="How to print the sites.",
)
@report_option
def command(
    paths: tuple[Path, ...],
    fix: bool,
    gpu: str | None,
    dtype: str | None,
    attn: str | None,
    select: str | None,
    ignore: str | None,
    safe_only: bool | None,
    show_config: bool,
    output: str,
    report: Path | None,
) -> int:
    """Print one line for each site that is left in the files PATHS, and exit with 1 when there is one.

    Only the files that are given are read, as they are on disk; without any, the checkout around the current folder.
    With --fix they are rewritten in place, and the exit code is 1 when a file has changed.
    """
    from verl_legacy_patch.checkout.gitio import CheckoutError

    gc.disable()  # short and busy: collecting would cost a tenth of it
    said = {"gpu": gpu, "dtype": dtype, "attn": attn, "select": select, "ignore": ignore, "safe_only": safe_only}
    found = False
    try:
        checkouts = _checkouts(paths)
        if len(checkouts) > 1 and (output in ("json", "sarif") or report):
            roots = ", ".join(str(checkout.root) for checkout in checkouts)
            raise click.UsageError(f"the paths are in {len(checkouts)} checkouts ({roots}): one at a time for a report")
        for checkout in checkouts:
            run = read_run(checkout.root, said)
            if show_config:
                run.show()
            else:
                found = _check(checkout, run, output, report, fix) or found
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    return 1 if found else 0


def _checkouts(paths: tuple[Path, ...]) -> list[SelectedFiles]:
    """Return each checkout that holds some of the paths, restricted to those."""
    from verl_legacy_patch.checkout.selection import SelectedFiles, files_in, refuse_bare, root_of, select

    if paths:
        return [SelectedFiles(root, names) for root, names in select(paths).items()]
    root = root_of(Path.cwd())
    refuse_bare(root)
    whole = SelectedFiles(root, files_in(root))
    whole.recognise()
    return [whole]


def _check(checkout: SelectedFiles, run: Run, output: str, report: Path | None, fix: bool) -> bool:
    """Check one checkout and return whether a site is left, or was until now."""
    from contextlib import nullcontext

    from verl_legacy_patch.commands.output import drop_output, say
    from verl_legacy_patch.plan import make_plan

    plan = make_plan(checkout, run.codemods, run.target, within=run.scope)
    notes = list(_notes(plan, run)) if plan.unused_suppressions else []
    writing: AbstractContextManager[None] = nullcontext()
    if report is not None:
        from verl_legacy_patch.commands.reporting import reported

        writing = reported(report, plan, checkout, notes)
    with writing:
        if plan.sites or notes or output in ("json", "sarif"):
            try:
                _print(plan, checkout, notes, output)
            except BrokenPipeError:  # head has seen enough: what is written and the exit code stay the same
                drop_output()
        say(f"Error: {problem}" for problem in plan.problems)
        if plan.problems:
            raise Refused(f"{len(plan.problems)} of the files could not be checked; nothing is written", 4)
        if fix and plan.changes:
            _fix(checkout, plan)
        elif plan.changes and output == "text":
            say([_total(plan)])
    forgotten = [] if plan.changes else _forgotten(plan, checkout)
    say(f"{path} is imported but not in git: git add {path}" for path in forgotten)
    return bool(plan.changes or forgotten)


def _notes(plan: Plan, run: Run) -> Iterator[Note]:
    """Yield what there is to say about comments that keep nothing."""
    from verl_legacy_patch.codemod import discover
    from verl_legacy_patch.formats import Note
    from verl_legacy_patch.suppression import complaint

    active = {codemod.name for codemod in plan.codemods}
    for path, row in plan.unused_suppressions:
        if text := complaint(row, active, discover(), all_ran=not run.chosen_here):
            yield Note(path, row.line, text)


def _forgotten(plan: Plan, checkout: SelectedFiles) -> list[str]:
    """Return modules that rewritten files import, and that would not be in the commit that a hook is asked about."""
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.plan import package_of

    modules = {f"utils.{module}".encode(): module for codemod in plan.codemods for module in codemod.support}
    users = checkout.selected([*modules]) if (checkout.root / ".git").exists() else []
    if not users:
        return []
    packages = checkout.packages()
    wanted = {
        f"{package}/utils/{module}.py"
        for candidate, content in checkout.read(users)
        if (package := package_of(candidate.path, packages))
        for word, module in modules.items()
        if word in content
    }
    tracked = set(checkout.list_folder(""))
    return [show(path) for path in sorted(wanted - tracked) if checkout.has_file(path)]


def _print(plan: Plan, checkout: SelectedFiles, notes: list[Note], output: str) -> None:
    from verl_legacy_patch import formats
    from verl_legacy_patch.commands.output import emit, emit_json, say

    left: list[Site] = plan.rewritten()
    rows: list[Site | Note] = [*left, *notes]
    if output == "json":
        from verl_legacy_patch.commands.reporting import about
        from verl_legacy_patch.report import as_json

        unused = [note._asdict() for note in notes]
        emit_json({**as_json(plan, about(checkout)), "unused_suppressions": unused})
    elif output == "sarif":
        emit_json(formats.sarif(left, plan.codemods, notes))
    elif output == "github":
        shown = formats.from_workspace(checkout.root)
        emit(f"{formats.github(each, shown)}\n".encode("utf-8", "replace") for each in rows)
    else:
        shown = formats.from_here(checkout.root)
        emit(f"{formats.line(site, shown)}\n".encode("utf-8", "replace") for site in left)
        say(formats.line(note, shown) for note in notes)


def _fix(checkout: SelectedFiles, plan: Plan) -> None:
    from verl_legacy_patch.branch.inplace import write_in_place
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.commands.output import say
    from verl_legacy_patch.commands.writing import changes_of

    write_in_place(checkout.root, changes_of(plan))
    for change in plan.changes:
        path = show(change.path)
        new = change.before is None
        say([f"added {path}, which the rewritten code imports: git add {path}" if new else f"rewrote {path}"])


def _total(plan: Plan) -> str:
    from verl_legacy_patch.summary import number

    places, files = (
        number(len(plan.rewritten()), "place"),
        number(len({each.path for each in plan.rewritten()}), "file"),
    )
    return f"{places} left in {files}; rewrite on disk: verl-patch check --fix, with a commit: verl-patch apply"
