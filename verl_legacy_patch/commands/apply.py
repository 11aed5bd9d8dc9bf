"""``verl-patch apply``: the main job."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import codemod_options, config_option, read_run, target_options

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.plan import Plan, Progress
    from verl_legacy_patch.report import About

BRANCH = "verl-patch/{dtype}-{attn}"


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
@click.option("--keep-going", is_flag=True, help="Skip files that cannot be parsed instead of stopping.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="What goes to stdout.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, help="Worker processes; more than 1 rarely helps.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the patch.")
def command(
    checkout: Path,
    dry_run: bool,
    gpu: str | None,
    dtype: str | None,
    attn: str | None,
    select: str | None,
    ignore: str | None,
    safe_only: bool,
    show_config: bool,
    branch: str | None,
    base: str | None,
    no_switch: bool,
    in_place: bool,
    keep_going: bool,
    output: str,
    jobs: int,
    color: str,
) -> None:
    """Rewrite the verl CHECKOUT (a folder; the current one by default) on a new git branch and switch to it.

    With --dry-run the same is printed as a patch that `git apply` takes, and nothing is written. Patch and JSON go to
    stdout, everything else to stderr.
    """
    from verl_legacy_patch.checkout import CheckoutError, open_checkout, verl_version
    from verl_legacy_patch.plan import make_plan
    from verl_legacy_patch.report import About

    if in_place and (branch or base or no_switch):
        raise click.UsageError("--in-place writes files without git: it takes no --branch, --base or --no-switch")
    gc.disable()  # the process is short and allocates much: collecting costs a tenth of it and frees nothing
    try:
        opened = open_checkout(checkout, base, in_place=in_place)
        said = {"gpu": gpu, "dtype": dtype, "attn": attn, "select": select, "ignore": ignore}
        run = read_run(opened.root, {**said, "safe_only": safe_only, "branch": branch})
        if show_config:
            run.show()
            return
        name = run.config.branch or BRANCH.format(dtype=run.target.dtype, attn=run.target.attn)
        if not dry_run:
            _refuse_early(opened, name, in_place=in_place, switch=not no_switch)
        about = About(str(checkout), verl_version(opened), opened.base)
        with _progress() as progress:
            plan = make_plan(opened, run.codemods, run.target, jobs=jobs, progress=progress, within=run.scope)
        _problems(plan, keep_going)
        if dry_run:
            _show(plan, about, opened, output, color)
        else:
            _write(plan, about, opened, name, in_place=in_place, switch=not no_switch, output=output)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None


def _refuse_early(checkout: Checkout, branch: str, *, in_place: bool, switch: bool) -> None:
    from verl_legacy_patch.checkout import GitCheckout

    if isinstance(checkout, GitCheckout):
        from verl_legacy_patch.branch import preflight

        preflight(checkout, branch, switch=switch)
    elif not in_place:
        raise Refused(
            f"{checkout.root} is no git repository: use --in-place to rewrite its files, or --dry-run to look first",
            3,
        )


def _problems(plan: Plan, keep_going: bool) -> None:
    """Name every file that failed; without --keep-going nothing is written."""
    for problem in plan.problems:
        click.echo(f"Error: {problem}", err=True)
    if plan.problems and not keep_going:
        count = f"{len(plan.problems)} file" + ("s" if len(plan.problems) > 1 else "")
        raise Refused(f"{count} could not be rewritten, so nothing is written; --keep-going skips such files", 4)


def _show(plan: Plan, about: About, checkout: Checkout, output: str, color: str) -> None:
    _print(plan, about, output, color, patch=True)
    dirty = checkout.dirty()
    if dirty and checkout.base:
        count = f"{len(dirty)} tracked file" + ("s have" if len(dirty) > 1 else " has")
        click.echo(
            f"\nNote: {count} uncommitted changes; this is what would become of {checkout.base[:10]}.",
            err=True,
        )


def _print(plan: Plan, about: About, output: str, color: str, *, patch: bool) -> None:
    from verl_legacy_patch import report

    if output == "json":
        import json

        click.echo(json.dumps(report.as_json(plan, about), ensure_ascii=False, separators=(",", ":")))
        return
    if patch:
        _print_patch(plan, color)
    for line in report.summary(plan, about):
        click.echo(line, err=True)


def _print_patch(plan: Plan, color: str) -> None:
    from verl_legacy_patch import report

    stream = sys.stdout.buffer
    coloured = color == "always" or (color == "auto" and sys.stdout.isatty())
    for part in report.patch(plan):
        if coloured:
            click.echo(_coloured(part.decode("utf-8", "replace")), nl=False, color=True)
        else:
            stream.write(part)
    stream.flush()


def _coloured(text: str) -> str:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    lines = []
    for line in text.splitlines(keepends=True):
        bold = line.startswith(("diff ", "+++", "---"))
        lines.append(click.style(line, bold=True) if bold else click.style(line, fg=styles.get(line[:1])))
    return "".join(lines)


def _write(
    plan: Plan, about: About, checkout: Checkout, branch: str, *, in_place: bool, switch: bool, output: str
) -> None:
    from verl_legacy_patch.branch.inplace import Change, write_in_place
    from verl_legacy_patch.checkout import GitCheckout

    changes = [Change(c.path, c.after, c.mode, c.status == "added") for c in plan.changes]
    if not changes:
        _print(plan, about, output, "never", patch=False)
        return
    if isinstance(checkout, GitCheckout):
        from verl_legacy_patch.branch import commit_tree, current_branch
        from verl_legacy_patch.branch.switching import publish
        from verl_legacy_patch.report import commit_message

        before = current_branch(checkout) or (checkout.base or "")[:10]
        sha = commit_tree(checkout, changes, commit_message(plan, about))
        publish(checkout, branch, sha, switch_to=switch)
        after = _next_steps(about.path, before, branch, switch)
    else:
        write_in_place(checkout.root, changes)
        after = ["", "The files on disk are rewritten; there is no git commit to go back to."]
    _print(plan, about, output, "never", patch=False)
    for line in after:
        click.echo(line, err=True)


def _next_steps(path: str, before: str, branch: str, switched: bool) -> list[str]:
    import shlex

    git = "git" if path == "." else f"git -C {shlex.quote(path)}"
    name, old = shlex.quote(branch), shlex.quote(before)
    lines = [
        "",
        f"On branch {branch}"
        + (" (the work tree is switched to it)." if switched else "; the work tree is as it was."),
    ]
    lines.append(f"  look:  {git} show {name}")
    if switched:
        lines.append(f"  undo:  {git} switch {old} && {git} branch -D {name}")
    else:
        lines += [f"  use:   {git} switch {name}", f"  undo:  {git} branch -D {name}"]
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
        if bar is None and time.monotonic() - started > 1:
            bar = click.progressbar(length=total, label="Reading", file=sys.stderr)
            bar.__enter__()
        if bar is not None:
            bar.update(done - bar.pos)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.__exit__(None, None, None)
