"""``verl-patch explain``: the documentation of a codemod, or what is done with a line and why."""

from __future__ import annotations

import re
from pathlib import Path

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.completing import codemods_or_files
from verl_legacy_patch.commands.options import read_codemods, read_run

_PLACE = re.compile(r"(.+?):(\d+)(?::\d+)?")  # the column that ``check`` prints may stand behind


@click.command("explain")
@click.argument("what", metavar="NAME|PATH:LINE", shell_complete=codemods_or_files)
def command(what: str) -> None:
    """Explain a codemod by its NAME, or why the line at PATH:LINE is rewritten or not."""
    place = _PLACE.fullmatch(what)
    if place is not None:
        _explain_place(Path(place[1]), int(place[2]))
        return
    if Path(what).is_file():
        raise click.UsageError(f"which line of {what}? verl-patch explain {what}:LINE")
    if "/" in what:
        raise click.UsageError(f"there is no file {what}")
    codemods = read_codemods(what, None, False)
    if len(codemods) != 1:
        raise click.UsageError("name one codemod; `verl-patch codemods` lists them")
    codemod = codemods[0]
    click.echo(f"{codemod.name} ({codemod.grade}; runs {codemod.when})\n")
    click.echo(codemod.doc())


def _explain_place(path: Path, line: int) -> None:
    from verl_legacy_patch.checkout.gitio import CheckoutError
    from verl_legacy_patch.checkout.selection import SelectedFiles, relative_to, root_of
    from verl_legacy_patch.place import explain_line
    from verl_legacy_patch.plan import make_plan

    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    root = root_of(path.absolute())
    name = relative_to(root, path)
    run = read_run(root, {})
    try:
        plan = make_plan(SelectedFiles(root, [name]), run.codemods, run.target, within=run.scope)
        said = explain_line(name, path.read_bytes(), line, plan)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None
    for problem in plan.problems:
        raise Refused(str(problem), 4)
    for text in said:
        click.echo(text)
