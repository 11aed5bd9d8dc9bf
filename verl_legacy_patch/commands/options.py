"""Options that several commands share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from verl_legacy_patch.codemod import Codemod
    from verl_legacy_patch.target import Target

Function = TypeVar("Function", bound=Callable[..., Any])


def target_options(function: Function) -> Function:
    """Add --gpu, --dtype and --attn."""
    for option in (
        click.option(
            "--attn",
            type=click.Choice(["eager", "sdpa"]),
            help="Attention implementation to choose. [default: eager]",
        ),
        click.option("--dtype", type=click.Choice(["float32", "float16"]), help="Dtype to choose. [default: float32]"),
        click.option(
            "--gpu",
            metavar="NAME|X.Y|auto",
            help="GPU by name (p40, v100, t4, rtx20, ...), by compute capability, or auto to ask nvidia-smi. It "
            "decides which codemods run. [default: as for a P40, 6.1]",
        ),
    ):
        function = option(function)
    return function


def codemod_options(function: Function) -> Function:
    """Add --select, --ignore and --safe-only."""
    for option in (
        click.option("--safe-only", is_flag=True, help="Leave out the codemods whose result a person should review."),
        click.option("--ignore", metavar="NAMES", help="Codemods to leave out, separated by commas."),
        click.option("--select", metavar="NAMES", help="Codemods to run, separated by commas. [default: all]"),
    ):
        function = option(function)
    return function


def read_target(gpu: str | None, dtype: str | None, attn: str | None) -> Target:
    """Return the target that the options ask for; a wrong GPU is a usage error."""
    from verl_legacy_patch.target import TargetError, make_target

    try:
        return make_target(gpu, dtype, attn)
    except TargetError as error:
        raise click.UsageError(str(error)) from None


def read_codemods(select: str | None, ignore: str | None, safe_only: bool) -> list[Codemod]:
    """Return the selected codemods; an unknown name is a usage error that names the closest one."""
    from verl_legacy_patch.codemod import discover

    known = discover()
    chosen = _names(select, known, "--select") if select is not None else list(known)
    without = _names(ignore, known, "--ignore") if ignore is not None else []
    return [
        known[name] for name in known
        if name in chosen and name not in without and not (safe_only and known[name].grade == "review")
    ]  # fmt: skip


def _names(text: str, known: dict[str, Codemod], option: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"
            raise click.BadParameter(f"no codemod named {name!r}{hint}", param_hint=option)
    return names
