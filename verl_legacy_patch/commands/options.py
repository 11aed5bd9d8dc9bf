"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.completing import codemod_names, gpu_names

if TYPE_CHECKING:
    from verl_legacy_patch.codemod import Codemod
    from verl_legacy_patch.config import Config, Source
    from verl_legacy_patch.scope import Scope
    from verl_legacy_patch.target import Target

Function = TypeVar("Function", bound=Callable[..., Any])


def one_of(*names: str) -> click.Choice[str]:
    """Return the type of an option with these values, in any case."""
    return click.Choice(names, case_sensitive=False)


def lang_option(function: Function) -> Function:
    """Add the option for the language of what is printed, to a command that speaks several."""
    return click.option("--lang", type=one_of("en", "zh"), help="Language. [default: by LANG]")(function)


def target_options(function: Function) -> Function:
    """Add --gpu, --dtype and --attn."""
    for option in (
        click.option(
            "--attn",
            type=one_of("eager", "sdpa"),
            help="Attention implementation to choose. [default: eager]",
        ),
        click.option(
            "--dtype",
            type=one_of("float32", "float16"),
            help="Dtype to choose. [default: float32]",
        ),
        click.option(
            "--gpu",
            metavar="NAME|X.Y|auto",
            shell_complete=gpu_names,
            help="GPU by name (p40, v100, t4, rtx20, ...), by compute capability, or auto to ask nvidia-smi. It "
            "decides which codemods run. [default: as for a P40, 6.1]",
        ),
    ):
        function = option(function)
    return function


def codemod_options(function: Function) -> Function:
    """Add --select, --ignore and --safe-only."""
    for option in (
        click.option(
            "--safe-only/--no-safe-only",
            default=None,
            help="Leave out the codemods whose result a person should review.",
        ),
        click.option(
            "--ignore",
            metavar="NAMES",
            shell_complete=codemod_names,
            help="Codemods to leave out, separated by commas.",
        ),
        click.option(
            "--select",
            metavar="NAMES",
            shell_complete=codemod_names,
            help="Codemods to run, separated by commas. [default: all]",
        ),
    ):
        function = option(function)
    return function


def config_option(function: Function) -> Function:
    """Add --show-config."""
    text = "Print the configuration in force, with where each value comes from, and stop."
    return click.option("--show-config", is_flag=True, help=text)(function)


REPORTS = (".html", ".json", ".md", ".patch", ".diff", ".sarif", ".txt")


def report_option(function: Function) -> Function:
    """Add --report."""

    def known(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
        if value is not None and value.suffix.lower() not in REPORTS:
            raise click.BadParameter(f"{value} does not end in one of: {' '.join(REPORTS)}")
        folder = Path(os.path.realpath(value)).parent if value is not None else None  # through a symlink
        if folder is not None and not folder.is_dir():  # said before a long run, and before its questions
            from verl_legacy_patch.checkout.gitio import show

            raise Refused(
                f"{show(str(value))}: no such folder for the report: create the folder {show(str(folder))}", 3
            )
        return value

    text = f"Write the whole result to a file, as its suffix says ({' '.join(REPORTS)})."
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option("--report", metavar="FILE", type=kind, callback=known, help=text)(function)


def read_target(gpu: str | None, dtype: str | None, attn: str | None) -> Target:
    """Return the target that the options ask for; a wrong GPU is a usage error."""
    from verl_legacy_patch.gpus import TargetError
    from verl_legacy_patch.target import make_target

    try:
        return make_target(gpu, dtype, attn)
    except TargetError as error:
        raise click.UsageError(str(error)) from None


def read_config(root: Path) -> tuple[Config, Source | None]:
    """Return the configuration of the checkout at ``root``, and its file; a wrong file is a usage error."""
    from verl_legacy_patch.config import ConfigError, load

    try:
        return load(root)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


class Run(NamedTuple):
    """What a command runs with: the configuration file and the command line, read and checked.

    Attributes:
        config: what is in force.
        said: what the command line gave of it, by name.
        source: the file that the rest stands in.
    """

    config: Config
    said: Mapping[str, Any]
    source: Source | None
    target: Target
    codemods: list[Codemod]
    scope: Scope

    @property
    def chosen_here(self) -> bool:
        """Whether the command line chose among the codemods: others may run at other times."""
        return not self.said.keys().isdisjoint(("select", "ignore", "safe_only"))

    def branch(self) -> str:
        """Return the branch that a patch goes to."""
        default = f"verl-patch/{self.target.dtype}-{self.target.attn}"
        return default if self.config.branch is None else self.config.branch

    def show(self) -> None:
        """Print the configuration."""
        from verl_legacy_patch.config import show

        gpu = self.config.gpu or str(self.target.capability)
        filled = self.config._replace(gpu=gpu, dtype=self.target.dtype, attn=self.target.attn, branch=self.branch())
        for line in show(filled, self.said, self.source):
            click.echo(line)


def read_run(root: Path, said: Mapping[str, Any]) -> Run:
    """Return what to run in the checkout at ``root``. A wrong option or a wrong file is a usage error.

    Args:
        root: where the configuration file is looked for.
        said: the options of the command line by their name; ``select`` and ``ignore`` as they were typed.
    """
    from verl_legacy_patch.config import merge
    from verl_legacy_patch.gpus import TargetError
    from verl_legacy_patch.scope import Scope
    from verl_legacy_patch.target import make_target

    spoken = {key: value for key, value in said.items() if value is not None}
    spoken |= {key: _split(spoken[key]) for key in ("select", "ignore") if key in spoken}
    config, source = read_config(root)
    config = merge(config, spoken)
    try:
        target = make_target(config.gpu, config.dtype, config.attn)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    codemods = _codemods(config, source.path if source else None)
    return Run(config, spoken, source, target, codemods, Scope(config.exclude, config.include))


def read_codemods(select: str | None, ignore: str | None, safe_only: bool) -> list[Codemod]:
    """Return the selected codemods; an unknown name is a usage error that names the closest one."""
    from verl_legacy_patch.config import Config

    chosen = None if select is None else _split(select)
    return _codemods(Config(select=chosen, ignore=_split(ignore or ""), safe_only=safe_only), None)


def _codemods(config: Config, file: Path | None) -> list[Codemod]:
    from verl_legacy_patch.codemod import discover

    if config.select == ():
        raise click.UsageError("select names no codemod; leave it out to run all")
    known = discover()
    selected = None if config.select is None else _spelled(config.select, known)
    config = config._replace(select=selected, ignore=_spelled(config.ignore, known))
    for names in (config.select or (), config.ignore, config.keys):
        _known(names, known, file)
    chosen = known if config.select is None else config.select
    left = [
        codemod.with_keys(config.keys[name]) if name in config.keys else codemod
        for name, codemod in known.items()
        if name in chosen and name not in config.ignore and not (config.safe_only and codemod.needs_review())
    ]
    if not left:  # "nothing found" would be said for ever
        where = f" (see also {file})" if file else ""
        raise click.UsageError(f"no codemod is left to run: select, ignore and safe-only leave all of them out{where}")
    return left


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _spelled(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return names as the codemods spell them, whatever their case."""
    plain = {name.lower(): name for name in known}
    return tuple(plain.get(name.lower(), name) for name in names)


def _known(names: Iterable[str], known: Mapping[str, Codemod], file: Path | None) -> None:
    for name in names:
        if name not in known:
            import difflib

            close = difflib.get_close_matches(name.lower(), known, 1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"
            where = f" (see also {file})" if file else ""
            raise click.UsageError(f"no codemod named {name!r}{hint}{where}")
