"""``verl-patch codemods``: the list."""

from __future__ import annotations

import click


@click.command("codemods")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="How to print the list.")
def command(output: str) -> None:
    """List the codemods: name, grade, when it runs, and what it does in one line."""
    from verl_legacy_patch.codemod import discover

    rows = [(mod.name, mod.grade, mod.when, mod.summary()) for mod in discover().values()]
    if output == "json":
        import json

        keys = ("name", "grade", "when", "summary")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    width = max(len(row[0]) for row in rows)
    for name, grade, when, summary in rows:
        click.echo(f"{click.style(f'{name:{width}}', bold=True)}  {grade:6}  {summary}")
        click.echo(f"{'':{width}}          runs: {when}")
