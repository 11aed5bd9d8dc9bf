"""What each role computes in: float16 only where the loss is scaled, and what a patch has made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_minis import OLD, computed, keys_of, launch, step, tree
from minis import Verl
from repos import make


def test_float16_counts_where_the_loss_is_scaled(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step(scaled=True)})
    launch(verl, "--dtype", "float16", "--attn", "sdpa", gpu="v100").done()
    found = keys_of("train.sh")
    assert found["actor_rollout_ref.rollout.dtype"] == "float16"
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp16"
    assert computed(verl, "--dtype", "float16")[0] == {"actor": "float16"}


def test_a_role_without_loss_scaling_stays_in_float32_by_its_key(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step()})
    launch(verl, "--dtype", "float16", gpu="v100").done("The actor computes in float32", "NaN")
    found = keys_of("train.sh")
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert found["actor_rollout_ref.rollout.dtype"] == "float16"
    rows = launch(verl, "--force", "--format", "json", "--dtype", "float16", gpu="v100").data["estimate"]["rows"]
    full = launch(verl, "--force", "--format", "json", gpu="v100").data["estimate"]["rows"]
    logits, single = ([row["bytes"] for row in each if row["part"] == "cache"] for each in (rows, full))
    assert logits != single
    assert [row["bytes"]["actor"] for row in rows if row["part"] == "weights"] == [4 * 494_032_768]


@pytest.mark.parametrize(
    ("algorithm", "file", "role"),
    [
        ("grpo", "workers/actor/dp_actor.py", "The actor"),
        ("ppo", "workers/critic/dp_critic.py", "The critic"),
        ("sft", "trainer/fsdp_sft_trainer.py", "SFT"),
    ],
)
def test_float16_is_refused_where_it_is_written_down_and_cannot_train(
    algorithm: str, file: str, role: str, job: Path, verl: Verl
) -> None:
    reads = str(OLD["verl/trainer/fsdp_sft_trainer.py"]) if algorithm == "sft" else ""
    good = {"workers/actor/dp_actor.py": step(scaled=True)}
    tree(job / "checkout", more={**good, file: reads + step("torch.bfloat16")})
    options = ("--algorithm", algorithm, "--dtype", "float16")
    launch(verl, *options, gpu="v100").refused(3, role, f"verl/{file}", "NaN", "--dtype float32")
    assert not (job / "train.sh").exists()
    tree(job / "checkout", more={**good, file: reads + step("torch.float16")})
    launch(verl, *options, gpu="v100").refused(3, role)
    # rewritten to float32 it trains, and that is what is counted
    tree(job / "checkout", more={**good, file: reads + step("torch.float32")})
    roles, notes = computed(verl, *options)
    assert roles[{"grpo": "actor", "ppo": "critic", "sft": "sft"}[algorithm]] == "float32"
    assert f"{role} computes in float32, not in float16" in notes


def test_the_step_is_judged_as_apply_judges_it(job: Path, verl: Verl) -> None:
    """One backward pass without a scaler is enough."""
    both = step(scaled=True) + "\n\ndef more(loss):\n    loss.backward()\n"
    for text, dtype in ((both, "float32"), (step(scaled=True), "float16"), ("self.scaler = GradScaler()\n", "float32")):
        tree(job / "checkout", more={"workers/actor/dp_actor.py": text})
        assert computed(verl, "--dtype", "float16")[0] == {"actor": dtype}, text


def test_the_configuration_file_of_the_checkout_counts(job: Path, verl: Verl) -> None:
    (job / "checkout/.verl-patch.toml").write_text('dtype = "float16"\n')
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step(scaled=True)})
    launch(verl, gpu="v100").done()
    assert keys_of("train.sh")["actor_rollout_ref.rollout.dtype"] == "float16"


# --- patched, or not yet


@pytest.fixture
def patched(job: Path, verl: Verl) -> Path:
    """The checkout, patched for float32 on a T4; its actor's dtype is written down."""
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step("torch.bfloat16")})
    make(job / "checkout", {})
    verl("apply", "checkout", "--gpu", "t4").done()
    return job


def test_a_patch_for_another_target_is_named(patched: Path, verl: Verl) -> None:
    assert "patched for" not in launch(verl, gpu="v100").done().err
    ran = launch(verl, "--force", "--dtype", "float16", "--attn", "sdpa", gpu="t4")
    ran.done("patched for float32 + eager for compute capability 7.5", "float16 + sdpa")
    assert "apply" not in ran.err  # for float16 its step, which scales nothing, could not train
    undo = "verl-patch revert checkout && verl-patch apply checkout --gpu t4 --attn sdpa"
    launch(verl, "--force", "--attn", "sdpa", gpu="t4").done("To patch it anew: " + undo)
    # a P40 needs more of the same, and here nothing of it is left
    assert "patched for" not in launch(verl, "--force", gpu="p40").done().err
    data = launch(verl, "--force", "--format", "json", "--dtype", "float16", gpu="t4").data
    assert data["estimate"]["computes"] == {"actor": "float32"}


def test_the_advice_has_the_whole_target(job: Path, verl: Verl) -> None:
    more = {"workers/actor/dp_actor.py": step(scaled=True), "workers/actor.py": "dtype = torch.bfloat16\n"}
    tree(job / "checkout", more=more)
    ran = launch(verl, "--dtype", "float16", "--attn", "sdpa", gpu="t4")
    ran.done("cannot do: 1", "Run first: verl-patch apply checkout --gpu t4 --dtype float16 --attn sdpa\n")


def test_a_checkout_that_is_not_patched(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor.py": "dtype = torch.bfloat16\n"})
    launch(verl).done("cannot do: 1", "verl-patch apply checkout --gpu p40")
