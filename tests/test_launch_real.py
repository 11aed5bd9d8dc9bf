"""The scripts that launch writes for verl's releases: bash reads them, Hydra composes them, verl's conditions hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from minis import Verl, verl
from omegaconf import OmegaConf
from releases import VERSIONS, release
from test_composition import composed

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:invalid escape")]
__all__ = ["verl"]

RELEASES = VERSIONS[1:]
GPUS = (("p40", 1), ("v100", 4), ("t4", 1), ("2080 Ti", 8))
QWEN = {
    "model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True,
    "max_position_embeddings": 32768,
}  # fmt: skip
#: Keys that no code of these releases reads, written down from verl's source and not from our tables:
#: pattern -> first and last release where it is dead.
DEAD = {
    r"actor_rollout_ref\.(actor|ref)\.fsdp_config\.dtype": ("0.8.0", "9"),
    r"critic\..*\.dtype": ("0", "9"),
    r"engine\.dtype": ("0", "9"),
    r"actor_rollout_ref\.(actor|ref)\.use_torch_compile": ("0.8.0", "9"),
    r"actor_rollout_ref\.(actor|ref)\.fsdp_config\.use_torch_compile": ("0", "0.7.9"),
    r"critic\.model\.override_config\..*": ("0", "9"),
    r"actor_rollout_ref\.model\.override_config\..*": ("0", "0.5.9"),
    r"actor_rollout_ref\.rollout\.max_num_seqs": ("0", "0.5.9"),
    r"actor_rollout_ref\.rollout\.update_weights_bucket_megabytes": ("0", "9"),
}
#: What can generate where: (release, compute capability at least) -> rollout; None where nothing can.
CANNOT = {
    "p40": ("0.7.1", "0.8.0", "0.9.0", "0.9.1"),
    "v100": ("0.9.0", "0.9.1"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and data, in a folder whose name has all that a shell and Hydra read in their own way."""
    folder = tmp_path_factory.mktemp("in puts") / "a 'b' \"c\" $d ${e} `f` #g,h=i {j} [k] \\l 中"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text(json.dumps(QWEN))
    (folder / "data.parquet").touch()
    return folder


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The releases; a copy where the script asks for a line to be added first."""
    found = {version: release(version) for version in RELEASES}
    copy = tmp_path_factory.mktemp("tree") / "verl 0.4.1"
    shutil.copytree(found["0.4.1"], copy)
    return {**found, "0.4.1": copy}


def started(script: Path) -> list[str]:
    """Return the words that the script starts Python with, by running it with another ``python3``."""
    folder = script.parent / "shim"
    folder.mkdir(exist_ok=True)
    shim = folder / "python3"
    shim.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    shim.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", script, "more=1"], env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    *words, last = done.stdout.decode().split("\0")
    assert last == "" and words.pop() == "more=1"
    return words


def launch(verl: Verl, tree: Path, inputs: Path, script: Path, *more: str) -> Any:
    data = inputs / "data.parquet"
    return verl("launch", tree, "--model", inputs / "model", "--train", data, "--val", data, "-o", script, *more)


def primary(tree: Path, words: Sequence[str]) -> Path:
    """Return the configuration that the trainer of a command composes: what its source says."""
    module = [word for word in words if word.startswith("verl.")][-1]
    source = (tree / (module.replace(".", "/") + ".py")).read_text()
    name = re.search(r"config_path=[\"']config[\"'], config_name=[\"'](\w+)[\"']", source)
    assert name
    return Path("verl/trainer/config") / f"{name[1]}.yaml"


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(("gpu", "gpus"), GPUS)
@pytest.mark.parametrize("algorithm", ["ppo", "grpo", "sft"])
def test_scripts_compose(
    version: str, gpu: str, algorithm: str, gpus: int, trees: Mapping[str, Path], inputs: Path, verl: Verl,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    tree, script = trees[version], tmp_path / "train.sh"
    more = ("--gpu", gpu, "--algorithm", algorithm, "--gpus", str(gpus), "--prompt-length", "300")
    ran = launch(verl, tree, inputs, script, *more)
    if algorithm != "sft" and version in CANNOT.get(gpu, ()):
        capability = {"p40": "6.1", "v100": "7.0"}[gpu]
        ran.refused(3, capability, version, "v0.2 to", "--algorithm sft")
        assert not script.exists()
        return
    assert ran.code == 0, ran.err
    if "sed -i" in ran.err:
        cure = re.search(r"(sed -i .*)$", ran.err, re.MULTILINE)
        assert cure and version == "0.4.1"
        subprocess.run(["bash", "-c", cure[1]], check=True)
    words = started(script)
    overrides = words[words.index([word for word in words if word.startswith("verl.")][-1]) + 1 :]
    monkeypatch.chdir(tree)
    path = primary(tree, words)
    before = OmegaConf.to_container(composed(tree, path), resolve=False)
    config = composed(tree, path, *overrides)  # Hydra refuses unknown keys, and a + for known ones
    for override in overrides:
        key, _, _ = override.partition("=")
        if not key.startswith("+"):
            assert has(before, key), key
        for pattern, (first, last) in DEAD.items():
            assert not (re.fullmatch(pattern, key.lstrip("+")) and first <= version <= last), key
    assert len({override.partition("=")[0] for override in overrides}) == len(overrides)
    if algorithm == "sft":
        conditions_of_sft(config, gpus, inputs)
    else:
        conditions_of_rl(config, version, gpu, gpus, algorithm, inputs)


def has(node: Any, key: str) -> bool:
    """Return whether a composed configuration has a key, also one without a value yet (``???``)."""
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


def conditions_of_sft(config: Any, gpus: int, inputs: Path) -> None:
    each = config.data.train_batch_size / gpus
    assert each == int(each) and each % config.data.micro_batch_size_per_gpu == 0
    assert config.data.max_length == 812
    model = config.model.get("partial_pretrain") or config.model.path
    assert model == str(inputs / "model")
    assert config.data.train_files == str(inputs / "data.parquet")
    assert not config.get("use_remove_padding", False) and not config.model.get("use_remove_padding", False)


def conditions_of_rl(config: Any, version: str, gpu: str, gpus: int, algorithm: str, inputs: Path) -> None:
    """What verl asserts in validate_config and the workers, and what this card needs."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert config.actor_rollout_ref.model.path == str(inputs / "model")
    assert config.data.train_files == str(inputs / "data.parquet")
    assert config.trainer.n_gpus_per_node == gpus and config.trainer.nnodes == 1
    batch = config.data.train_batch_size
    assert batch % gpus == 0 and batch >= actor.ppo_mini_batch_size and batch % actor.ppo_mini_batch_size == 0
    each = actor.ppo_mini_batch_size * rollout.n / gpus
    assert each == int(each) > 0 and each % actor.ppo_micro_batch_size_per_gpu == 0
    assert rollout.log_prob_micro_batch_size_per_gpu > 0
    assert gpus % rollout.tensor_model_parallel_size == 0
    assert rollout.n == (4 if algorithm == "grpo" else 1)
    assert config.algorithm.adv_estimator == {"grpo": "grpo", "ppo": "gae"}[algorithm]
    assert config.trainer.logger == ["console"]
    if algorithm == "ppo":
        assert config.critic.model.path == str(inputs / "model")
        assert each % config.critic.ppo_micro_batch_size_per_gpu == 0
    assert not config.actor_rollout_ref.model.use_remove_padding
    hf = gpu == "p40" and ((algorithm == "ppo" and version < "0.6") or version == "0.4.1")
    assert rollout.name == ("hf" if hf else "vllm")
    if hf:
        assert batch / gpus % rollout.micro_batch_size == 0 and rollout.tensor_model_parallel_size == 1
        assert not config.trainer.val_before_train
        return
    assert rollout.dtype == "float32" and rollout.enforce_eager
    assert rollout.max_num_batched_tokens >= 812
    assert not rollout.enable_chunked_prefill and not rollout.get("enable_prefix_caching", False)
    assert 0 < rollout.gpu_memory_utilization < 0.8
    server = version >= "0.7"
    assert rollout.get("mode", "sync") == ("async" if server else "sync")
    if server:
        assert batch % rollout.agent.num_workers == 0
        largest = 151936 * 896 * 4 / 2**20
        assert rollout.checkpoint_engine.update_weights_bucket_megabytes >= largest
        flags = rollout.engine_kwargs.vllm
        drops = {"no_enable_prefix_caching": True, "no_enable_chunked_prefill": True} if version < "0.9.1" else {}
        assert flags == drops


@pytest.mark.parametrize(("gpu", "version"), [("p40", "0.6.1"), ("v100", "0.5.0"), ("t4", "0.9.0"), ("p40", "0.2")])
def test_exports_do_something(
    gpu: str, version: str, trees: Mapping[str, Path], inputs: Path, verl: Verl, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    assert launch(verl, trees[version], inputs, script, "--gpu", gpu, "--algorithm", "ppo").code == 0
    exports = re.findall(r"^export (\w+)", script.read_text(), re.MULTILINE)
    more = {"p40 0.2": ["PYTORCH_CUDA_ALLOC_CONF"], "t4 0.9.0": []}.get(f"{gpu} {version}", ["VLLM_USE_V1"])
    assert exports == ["PYTHONPATH", *more]


@pytest.mark.parametrize(
    ("gpu", "version", "algorithm"), [("p40", "0.6.1", "grpo"), ("t4", "0.9.0", "ppo"), ("v100", "0.8.0", "sft")]
)
def test_doctor_finds_nothing_wrong_with_them(
    gpu: str, version: str, algorithm: str, trees: Mapping[str, Path], inputs: Path, verl: Verl, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    assert launch(verl, trees[version], inputs, script, "--gpu", gpu, "--algorithm", algorithm).code == 0
    found = verl("doctor", trees[version], "--gpu", gpu, "--script", script, "--format", "json").data["findings"]
    about_scripts = {"unknown-key", "dead-key", "token-budget", "script-value", "script-unread", "sequence-parallel"}
    assert {finding["id"] for finding in found}.isdisjoint(about_scripts), found


@pytest.mark.parametrize("version", [version for version in RELEASES if version < "0.9"])
def test_a_model_that_fits_only_in_main_memory(
    version: str, trees: Mapping[str, Path], tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen2.5-1.5B on one card of 20 GiB: 23 GiB of weights, gradients and optimizer."""
    big = {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({**QWEN, **big}))
    (tmp_path / "data.parquet").touch()
    tree, script = trees[version], tmp_path / "train.sh"
    ran = launch(verl, tree, tmp_path, script, "--gpu", "v100", "--memory", "20", "--algorithm", "ppo")
    if version < "0.4":  # FSDP2 came with v0.4
        ran.refused(2, "23.0 GiB", "--gpus")
        return
    assert ran.code == 0 and "main memory" in ran.err, ran.err
    words = started(script)
    overrides = words[words.index("verl.trainer.main_ppo") + 1 :]
    monkeypatch.chdir(tree)
    config = composed(tree, primary(tree, words), *overrides)
    critic = config.critic.fsdp if "fsdp" in config.critic else config.critic.model.fsdp_config
    for strategy, fsdp in (
        (config.actor_rollout_ref.actor.strategy, config.actor_rollout_ref.actor.fsdp_config),
        (config.critic.strategy, critic),
    ):
        assert strategy == "fsdp2" and fsdp.offload_policy is True
