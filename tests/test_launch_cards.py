"""What a card and a checkout can do together: engines, compilation, memory."""

from __future__ import annotations

import os
from pathlib import Path

from launch_minis import NEW, OLD, keys_of, launch, model, step, tree
from minis import Verl


def test_a_card_that_the_checkout_cannot_generate_on(job: Path, verl: Verl) -> None:
    (job / "new").mkdir()
    tree(job / "new", NEW)
    os.rename("checkout", "old")  # noqa: PTH104
    os.rename("new", "checkout")  # noqa: PTH104
    for algorithm in ("ppo", "grpo"):
        ran = launch(verl, "--algorithm", algorithm)
        ran.refused(3, "6.1", "0.7.9", "V1 engine", "v0.2 to v0.6.1", "--algorithm sft")
    launch(verl, "--algorithm", "sft").done()
    ran = launch(verl, "--force", gpu="v100").done("0.10.2 to 0.12")
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "vllm"
    newer = "raise ValueError(f'vllm versions are 0.18.0+')\n"
    tree(job / "checkout", NEW, more={"third_party/vllm/__init__.py": newer})
    launch(verl, "--force", gpu="v100").refused(3, "7.0", "vLLM 0.18", "v0.2 to v0.8.0")
    launch(verl, "--force", gpu="t4").done("7.5")
    launch(verl, "--force", "--rollout", "hf", gpu="t4").refused(3, "no HF rollout", "v0.5")


def test_the_hf_rollout_where_it_cannot_give_several_answers(job: Path, verl: Verl) -> None:
    text = str(OLD["verl/trainer/ppo/ray_trainer.py"]) + "    gen_batch = gen_batch.repeat(repeat_times=2)\n"
    tree(job / "checkout", more={"trainer/ppo/ray_trainer.py": text})
    launch(verl).done("build for Pascal", "cannot give several answers")
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "vllm"
    assert "export VLLM_USE_V1=0" in (job / "train.sh").read_text()
    launch(verl, "--rollout", "hf", "--force").refused(3, "4 answers")
    launch(verl, "--algorithm", "ppo", "--force").done()
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "hf"


def test_compilation_is_turned_off_where_triton_cannot_run(job: Path, verl: Verl) -> None:
    for gpu, there in (("p40", True), ("v100", False)):
        launch(verl, "--force", gpu=gpu).done()
        assert ("actor_rollout_ref.actor.use_torch_compile" in keys_of("train.sh")) == there


def test_a_card_that_can_do_all_of_it_needs_no_patch(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step("torch.bfloat16")})
    ran = launch(verl, "--format", "json", gpu="a100")
    assert "verl-patch apply" not in "".join(ran.data["notes"])
    assert ran.data["estimate"]["computes"] == {"actor": "bfloat16"}


# --- memory


def test_offloading_is_chosen_before_it_is_refused(job: Path, verl: Verl) -> None:
    big = {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960}
    model(job / "model", **big)  # Qwen2.5-1.5B: 23 GiB with gradients and optimizer
    ran = launch(verl)
    ran.refused(2, "1 x p40 (24 GiB)", "23.0 GiB", "--gpus 4", "--rollout vllm")
    launch(verl, "--rollout", "vllm").done("main memory")
    found = keys_of("train.sh")
    assert found["actor_rollout_ref.actor.strategy"] == "fsdp2"
    assert found["actor_rollout_ref.actor.fsdp_config.offload_policy"] == "True"
    launch(verl, "--gpus", "2", "--force").done()
    assert keys_of("train.sh")["actor_rollout_ref.actor.fsdp_config.param_offload"] == "False"
    launch(verl, "--memory", "48", "--force").done()


def test_what_is_only_estimated_is_a_warning(job: Path, verl: Verl) -> None:
    ran = launch(verl, "--prompt-length", "4000", "--algorithm", "sft").done(
        "more than the card has", "150%", "Shorter"
    )
    assert ran.out.startswith(b"Does not fit by the estimate: ")
    assert "more than the card has" in (job / "train.sh").read_text(), ran
    launch(verl, "--prompt-length", "14000", "--algorithm", "sft", "--force").refused(2, "87.7 GiB", "Shorter")


def test_memory_of_cards(job: Path, verl: Verl) -> None:
    launch(verl, gpu="v100").done("16 GB is assumed", "32 GB, too", "--memory")
    assert "assumed" not in launch(verl, "--force", "--memory", "32", gpu="v100").done().err
    assert "assumed" not in launch(verl, "--force", gpu="Tesla V100-SXM2-32GB").done().err
    data = launch(verl, "--force", "--format", "json", gpu="RTX 2080 Ti").data
    assert data["gpu"]["gib"] == 11
