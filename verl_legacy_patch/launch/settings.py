"""The lines of a launch script: for each, the keys it may be under, its value and why it is there.

A line is left out where the checkout has none of its keys; one that is ``needed`` must be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from verl_legacy_patch.capability import VOLTA
from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.fitting import Fit
from verl_legacy_patch.launch.keys import Taken
from verl_legacy_patch.launch.model import Model
from verl_legacy_patch.launch.precision import NODES, Computes, Role
from verl_legacy_patch.launch.rollout import Rollout
from verl_legacy_patch.launch.shape import Shape
from verl_legacy_patch.target import Target

A = "actor_rollout_ref"
_SHORT = {"float32": "fp32", "float16": "fp16"}
_BUCKET = 64


class Line(NamedTuple):
    """One override, before it is looked up.

    Attributes:
        keys: dotted keys, the preferred one first.
        why: a key of ``words``; empty where the key says enough.
        facts: what the text of ``why`` is filled in with.
        within: files below the package; only what one of them reads counts.
        read_by: a pattern for code in these files that reads a key which the YAML does not have.
    """

    section: str
    keys: tuple[str, ...]
    value: object
    why: str = ""
    needed: bool = False
    within: tuple[str, ...] = ()
    read_by: str = ""
    facts: tuple[tuple[str, object], ...] = ()


class Override(NamedTuple):
    """One override as it is written: ``key`` with its ``+``."""

    section: str
    key: str
    value: object
    why: str
    facts: tuple[tuple[str, object], ...]


class Run(NamedTuple):
    """All that the lines are made of."""

    shape: Shape
    taken: Taken
    trainer: str
    target: Target
    model: Model
    fit: Fit
    rollout: Rollout | None
    train: str
    val: str
    name: str
    epochs: int
    computes: Sequence[Computes]

    def dtype(self, role: Role) -> str:
        """Return what a role computes in."""
        return next((each.dtype for each in self.computes if each.role == role), self.target.dtype)


def overrides(run: Run) -> list[Override]:
    """Return the overrides that the checkout takes.

    Raises:
        LaunchError: a key that nothing can do without is not there.
    """
    lines = _sft(run) if run.rollout is None else _rl(run, run.rollout)
    found = []
    for line in lines:
        key = run.taken.write(line.keys, line.within, line.read_by)
        if key is not None:
            found.append(Override(line.section, key, line.value, line.why, line.facts))
        elif line.needed:
            raise LaunchError(
                f"{run.shape.checkout.root}: nothing takes {line.keys[0]}: launch knows v0.2 and later", 3
            )
    return found


def needs_reference(taken: Taken, algorithm: str) -> bool:
    """Return whether a reference model runs: for GRPO's KL loss, and always before it could be turned off."""
    return algorithm == "grpo" or not taken.has("algorithm.use_kl_in_reward")


def _rl(run: Run, rollout: Rollout) -> Iterator[Line]:
    job, grpo = run.fit.job, run.fit.job.algorithm == "grpo"
    yield Line("data", ("algorithm.adv_estimator",), "grpo" if grpo else "gae", needed=True)
    yield Line("data", ("data.train_files",), run.train, needed=True)
    yield Line("data", ("data.val_files",), run.val, needed=True)
    yield Line("data", ("data.train_batch_size",), job.batch, needed=True)
    yield Line("data", ("data.max_prompt_length",), job.prompt, needed=True)
    yield Line("data", ("data.max_response_length",), job.response, needed=True)
    yield Line("data", ("data.filter_overlong_prompts",), True, "why-overlong")

    yield Line("model", (f"{A}.model.path",), run.model.path, needed=True)
    yield Line("model", (f"{A}.model.use_remove_padding",), False)
    yield Line("model", (f"{A}.model.enable_gradient_checkpointing",), True)
    yield from _attention(run, "model", f"{A}.model")

    yield Line("actor", (f"{A}.actor.ppo_mini_batch_size",), job.batch, needed=True)
    yield Line("actor", (f"{A}.actor.ppo_micro_batch_size_per_gpu",), run.fit.choice.micro, needed=True)
    yield Line("actor", (f"{A}.actor.optim.lr",), "1e-6")
    yield Line("actor", (f"{A}.actor.use_kl_loss",), grpo)
    yield from _compute(run, "actor", "actor", f"{A}.actor.fsdp_config")
    yield from _compile(run, "actor", f"{A}.actor")
    yield from _offload(run, "actor", f"{A}.actor", (f"{A}.actor.fsdp_config",))

    if needs_reference(run.taken, job.algorithm):
        yield Line("ref", (f"{A}.ref.log_prob_micro_batch_size_per_gpu",), run.fit.choice.micro, needed=True)
        yield from _compute(run, "ref", "actor", f"{A}.ref.fsdp_config")
        yield from _compile(run, "ref", f"{A}.ref")
        yield Line("ref", (f"{A}.ref.fsdp_config.param_offload",), True)
    if not grpo:
        yield from _critic(run)
    yield from _rollout(run, rollout)
    yield from _trainer(run, saves=50, tests=-1 if rollout.name == "hf" else 50)
    if rollout.name == "hf":
        reader = ("trainer/ppo/ray_trainer.py",)
        pattern = r"get\([\"']val_before_train[\"']"
        yield Line("trainer", ("trainer.val_before_train",), False, "why-validation", False, reader, pattern)


def _critic(run: Run) -> Iterator[Line]:
    nodes = NODES["critic"]
    yield Line("critic", ("critic.model.path",), run.model.path, needed=True)
    yield Line("critic", ("critic.model.use_remove_padding",), False)
    yield Line("critic", ("critic.model.enable_gradient_checkpointing",), True)
    yield Line("critic", ("critic.ppo_micro_batch_size_per_gpu",), run.fit.choice.micro, needed=True)
    yield Line("critic", ("critic.optim.lr",), "1e-5")
    yield from _compute(run, "critic", "critic", *nodes)
    yield from _offload(run, "critic", "critic", nodes, together=True)


def _rollout(run: Run, rollout: Rollout) -> Iterator[Line]:
    job, choice, node = run.fit.job, run.fit.choice, f"{A}.rollout"
    yield Line("rollout", (f"{node}.name",), rollout.name, needed=True)
    yield Line("rollout", (f"{node}.n",), job.samples, needed=True)
    yield Line("rollout", (f"{node}.tensor_model_parallel_size",), choice.tensor, needed=True)
    yield Line("rollout", (f"{node}.log_prob_micro_batch_size_per_gpu",), choice.micro, needed=True)
    if rollout.name == "hf":
        reader, pattern = ("workers/rollout/hf_rollout.py",), r"get\([\"']micro_batch_size[\"']"
        yield Line("rollout", (f"{node}.micro_batch_size",), choice.chunk, "why-chunks", False, reader, pattern)
        return
    if rollout.server:
        yield Line("rollout", (f"{node}.mode",), "async")
    elif run.taken.has(f"{node}.mode"):
        yield Line("rollout", (f"{node}.mode",), "sync")
    files = engine_files(run.shape, rollout)
    yield Line("rollout", (f"{node}.dtype",), run.target.dtype, needed=True)
    facts = (("space", choice.cache / 2**30), ("sequences", _sequences(run)))
    yield Line("rollout", (f"{node}.gpu_memory_utilization",), run.fit.utilization, "why-utilization", facts=facts)
    yield Line("rollout", (f"{node}.enforce_eager",), True, "why-eager")
    yield Line(
        "rollout", (f"{node}.max_num_batched_tokens",), job.budget, "why-budget", facts=(("length", job.length),)
    )
    yield Line("rollout", (f"{node}.max_model_len",), job.length, within=files)
    if job.caps:
        yield Line("rollout", (f"{node}.max_num_seqs",), choice.sequences, within=files)
    yield Line("rollout", (f"{node}.enable_chunked_prefill",), False, "why-prefill")
    yield Line("rollout", (f"{node}.enable_prefix_caching",), False, "", within=files)
    if not rollout.server:
        return
    if run.shape.server_drops_false:
        for flag in ("prefix_caching", "chunked_prefill"):
            keys = (f"{node}.engine_kwargs.vllm.no_enable_{flag}",)
            why = "why-flags" if flag == "prefix_caching" else ""
            yield Line("rollout", keys, True, why)
    workers = next(each for each in range(8, 0, -1) if job.batch % each == 0)
    yield Line("rollout", (f"{node}.agent.num_workers",), workers, "why-workers")
    tensor = run.model.vocab * run.model.hidden * max(job.compute, job.rollout_compute) / 2**20
    bucket = max(256, -(-int(tensor + 1) // _BUCKET) * _BUCKET)
    keys = (f"{node}.checkpoint_engine.update_weights_bucket_megabytes",)
    yield Line("rollout", keys, bucket, "why-bucket")


def engine_files(shape: Shape, rollout: Rollout) -> tuple[str, ...]:
    """Return the files (below the package) that hand the rollout's keys to vLLM."""
    return ("workers/rollout/vllm_rollout/vllm_async_server.py",) if rollout.server else shape.vllm_files


def _sequences(run: Run) -> int:
    from verl_legacy_patch.launch.memory import cache_of

    return int(run.fit.choice.cache // cache_of(run.model, run.fit.job, run.fit.choice.tensor))


def _sft(run: Run) -> Iterator[Line]:
    job = run.fit.job
    engine = not run.taken.has("model.partial_pretrain")
    columns = ("messages_key",) if engine else ("prompt_key", "response_key")
    values = {"messages_key": "messages", "prompt_key": "question", "response_key": "answer"}
    yield Line("data", ("data.train_files",), run.train, needed=True)
    yield Line("data", ("data.val_files",), run.val, needed=True)
    for column in columns:
        yield Line("data", (f"data.{column}",), values[column], "why-columns" if column == columns[0] else "")
    yield Line("data", ("data.max_length",), job.length, needed=True)
    yield Line("data", ("data.truncation",), "right")
    yield Line("data", ("data.train_batch_size",), job.batch, needed=True)
    yield Line("data", ("data.micro_batch_size_per_gpu",), run.fit.choice.micro, needed=True)
    yield Line("data", ("data.use_dynamic_bsz",), False)

    yield Line("model", ("model.partial_pretrain", "model.path"), run.model.path, needed=True)
    yield Line("model", ("use_remove_padding", "model.use_remove_padding"), False)
    yield Line("model", ("model.enable_gradient_checkpointing",), True)
    yield from _attention(run, "model", "model")
    yield Line("model", ("optim.lr",), "1e-5")
    if engine:
        yield from _compute(run, "engine", "sft", *NODES["sft"])
        yield from _compile(run, "engine", "engine")
        yield from _offload(run, "engine", "engine", ("engine",))
    yield from _trainer(run, saves=50, tests=50)


def _attention(run: Run, section: str, node: str) -> Iterator[Line]:
    yield Line(section, (f"{node}.override_config.attn_implementation",), run.target.attn, "why-attn")


def _compute(run: Run, section: str, role: Role, *nodes: str) -> Iterator[Line]:
    """Choose the dtype of the computation, by whichever key decides it here."""
    chosen = run.dtype(role)
    facts = (("dtype", chosen),)
    dtype = tuple(f"{node}.dtype" for node in nodes)
    if run.taken.write(dtype):
        yield Line(section, dtype, chosen, "why-dtype", facts=facts)
    elif chosen in _SHORT:
        keys = tuple(f"{node}.mixed_precision.param_dtype" for node in nodes)
        yield Line(section, keys, _SHORT[chosen], "why-dtype", facts=facts)


def _compile(run: Run, section: str, node: str) -> Iterator[Line]:
    if run.target.capability < VOLTA:
        keys = (f"{node}.use_torch_compile", f"{node}.fsdp_config.use_torch_compile")
        yield Line(section, keys, False, "why-compile")


def _offload(run: Run, section: str, node: str, places: Iterable[str], together: bool = False) -> Iterator[Line]:
    """Yield the keys that make the estimate's level of offloading.

    Args:
        run: the run.
        section: of the script.
        node: where ``strategy`` stands.
        places: where FSDP's keys may stand.
        together: weights go whenever the optimizer goes.
    """
    places = tuple(places)
    level = run.fit.choice.offload

    def keys(name: str) -> tuple[str, ...]:
        return tuple(f"{place}.{name}" for place in places)

    if level == "stream":
        yield Line(section, (f"{node}.strategy",), "fsdp2", "why-stream")
        yield Line(section, keys("offload_policy"), True)
        return
    weights = level == "all" or (together and level == "optimizer")
    yield Line(section, keys("param_offload"), weights, "why-offload" if level != "none" else "")
    yield Line(section, keys("optimizer_offload"), level != "none")
    yield Line(section, keys("grad_offload"), weights)


def _trainer(run: Run, saves: int, tests: int) -> Iterator[Line]:
    files = _trainer_files(run)
    yield Line("trainer", ("trainer.n_gpus_per_node",), run.fit.job.gpus, within=files)
    yield Line("trainer", ("trainer.nnodes",), 1, within=files)
    yield Line("trainer", ("trainer.logger",), "[console]", "why-logger")
    yield Line("trainer", ("trainer.project_name",), "verl-patch", within=files)
    yield Line("trainer", ("trainer.experiment_name",), run.name, within=files)
    yield Line("trainer", ("trainer.default_hdfs_dir",), None, within=files)
    yield Line("trainer", ("trainer.default_local_dir",), f"checkpoints/{run.name}", within=files)
    yield Line("trainer", ("trainer.total_epochs",), run.epochs, within=files)
    yield Line("trainer", ("trainer.save_freq",), saves, within=files)
    yield Line("trainer", ("trainer.test_freq",), tests, within=files)


def _trainer_files(run: Run) -> tuple[str, ...]:
    """Return the files that read ``trainer.…``: of RL's trainer there are two generations."""
    files = [f"trainer/{run.trainer}.py"]
    if run.rollout is not None:
        folder = f"{run.shape.package}/trainer/ppo"
        prefix = f"{run.shape.package}/"
        files += [path.removeprefix(prefix) for path in run.shape.checkout.list_folder(folder) if path.endswith(".py")]
    return tuple(sorted(files))
