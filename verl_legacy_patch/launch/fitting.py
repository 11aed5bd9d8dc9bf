"""Choose what makes a run fit on the card: batch sizes, offloading, how many GPUs share an engine.

verl's own conditions are kept: the batch is a multiple of the GPUs (each gets whole prompts), what one GPU gets of a
mini batch is a multiple of the micro batch, the GPUs are a multiple of those that share an engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.gpu import GIB, Card
from verl_legacy_patch.launch.memory import SEQUENCES, Choice, Estimate, Job, Offload, cache_of, estimate
from verl_legacy_patch.launch.model import Model

_BATCH = 32
_MICRO, _CHUNK = 16, 64
#: More of the card is never given to vLLM: FSDP has to load weights beside it.
_MOST = 0.7
#: Where there is room it gets this much, though the caches may need less.
_USUAL = 0.3
_MANY = 64
#: A batch is only made larger than it has to be up to this part of what is free: the formulas are estimates.
_MARGIN = 0.9


class Fit(NamedTuple):
    """What was chosen, and whether it fits."""

    job: Job
    choice: Choice
    estimate: Estimate
    fits: bool
    utilization: float = 0.0


def whole_batch(batch: int | None, gpus: int) -> int:
    """Return the batch: as asked for, else the first multiple of the GPUs from 32 on.

    Raises:
        LaunchError: what was asked for cannot be divided among the GPUs.
    """
    if batch is None:
        return -(-_BATCH // gpus) * gpus
    if batch % gpus:
        near = max(gpus, batch - batch % gpus)
        raise LaunchError(f"--batch-size {batch} is no multiple of --gpus {gpus}, which verl asserts: use {near}")
    return batch


def fit(model: Model, job: Job, card: Card, levels: Sequence[Offload]) -> Fit:
    """Return the first level of offloading at which the run fits, with the largest batches; else the last one."""
    each = job.batch * job.samples // job.gpus
    for offload in levels:
        for micro in _divisors(each, _MICRO):
            choice = Choice(micro, offload)
            if _training(model, job, choice) > card.usable * (1 if micro == 1 else _MARGIN):
                continue
            generated = _generation(model, job, card, choice)
            if generated is not None:
                choice, utilization = generated
                return Fit(job, choice, estimate(model, job, choice), True, utilization)
    choice = _least(model, job, Choice(1, levels[-1]))
    utilization = 0.3 if job.rollout == "vllm" else 0.0
    return Fit(job, choice, estimate(model, job, choice), False, utilization)


def enough_gpus(model: Model, job: Job, card: Card, levels: Sequence[Offload]) -> int:
    """Return with how many GPUs it would fit, doubling them; 0 when many do not help."""
    gpus = job.gpus * 2
    while gpus <= _MANY:
        if fit(model, job._replace(gpus=gpus, batch=whole_batch(None, gpus)), card, levels).fits:
            return gpus
        gpus *= 2
    return 0


def _training(model: Model, job: Job, choice: Choice) -> float:
    found = estimate(model, job, choice)
    return max(found.total(phase) for phase in found.phases if phase != "generate")


def _generation(model: Model, job: Job, card: Card, choice: Choice) -> tuple[Choice, float] | None:
    """Return the choice with what generation needs, and vLLM's part of the card; None when it does not fit."""
    if job.rollout is None:
        return choice, 0.0
    if job.rollout == "hf":
        for chunk in _divisors(job.batch // job.gpus, _CHUNK):
            tried = choice._replace(chunk=chunk)
            if estimate(model, job, tried).total("generate") <= card.usable * (1 if chunk == 1 else _MARGIN):
                return tried, 0.0
        return None
    for tensor in shares(model, job.gpus):
        for sequences in (64, 16, 4, 1) if job.caps else (SEQUENCES,):
            tried = choice._replace(tensor=tensor, sequences=sequences)
            found = estimate(model, job, tried)
            own = sum(row.bytes.get("generate", 0) for row in found.rows if row.key in ("engine", "logits"))
            own += sum(row.bytes["generate"] for row in found.rows if row.formula.startswith("t("))
            each = cache_of(model, job, tensor)
            wanted = own + each * max(1, min(sequences, job.batch * job.samples * tensor // job.gpus)) * 1.25
            free = card.usable - (found.total("generate") - own)
            part = min(_MOST, free / (card.memory * GIB), max(_USUAL, wanted / (card.memory * GIB)))
            utilization = int(part * 100) / 100
            cache = utilization * card.memory * GIB - own
            if cache >= each * min(4, sequences) or (sequences == 1 and cache >= each):
                return tried._replace(cache=cache), max(0.01, utilization)
    return None


def _least(model: Model, job: Job, choice: Choice) -> Choice:
    """Return the choice that takes least, where nothing fits."""
    tensor = max(shares(model, job.gpus)) if job.rollout == "vllm" else 1
    sequences = 1 if job.caps else SEQUENCES
    cache = cache_of(model, job, tensor) if job.rollout == "vllm" else 0
    return choice._replace(tensor=tensor, sequences=sequences, cache=cache)


def shares(model: Model, gpus: int) -> Iterator[int]:
    """Yield how many GPUs can share an engine: they divide all GPUs, the heads, and the KV heads or are divided."""
    for tensor in range(1, gpus + 1):
        heads = model.kv_heads % tensor == 0 or tensor % model.kv_heads == 0
        if gpus % tensor == 0 and model.heads % tensor == 0 and heads:
            yield tensor


def _divisors(number: int, most: int) -> list[int]:
    """Return the divisors up to ``most``, the largest first."""
    return [each for each in range(min(number, most), 0, -1) if number % each == 0]
