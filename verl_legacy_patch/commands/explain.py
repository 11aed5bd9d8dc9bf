"""``verl-patch explain``: the documentation of a codemod."""

from __future__ import annotations

import click

from verl_legacy_patch.commands.options import read_codemods


@click.command("explain")
@click.argument("name")
def command(name: str) -> None:
    """Explain the codemod NAME: what it does, why, and what it leaves alone."""
    (codemod,) = read_codemods(name, None, False) or [None]
    if codemod is None:
        raise click.UsageError("name one codemod; `verl-patch codemods` lists them")
    click.echo(f"{codemod.name} ({codemod.grade}; runs {codemod.when})\n")
    click.echo(codemod.doc())
