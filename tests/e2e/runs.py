"""Starts verl as a user does, one process, on the emulated card."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.logs import Outcome

HERE = Path(__file__).parent
EMULATION = HERE / "emulation"
TOYS = HERE / "toys"
A = "actor_rollout_ref"

#: What is the same for each run: no network, no accounts, and few threads on a machine that others use as well.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HYDRA_FULL_ERROR": "1",
    "WANDB_MODE": "disabled",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # newer releases look the engine of a device up: ours does what "cuda" does
    "VERL_ENGINE_DEVICE": "cuda",
}


@dataclass(frozen=True)
class Machine:
    """A Python with a release's packages, and the model and data that were made with it."""

    python: Path
    model: Path
    data: Path


def run(
    name: str,
    machine: Machine,
    tree: Path,
    arguments: list[str],
    *,
    gpu: str = "raise",
    flash: str = "absent",
    timeout: float = 900,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """Run the machine's Python with the emulated card on a tree; return what it printed and how it ended."""
    scratch = Path(tempfile.mkdtemp(prefix="vp-"))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RAY_", "LEGACY_GPU"))}
    env |= ENVIRONMENT
    env |= {
        "PYTHONPATH": os.pathsep.join((str(EMULATION), str(tree))),
        "LEGACY_GPU": gpu,
        "LEGACY_GPU_FLASH": flash,
        "HF_DATASETS_CACHE": str(scratch / "datasets"),
        # a socket in it has to have a short path
        "RAY_TMPDIR": str(scratch),
        **(environment or {}),
    }
    started = time.monotonic()
    log = scratch / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [machine.python, *arguments],
            cwd=scratch,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = -signal.SIGALRM
        finally:
            # what the run started and left; Ray's own daemons end with the driver
            kill(process)
    text = log.read_text(errors="replace")
    shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(name, code, time.monotonic() - started, text)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what shares its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def sft(machine: Machine, tree: Path, output: Path, *, steps: int = 8, strategy: str = "fsdp2") -> list[str]:
    """Return the arguments of an SFT run of whichever trainer the tree has, with that trainer's defaults."""
    data, train = machine.data, ["-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc_per_node=1"]
    common = [
        f"data.train_files={data}/sft_train.parquet",
        f"data.val_files={data}/sft_val.parquet",
        "data.max_length=128",
        "data.truncation=right",
        "data.train_batch_size=8",
        "data.micro_batch_size_per_gpu=4",
        "optim.lr=2e-3",
        "trainer.logger=[console]",
        "trainer.total_epochs=20",
        f"trainer.total_training_steps={steps}",
        "trainer.n_gpus_per_node=1",
        f"trainer.default_local_dir={output}",
    ]
    if (tree / "verl/trainer/fsdp_sft_trainer.py").exists():
        if "device: cuda" in (tree / "verl/trainer/config/sft_trainer.yaml").read_text():
            common.append("trainer.device=cpu")
        return [
            *(*train, "-m", "verl.trainer.fsdp_sft_trainer", *common),
            f"model.partial_pretrain={machine.model}",
            f"model.strategy={strategy}",
            "data.prompt_key=question",
            "data.response_key=answer",
        ]
    return [
        *(*train, "-m", "verl.trainer.sft_trainer", *common),
        "engine=fsdp",
        f"engine.strategy={strategy}",
        f"model.path={machine.model}",
        "data.messages_key=messages",
        "data.max_token_len_per_gpu=512",
        "data.use_dynamic_bsz=False",
        "data.num_workers=0",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
    ]


def ppo(
    machine: Machine, tree: Path, output: Path, *, steps: int, algorithm: str = "grpo", strategy: str = "fsdp"
) -> list[str]:
    """Return the arguments of a GRPO (``grpo``) or PPO (``gae``, with a critic) run with the HF rollout.

    Packing, attention, dtypes and compilation are left at the release's defaults.
    """
    data, model = machine.data, machine.model
    arguments = [
        *("-m", "verl.trainer.main_ppo"),
        f"algorithm.adv_estimator={algorithm}",
        f"data.train_files={data}/rl_train.parquet",
        f"data.val_files={data}/rl_val.parquet",
        "data.train_batch_size=8",
        "data.max_prompt_length=64",
        "data.max_response_length=16",
        "data.truncation=right",
        f"{A}.model.path={model}",
        f"{A}.model.enable_gradient_checkpointing=False",
        f"{A}.actor.strategy={strategy}",
        f"{A}.actor.optim.lr=1e-2",
        f"{A}.actor.ppo_mini_batch_size=8",
        f"{A}.actor.ppo_micro_batch_size_per_gpu=4",
        f"{A}.actor.use_kl_loss=True",
        f"{A}.ref.log_prob_micro_batch_size_per_gpu=8",
        f"{A}.rollout.name=hf",
        f"{A}.rollout.n={4 if algorithm == 'grpo' else 1}",
        f"{A}.rollout.tensor_model_parallel_size=1",
        f"{A}.rollout.log_prob_micro_batch_size_per_gpu=8",
        f"critic.model.path={model}",
        "critic.model.enable_gradient_checkpointing=False",
        "critic.ppo_micro_batch_size_per_gpu=4",
        "critic.optim.lr=1e-3",
        "trainer.logger=[console]",
        "trainer.n_gpus_per_node=1",
        "trainer.nnodes=1",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.total_epochs=50",
        "trainer.resume_mode=disable",
        f"trainer.total_training_steps={steps}",
        f"trainer.default_local_dir={output}",
    ]
    configuration = "\n".join(path.read_text() for path in (tree / "verl/trainer/config").rglob("*.yaml"))
    if "dataloader_num_workers" in configuration:
        arguments.append("data.dataloader_num_workers=0")
    ray_init = "ray_kwargs.ray_init" if "ray_kwargs" in configuration else "ray_init"
    if (tree / "verl/workers/actor").is_dir():
        return [*arguments, f"custom_reward_function.path={TOYS}/reward.py", f"{ray_init}.num_cpus=4"]
    return [
        *arguments,
        f"reward.custom_reward_function.path={TOYS}/reward.py",
        "reward.num_workers=1",
        f"{ray_init}.num_cpus=12",
        f"{A}.rollout.mode=async",
        f"{A}.rollout.agent.num_workers=1",
        f"{A}.rollout.val_kwargs.n=1",
        f"{A}.rollout.max_model_len=128",
    ]
