"""``verl-patch explain``: the documentation of a codemod."""

from __future__ import annotations

import click

from verl_legacy_patch.commands.options import read_codemods


@click.command("explain")
@click.argument("name")
def command(name: str) -> None:
    """Explain the codemod NAME: what it does, why, and what it leaves alone."""
    codemods = read_codemods(name, None, False)
    if len(codemods) != 1:
        raise click.UsageError("name one codemod; `verl-patch codemods` lists them")
    codemod = codemods[0]
    click.echo(f"{codemod.name} ({codemod.grade}; runs {codemod.when})\n")
    click.echo(codemod.doc())
