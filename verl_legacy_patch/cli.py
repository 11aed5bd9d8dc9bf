"""The command line: which commands there are, and what an error or an interrupt ends with.

Commands live in ``commands/``, one file each, loaded when they are asked for. Only this room prints and exits.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from verl_legacy_patch import __version__

#: Exit codes, as the documentation shows them.
EXIT_CODES = {
    0: "done, or nothing to do",
    1: "`check` found sites",
    2: "wrong usage",
    3: "git or the checkout refused",
    4: "a source could not be parsed, or a rewrite failed its own check; nothing is written",
    130: "interrupted; nothing is half done",
}

#: Command -> its one-line help. Kept here so that --help loads no command.
COMMANDS = {
    "apply": "Rewrite a verl checkout on a new git branch, or show what would change.",
    "check": "Print the sites that are left, and exit with 1 when there is one.",
    "codemods": "List the codemods: what each does, and when.",
    "completion": "Print the shell completion script.",
    "demo": "Run the whole job on a built-in miniature verl checkout.",
    "explain": "Explain a codemod: what it does, why, what it leaves alone.",
    "gpus": "Show the GPUs that are known, and what follows for each.",
}


class _Commands(click.Group):
    """A group that imports a command's module only when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name, None for an unknown one."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"verl_legacy_patch.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list from the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the closest command when there is no such one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, 1) if args else []
            if close:
                raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="verl-patch", message="%(prog)s %(version)s")
def main() -> None:
    """Rewrite a verl checkout for GPUs without bfloat16 and FlashAttention-2 (P40, V100, T4, RTX 20).

    Every place that chooses bfloat16 or flash_attention_2 becomes float32 and eager, on a new git branch. Start
    with: verl-patch apply ~/verl --dry-run
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; errors become one line on stderr."""
    from verl_legacy_patch.commands import Refused

    try:
        result = main.main(
            args=None if arguments is None else list(arguments), prog_name="verl-patch", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted: nothing is half done.", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Refused as error:
        click.echo(f"Error: {error}", err=True)
        return error.code
    except BrokenPipeError:
        # the reader of our output (head, a pager) has gone: not our error, and nothing more can be said
        sys.stderr.close()
        return 0
