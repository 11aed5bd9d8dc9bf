"""``verl-patch demo``: the whole job on a built-in miniature checkout, so that nobody needs a verl clone to see it."""

from __future__ import annotations

import io
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import read_target, target_options

#: A file that is shown in full: few lines, and several codemods have a part in it.
SHOWN = "verl/trainer/config/rollout/rollout.yaml"


@click.command("demo")
@click.option(
    "--keep", metavar="DIR", type=click.Path(path_type=Path), help="Make the checkout in DIR and leave it, patched."
)
@target_options
def command(keep: Path | None, gpu: str | None, dtype: str | None, attn: str | None) -> int:
    """Run the whole job on a built-in miniature verl checkout: dry run, apply, look, undo.

    It needs no network, no verl clone and no git identity. The checkout is made in a temporary folder and removed at
    the end, unless --keep names a folder for it. Everything goes to stdout.
    """
    from verl_legacy_patch.checkout import CheckoutError
    from verl_legacy_patch.miniature import own_git

    options = _options(gpu, dtype, attn)
    with tempfile.TemporaryDirectory(prefix="verl-patch-demo-", ignore_cleanup_errors=True) as temporary:
        folder = _kept(keep) if keep else Path(temporary).resolve() / "verl"
        home = Path(temporary) / "home"
        home.mkdir()
        try:
            with own_git(home):
                return _Demo(folder, options).run(undo=keep is None)
        except CheckoutError as error:
            raise Refused(str(error), 3) from None
        except OSError as error:
            raise Refused(f"cannot write {folder}: {error.strerror or error}", 3) from None


def _options(gpu: str | None, dtype: str | None, attn: str | None) -> list[str]:
    """Return the target options for ``apply``; a wrong one is an error before anything is made."""
    read_target(gpu, dtype, attn)
    given = {"--gpu": gpu, "--dtype": dtype, "--attn": attn}
    return [word for name, value in given.items() if value is not None for word in (name, value)]


def _kept(folder: Path) -> Path:
    """Return the folder that the user wants to keep; it must not hold anything yet."""
    folder = folder.expanduser().absolute()
    if folder.is_dir() and any(folder.iterdir()):
        raise Refused(f"{folder} is not empty: name a new folder", 2)
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder} is a file: name a new folder", 2)
    return folder


class _Demo:
    """The steps, each shown as the command that a user would type."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.folder = folder
        self.options = options

    def run(self, *, undo: bool) -> int:
        """Run every step and return an exit code. With ``undo``, the checkout ends as it began."""
        from verl_legacy_patch import miniature

        base = miniature.make_repository(self.folder)
        count = sum(1 for _ in miniature.sample())
        click.echo(f"A miniature verl checkout of {count} files, in {self.folder}, on its branch {miniature.BRANCH}.")
        self._heading("1. Dry run: which files would change, and why. Nothing is written. (Without --stat: the patch.)")
        if code := self._run("apply", "--dry-run", "--stat"):
            return code
        self._heading("2. The same for real: a new branch, one commit.")
        if code := self._run("apply", only_the_end=True):
            return code
        self._heading("3. What changed, in one of the files.")
        self._git("show", "--format=%h %s", "-U1", "HEAD", "--", SHOWN)
        branch = self._read("symbolic-ref", "--short", "HEAD")
        self._heading("4. Undo.")
        if not undo:
            click.echo("Not done here: the patched checkout stays where it is. Read the patch, and go back:")
            click.echo(f"  {self._words('git', 'show')}")
            click.echo(f"  {self._words('verl-patch', 'revert', str(self.folder))}")
            click.echo(f"  {self._words('git', 'branch', '-D', branch)}")
            return 0
        if code := self._run("revert"):
            return code
        click.echo()
        self._git("branch", "-D", branch)
        same = self._read("rev-parse", "HEAD") == base and not self._read("status", "--porcelain")
        click.echo("\nThe checkout is as it was." if same else "\nThe checkout is not as it was: please report this.")
        click.echo("Read the whole patch: verl-patch demo --keep DIR, then git -C DIR show")
        click.echo("Now your own: verl-patch apply ~/verl --dry-run")
        return 0 if same else 3

    def _heading(self, text: str) -> None:
        click.echo(f"\n{click.style(text, bold=True)}\n")

    def _words(self, program: str, *arguments: str) -> str:
        place = ["-C", str(self.folder)] if program == "git" else []
        return shlex.join([program, *place, *arguments])

    def _run(self, command: str, *flags: str, only_the_end: bool = False) -> int:
        """Run a command as the console script would, its talk on the same stream as its patch.

        With ``only_the_end``, of its talk only the last paragraph is shown, when it went well: the rest is no news.
        """
        from verl_legacy_patch.cli import run

        options = self.options if command == "apply" else ()
        arguments = [command, str(self.folder), *options, *flags]
        click.echo(f"$ {self._words('verl-patch', *arguments)}\n")
        talk = io.StringIO()
        with redirect_stderr(talk if only_the_end else sys.stdout):
            code = run(arguments)
        said = talk.getvalue()
        if only_the_end and code == 0:
            end = said.rpartition("\n\n")[2]
            said = f"(the summary of the dry run, again)\n\n{end}"
        click.echo(said, nl=False)
        return code

    def _git(self, *arguments: str) -> None:
        click.echo(f"$ {self._words('git', *arguments)}")
        click.echo(self._read(*arguments))

    def _read(self, *arguments: str) -> str:
        from verl_legacy_patch.checkout import gitio

        return gitio.read(arguments, self.folder).decode("utf-8", "replace").rstrip()
