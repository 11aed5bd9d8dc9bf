"""How much memory of one GPU a run takes: formulas, in bytes, for each of its phases.

Weights are float32 in FSDP's shards whatever the computation is in, and AdamW keeps two values for each. Actor, critic
and engine share the cards and take turns. What a layer needs while gradient checkpointing computes it again, and how
many copies of the logits live at a time, was counted in verl's and transformers' code: see the comments. Sources:
https://huggingface.co/docs/transformers/model_memory_anatomy and
https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from verl_legacy_patch.launch.model import Model

Phase = Literal["generate", "actor", "critic"]
#: From the least to the most that leaves the card while it is not needed. ``stream``: FSDP2's CPU offload, where
#: only the unit at work is on the card.
Offload = Literal["none", "optimizer", "all", "stream"]
FULL = 4  # bytes of float32
#: What vLLM takes beside its weights and caches: NCCL, workspaces, for a server another CUDA context.
ENGINE = 0.75 * (1 << 30)
#: Sequences that vLLM makes room for in its first run, where nobody says how many.
SEQUENCES = 256


class Job(NamedTuple):
    """What is to be run.

    Attributes:
        prompt: tokens at most; ``response`` the same.
        samples: answers to each prompt.
        batch: prompts in a batch, on all GPUs; for SFT: sequences.
        compute: bytes of a value in the computation of the actor, or of SFT.
        eager: whether attention builds the whole score matrix.
        rollout: the engine; None for SFT.
        wrapped: whether FSDP gathers one layer at a time; with the HF rollout it is the whole model.
        caps: whether the number of vLLM's sequences can be set.
        critic_bytes: as ``compute``, for the critic; 0 for the same.
        rollout_bytes: as ``compute``, for the engine; 0 for the same.
    """

    algorithm: Literal["ppo", "grpo", "sft"]
    gpus: int
    prompt: int
    response: int
    samples: int
    batch: int
    compute: int = FULL
    eager: bool = True
    rollout: Literal["hf", "vllm"] | None = None
    caps: bool = False
    critic_bytes: int = 0
    rollout_bytes: int = 0

    @property
    def critic_compute(self) -> int:
        """Bytes of a value in the critic's computation."""
        return self.critic_bytes or self.compute

    @property
    def rollout_compute(self) -> int:
        """Bytes of a value in the engine: the HF rollout generates with the actor itself."""
        return self.compute if self.rollout == "hf" else self.rollout_bytes or self.compute

    @property
    def length(self) -> int:
        """Tokens of a whole sequence."""
        return self.prompt + self.response

    @property
    def wrapped(self) -> bool:
        """Whether FSDP gathers one layer at a time; for the HF rollout it is the whole model."""
        return self.rollout != "hf"

    @property
    def budget(self) -> int:
        """Tokens that vLLM takes in one step: a whole sequence, as nothing is cut into chunks."""
        return max(1024, -(-self.length // 256) * 256)


class Choice(NamedTuple):
    """The values that the memory depends on.

    Attributes:
        micro: sequences that a GPU trains on at a time.
        chunk: prompts that the HF rollout generates for at a time.
        tensor: GPUs that share one vLLM.
        cache: bytes for vLLM's KV cache.
    """

    micro: int = 1
    offload: Offload = "none"
    chunk: int = 1
    tensor: int = 1
    cache: float = 0
    sequences: int = SEQUENCES


class Row(NamedTuple):
    """One line of the table: a key of ``words``, the formula, bytes in each phase."""

    key: str
    formula: str
    bytes: Mapping[Phase, float]


class Estimate(NamedTuple):
    """What a run takes."""

    rows: tuple[Row, ...]

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that there are, in their order."""
        order: tuple[Phase, ...] = ("generate", "actor", "critic")
        return tuple(phase for phase in order if any(phase in row.bytes for row in self.rows))

    def total(self, phase: Phase) -> float:
        """Return the bytes of one phase."""
        return sum(row.bytes.get(phase, 0) for row in self.rows)

    def worst(self) -> float:
        """Return the bytes of the phase that takes most."""
        return max(map(self.total, self.phases))

    def states(self) -> float:
        """Return the bytes that are certain: weights, gradients, optimizer, in the phase where they are most."""
        certain = ("weights", "gradients", "optimizer", "others")
        return max(
            sum(row.bytes.get(phase, 0) for row in self.rows if row.key in certain) for phase in ("actor", "critic")
        )


def estimate(model: Model, job: Job, choice: Choice) -> Estimate:
    """Return the table for one choice."""
    rows: list[Row] = []
    for row in (*_states(model, job, choice), *_work(model, job, choice), *_generation(model, job, choice)):
        kept = {phase: value for phase, value in row.bytes.items() if value > 0}
        if kept:
            rows.append(row._replace(bytes=kept))
    return Estimate(tuple(rows))


def cache_of(model: Model, job: Job, tensor: int = 1) -> float:
    """Return the bytes of the KV cache of one whole sequence, on one of the GPUs that share an engine."""
    return 2 * model.layers * max(1, model.kv_heads / tensor) * model.head_dim * job.rollout_compute * job.length


def host(model: Model, job: Job, choice: Choice, reference: bool) -> float:
    """Return the bytes of main memory for what is not on the card, of all GPUs together: a reference always is not."""
    each = {"none": 0, "optimizer": 8, "all": 12, "stream": 16}[choice.offload]
    total = each * model.parameters + (4 * model.parameters if reference else 0)
    return total + ((16 if each else 0) * _critic(model) if job.algorithm == "ppo" else 0)


def _critic(model: Model) -> int:
    return model.backbone + model.hidden


def _states(model: Model, job: Job, choice: Choice) -> Iterator[Row]:
    """Yield what stays on the card: weights, gradients and optimizer of the model at work, and the others'."""
    share = model.parameters / job.gpus
    critic = _critic(model) / job.gpus if job.algorithm == "ppo" else 0
    works = choice.offload != "stream"
    waits = {"none": 12, "optimizer": 4, "all": 0, "stream": 0}[choice.offload]
    critic_waits = 12 * critic if choice.offload == "none" else 0
    generating = job.rollout is not None
    yield Row(
        "weights",
        "4P/N",
        {"generate": generating * works * 4 * share, "actor": works * 4 * share, "critic": works * 4 * critic},
    )
    yield Row("gradients", "4P/N", {"actor": works * 4 * share, "critic": works * 4 * critic})
    stays = generating * (choice.offload == "none") * 8 * share
    yield Row("optimizer", "8P/N", {"generate": stays, "actor": works * 8 * share, "critic": works * 8 * critic})
    yield Row(
        "others",
        "12P/N" if choice.offload == "none" else "4P/N",
        {
            "generate": generating * critic_waits,
            "actor": critic_waits,
            "critic": waits * share if job.algorithm == "ppo" else 0,
        },
    )


def _work(model: Model, job: Job, choice: Choice) -> Iterator[Row]:
    """Yield what a step of training adds."""
    b, s, r = choice.micro, job.length, job.response
    each: dict[Phase, int] = {"actor": job.compute}
    if job.algorithm == "ppo":
        each["critic"] = job.critic_compute
    # a single GPU computes on its shard, which is the model, as long as that is in the right dtype
    whole = job.gpus > 1 and not job.wrapped
    unit = {
        "actor": model.parameters if whole else model.ends + 2 * model.layer,
        "critic": _critic(model) if whole else model.vocab * model.hidden + 2 * model.layer,
    }
    gathers = {phase: c for phase, c in each.items() if job.gpus > 1 or c != FULL or choice.offload == "stream"}
    formula = "2cP" if whole else f"2c({'1' if model.tied else '2'}Vh + 2 layers)"
    yield Row("gathered", formula, {phase: 2 * c * unit[phase] for phase, c in gathers.items()})
    # the input of each layer is kept; one layer at a time is computed again: projections, norms and their gradients
    # (about 16 times h), gate, up, product and their gradients (6 times i), and for eager attention the scores, the
    # probabilities and the gradients of both, in float32
    kept = b * s * (model.layers * model.hidden + 16 * model.hidden + 6 * model.intermediate)
    scores = 16 * b * model.heads * s * s if job.eager else 0
    formula = "Lbshc + bs(16h+6i)c" + (" + 16bas^2" if job.eager else "")
    yield Row("activations", formula, {phase: kept * c + scores for phase, c in each.items()})
    # RL: logits and their gradient for all tokens; for the response log-softmax, entropy and a gradient.
    # SFT: logits, the shifted copy, log-softmax and a gradient for all tokens
    tokens, formula = (4 * s, "16bVs") if job.algorithm == "sft" else (2 * s + 3 * r, "4bV(2s+3r)")
    yield Row("logits", formula, {"actor": 4 * b * model.vocab * tokens})


def _generation(model: Model, job: Job, choice: Choice) -> Iterator[Row]:
    """Yield what generation adds."""
    c, n, p = job.rollout_compute, job.samples, job.prompt
    if job.rollout == "hf":
        g = choice.chunk * n
        if job.gpus > 1 or c != FULL:
            yield Row("gathered", "cP", {"generate": c * model.parameters})
        prefill = g * p * (16 * model.hidden + 3 * model.intermediate) * c
        prefill += 8 * g * model.heads * p * p if job.eager else 0
        yield Row("activations", "gnp(16h+3i)c" + (" + 8gnap^2" if job.eager else ""), {"generate": prefill})
        yield Row("logits", "12gnV", {"generate": 12 * g * model.vocab})
        yield Row("cache", "2Lkdc gns", {"generate": g * cache_of(model, job)})
    elif job.rollout == "vllm":
        yield Row("engine", "cP/T + 0.75 GiB", {"generate": c * model.parameters / choice.tensor + ENGINE})
        yield Row(
            "activations", "t(8h+4i)c", {"generate": job.budget * (8 * model.hidden + 4 * model.intermediate) * c}
        )
        yield Row("logits", "12qV", {"generate": 12 * choice.sequences * model.vocab})
        yield Row("cache", "2Lkdc qs/T", {"generate": choice.cache})
