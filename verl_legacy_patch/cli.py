"""The command line: which commands there are, and what an error or an interrupt ends with.

Commands live in ``commands/``, one file each, loaded when they are asked for. Only this room prints and exits.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from verl_legacy_patch import __version__
from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.output import drop_output, say, wants_colour
from verl_legacy_patch.plugins import PluginError

NAME = "verl-patch"
COMPLETION = "_VERL_PATCH_COMPLETE"

#: Exit codes, as the documentation shows them.
EXIT_CODES = {
    0: "done, or nothing to do",
    1: "`check` found something left, or `doctor` something that will fail",
    2: "wrong usage",
    3: "git or the checkout refused",
    4: "a source could not be parsed, or a rewrite failed its own check; nothing is written",
    130: "interrupted; nothing is half done",
}

#: Command -> its one-line help. Kept here so that --help loads no command.
COMMANDS = {
    "apply": "Rewrite a verl checkout on a new git branch, or show what would change.",
    "check": "Print the places that are left, and exit with 1 when there is one.",
    "codemods": "List the codemods: what each does, and when.",
    "completion": "Print the shell completion script.",
    "demo": "Run the whole job on a built-in miniature verl checkout.",
    "doctor": "Say what will fail on this machine, and what cures it; explain an error message.",
    "explain": "Explain a codemod: what it does, why, what it leaves alone.",
    "launch": "Write a launch script that fits this checkout, this GPU and this model.",
    "revert": "Undo the patch of a checkout.",
    "status": "Say what a checkout is, whether it is patched, and what is left.",
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


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name=NAME, message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Rewrite a verl checkout for GPUs without bfloat16 and FlashAttention-2 (P40, V100, T4, RTX 20).

    Every place that chooses bfloat16 or flash_attention_2 becomes float32 and eager, on a new git branch. Start
    with: verl-patch apply ~/verl --dry-run
    """
    context.color = wants_colour()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; errors become one line on stderr."""
    _open_streams()
    warnings.simplefilter("ignore", SyntaxWarning)  # about the checkout's code, such as "\\d" in a plain string
    try:
        with _terminable():
            result = _invoke(sys.argv[1:] if arguments is None else list(arguments))
            return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, click.Abort):
        say(["Interrupted: nothing is half done."])
        return 130
    except SystemExit as ended:  # by a signal, or by click when it has printed completions
        return ended.code if isinstance(ended.code, int) else 0
    except click.ClickException as error:
        say([f"Error: {_one_line(error)}"])
        return error.exit_code
    except (Refused, PluginError) as error:
        say([f"Error: {error}"])
        return error.code
    except BrokenPipeError:
        drop_output()  # the reader of our output (head, a pager) has gone: not our error
        return 0
    except ImportError as error:
        say(
            [f"Error: verl-patch is not installed whole ({error}): run pip install --force-reinstall verl-legacy-patch"]
        )
        return 3
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        say([f"Error: {what}{error.strerror or error}"])
        drop_output()
        return 3


def _invoke(arguments: list[str]) -> object:
    if COMPLETION in os.environ:
        return main.main(arguments, prog_name=NAME, complete_var=COMPLETION)
    # Not click's main(), which has answers of its own for interrupts and for readers that have gone.
    with main.make_context(NAME, arguments) as context:
        return main.invoke(context)


def _one_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption) and (owners := _owners(error.option_name)):
        *others, last = owners
        names = f"{', '.join(others)} and {last} have" if others else f"{last} has"
        text = f"No such option {error.option_name!r} here: {names} it"
    context = getattr(error, "ctx", None)
    return f"{text.rstrip('.')} (see {context.command_path} --help)" if context else text


def _owners(option: str) -> list[str]:
    """Return the commands that have an option: whoever saw it there may type it elsewhere."""
    commands = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    return [
        name
        for name, command in commands.items()
        if any(option in (*each.opts, *each.secondary_opts) for each in (command.params if command else ()))
    ]


def _open_streams() -> None:
    """Put the null device where a standard stream is closed: else the next file opened would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as an exception does: temporary files are removed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former = {}
    if threading.current_thread() is threading.main_thread():
        numbers = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
        ended_by = (each for each in numbers if each and signal.getsignal(each) is signal.SIG_DFL)
        former = {number: signal.signal(number, end) for number in ended_by}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
