"""The text of a launch script: bash, with one override in a line of an array, so that comments can stand between."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from verl_legacy_patch import __version__
from verl_legacy_patch.launch.gpu import Card
from verl_legacy_patch.launch.settings import Override, Run
from verl_legacy_patch.launch.table import table
from verl_legacy_patch.launch.words import Words

#: What Hydra's grammar takes without quotes (https://hydra.cc/docs/advanced/override_grammar/basic/), and no number,
#: boolean or null by accident.
_PLAIN = re.compile(r"(?=.*[A-Za-z_/])(?!(?:true|false|null|nan|inf)$)[\w/.][\w/.+-]*", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d_.]+(?:e[+-]?\d+)?", re.IGNORECASE)
#: Columns up to which a comment stands beside its override.
_WIDTH = 100
#: The line that the HF rollout needs where ``Shape.hf_lacks_timing``; the worker only reads it.
_TIMING = "sed -i 's/^class BaseShardingManager:$/&\\n    timing = {}/' "
_BASE = "verl/workers/sharding_manager/base.py"


def timing_cure(run: Run) -> str:
    """Return the command that adds the missing line to the checkout."""
    return _TIMING + shlex.quote(f"{_root(run)}/{_BASE}")


def hydra(value: object) -> str:
    """Return a value as Hydra's command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value)
    text = str(value)
    if text.startswith("[") or _NUMBER.fullmatch(text) or _PLAIN.fullmatch(text):
        return text
    # inside quotes only the quote and backslashes before it are special; OmegaConf looks for ${ afterwards
    text = re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + "\\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text) + "'"


def write_script(run: Run, overrides: Sequence[Override], card: Card, notes: Sequence[str], path: str, w: Words) -> str:
    """Return the whole script."""
    lines = ["#!/usr/bin/env bash", *_comment(_head(run, overrides, card, path, w)), "#"]
    lines += [f"# * {note}" for note in notes]
    lines += ["#", *_comment([w("head-estimate"), "", *table(run.model, run.fit, card, w)]), ""]
    lines += ["set -euo pipefail", "", *_environment(run, w), ""]
    if run.rollout is not None and "hf-timing" in run.rollout.notes:
        lines += _preflight(run, w)
    lines.append("overrides=(")
    section = ""
    for each in overrides:
        if each.section != section:
            section = each.section
            lines.append(f"    # {w(f'section-{section}')}")
        word = shlex.quote(f"{each.key}={hydra(each.value)}")
        why = f"# {w(each.why, **dict(each.facts))}" if each.why else ""
        beside = len(word) + len(why) <= _WIDTH
        if why and not beside:
            lines.append(f"    {why}")
        lines.append(f"    {word}  {why if beside else ''}".rstrip())
    lines += [")", "", _command(run), ""]
    return "\n".join(lines)


def _head(run: Run, overrides: Sequence[Override], card: Card, path: str, w: Words) -> list[str]:
    from verl_legacy_patch.checkout import verl_version

    facts = {
        "algorithm": run.fit.job.algorithm.upper(),
        "model": _line(run.model.path.rpartition("/")[2]),
        "gpus": run.fit.job.gpus,
        "gpu": _line(card.name),
        "memory": card.memory,
        "version": verl_version(run.shape.checkout) or "?",
        "tool": __version__,
    }
    lines = [w("head-what", **facts), w("head-more", path=_line(shlex.quote(path)))]
    if any(each.key.startswith("+") for each in overrides):
        lines.append(w("head-plus"))
    return lines


def _line(text: str) -> str:
    """Return a text that cannot end a comment."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _comment(lines: Sequence[str]) -> list[str]:
    return [f"# {line}".rstrip() for line in lines]


def _root(run: Run) -> str:
    """Return the folder that holds the package ``verl``."""
    checkout = run.shape.checkout
    return str((checkout.root / run.shape.package).parent)


def _environment(run: Run, w: Words) -> list[str]:
    """Return the exports: the checkout, and what the engine needs."""
    lines = [
        f"# {w('why-path')}",
        f"verl={shlex.quote(_root(run))}",
        'export PYTHONPATH="$verl${PYTHONPATH:+:$PYTHONPATH}"',
    ]
    if run.rollout is not None and run.rollout.v0:
        lines += [f"# {w('why-v0')}", "export VLLM_USE_V1=0"]
    if run.rollout is None or run.rollout.name == "hf":  # vLLM's memory pool does not go with it
        lines += [f"# {w('why-segments')}", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
    return lines


def _preflight(run: Run, w: Words) -> list[str]:
    """Return a check that stops where the checkout still has its bug."""
    said = shlex.quote(f"{w('preflight')} {timing_cure(run)}")
    return [f'if ! grep -q timing "$verl/{_BASE}"; then', f"    echo {said} >&2", "    exit 1", "fi", ""]


def _command(run: Run) -> str:
    start = "python3 -m"
    if run.rollout is None:
        start += f" torch.distributed.run --standalone --nnodes=1 --nproc_per_node={run.fit.job.gpus} -m"
    return f'{start} verl.trainer.{run.trainer} "${{overrides[@]}}" "$@"'
