"""Which engine generates: what the card can run and the checkout can start.

vLLM's wheels need compute capability 7.0; builds for Pascal (vllm-pascal) exist from 0.5.5 to 0.10.0, with the V0
engine. V0 is gone in 0.11. V1 needs 8.0, or vLLM 0.10.2 and float16 or float32 from 7.0 on
(https://docs.vllm.ai/en/latest/usage/v1_guide.html), and is known to run on Volta up to 0.12.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from verl_legacy_patch.capability import AMPERE, PASCAL, TURING, VOLTA, Capability
from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.shape import Shape
from verl_legacy_patch.launch.words import Words

#: The newest vLLM that is known to run on Volta.
_VOLTA_LAST = (0, 12)


class Rollout(NamedTuple):
    """How answers are generated.

    Attributes:
        name: ``rollout.name``.
        server: whether vLLM runs as a server of its own (V1), not in the worker's process.
        v0: whether vLLM's V0 engine has to be asked for.
        notes: keys of ``words`` that the user has to know.
    """

    name: Literal["hf", "vllm"]
    server: bool = False
    v0: bool = False
    notes: tuple[str, ...] = ()


def choose_rollout(
    shape: Shape, capability: Capability, samples: int, asked: str | None, version: str, words: Words
) -> Rollout:
    """Return the engine for a card; a build of vLLM is only asked for where nothing else runs.

    Raises:
        LaunchError: nothing that this checkout can start runs on the card, or not what was asked for.
    """
    facts = {"version": version, "capability": str(capability), "samples": samples, "what": "--rollout hf"}
    if asked == "hf" or (asked is None and capability < VOLTA and shape.has_hf):
        if shape.has_hf and (samples == 1 or shape.hf_samples):
            return Rollout("hf", notes=("hf-slow", *(("hf-timing",) if shape.hf_lacks_timing else ())))
        if asked == "hf":
            why = words("no-hf-samples", **facts) + words("no-hf-instead") if shape.has_hf else words("no-hf", **facts)
            raise LaunchError(why, 3)
    if refused := refusal(shape, capability):
        raise LaunchError(words(refused, floor=".".join(map(str, shape.vllm_floor)), **facts), 3)
    if shape.vllm_files:
        if capability < VOLTA:
            more = ("hf-samples",) if shape.has_hf and asked is None else ()
            return Rollout("vllm", v0=True, notes=(*more, "vllm-pascal"))
        return Rollout("vllm", v0=capability < AMPERE, notes=("vllm-v0",) if capability < AMPERE else ())
    if capability >= AMPERE:
        return Rollout("vllm", server=True)
    note = "vllm-v1-new" if shape.vllm_floor > _VOLTA_LAST else "vllm-v1"
    return Rollout("vllm", server=True, notes=(note,))


def refusal(shape: Shape, capability: Capability) -> str:
    """Return why no vLLM that the checkout can start runs on a card, as a key of ``words``; empty where one does."""
    if capability < PASCAL:
        return "refuse-maxwell"
    if shape.vllm_files:
        return ""
    if not shape.server:
        return "no-rollout"
    if capability < VOLTA:
        return "refuse-pascal"
    return "refuse-volta" if capability < TURING and shape.vllm_floor > _VOLTA_LAST else ""
