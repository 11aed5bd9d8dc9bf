"""``verl-patch check``: are there sites left? The hooks of pre-commit run this too."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import codemod_options, config_option, read_run, target_options

if TYPE_CHECKING:
    from verl_legacy_patch.checkout.base import Checkout
    from verl_legacy_patch.commands.options import Run
    from verl_legacy_patch.plan import Plan


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
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
def command(
    paths: tuple[Path, ...],
    fix: bool,
    gpu: str | None,
    dtype: str | None,
    attn: str | None,
    select: str | None,
    ignore: str | None,
    safe_only: bool,
    show_config: bool,
    output: str,
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
        for root, checkout in _checkouts(paths):
            run = read_run(root, said)
            if show_config:
                run.show()
                continue
            found = _check(checkout, run, output, fix) or found
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    return 1 if found else 0


def _checkouts(paths: tuple[Path, ...]) -> Iterator[tuple[Path, Checkout]]:
    """Yield each work tree that holds some of the paths, restricted to those."""
    from verl_legacy_patch.checkout.selection import SelectedFiles, relative_to, root_of

    files: dict[Path, list[str]] = {}
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise click.BadParameter(f"{path} does not exist", param_hint="PATHS")
        if path.is_dir():
            yield root_of(path.resolve()), _folder(path)
        else:
            root = root_of(path.absolute())
            files.setdefault(root, []).append(relative_to(root, path))
    for root, names in files.items():
        yield root, SelectedFiles(root, names)
    if not paths:
        yield root_of(Path.cwd()), _folder(root_of(Path.cwd()))


def _folder(path: Path) -> Checkout:
    from verl_legacy_patch.checkout import open_checkout

    return open_checkout(path, in_place=True)


def _check(checkout: Checkout, run: Run, output: str, fix: bool) -> bool:
    """Check one work tree and return whether a site is left, or was until now."""
    from verl_legacy_patch.plan import make_plan

    plan = make_plan(checkout, run.codemods, run.target, within=run.scope)
    for problem in plan.problems:
        click.echo(f"Error: {problem}", err=True)
    if plan.problems:
        raise Refused(f"{len(plan.problems)} of the files could not be checked; nothing is written", 4)
    _print(plan, output)
    for path, line in plan.unused_suppressions:
        click.echo(f"{path}:{line}: this 'verl-patch: keep' keeps nothing, remove it", err=True)
    if fix and plan.changes:
        _fix(checkout, plan)
    return bool(plan.changes)


def _print(plan: Plan, output: str) -> None:
    from verl_legacy_patch import formats

    if output in ("json", "sarif"):
        import json

        from verl_legacy_patch.report import About, as_json

        data = (
            formats.sarif(plan.rewritten(), plan.codemods)
            if output == "sarif"
            else as_json(plan, About("", None, None))
        )
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    show = formats.github if output == "github" else formats.line
    for site in plan.rewritten():
        click.echo(show(site))


def _fix(checkout: Checkout, plan: Plan) -> None:
    from verl_legacy_patch.branch.inplace import Change, write_in_place

    changes = [Change(c.path, c.after, c.mode, c.status == "added") for c in plan.changes]
    write_in_place(checkout.root, changes)
    for change in changes:
        click.echo(f"{'added' if change.added else 'rewrote'} {change.path}", err=True)
