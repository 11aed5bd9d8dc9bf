"""``verl-patch launch``: a launch script for this checkout, this card, this model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.completing import gpu_names
from verl_legacy_patch.commands.options import lang_option, one_of, read_config, read_run

if TYPE_CHECKING:
    from verl_legacy_patch.branch.former import Former
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.commands.options import Run as Configured
    from verl_legacy_patch.launch.plan import Planned

_PATH = click.Path(path_type=Path)


@click.command("launch")
@click.argument("checkout", type=_PATH, default=".")
@click.option(
    "--gpu",
    metavar="NAME|X.Y|auto",
    shell_complete=gpu_names,
    help="The card: p40, v100, '2080 Ti', ..., or auto. [default: that of the checkout's configuration]",
)
@click.option("--model", metavar="FOLDER", type=_PATH, help="Folder of the model, with its config.json.")
@click.option("--train", metavar="FILE", type=_PATH, help="Training data (parquet).")
@click.option("--val", metavar="FILE", type=_PATH, help="Validation data (parquet).")
@click.option(
    "--algorithm",
    type=one_of("ppo", "grpo", "sft"),
    default="grpo",
    help="[default: grpo]",
)
@click.option("--gpus", metavar="N", type=click.IntRange(1, 1024), default=1, help="How many of them. [default: 1]")
@click.option(
    "--memory", metavar="GB", type=click.FloatRange(1, 1024), help="Of one card, where there are several sizes."
)
@click.option("--prompt-length", metavar="N", type=click.IntRange(1), default=512, help="Tokens. [default: 512]")
@click.option("--response-length", metavar="N", type=click.IntRange(1), default=512, help="Tokens. [default: 512]")
@click.option("--batch-size", metavar="N", type=click.IntRange(1), help="Prompts in a batch. [default: 32 or so]")
@click.option("--samples", metavar="N", type=click.IntRange(1), help="Answers to a prompt. [default: 4 for grpo]")
@click.option("--epochs", metavar="N", type=click.IntRange(1), default=1, help="[default: 1]")
@click.option(
    "--rollout",
    type=one_of("hf", "vllm"),
    help="Engine. [default: what the card can run]",
)
@click.option("--dtype", type=one_of("float32", "float16"), help="As for apply. [default: float32]")
@click.option("--attn", type=one_of("eager", "sdpa"), help="As for apply. [default: eager]")
@click.option("-o", "--output", metavar="FILE", type=_PATH, default="train.sh", help="[default: train.sh; - is stdout]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@lang_option
@click.option(
    "--format",
    "form",
    type=one_of("text", "json"),
    default="text",
    help="How to print the estimate.",
)
@click.option("--formulas", is_flag=True, help="Show the formulas of the estimate, also where the script exists.")
def command(
    checkout: Path,
    output: Path,
    force: bool,
    lang: str | None,
    form: str,
    formulas: bool,
    dtype: str | None,
    attn: str | None,
    **said: Any,
) -> None:
    """Write a launch script that trains FOLDER with the verl CHECKOUT on a card.

    It has only keys that this checkout knows and reads. Batch sizes and offloading fit the card's memory by an
    estimate, which is shown: up to half above the card is a warning, more is refused. More overrides can be given to
    the script when it is run.
    """
    from verl_legacy_patch.branch.former import former
    from verl_legacy_patch.checkout import CheckoutError
    from verl_legacy_patch.doctor.catalogue import language
    from verl_legacy_patch.launch import LaunchError
    from verl_legacy_patch.launch.files import kept, refuse_existing, write
    from verl_legacy_patch.launch.plan import Asked, plan
    from verl_legacy_patch.launch.words import Words

    words = Words(language(lang, os.environ))
    aside = str(output) == "-"
    try:
        opened, said["gpu"] = _complete(checkout, said)
        asked = Asked(output=str(output), **said)
        settings = {"gpu": asked.card().capability, "dtype": dtype, "attn": attn}
        configured = read_run(opened.root, {key: str(value) for key, value in settings.items() if value})
        found = former(opened, configured.target)
        planned = plan(opened, configured.target, asked, words, found.patched if found else None, str(checkout))
        shown_only = formulas and not aside and not force and kept(output)
        if not aside and not shown_only:
            refuse_existing(output, force)
        notes = [*_advice(opened, configured, found, checkout, planned, words), *planned.notes]
        text = planned.script(notes)
        if not aside and not shown_only:
            write(output, text, force)
    except LaunchError as error:
        raise Refused(str(error), error.code) from None
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    if form == "json":
        from verl_legacy_patch.commands.output import emit_json

        path = None if aside or shown_only else str(output)
        emit_json({**planned.data(), "notes": list(notes), "path": path, "script": text})
        return
    _show(planned, notes, text if aside else None, formulas)
    if not aside:
        from verl_legacy_patch.commands.output import say

        say([words("exists-shown" if shown_only else "wrote", path=shlex.quote(str(output)))])


def _complete(path: Path, said: Mapping[str, Any]) -> tuple[Checkout, str]:
    """Return the checkout and the card: as given, else as configured there. All that is missing is named at once."""
    from verl_legacy_patch.checkout import CheckoutError, open_checkout

    missing = [f"--{name}" for name in ("model", "train", "val") if said[name] is None]
    opened, gpu, trouble = None, said["gpu"], None
    try:
        opened = open_checkout(path)
        gpu = gpu or read_config(opened.root)[0].gpu
    except CheckoutError as error:
        trouble = error
    if gpu is None and (missing or trouble is None):
        missing.insert(0, "--gpu")
    if missing:
        raise click.UsageError(f"missing: {', '.join(missing)}")
    if opened is None or gpu is None:
        raise Refused(str(trouble), 3)
    return opened, gpu


def _advice(
    checkout: Checkout, run: Configured, standing: Former | None, path: Path, planned: Planned, words: Any
) -> list[str]:
    """Return what to do with the checkout first: rewrite it, or rewrite it for another target than it is."""
    from verl_legacy_patch.capability import AMPERE
    from verl_legacy_patch.doctor.code import in_own_code
    from verl_legacy_patch.plan import make_plan

    if run.target.capability >= AMPERE:  # such a card can do all of it
        return []
    quoted = shlex.quote(str(path))
    options = [f"--{name} {run.said[name]}" for name in ("dtype", "attn") if name in run.said]
    command = " ".join([f"verl-patch apply {quoted} --gpu {shlex.quote(planned.asked.gpu)}", *options])
    notes = []
    if standing is not None and not (standing.fits and not standing.codemods):
        note = words("patched-other", patched=str(standing.patched), asked=str(run.target))
        # what is fixed in the code and cannot train in float16 is better left as it is
        if all(role.scaled or role.key for role in planned.run.computes) or run.target.dtype != "float16":
            note += words("patched-anew", undo=f"verl-patch revert {quoted}", command=command)
        notes.append(note)
    found = make_plan(checkout, run.codemods, run.target, within=run.scope)
    left = in_own_code(found.rewritten())
    if left and not notes:
        notes.append(words("not-patched", count=len(left), command=command))
    return notes


def _show(planned: Planned, notes: Sequence[str], text: str | None, formulas: bool) -> None:
    """Print whether it fits, then the notes, then the estimate; the script itself where no file was named."""
    from verl_legacy_patch.commands.output import emit, say

    result, table = planned.result(), ["", *planned.table(formulas), ""]
    if text is not None:
        emit([text.encode("utf-8", "surrogateescape")])
        say([result])
    else:
        emit([f"{result}\n".encode()])
    say(f"* {note}" for note in notes)
    if text is not None:
        say(table)
    else:
        emit(f"{line}\n".encode("utf-8", "surrogateescape") for line in table)
