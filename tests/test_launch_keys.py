"""The keys that a script sets are those that the checkout reads, and their numbers fit together."""

from __future__ import annotations

from pathlib import Path

from launch_minis import OLD, keys_of, launch, tree
from minis import Verl


def test_keys_that_nothing_reads_are_left_out(job: Path, verl: Verl) -> None:
    launch(verl, "--rollout", "vllm").done()
    found = keys_of("train.sh")
    # in the YAML, but FSDP's dtype is read nowhere: the class has another field, which the code reads
    assert "actor_rollout_ref.actor.fsdp_config.dtype" not in found
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert found["actor_rollout_ref.actor.use_torch_compile"] == "False"
    # nothing reads override_config.attn_implementation here
    assert not [key for key in found if "attn_implementation" in key]
    # neither key nor field, and no code that asks for it
    assert not [key for key in found if "filter_overlong" in key or "prefix_caching" in key]
    # read only through another value of the YAML
    assert found["data.max_response_length"] == "512"


def test_a_key_that_is_no_longer_read_goes(job: Path, verl: Verl) -> None:
    launch(verl).done()
    assert keys_of("train.sh")["trainer.test_freq"] == "-1"
    for path in ("trainer/ppo/ray_trainer.py", "trainer/fsdp_sft_trainer.py"):
        file = job / "checkout/verl" / path
        file.write_text(file.read_text().replace(", config.trainer.test_freq", "").replace("actor.use_kl_loss, ", ""))
    launch(verl, "--force").done()
    assert keys_of("train.sh").keys().isdisjoint({"trainer.test_freq", "actor_rollout_ref.actor.use_kl_loss"})


def test_what_reads_the_attention_brings_the_key_in(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/model.py": 'config = override_config.get("attn_implementation", "eager")\n'})
    launch(verl).done()
    assert keys_of("train.sh")["+actor_rollout_ref.model.override_config.attn_implementation"] == "eager"


def test_a_key_that_the_yaml_has_needs_no_plus(job: Path, verl: Verl) -> None:
    launch(verl).done()
    found = keys_of("train.sh")
    assert found["+trainer.val_before_train"] == "False"
    assert found["+actor_rollout_ref.rollout.micro_batch_size"]
    yaml = str(OLD["verl/trainer/config/ppo_trainer.yaml"]).replace(
        "  nnodes: 1", "  nnodes: 1\n  val_before_train: true"
    )
    (job / "checkout/verl/trainer/config/ppo_trainer.yaml").write_text(yaml)
    launch(verl, "--force").done()
    assert keys_of("train.sh")["trainer.val_before_train"] == "False"


def test_a_checkout_without_a_needed_key_is_refused(job: Path, verl: Verl) -> None:
    yaml = str(OLD["verl/trainer/config/ppo_trainer.yaml"]).replace("  train_batch_size: 1024\n", "")
    (job / "checkout/verl/trainer/config/ppo_trainer.yaml").write_text(yaml)
    launch(verl).refused(3, "data.train_batch_size")


def test_the_trainer_says_which_configuration_it_takes(job: Path, verl: Verl) -> None:
    yaml = job / "checkout/verl/trainer/config/ppo_trainer.yaml"
    yaml.rename(yaml.with_name("own.yaml"))
    launch(verl).refused(3, "ppo_trainer.yaml")
    main = job / "checkout/verl/trainer/main_ppo.py"
    main.write_text(main.read_text().replace("ppo_trainer", "own"))
    launch(verl).done()


def test_numbers_fit_together(job: Path, verl: Verl) -> None:
    assert "never run" in launch(verl, "--gpus", "2").done().err
    for gpus in (1, 2, 3, 6, 7):
        launch(verl, "--gpus", str(gpus), "--force", "--rollout", "vllm", "--prompt-length", "900").done()
        found = keys_of("train.sh")
        batch, samples = int(found["data.train_batch_size"]), int(found["actor_rollout_ref.rollout.n"])
        mini = int(found["actor_rollout_ref.actor.ppo_mini_batch_size"])
        micro = int(found["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"])
        assert batch % gpus == 0 and batch % mini == 0 and mini * samples // gpus % micro == 0
        assert gpus % int(found["actor_rollout_ref.rollout.tensor_model_parallel_size"]) == 0
        assert int(found["actor_rollout_ref.rollout.max_num_batched_tokens"]) >= 900 + 512
        assert found["trainer.n_gpus_per_node"] == str(gpus)


def test_a_batch_that_cannot_be_shared_is_refused(job: Path, verl: Verl) -> None:
    launch(verl, "--gpus", "3", "--batch-size", "32").refused(2, "--batch-size 32", "use 30")
    assert not (job / "train.sh").exists()
