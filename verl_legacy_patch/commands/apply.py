"""``verl-patch apply``: the main job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import (
    codemod_options,
    config_option,
    read_run,
    report_option,
    target_options,
)
from verl_legacy_patch.commands.output import say
from verl_legacy_patch.commands.showing import View, show_plan
from verl_legacy_patch.commands.writing import branch_name, destination, nameless_note, no_way_back, write

if TYPE_CHECKING:
    from verl_legacy_patch.branch.former import Former
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.plan import Plan, Problem, Progress

#: Seconds of work before there is a progress bar.
BAR_AFTER = 1.0
#: Options that say how a dry run looks.
VIEWS = ("stat", "summary", "unified")


@click.command("apply")
@click.argument("checkout", type=click.Path(path_type=Path), default=".")
@click.option("--dry-run", "-n", is_flag=True, help="Print the patch and the summary; write nothing.")
@target_options
@codemod_options
@config_option
@click.option("--branch", metavar="NAME", help="Branch to create. [default: verl-patch/float32-eager]")
@click.option("--base", metavar="REV", help="Revision to patch. [default: HEAD]")
@click.option("--no-switch", is_flag=True, help="Create the branch but leave the work tree alone.")
@click.option("--in-place", is_flag=True, help="Rewrite the files on disk, without git: no branch, no commit.")
@click.option("--commit-per-codemod", is_flag=True, help="One commit for each codemod instead of one for all.")
@click.option("-i", "--interactive", is_flag=True, help="Ask about each change, and write what is accepted.")
@click.option("--keep-going", is_flag=True, help="Skip files that cannot be parsed instead of stopping.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="What goes to stdout.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, help="Worker processes; more than 1 rarely helps.")
@click.option("--stat", is_flag=True, help="With --dry-run: the places per file instead of the patch.")
@click.option("--summary", is_flag=True, help="With --dry-run: the summary alone.")
@click.option(
    "-U", "--unified", type=click.IntRange(0), default=3, help="With --dry-run: lines around each change in the patch."
)
@report_option
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the patch.")
def command(
    checkout: Path,
    dry_run: bool,
    gpu: str | None,
    dtype: str | None,
    attn: str | None,
    select: str | None,
    ignore: str | None,
    safe_only: bool | None,
    show_config: bool,
    branch: str | None,
    base: str | None,
    no_switch: bool,
    in_place: bool,
    commit_per_codemod: bool,
    interactive: bool,
    keep_going: bool,
    output: str,
    jobs: int,
    stat: bool,
    summary: bool,
    unified: int,
    report: Path | None,
    color: str,
) -> None:
    """Rewrite the verl CHECKOUT (a folder; the current one by default) on a new git branch and switch to it.

    With --dry-run the same is printed as a patch that `git apply` takes, and nothing is written. Patch and JSON go to
    stdout, everything else to stderr.
    """
    from verl_legacy_patch.checkout import CheckoutError, open_checkout, verl_version
    from verl_legacy_patch.commands.meant import refuse_forgotten
    from verl_legacy_patch.commands.reporting import reported, written
    from verl_legacy_patch.notes import notes
    from verl_legacy_patch.plan import make_plan
    from verl_legacy_patch.report import About

    if not dry_run:
        _refuse_views()
    if in_place and (branch or base or no_switch or commit_per_codemod):
        raise click.UsageError(
            "--in-place writes files without git: it takes no --branch, --base, --no-switch or --commit-per-codemod"
        )
    try:
        opened = open_checkout(checkout, base, in_place=in_place)
        said = {"gpu": gpu, "dtype": dtype, "attn": attn, "select": select, "ignore": ignore}
        run = read_run(opened.root, {**said, "safe_only": safe_only, "branch": branch})
        if show_config:
            run.show()
            return
        if _source("checkout") is ParameterSource.DEFAULT:
            refuse_forgotten(opened, run)
        about = About(str(checkout), verl_version(opened), opened.base, branch_name(opened))
        with _progress() as progress:
            plan = make_plan(opened, run.codemods, run.target, jobs=jobs, progress=progress, within=run.scope)
        _refuse(plan.problems, keep_going)
        if found := _former(opened, plan):
            if not found.fits:
                raise Refused(found.refusal(run.target, shlex.quote(str(checkout))), 3)
            plan.target = plan.target._replace(notes=(*plan.target.notes, *filter(None, [found.note(run.target)])))
        plan.target = plan.target._replace(notes=notes(opened, plan, run.config, run.said, run.source))
        if interactive and plan.changes:
            from verl_legacy_patch.commands.interactive import review_plan

            known = len(plan.problems)
            plan = review_plan(plan)
            _refuse(plan.problems[known:], keep_going)
        where = None
        if plan.changes and not dry_run:  # else there is nothing that could be refused
            where = destination(plan, opened, branch, run.branch(), switch=not no_switch, in_place=in_place)
        with reported(report, plan, opened, info=about):
            after = write(plan, about, opened, where, per_codemod=commit_per_codemod) if where else []
        if dry_run:
            after = _closing(opened, plan, run.branch(), in_place=in_place)
        part = "summary" if summary or not dry_run else "stat" if stat else "patch"
        if report and part == "patch" and sys.stdout.isatty() and _source("unified") is ParameterSource.DEFAULT:
            part = "summary"  # the report holds the patch, to be read there
        show_plan(plan, about, View(output, color, unified, part))
        say([*after, *written(report)])
    except CheckoutError as error:
        raise Refused(str(error), 3) from None


def _former(checkout: Checkout, plan: Plan) -> Former | None:
    """Return the patch that is there already, if there is one.

    Only looked for where one may be, because reading the history costs a tenth of a run: it leaves no dtype or
    attention to rewrite, or the modules that it added.
    """
    from verl_legacy_patch.branch.former import former
    from verl_legacy_patch.codemod import discover

    modules = [module for codemod in discover().values() for module in codemod.support]
    added = any(checkout.has_file(f"{each}/utils/{name}.py") for each in checkout.packages() for name in modules)
    left = {site.codemod for site in plan.rewritten()}
    return former(checkout, plan.target) if added or not {"dtype", "attention"} <= left else None


def _source(option: str) -> ParameterSource | None:
    return click.get_current_context().get_parameter_source(option)


def _refuse_views() -> None:
    """Refuse options that only say how a dry run looks: whoever gives one wants to look, and not to write."""
    for name in VIEWS:
        if _source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} shows a dry run: add --dry-run")


def _refuse(found: Sequence[Problem], keep_going: bool) -> None:
    """Name every file that failed; without --keep-going nothing is written."""
    from verl_legacy_patch.checkout.gitio import show

    problems = [show(str(problem)) for problem in found]
    if keep_going:
        say(f"Skipped: {problem}" for problem in problems)
    elif len(problems) == 1:
        raise Refused(f"{problems[0]}; nothing is written, --keep-going skips such a file", 4)
    elif problems:
        say(f"Error: {problem}" for problem in problems)
        raise Refused(f"{len(problems)} files could not be rewritten; nothing is written, --keep-going skips them", 4)


def _closing(checkout: Checkout, plan: Plan, branch: str, *, in_place: bool) -> list[str]:
    """Return what to say after a dry run."""
    from verl_legacy_patch.checkout import GitCheckout

    lines = ["", "Dry run: nothing is written."]
    if plan.changes:
        if isinstance(checkout, GitCheckout):
            what = f"without --dry-run commits this on branch {branch}."
        else:
            what = f"{'without' if in_place else 'with --in-place instead of'} --dry-run rewrites the files on disk."
            what += f" {no_way_back(checkout)}"
        lines[-1] += f" The same {what}".rstrip()
    if plan.changes and isinstance(checkout, GitCheckout):
        lines += nameless_note(checkout)
    dirty = checkout.dirty()
    if dirty and checkout.base:
        files = "1 tracked file has" if len(dirty) == 1 else f"{len(dirty)} tracked files have"
        lines.append(f"Note: {files} uncommitted changes, which are not in this: it is about {checkout.base[:10]}.")
    return lines


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Give a progress bar on a terminal to runs that take more than a second; nothing anywhere else."""
    if not sys.stderr.isatty():
        yield None
        return
    import time

    started = time.monotonic()
    bar = None

    def advance(done: int, total: int) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - started > BAR_AFTER:
            bar = click.progressbar(length=total, label="Reading", file=sys.stderr)
            bar.__enter__()
        if bar is not None:
            bar.update(done - bar.pos)

    try:
        yield advance
        if bar is not None and bar.length is not None:
            bar.update(bar.length - bar.pos)  # the files that follow others are not counted on the way
    finally:
        if bar is not None:
            bar.__exit__(None, None, None)
