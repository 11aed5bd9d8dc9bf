"""A miniature verl that can be launched, and a model: what ``launch`` reads of them; and the command run on both."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from minis import Ran, Verl
from repos import write

#: Qwen2.5-0.5B as its config.json says; 494,032,768 parameters by its model card.
QWEN: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}
PPO = """\
data:
  train_files: null
  val_files: null
  train_batch_size: 1024
  max_prompt_length: 512
  max_response_length: 512
actor_rollout_ref:
  model:
    path: null
    override_config: {}
    use_remove_padding: false
    enable_gradient_checkpointing: true
  actor:
    strategy: fsdp
    ppo_mini_batch_size: 256
    ppo_micro_batch_size_per_gpu: null
    use_kl_loss: false
    use_torch_compile: false
    unread: 1
    optim: {lr: 1e-6}
    fsdp_config:
      _target_: verl.workers.config.EngineConfig
      param_offload: false
      optimizer_offload: false
      offload_policy: false
      dtype: float32
  ref:
    log_prob_micro_batch_size_per_gpu: null
    fsdp_config: {param_offload: false}
  rollout:
    name: vllm
    n: 1
    dtype: float32
    prompt_length: ${data.max_prompt_length}
    response_length: ${data.max_response_length}
    tensor_model_parallel_size: 2
    gpu_memory_utilization: 0.5
    enforce_eager: true
    max_num_batched_tokens: 8192
    max_num_seqs: 1024
    enable_chunked_prefill: false
    log_prob_micro_batch_size_per_gpu: null
critic:
  model:
    path: null
    override_config: {}
    fsdp_config: {param_offload: false, optimizer_offload: false}
  optim: {lr: 1e-5}
  ppo_micro_batch_size_per_gpu: null
algorithm:
  adv_estimator: gae
  use_kl_in_reward: false
trainer:
  n_gpus_per_node: 8
  nnodes: 1
  logger: [console, wandb]
  total_epochs: 30
  save_freq: -1
  test_freq: -1
"""
SFT = """\
data: {train_files: null, val_files: null, train_batch_size: 256, micro_batch_size_per_gpu: 4, max_length: 1024}
model: {partial_pretrain: null, enable_gradient_checkpointing: false}
optim: {lr: 1e-5}
trainer: {logger: [console], total_epochs: 4}
"""
READS = """\
def main(config):
    data, actor, rollout, critic = config.data, config.actor_rollout_ref.actor, config.rollout, config.critic
    use(data.train_files, data.val_files, data.train_batch_size, config.algorithm.adv_estimator, data.max_length)
    use(config.model.path, config.model.override_config, config.model.use_remove_padding, config.model.partial_pretrain)
    use(config.model.enable_gradient_checkpointing, actor.ppo_mini_batch_size, actor.ppo_micro_batch_size_per_gpu)
    use(actor.use_kl_loss, self.config.use_torch_compile, actor.optim.lr, data.micro_batch_size_per_gpu)
    use(fsdp_config.param_offload, fsdp_config.optimizer_offload, fsdp_config.offload_policy, actor.strategy)
    use(rollout.log_prob_micro_batch_size_per_gpu, rollout.name, rollout.n, rollout.tensor_model_parallel_size)
    use(config.trainer.n_gpus_per_node, config.trainer.nnodes, config.trainer.logger, config.trainer.total_epochs)
    use(config.trainer.save_freq, config.trainer.test_freq, config.trainer.get("val_before_train", True))
    use(engine_config.mixed_precision, fsdp_config.unknown_field)
"""
WORKER = "def build(self):\n    rollout = HFRollout(module=self.module, config=self.config)\n"
HF = 'def generate(config):\n    return config.get("micro_batch_size", 1), {"num_return_sequences": self.config.n}\n'
VLLM = """\
def build(config):
    engine = LLM(
        dtype=config.dtype,
        gpu_memory_utilization=config.gpu_memory_utilization,
        enforce_eager=config.enforce_eager,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
        enable_chunked_prefill=config.enable_chunked_prefill,
    )
"""
#: With an engine in the worker's process and the HF rollout, as releases up to v0.5 have them.
OLD: Mapping[str, str | bytes] = {
    "verl/__init__.py": "",
    "verl/version/version": "0.4.9\n",
    "verl/trainer/main_ppo.py": '@hydra.main(config_path="config", config_name="ppo_trainer")\ndef main(): ...\n',
    "verl/trainer/ppo/ray_trainer.py": READS,
    "verl/trainer/fsdp_sft_trainer.py": READS,
    "verl/trainer/config/ppo_trainer.yaml": PPO,
    "verl/trainer/config/sft_trainer.yaml": SFT,
    "verl/workers/config/engine.py": "class Base:\n    mixed_precision: dict = None\n\n\n"
    "class EngineConfig(Base):\n    param_offload: bool = False\n    unread_field: int = 0\n",
    "verl/workers/fsdp_workers.py": WORKER,
    "verl/workers/rollout/hf_rollout.py": HF,
    "verl/workers/rollout/vllm_rollout/vllm_rollout.py": VLLM,
}
SERVER = VLLM.replace("engine = LLM(", "arguments = dict(")
#: With nothing but a server, as releases from v0.7 on.
NEW: Mapping[str, str | bytes] = {
    **{path: text for path, text in OLD.items() if "/rollout/" not in path},
    "verl/version/version": "0.7.9\n",
    "verl/workers/fsdp_workers.py": "",
    "verl/workers/rollout/vllm_rollout/vllm_async_server.py": SERVER,
}
#: A training step, and how it scales the loss.
STEP = "def update(self):\n    with torch.autocast(device_type='cuda', dtype={dtype}):\n        {how}\n"
SCALED = "if self.scaler is not None:\n            self.scaler.scale(loss).backward()"


def tree(root: Path, files: Mapping[str, str | bytes] = OLD, more: Mapping[str, str] | None = None) -> Path:
    """Write a checkout; ``more`` adds or replaces files, by their path below ``verl/``."""
    write(root, {**files, **{f"verl/{path}": text for path, text in (more or {}).items()}})
    return root


def model(root: Path, **changes: Any) -> Path:
    """Write the folder of a model: a field that is None is left out."""
    root.mkdir(parents=True, exist_ok=True)
    fields = {key: value for key, value in {**QWEN, **changes}.items() if value is not None}
    (root / "config.json").write_text(json.dumps(fields))
    return root


def safetensors(path: Path, **shapes: list[int]) -> None:
    """Write the header of a file of weights, without the weights."""
    entries = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.fixture
def job(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checkout that needs no rewriting, a model and data; it is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    tree(tmp_path / "checkout")
    model(tmp_path / "model")
    for name in ("train", "val"):
        (tmp_path / f"{name}.parquet").touch()
    return tmp_path


def launch(verl: Verl, *more: str | Path, gpu: str = "p40", **changed: str) -> Ran:
    """Run the command on what is in the current folder."""
    given = {"model": "model", "train": "train.parquet", "val": "val.parquet", **changed}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    return verl("launch", "checkout", "--gpu", gpu, *options, *more)


def words_of(script: str | Path) -> list[str]:
    """Return what the script starts Python with."""
    shim = Path("shim")
    shim.mkdir(exist_ok=True)
    (shim / "python3").write_text('#!/bin/sh\nprintf "%s\\0" "$PYTHONPATH" "$@"\n')
    (shim / "python3").chmod(0o755)
    env = {"PATH": f"{shim.absolute()}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", script], env=env, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def keys_of(script: str | Path) -> dict[str, str]:
    """Return the overrides that the script gives to Python."""
    words = [word.partition("=") for word in words_of(script)[1:]]
    return {key: value for key, equals, value in words if equals and not key.startswith("--")}


def step(dtype: str = "self.param_dtype", scaled: bool = False) -> str:
    """Return a training step: with a dtype from the configuration or written down, with or without loss scaling."""
    return STEP.format(dtype=dtype, how=SCALED if scaled else "loss.backward()")


def computed(verl: Verl, *more: str) -> tuple[dict[str, str], str]:
    """Return what each role computes in, and the notes."""
    data = launch(verl, "--force", "--format", "json", *more, gpu="v100").data
    return data["estimate"]["computes"], "\n".join(data["notes"])
