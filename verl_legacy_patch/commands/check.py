"""``verl-patch check``: are there sites left? The hooks of pre-commit run this too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import (
    codemod_options,
    config_option,
    read_run,
    report_option,
    target_options,
)
from verl_legacy_patch.commands.output import drop_output, say

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
@click.option("--strict", is_flag=True, help="Print and fail on what a person has to decide, too.")
@target_options
@codemod_options
@config_option
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="How to print the places.",
)
@click.option("--kept", is_flag=True, help="With --format json: also the places that stay, with the reason.")
@report_option
def command(
    paths: tuple[Path, ...],
    fix: bool,
    strict: bool,
    gpu: str | None,
    dtype: str | None,
    attn: str | None,
    select: str | None,
    ignore: str | None,
    safe_only: bool | None,
    show_config: bool,
    output: str,
    kept: bool,
    report: Path | None,
) -> int:
    """Print one line for each place that is left in the files PATHS, and exit with 1 when there is one.

    Only the files that are given are read, as they are on disk; of a folder those that git tracks, and new ones that
    it does not ignore. Without PATHS it is what git tracks in the checkout around the current folder. With --fix they
    are rewritten in place, and the exit code is 1 when a file has changed. What a person has to decide is counted;
    with --strict it is listed, and fails.
    """
    from verl_legacy_patch.checkout.gitio import CheckoutError
    from verl_legacy_patch.commands.meant import not_typed

    said = {"gpu": gpu, "dtype": dtype, "attn": attn, "select": select, "ignore": ignore, "safe_only": safe_only}
    found = False
    words = not paths or any(path.is_dir() for path in paths)  # a hook, which names files, has nothing to say mostly
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
                forgotten = "" if paths else not_typed(checkout, run, fix=fix)
                other = _other_target(checkout, run) if words else ""
                if other and fix:
                    raise Refused(other, 3)
                found = _check(checkout, run, How(output, fix, strict, kept, paths), report, words=words) or found
                if other:
                    say([other])
                    found = True
                if not paths and output == "text":
                    say(_not_looked_into(checkout, run))
                say(filter(None, [forgotten]))
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    return 1 if found else 0


def _other_target(checkout: SelectedFiles, run: Run) -> str:
    """Return what to say when the checkout is patched for another target; empty when it is not.

    It takes a walk through the history, so hooks, which are given files, do not look.
    """
    from verl_legacy_patch.branch.former import former

    found = former(checkout, run.target)
    return found.refusal(run.target) if found and not found.fits else ""


class How(NamedTuple):
    """What is done with what was found, and how it is said."""

    output: str
    fix: bool
    strict: bool
    kept: bool
    paths: tuple[Path, ...]


def _checkouts(paths: tuple[Path, ...]) -> list[SelectedFiles]:
    """Return each checkout that holds some of the paths, restricted to those."""
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.checkout.selection import SelectedFiles, files_in, refuse_bare, root_of, select

    if paths:
        found = select(paths)
        say(
            f"{show(str(path))} holds no file that git tracks or could add: nothing in it is looked into"
            for path in paths
            if path.is_dir() and not path.is_symlink() and _is_empty(path, found)
        )
        return [SelectedFiles(root, names) for root, names in found.items()]
    root = root_of(Path.cwd())
    refuse_bare(root)
    whole = SelectedFiles(root, files_in(root))
    whole.recognise()
    return [whole]


def _is_empty(folder: Path, found: dict[Path, list[str]]) -> bool:
    from verl_legacy_patch.checkout.selection import locate

    root, name = locate(folder)
    return not any(name in ("", ".") or path.startswith(f"{name}/") for path in found[root])


def _not_looked_into(checkout: SelectedFiles, run: Run) -> Iterator[str]:
    """Yield a word about new files: whoever wrote them may take a silent answer for one about them."""
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.checkout.selection import SelectedFiles, untracked

    if not (checkout.root / ".git").exists():
        return
    words = sorted({word.encode() for mod in run.codemods if mod.applies(run.target) for word in mod.words})
    files = SelectedFiles(checkout.root, untracked(checkout.root)).selected(words)
    names = [show(file.path) for file in files if not run.scope.file_reason(file.path)]
    if names:
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        yield f"not looked into, as git does not track it: {', '.join(names[:2])}{more}; to do so: verl-patch check ."


def _check(checkout: SelectedFiles, run: Run, how: How, report: Path | None, *, words: bool) -> bool:
    """Check one checkout and return whether something is left that fails, or was until now.

    With ``words`` the end is said, even if nothing was found.
    """
    from contextlib import nullcontext

    from verl_legacy_patch.commands.meant import cure
    from verl_legacy_patch.plan import make_plan

    plan = make_plan(checkout, run.codemods, run.target, within=run.scope)
    notes = list(_notes(plan, run)) if plan.unused_suppressions else []
    writing: AbstractContextManager[None] = nullcontext()
    if report is not None:
        from verl_legacy_patch.commands.reporting import reported, written

        writing = reported(report, plan, checkout, notes)
    with writing:
        if plan.sites or notes or how.output in ("json", "sarif"):
            try:
                _print(plan, checkout, notes, how)
            except BrokenPipeError:  # head has seen enough: what is written and the exit code stay the same
                drop_output()
        say(f"Error: {problem}" for problem in plan.problems)
        if plan.problems:
            raise Refused(f"{len(plan.problems)} of the files could not be checked; nothing is written", 4)
        if how.fix and plan.changes:
            _fix(checkout, plan)
        if how.output == "text" and (line := _total(plan, how, checkout.given, words=words)):
            say([line + (cure(checkout, run, how.paths) if plan.changes and not how.fix else "")])
    if report is not None:
        say(written(report))
    forgotten = [] if plan.changes else _forgotten(plan, checkout)
    say(f"{path} is imported but not in git: git add {path}" for path in forgotten)
    return bool(plan.changes or forgotten or (how.strict and plan.reported()))


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


def _print(plan: Plan, checkout: SelectedFiles, notes: list[Note], how: How) -> None:
    from verl_legacy_patch import formats
    from verl_legacy_patch.commands.output import emit, emit_json

    wanted = ("rewrite", "report") if how.strict else ("rewrite",)
    left: list[Site] = [site for site in plan.sites if site.action in wanted]
    rows: list[Site | Note] = [*left, *notes]
    if how.output == "json":
        from verl_legacy_patch.commands.reporting import about
        from verl_legacy_patch.report import as_json

        data = as_json(plan, about(checkout))
        if not how.kept:  # the question is what is left
            data["sites"] = [site for site in data["sites"] if site["action"] != "keep"]
        emit_json({**data, "unused_suppressions": [note._asdict() for note in notes]})
    elif how.output == "sarif":
        emit_json(formats.sarif(left, plan.codemods, notes))
    elif how.output == "github":
        shown = formats.from_workspace(checkout.root)
        emit(f"{formats.github(each, shown)}\n".encode("utf-8", "replace") for each in rows)
    else:
        shown = formats.from_here(checkout.root)
        emit(f"{formats.line(site, shown)}\n".encode("utf-8", "replace") for site in left)
        say(formats.line(note, shown) for note in notes)


def _fix(checkout: SelectedFiles, plan: Plan) -> None:
    from verl_legacy_patch.branch.inplace import write_in_place
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.commands.writing import changes_of

    write_in_place(checkout.root, changes_of(plan))
    for change in plan.changes:
        path = show(change.path)
        new = change.before is None
        say([f"added {path}, which the rewritten code imports: git add {path}" if new else f"rewrote {path}"])


def _total(plan: Plan, how: How, files: int, *, words: bool) -> str:
    """Return the last line: what is left to rewrite, and what a person has to decide; empty if there is no need."""
    from verl_legacy_patch.summary import number, places_in

    left, decide = plan.rewritten(), plan.reported()
    asked = f"{{}} for a person to decide{'' if how.strict else ' (--strict lists them)'}"
    if left and how.fix:
        return asked.format(number(len(decide), "place")) if decide else ""
    also = asked.format(f"{len(decide):,}") if decide else ""
    if left:
        return f"{places_in(left).replace(' in ', ' left in ')}{', and ' if also else ''}{also}"
    if not (words or decide):
        return ""
    return f"0 places left in {number(files, 'file')}{'; ' if also else ''}{also}"
