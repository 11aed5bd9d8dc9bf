"""From what was asked for to a script: the one way through the rooms of this package."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from verl_legacy_patch.capability import MAXWELL, PASCAL
from verl_legacy_patch.checkout import verl_version
from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.fitting import Fit, enough_gpus, fit, whole_batch
from verl_legacy_patch.launch.gpu import GIB, Card, find_card
from verl_legacy_patch.launch.keys import Taken
from verl_legacy_patch.launch.memory import Job, Offload, host
from verl_legacy_patch.launch.model import Model, read_model
from verl_legacy_patch.launch.precision import BYTES, Computes, Role, computes
from verl_legacy_patch.launch.rollout import choose_rollout
from verl_legacy_patch.launch.script import timing_cure, write_script
from verl_legacy_patch.launch.settings import A, Override, Run, engine_files, needs_reference, overrides
from verl_legacy_patch.launch.shape import Shape
from verl_legacy_patch.launch.table import data, result, table
from verl_legacy_patch.launch.words import Words
from verl_legacy_patch.target import Target

#: An estimate that is above the card by more than this part of it is not wrong enough to be right.
_DOUBT = 1.5
#: Who trains.
_ROLES: dict[str, tuple[Role, ...]] = {"sft": ("sft",), "grpo": ("actor",), "ppo": ("actor", "critic")}


class Asked(NamedTuple):
    """The options of the command, by their names there."""

    gpu: str
    model: Path
    train: Path
    val: Path
    output: str
    algorithm: Literal["ppo", "grpo", "sft"]
    gpus: int
    memory: float | None
    prompt_length: int
    response_length: int
    batch_size: int | None
    samples: int | None
    epochs: int
    rollout: str | None

    def card(self) -> Card:
        """Return the card with its memory."""
        return find_card(self.gpu, self.memory)


class Planned(NamedTuple):
    """A script that can be written, and what to say about it."""

    run: Run
    card: Card
    overrides: Sequence[Override]
    notes: Sequence[str]
    asked: Asked
    words: Words

    def script(self, notes: Sequence[str]) -> str:
        """Return the text of the script."""
        path = "train.sh" if self.asked.output == "-" else self.asked.output
        return write_script(self.run, self.overrides, self.card, notes, path, self.words)

    def result(self) -> str:
        """Return in one line whether it fits."""
        return result(self.run.fit, self.card, self.words)

    def table(self, formulas: bool) -> list[str]:
        """Return the estimate for people."""
        return table(self.run.model, self.run.fit, self.card, self.words, formulas)

    def data(self) -> dict[str, Any]:
        """Return the estimate and the overrides for programs."""
        found = data(self.run.model, self.run.fit, self.card)
        found["computes"] = {each.role: each.dtype for each in self.run.computes}
        card = {"name": self.card.name, "compute_capability": str(self.card.capability), "gib": self.card.memory}
        return {"format": 1, "gpu": card, "estimate": found, "overrides": {o.key: o.value for o in self.overrides}}


def plan(
    checkout: Checkout, target: Target, asked: Asked, words: Words, patched: Target | None = None, path: str = "."
) -> Planned:
    """Return the script for what was asked for.

    Args:
        checkout: what it starts.
        target: what it is written for.
        asked: the options.
        words: the language.
        patched: what the checkout was rewritten for, where that is known.
        path: the checkout as the user names it.

    Raises:
        LaunchError: what was asked for cannot work; the reason, and what can.
    """
    card = asked.card()
    if target.capability < MAXWELL:
        raise LaunchError(words("no-torch", capability=target.capability), 3)
    train, val = (_file(path, option) for path, option in ((asked.train, "--train"), (asked.val, "--val")))
    model = read_model(asked.model)
    samples = asked.samples or (4 if asked.algorithm == "grpo" else 1)
    _lengths(model, asked)
    if asked.algorithm == "sft" and (asked.samples or asked.rollout):
        raise LaunchError("--samples and --rollout are for ppo and grpo: sft generates nothing")
    shape = Shape(checkout)
    trainer, keys = shape.entry("sft" if asked.algorithm == "sft" else "rl")
    taken = Taken(shape, keys)
    rollout = None
    if asked.algorithm != "sft":
        version = verl_version(checkout) or "?"
        rollout = choose_rollout(shape, target.capability, samples, asked.rollout, version, words)
    precision = [computes(role, shape, taken, trainer, target, patched) for role in _ROLES[asked.algorithm]]
    for each in precision:
        _trainable(each, shape, target, asked, patched, path, words)
    job = Job(
        asked.algorithm,
        asked.gpus,
        asked.prompt_length,
        asked.response_length,
        samples,
        whole_batch(asked.batch_size, asked.gpus),
        BYTES[precision[0].dtype],
        _attention(taken, asked, target, patched) == "eager",
        rollout.name if rollout else None,
        bool(rollout and taken.write((f"{A}.rollout.max_num_seqs",), engine_files(shape, rollout))),
        BYTES[precision[-1].dtype],
        BYTES[target.dtype],
    )
    found = fit(model, job, card, _levels(taken, job))
    name = _name(model, asked)
    run = Run(shape, taken, trainer, target, model, found, rollout, train, val, name, asked.epochs, precision)
    notes = _assumptions(card, words)
    notes += [words("older-card", capability=target.capability)] if target.capability < PASCAL else []
    notes += [words(key) for key in model.notes]
    notes += _tight(found, run, card, words)
    if rollout is not None:
        notes += [words("hf-several")] if rollout.name == "hf" and asked.gpus > 1 else []
        notes += [words(key, command=timing_cure(run)) for key in rollout.notes]
    notes += [note for each in precision if (note := _stays(each, target, words))]
    reference = asked.algorithm != "sft" and needs_reference(taken, asked.algorithm)
    if (memory := host(model, job, found.choice, reference)) > GIB:
        notes.append(words("host-memory", host=memory / GIB))
    return Planned(run, card, overrides(run), notes, asked, words)


def _trainable(
    found: Computes, shape: Shape, target: Target, asked: Asked, patched: Target | None, path: str, words: Words
) -> None:
    """Refuse float16 where nothing scales the loss and no key of a script can choose float32.

    Raises:
        LaunchError: with what can be done instead.
    """
    if not found.hopeless:
        return
    command = f"verl-patch apply {shlex.quote(path)} --gpu {shlex.quote(asked.gpu)}"
    if patched is not None:
        cures = [words("cure-repatch", undo=f"verl-patch revert {shlex.quote(path)}", command=command)]
    else:
        cures = [words("cure-float32")]
    if patched is None and asked.algorithm != "sft":
        cures.append(words("cure-float32-code", command=command))
    facts = {"version": verl_version(shape.checkout) or "?", "step": f"{shape.package}/{found.step}".rstrip("/")}
    role = words(f"role-{found.role}")
    raise LaunchError(words("float16-nan", role=role, cures=" ".join(cures), **facts), 3)


def _stays(found: Computes, target: Target, words: Words) -> str:
    """Return a note about a role that does not compute in what was asked for; empty for none."""
    if found.dtype == target.dtype:
        return ""
    key = "stays-by-key" if found.key else "stays-in-code"
    return words(key, role=words(f"role-{found.role}"), dtype=found.dtype, asked=target.dtype)


def _attention(taken: Taken, asked: Asked, target: Target, patched: Target | None) -> str:
    """Return the attention that will be used: a key's, where one is read, else the code's."""
    node = "model" if asked.algorithm == "sft" else f"{A}.model"
    if patched is None or taken.write((f"{node}.override_config.attn_implementation",)):
        return target.attn
    return patched.attn


def _file(path: Path, option: str) -> str:
    """Return the absolute path of a file of data, which must be readable."""
    full = path.expanduser().absolute()
    try:
        with full.open("rb"):
            pass
    except OSError as error:
        raise LaunchError(f"{option} {show(str(path))}: {error.strerror or error}") from None
    _printable(str(full), f"{option} {show(str(path))}")
    return str(full)


def _printable(path: str, what: str) -> None:
    if not path.isprintable():
        raise LaunchError(f"{what}: a path with control characters or undecodable bytes cannot be given to verl")


def _lengths(model: Model, asked: Asked) -> None:
    length = asked.prompt_length + asked.response_length
    if model.context is not None and length > model.context:
        raise LaunchError(
            f"--prompt-length and --response-length are {length} tokens, the model was made for {model.context}, "
            "which verl asserts: use shorter ones"
        )
    _printable(model.path, f"--model {show(model.path)}")


def _levels(taken: Taken, job: Job) -> tuple[Offload, ...]:
    """Return the levels of offloading that the checkout has and that save something.

    The HF rollout generates with the training's own weights, which must be on the card. In SFT nothing takes turns.
    """
    node = "engine" if job.algorithm == "sft" else f"{A}.actor.fsdp_config"
    streams = taken.write((f"{node}.offload_policy",)) and taken.has(
        f"{node.rpartition('.fsdp_config')[0] or node}.strategy"
    )
    if job.rollout == "hf":
        return ("none", "optimizer")
    levels: tuple[Offload, ...] = ("none",) if job.algorithm == "sft" else ("none", "optimizer", "all")
    return (*levels, "stream") if streams else levels


def _assumptions(card: Card, words: Words) -> list[str]:
    if not card.others:
        return []
    others = ", ".join(map(str, card.others))
    return [words("memory-assumed", gpu=card.name, memory=card.memory, others=others)]


def _tight(found: Fit, run: Run, card: Card, words: Words) -> list[str]:
    """Return a warning where the estimate is above the card; refuse where there is no doubt.

    Weights, gradients and optimizer are plain counts. Activations and caches are estimates: a run that is a little
    above by them may still go.
    """
    if found.fits:
        return []
    model, job = run.model, found.job
    states, total = found.estimate.states(), found.estimate.worst()
    cures = []
    if gpus := enough_gpus(model, job, card, _levels(run.taken, job)):
        cures.append(words("cure-gpus", gpus=gpus))
    other = job._replace(rollout="vllm")
    if job.rollout == "hf" and run.shape.vllm_files and fit(model, other, card, _levels(run.taken, other)).fits:
        cures.append(words("cure-vllm"))
    cures.append(words("cure-smaller" if states > card.usable else "cure-shorter"))
    name = show(model.path.rpartition("/")[2])
    facts = {"model": name, "gpus": job.gpus, "gpu": card.name, "memory": card.memory, "usable": card.usable / GIB}
    facts |= {"states": states / GIB, "total": total / GIB, "cures": " ".join(cures), "doubt": _DOUBT}
    if states > card.usable:
        raise LaunchError(words("too-big", **facts))
    if total > card.usable * _DOUBT:
        raise LaunchError(words("too-much", **facts))
    return [words("too-tight", **facts)]


def _name(model: Model, asked: Asked) -> str:
    """Return a name for the run: of the model's folder what is safe in a path."""
    name = re.sub(r"[^\w.-]+", "-", os.path.basename(model.path), flags=re.ASCII).strip("-.")  # noqa: PTH119
    return f"{name or 'model'}-{asked.algorithm}"
