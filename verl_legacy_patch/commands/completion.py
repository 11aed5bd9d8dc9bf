"""``verl-patch completion``: the script that makes Tab work."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL: add `eval "$(verl-patch completion bash)"` to your ~/.bashrc."""
    from verl_legacy_patch.cli import COMPLETION, NAME, main

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(main, {}, NAME, COMPLETION).source())
