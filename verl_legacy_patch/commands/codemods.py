"""``verl-patch codemods``: the list."""

from __future__ import annotations

import click


@click.command("codemods")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="How to print the list.")
def command(output: str) -> None:
    """List the codemods: name, whether it rewrites or reports, grade, when it runs, and what it does in one line.

    The grade is that of a rewrite: `review` asks for a person's look at the result.
    """
    from verl_legacy_patch.codemod import discover

    rows = [(mod.name, mod.does, mod.grade, mod.when, mod.summary()) for mod in discover().values()]
    if output == "json":
        import json

        keys = ("name", "does", "grade", "when", "summary")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    width = max(len(row[0]) for row in rows)
    for name, does, grade, when, summary in rows:
        kind = f"{does:8} {grade if does == 'rewrites' else '':6}"
        click.echo(f"{click.style(f'{name:{width}}', bold=True)}  {kind}  {summary}")
        click.echo(f"{'':{width}}                   runs: {when}")
