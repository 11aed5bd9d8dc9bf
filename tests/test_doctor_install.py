"""What doctor says to install for a card and a release, and that no cure contradicts it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from test_doctor_checks import GOOD, PASCAL, TURING, VOLTA

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.doctor import checks, facts, install, show
from verl_legacy_patch.doctor.catalogue import entries, find
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.findings import Case, Code, Settled

RAY = {"transformers": "<4.48", "ray": ">=2.38"}
SFT = Settled(generates=False, serves=False)
#: Release, GPU, script -> what is said of vLLM, and of torch.
INSTALL: list[tuple[str, Capability, Settled | None, str, str]] = [
    ("0.2", PASCAL, None, "--target vllm-pascal --target-version 0.6.3", "comes with vLLM"),
    ("0.4.1", PASCAL, None, "vllm-pascal --target-version 0.8.5   (or none, with", "comes with vLLM"),
    ("0.6.1", PASCAL, None, "--target vllm-pascal --target-version 0.8.5", "comes with vLLM"),
    ("0.6.1", VOLTA, None, "pip install vllm==0.8.5", "comes with vLLM"),
    ("0.7.1", PASCAL, None, "none: no vLLM that verl 0.7.1 takes runs on 6.1", "torch==2.7.1 --index-url"),
    ("0.8.0", TURING, None, "pip install vllm==0.10.2", "comes with vLLM"),
    ("0.9.0", VOLTA, None, "none: no vLLM", "whl/cu126"),
    ("0.10.0.dev", PASCAL, None, "none: no vLLM", "whl/cu126"),
    ("0.9.0", TURING, None, "vllm==0.18.0   (verl 0.9.0 takes no older one; 0.13 is", "comes with vLLM"),
    ("0.6.1", PASCAL, SFT, "none: the script runs SFT", "torch==2.7.1 --index-url"),
    ("0.1", VOLTA, None, "not known here", "torch==2.7.1 --index-url"),
]


@pytest.mark.parametrize(("release", "gpu", "script", "vllm", "torch"), INSTALL)
def test_what_to_install(release: str, gpu: Capability, script: Settled | None, vllm: str, torch: str) -> None:
    case = Case(GOOD, gpu, Code(release, pins=RAY), script=script)
    for language in ("en", "zh"):
        data = show.diagnosis(GOOD, case, show.Names("~/my verl", "/env/python"), [], language)["install"]
        rows = {row["name"]: row["how"] for row in data}
        assert rows.keys() == {"vLLM", "torch", "verl", "flash-attn"}
        assert not re.search(r"\{\w+\}", "".join(rows.values())) and all(row["source"] for row in data)
        if language == "en":
            assert vllm in rows["vLLM"] and torch in rows["torch"]
        assert "'transformers<4.48' 'ray[default]>=2.38' tensordict" in rows["verl"]
        assert "install --no-deps -e ~/'my verl'" in rows["verl"]


def test_transformers_5_is_only_for_releases_that_run_with_it() -> None:
    for release, wanted in (("0.5.0", "'transformers<5' "), ("0.9.0", "install transformers ")):
        [verl] = [step for step in install.steps(Case(GOOD, TURING, Code(release))) if step.name == "verl"]
        assert wanted in verl.text("en")


def test_the_block_is_shown_where_something_is_missing() -> None:
    full = {**GOOD.versions, "ray": "2.44"}
    assert not install.wanted(Case(replace(GOOD, versions=full), PASCAL, Code("0.6.1")))
    assert install.wanted(Case(GOOD, PASCAL, Code("0.6.1")))
    assert install.steps(Case(GOOD, PASCAL)) == []


#: Machines whose torch cannot be used, by what is wrong.
UNUSABLE: dict[str, dict[str, Any]] = {
    "missing": {"versions": {}, "cuda": None, "arch": None},
    "for the CPU": {"versions": {"torch": "2.7.1+cpu"}, "cuda": None, "arch": None},
    "broken": {"versions": {"torch": "2.7.1"}, "torch_error": "OSError: x", "cuda": None, "arch": None},
    "for newer cards": {"versions": {"torch": "2.8.0"}, "cuda": "12.8", "arch": ("sm_80",)},
    "too new for the driver": {"versions": {"torch": "2.8.0"}, "driver": "470.1", "cuda": "12.6"},
}


@pytest.mark.parametrize("what", UNUSABLE)
@pytest.mark.parametrize(("release", "gpu", "script"), [row[:3] for row in INSTALL])
def test_no_cure_installs_a_torch_beside_that_of_vllm(
    what: str, release: str, gpu: Capability, script: Settled | None
) -> None:
    environment = replace(GOOD, **UNUSABLE[what])
    case = Case(environment, gpu, Code(release), planned=True, script=script)
    names = show.Names("~/verl", "python")
    for language in ("en", "zh"):
        data = show.diagnosis(environment, case, names, checks.examine(case), language)
        block = {row["name"]: row["how"] for row in data["install"]}
        cures = [row["cure"] for row in data["findings"]]
        brings = "index-url" not in block["torch"]
        assert any("index-url" in cure for cure in cures) != brings, (block, cures)
        if "driver" not in what:
            assert brings == any(word in cure for cure in cures for word in ("its vLLM brings", "其中的 vLLM"))


def test_a_torch_that_is_there_goes_before_that_of_vllm() -> None:
    for what, first in (("missing", False), ("for the CPU", True)):
        environment = replace(GOOD, **UNUSABLE[what])
        [found] = [row for row in checks.examine(Case(environment, PASCAL, Code("0.6.1"))) if row.id == "torch-missing"]
        cure = show.as_row(found, show.Names("~/verl", "python"), "en")["cure"]
        assert cure.startswith("python -m pip uninstall -y torch; ") == first


def test_where_nothing_else_is_missing_a_cure_names_a_torch() -> None:
    environment = replace(GOOD, versions={"torch": "2.7.1+cpu", "transformers": "4", "ray": "2"}, cuda=None, arch=None)
    [found] = checks.examine(Case(environment, PASCAL, Code("0.6.1")))
    assert "whl/cu126" in show.as_row(found, show.Names("~/verl", "python"), "en")["cure"]


def test_the_catalogue_names_the_torch_that_the_checks_name() -> None:
    """CUDA 11.8 is named where the driver is too old for another, and nowhere else."""
    names = show.Names("~/verl", "python")
    for entry in entries().values():
        for language in ("en", "zh"):
            cure = show.entry_row(entry, names, language)["cure"]
            assert ("whl/cu118" in cure) == (entry.id == "driver-too-old")
            assert not re.search(r"\{\w+\}", cure)
    wanted = facts.install_torch(PASCAL, None, None).replace("{python}", "python")
    for text in ("no kernel image is available for execution on the device", "No module named 'torch'"):
        assert show.entry_row(find(text)[0], names, "en")["cure"].startswith(wanted)


@pytest.mark.parametrize(
    ("release", "tag"),
    [
        ("0.4.1", "v0.4.1"),
        ("0.6.1", "v0.6.1"),
        ("0.3.0.post1", "v0.3.0.post1"),
        ("0.10.0.dev0", "main"),
        (None, "main"),
    ],
)
def test_sources_are_files_of_the_release_itself(release: str | None, tag: str) -> None:
    for gpu in (PASCAL, VOLTA, TURING):
        for step in install.steps(Case(GOOD, gpu, Code(release))):
            if "/verl/blob/" in step.source and step.said != "install-none-known":
                assert step.source == f"https://github.com/verl-project/verl/blob/{tag}/setup.py"


def test_rows_stand_below_each_other_in_both_languages() -> None:
    names = show.Names("~/verl", "python")
    case = Case(Environment(gpu_error="nvidia-smi shows no GPU"), PASCAL, Code("0.6.1"))
    for language in ("en", "zh"):
        looked = [line.text for line in show.environment(case.environment, case, names, language) if line.text]
        steps = [line.text for line in show.install(install.steps(case), names, language) if line.text][1:]
        for lines in (looked, steps):
            starts = set()
            for line in lines:
                match = re.match(r" *(?:[^:：]+[:：] *)?(?=\S)", line[:24] if "://" not in line[:24] else line)
                if "https" in line[:24]:
                    match = re.match(r" *", line)
                assert match
                starts.add(sum(2 if ord(character) > 0x2E80 else 1 for character in match[0]))
            assert len(starts) == 1, lines
