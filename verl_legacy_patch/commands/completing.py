"""What Tab completes beyond options and files. Nothing is loaded before the key is pressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def gpu_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the values of --gpu that begin so."""
    from verl_legacy_patch.gpus import GPUS

    return [name for name in (*GPUS, "auto") if name.startswith(incomplete.lower())]


def codemod_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return codemods for a list with commas: those that are not in it yet."""
    from verl_legacy_patch.codemod import discover

    before, comma, last = incomplete.rpartition(",")
    said = before.split(",")
    return [f"{before}{comma}{name}" for name in discover() if name.startswith(last) and name not in said]


def codemods_or_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return what ``explain`` takes: a codemod, or the file of a line."""
    from click.shell_completion import CompletionItem

    from verl_legacy_patch.codemod import discover

    names = [CompletionItem(name) for name in discover() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]
