"""What launch refuses, in one line: wrong usage, broken models, what is no checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_minis import OLD, launch, tree
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
