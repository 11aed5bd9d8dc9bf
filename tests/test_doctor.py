"""``verl-patch doctor`` on machines that are faked: their nvidia-smi, their Python, their variables."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from machines import P40, Doctor, Machine, said
from minis import Verl, make_mini

from verl_legacy_patch.doctor import environment
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.show import FORMAT, WORDS

# machines


def test_a_machine_where_nothing_is_wrong(doctor: Doctor, machine: Machine) -> None:
    data = doctor()
    assert (data["code"], data["findings"]) == (0, [])
    assert data["gpus"] == [{"name": "Tesla P40", "compute_capability": "6.1", "memory_mib": 24576}]
    assert (data["driver"], data["python"], data["cuda"], data["compute_capability"]) == (
        "535.161.07", "3.10.14", "11.8", "6.1",
    )  # fmt: skip
    assert data["executable"] == machine.python and data["versions"]["ray"] == "2.44.0"


def test_the_weakest_of_several_cards_counts(doctor: Doctor, machine: Machine) -> None:
    machine.smi(
        "NVIDIA A40, 8.6, 46068 MiB, 535.1", "Tesla T4, 7.5, 15360 MiB, 535.1", "Tesla T4, 7.5, 15360 MiB, 535.1"
    )
    data = doctor()
    assert data["compute_capability"] == "7.5" and data["code"] == 0
    [row] = data["findings"]
    assert row["detail"].startswith("NVIDIA A40 (8.6), 2 x Tesla T4 (7.5)")
    assert "CUDA_VISIBLE_DEVICES=0 " in row["cure"]


def test_only_visible_cards_count(doctor: Doctor, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.smi("NVIDIA A40, 8.6, 46068 MiB, 535.1", P40)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    data = doctor()
    assert data["compute_capability"] == "8.6" and [card["name"] for card in data["gpus"]] == ["NVIDIA A40"]


def test_a_driver_that_knows_no_capabilities(doctor: Doctor, machine: Machine) -> None:
    old = 'case "$*" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\'; exit 2;; esac'
    machine.smi(script=f"{old}\necho 'Tesla V100-SXM2-16GB, 16160 MiB, 450.80.02'")
    data = doctor()
    assert data["gpus"] == [{"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0", "memory_mib": 16160}]
    assert data["driver"] == "450.80.02"


def test_fields_that_are_not_told(doctor: Doctor, machine: Machine) -> None:
    machine.smi("GRID T4-16Q, [N/A], [N/A], 535.1", "Mystery 9000, [Not Supported], [Insufficient Permissions], [N/A]")
    data = doctor()
    assert [tuple(card.values()) for card in data["gpus"]] == [
        ("GRID T4-16Q", "7.5", None),
        ("Mystery 9000", None, None),
    ]
    assert said(data) == [("warns", "unknown-gpu")] and data["compute_capability"] == "7.5"


@pytest.mark.parametrize(
    ("script", "level", "says"),
    [
        (None, "warns", "cannot run nvidia-smi (No such file or directory)"),
        ("echo 'No devices were found'", "fails", "nvidia-smi shows no GPU (No devices were found)"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18", "fails", "NVML"),
        ("exit 1", "fails", "nvidia-smi shows no GPU"),
        ("/bin/sleep 60 & wait", "fails", "nvidia-smi does not answer within 0.3 s"),
    ],
)
def test_no_card(
    script: str | None, level: str, says: str, doctor: Doctor, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PATIENCE", 0.3 if script and "sleep" in script else 20)
    if script is None:
        (machine.folder / "nvidia-smi").unlink()
    else:
        machine.smi(script=script)
    data = doctor()
    assert says in data["gpu_error"] and "\n" not in data["gpu_error"]
    assert said(data) == [(level, "no-visible-gpu")] and data["compute_capability"] == "6.1"
    assert doctor("--gpu", "p40")["findings"] == []  # planned for another machine


# what is printed


def test_text_in_both_languages(verl: Verl, machine: Machine) -> None:
    machine.answers(versions={"torch": "2.8.0+cu128", "vllm": "0.8.5"}, cuda="12.8", arch=["sm_70", "sm_75"])
    ran = verl("doctor", "--python", machine.python, "--lang", "en")
    out = ran.out.decode()
    assert ran.code == 1 and "\x1b" not in out
    assert "GPUs:        Tesla P40 (6.1)\n" in out
    assert f"{machine.python} -m pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126\n" in out
    assert out.index("will fail: PyTorch") < out.index("may fail: vLLM's wheels")
    assert out.endswith("1 will fail, 1 may fail.\n") and max(map(len, out.splitlines())) < 500
    ran = verl("doctor", "--python", machine.python, "--lang", "zh")
    assert (
        ran.code == 1
        and "会失败：这个 PyTorch" in ran.out.decode()
        and "1 项会失败，1 项可能失败。" in ran.out.decode()
    )
    machine.answers()
    ran = verl("doctor", "--python", machine.python, "--lang", "zh")
    assert ran.code == 0 and ran.out.decode().endswith("\n没有发现会失败的地方。\n")


def test_a_newcomer_is_told_what_to_install(verl: Verl, machine: Machine, mini: Path) -> None:
    machine.answers(versions={}, cuda=None, arch=[])
    for language, head in (("en", "install for this card and this release:\n"), ("zh", "为这块显卡和这个版本安装：\n")):
        out = verl("doctor", mini, "--python", machine.python, "--lang", language).out.decode()
        assert out.count(head) == 1 and "vllm-pascal" in out and "'transformers<5'" in out and "https://" in out
        assert out.index(head) < out.index("torch==2.7.1")
    assert head not in verl("doctor", "--python", machine.python, "--lang", "zh").out.decode()


def test_words_are_the_same_in_both_languages() -> None:
    assert WORDS["en"].keys() == WORDS["zh"].keys()


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    text = (files("verl_legacy_patch") / "schema" / f"doctor-{FORMAT}.json").read_text("utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def test_json_is_what_the_schema_says(
    doctor: Doctor, machine: Machine, verl: Verl, validator: Any, tmp_path: Path
) -> None:
    made = [doctor(), doctor(make_mini(tmp_path / "v")), verl("doctor", "--message", "x", "--format", "json").data]
    machine.smi("Mystery, [N/A], [N/A], [N/A]")
    machine.answers(versions={}, cuda=None, arch=[])
    made += [doctor("--lang", "zh"), verl("doctor", "--message", "CUDA out of memory", "--format", "json").data]
    diagnosis = validator.schema["$defs"]["diagnosis"]["properties"]
    for data in made:
        data.pop("code", None)
        validator.validate(data)
        assert data.keys() in (diagnosis.keys(), validator.schema["$defs"]["answer"]["properties"].keys())
    assert not validator.is_valid({**made[1], "findings": [{**made[1]["findings"][0], "level": "perhaps"}]})


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--gpu", "p41"], 2, "did you mean p40?"),
        (["--script", "x.sh"], 2, "--script needs the CHECKOUT"),
        (["/nowhere"], 3, "/nowhere does not exist"),
        (["."], 3, "is not a verl checkout"),
        (["--lang", "fr"], 2, "--lang"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str], code: int, words: str, verl: Verl, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.folder)
    verl("doctor", "--python", machine.python, *arguments).refused(code, words)


def test_an_environment_without_known_cards_has_no_weakest() -> None:
    assert Environment().weakest() is None
