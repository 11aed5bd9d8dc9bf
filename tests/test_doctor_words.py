"""Doctor in Chinese: nothing of what is said stays in English."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from launch_minis import launch, model
from machines import Machine
from minis import Verl, make_mini
from test_doctor_script import CASES, RUN, VERL, rows

from verl_legacy_patch.doctor import environment, show
from verl_legacy_patch.doctor.told import told

TOLD = yaml.safe_load((files("verl_legacy_patch.doctor") / "told.yaml").read_text("utf-8"))
#: Three English words in a row are a sentence; names and keys are not.
ENGLISH = re.compile(r"(?:[A-Za-z]{2,} ){2,}[a-z]{2,}")


@pytest.mark.parametrize("row", TOLD, ids=lambda row: row["en"][:30])
def test_templates_have_the_same_places_and_each_is_the_first_for_its_own(row: dict[str, str]) -> None:
    places = re.findall(r"\{(\w+)\}", row["en"])
    assert sorted(places) == sorted(re.findall(r"\{(\w+)\}", row["zh"])) and re.search("[一-鿿]", row["zh"])
    text = row["en"].format(**{name: f"<{name}>" for name in places})
    assert told(text, "en") == text
    assert told(text, "zh") == row["zh"].format(**{name: f"<{name}>" for name in places})
    assert told("something else", "zh") == "something else"


@pytest.mark.parametrize("words", CASES)
def test_reasons_of_a_script(words: str, tmp_path: Path) -> None:
    make_mini(tmp_path / "verl", VERL, git_too=False)
    for script in (RUN + words, f"{RUN}critic.model.override_config.attn_implementation=eager"):
        for row in rows(script, tmp_path / "verl"):
            said = row.detail("zh")
            assert re.search("[一-鿿]", said) and not ENGLISH.search(said), said


@pytest.mark.parametrize(
    ("smi", "python"),
    [
        (None, "exit 3"),
        ("/bin/sleep 60 & wait", "/bin/sleep 60 & wait"),
        ("exit 1", 'echo \'{"python": "3.10.1", "versions": {"torch": "2.7.1"}}\'; /bin/sleep 60'),
        ("exit 1", 'echo \'{"python": "3.10.1", "versions": {"torch": "2.7.1"}}\'; kill -SEGV $$'),
    ],
)
def test_errors_of_the_machine(
    smi: str | None, python: str, verl: Verl, machine: Machine, mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SECONDS", 0.5)
    monkeypatch.setattr(environment, "PATIENCE", 0.5)
    if smi is None:
        (machine.folder / "nvidia-smi").unlink()
    else:
        machine.smi(script=smi)
    machine.program("envs/python", python)
    out = verl("doctor", mini, "--python", machine.python, "--lang", "zh").out.decode()
    plain = [line for line in out.splitlines() if not line.strip().startswith(("报错", "https://"))]
    assert [line for line in plain if ENGLISH.search(re.sub(r"pip install .*|CUDA_\w+", "", line))] == []
    assert all(entry in show.WORDS["zh"] for entry in show.WORDS["en"])


def test_formulas_of_launch(job: Path, verl: Verl) -> None:
    for size in ({}, {"hidden_size": 2048, "num_hidden_layers": 30, "num_attention_heads": 16}):
        model(job / "model", **size)
        for more in (["--rollout", "vllm"], ["--algorithm", "sft"]):
            out = launch(verl, "--force", "--formulas", "--lang", "zh", "--gpus", "8", *more).out.decode()
            assert "2 层" in out and "layers" not in out + (job / "train.sh").read_text("utf-8")
