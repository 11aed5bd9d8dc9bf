"""A script that generates through the HF rollout: doctor knows what launch knows, in the same words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launch_minis import HF, NEW, OLD, WORKER, launch, tree
from minis import Verl
from releases import release
from test_doctor_script import RUN, rows

from verl_legacy_patch.doctor import show
from verl_legacy_patch.doctor.findings import SHARED, sentences
from verl_legacy_patch.launch.words import texts

HF_ROLLOUT = "actor_rollout_ref.rollout.name=hf"
#: Script, whether the checkout has an HF rollout, whether that gives several answers -> what is said.
SCRIPTS: list[tuple[str, bool, bool, list[str]]] = [
    (f"{RUN}{HF_ROLLOUT}", True, False, []),
    (f"{RUN}{HF_ROLLOUT}", False, False, ["no-hf"]),
    (f"{RUN}'actor_rollout_ref.rollout.name=\"HF\"'", False, False, ["no-hf"]),
    (f"{RUN}actor_rollout_ref.rollout.name=vllm", False, False, []),
    (f"{RUN}trainer.nnodes=1", False, False, []),
    (f"{RUN}{HF_ROLLOUT} actor_rollout_ref.rollout.n=4", True, False, ["no-hf-samples"]),
    (f"{RUN}{HF_ROLLOUT} actor_rollout_ref.rollout.n=4", True, True, []),
    (f"{RUN}{HF_ROLLOUT} actor_rollout_ref.rollout.n=1", True, False, []),
    (f"{RUN}{HF_ROLLOUT} actor_rollout_ref.rollout.n=$N", True, False, []),
    (f"{RUN}{HF_ROLLOUT}\n{RUN}trainer.nnodes=1\n{RUN}{HF_ROLLOUT}", False, False, ["no-hf", "no-hf"]),
]


@pytest.mark.parametrize(("script", "has", "several", "expected"), SCRIPTS)
def test_scripts(script: str, has: bool, several: bool, expected: list[str], tmp_path: Path) -> None:
    files = {**(OLD if has else NEW), "verl/workers/rollout/hf_rollout.py": HF if several else ""}
    found = [row for row in rows(script, tree(tmp_path / "verl", files)) if row.id == "rollout-hf"]
    assert [row.said for row in found] == expected
    for row, line in zip(found, (1, 3), strict=False):
        for language in ("en", "zh"):
            data = show.as_row(row, show.Names("~/verl", "python"), language)
            assert data["detail"].startswith(f"run.sh:{line}: ") and not re.search(r"\{\w+\}", "".join(data.values()))
        assert row.level == "fails"


def test_the_words_are_those_of_launch(job: Path, verl: Verl) -> None:
    assert [sentences()[name][language] for name in SHARED for language in ("en", "zh")] == [
        texts()[name][language] for name in SHARED for language in ("en", "zh")
    ]
    tree(job / "checkout", NEW)
    (job / "run.sh").write_text(RUN + HF_ROLLOUT + "\n")
    for language in ("en", "zh"):
        refused = launch(verl, "--rollout", "hf", "--lang", language)
        assert refused.code == 3
        said = re.split("[:：]", refused.err.partition("--rollout hf")[2], maxsplit=1)[1].strip()
        out = verl("doctor", "checkout", "--gpu", "p40", "--script", "run.sh", "--lang", language).out.decode()
        assert said in out and f"run.sh:1: {HF_ROLLOUT}" in out


def test_what_is_seen_is_found_again(verl: Verl) -> None:
    ran = verl("doctor", "--message", "AssertionError: Rollout hf with mode sync not found", "--lang", "en").done()
    assert ran.out.decode().startswith("This release cannot generate through the HF rollout")
    assert WORKER


@pytest.mark.real
@pytest.mark.parametrize(("version", "said"), [("0.4.1", False), ("0.5.0", False), ("0.6.1", True), ("0.9.0", True)])
def test_releases(version: str, said: bool) -> None:
    found = [row.id for row in rows(RUN + HF_ROLLOUT, release(version))]
    assert ("rollout-hf" in found) == said
