"""What launch refuses, in one line: wrong usage, broken models, what is no checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_minis import NEW, OLD, launch, tree
from minis import Verl


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu", "p41"], ["no GPU named", "did you mean p40?"]),
        (["--gpu", "7.5"], ["--memory"]),
        (["--prompt-length", "40000"], ["40512", "32768"]),
        (["--algorithm", "sft", "--samples", "2"], ["--samples"]),
        (["--model", "nowhere"], ["nowhere", "does not exist"]),
        (["--model", "train.parquet"], ["is not a folder"]),
        (["--model", "checkout"], ["no config.json"]),
        (["--train", "nowhere.parquet"], ["--train nowhere.parquet", "No such file"]),
        (["--val", "model"], ["--val model", "Is a directory"]),
    ],
)
def test_wrong_usage_is_one_line(options: list[str], words: list[str], job: Path, verl: Verl) -> None:
    launch(verl, *options).refused(2, *words)
    assert not (job / "train.sh").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["is no JSON"]),
        ("[1]", ["no JSON object"]),
        ("[" * 100_000, ["is no JSON"]),
        ('{"hidden_size": 8}', ["has no num_hidden_layers, num_attention_heads, vocab_size"]),
        ('{"hidden_size": "8", "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["'8'"]),
        ('{"hidden_size": 0, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["hidden_size is 0"]),
        ('{"hidden_size": true, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["True"]),
        ('{"quantization_config": {}}', ["quantised"]),
        ('{"hidden_size": 8, "x": "\\ud800\\u001b[2J"}', ["has no"]),
    ],
)
def test_a_broken_configuration_is_one_line(content: str, words: list[str], job: Path, verl: Verl) -> None:
    (job / "model/config.json").write_text(content)
    launch(verl).refused(2, "config.json", *words)


def test_what_is_no_checkout(job: Path, verl: Verl) -> None:
    options = ("--gpu", "p40", "--model", "model", "--train", "train.parquet", "--val", "val.parquet")
    verl("launch", "model", *options).refused(3, "not a verl checkout")
    (job / "recipe").mkdir()
    (job / "recipe/main.py").write_text("import verl\n")
    verl("launch", "recipe", *options).refused(3, "no verl/ package")
    tree(job / "bare", {"verl/__init__.py": ""})
    verl("launch", "bare", *options).refused(3, "verl/trainer/main_ppo.py")
    tree(job / "odd", {**OLD, "verl/trainer/config/ppo_trainer.yaml": "defaults: [nowhere]\n"})
    verl("launch", "odd", *options).refused(3, "ppo_trainer.yaml")


def test_nothing_of_the_checkout_is_run(job: Path, verl: Verl) -> None:
    trap = "open('ran', 'w')\n"
    tree(job / "checkout", more={"__init__.py": trap, "workers/config/__init__.py": trap, "codemods.py": trap})
    launch(verl).done()
    assert not list(job.rglob("ran"))


def given(*names: str) -> list[str]:
    values = {"model": "model", "train": "train.parquet", "val": "val.parquet", "gpu": "p40"}
    return [word for name in names for word in (f"--{name}", values[name])]


@pytest.mark.parametrize("checkout", ["checkout", "model", "nowhere"])
@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([], "missing: --gpu, --model, --train, --val "),
        (["gpu"], "missing: --model, --train, --val "),
        (["gpu", "train"], "missing: --model, --val "),
    ],
)
def test_all_that_is_missing_is_named_at_once(
    names: list[str], missing: str, checkout: str, job: Path, verl: Verl
) -> None:
    verl("launch", checkout, *given(*names)).refused(2, missing)


def test_only_the_card_is_missing(job: Path, verl: Verl) -> None:
    rest = given("model", "train", "val")
    verl("launch", "checkout", *rest).refused(2, "missing: --gpu ")
    verl("launch", "nowhere", *rest).refused(3, "nowhere does not exist")
    (job / "checkout/.verl-patch.toml").write_text('gpu = "p41"\n')
    verl("launch", "checkout", *rest).refused(2, "did you mean p40?")


@pytest.mark.parametrize(
    "options", [["--gpu", "p41"], ["--model", "nowhere"], ["--train", "gone"], ["--prompt-length", "40000"]]
)
def test_what_is_there_already_is_said_after_wrong_options(options: list[str], job: Path, verl: Verl) -> None:
    (job / "train.sh").write_text("mine\n")
    assert "exists" not in (ran := launch(verl, *options)).err.replace("does not exist", "") and ran.code == 2
    launch(verl).refused(2, "train.sh exists: --force")
    assert (job / "train.sh").read_text() == "mine\n"


def test_cards_below_those_that_are_covered(job: Path, verl: Verl) -> None:
    for algorithm in ("sft", "ppo"):
        launch(verl, "--memory", "12", "--algorithm", algorithm, gpu="k80").refused(3, "start at 5.0")
        ran = launch(verl, "--memory", "24", "--algorithm", algorithm, "--force", gpu="m40").done()
        assert "5.2 is below the cards that are covered here" in ran.err
    launch(verl, "--memory", "24", "--rollout", "vllm", gpu="m40").refused(3, "no vLLM has kernels below 6.0")
    tree(job / "checkout", NEW)
    (job / "checkout/verl/workers/rollout/hf_rollout.py").unlink()
    launch(verl, "--memory", "24", "--force", "--algorithm", "sft", gpu="5.2").done()
