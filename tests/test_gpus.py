"""Which card is meant, what follows for it, and how this machine is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from minis import PROJECT

from verl_legacy_patch import target as module
from verl_legacy_patch.capability import Capability
from verl_legacy_patch.cli import run
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.gpus import GPUS, TargetError, find_gpu
from verl_legacy_patch.target import Target, make_target

#: What people type, and what nvidia-smi calls the cards.
NAMES = {
    "p100": ["P100", "tesla p100", "Tesla P100-PCIE-16GB", "Tesla P100-SXM2-16GB", "Quadro GP100"],
    "p40": ["P40", "Tesla P40", "tesla-p40", "p4", "Tesla P4", "Tesla P6", "NVIDIA P40", "GRID P40-24Q", "pascal"],
    "gtx10": [
        "GTX 1080 Ti", "gtx1080ti", "1080ti", "1060", "GeForce GTX 1050", "NVIDIA GeForce GTX 1070", "gt1030",
        "NVIDIA TITAN X (Pascal)", "TITAN Xp", "NVIDIA TITAN Xp COLLECTORS EDITION", "Quadro P5000", "quadro p620",
        "GeForce GTX 1060 6GB", "GeForce GTX 1080 with Max-Q Design", "GeForce MX150", "gtx10xx",
    ],
    "v100": [
        "V100", "Tesla V100-SXM2-32GB", "Tesla V100-PCIE-16GB", "Tesla V100S-PCIE-32GB", "Tesla V100-SXM3-32GB-H",
        "Tesla V100-DGXS-32GB", "NVIDIA TITAN V", "titanv", "TITAN V CEO Edition", "Quadro GV100", "volta",
    ],
    "t4": ["T4", "Tesla T4", "NVIDIA T4", "GRID T4-16Q", "T4G", "NVIDIA T1000 8GB", "Quadro T2000 with Max-Q Design",
           "turing"],
    "rtx20": [
        "RTX 2080 Ti", "rtx2080ti", "2080ti", "2060", "NVIDIA GeForce RTX 2070 SUPER",
        "GeForce RTX 2080 with Max-Q Design", "GeForce RTX 2060 Laptop GPU", "TITAN RTX", "titanrtx",
        "NVIDIA TITAN RTX", "rtx20xx",
    ],
    "gtx16": ["GTX 1660 Ti", "1650", "NVIDIA GeForce GTX 1660 SUPER", "gtx16"],
    "rtx8000": ["RTX 8000", "Quadro RTX 8000", "Quadro RTX 6000", "rtx5000", "Quadro RTX 4000 with Max-Q Design"],
}  # fmt: skip
NEWER = {
    "8.0": ["A100", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "A800", "NVIDIA A30"],
    "8.6": ["A10", "NVIDIA A10G", "A40", "RTX 3090", "3090ti", "NVIDIA RTX A6000", "a6000", "rtx30"],
    "8.9": ["L4", "NVIDIA L40S", "RTX 4090", "4090", "NVIDIA RTX 6000 Ada Generation", "GeForce RTX 4070 Ti SUPER"],
    "9.0": ["H100", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "H20", "H200", "NVIDIA GH200 480GB"],
    "10.0": ["B200", "NVIDIA GB200"],
    "12.0": ["RTX 5090", "NVIDIA GeForce RTX 5070 Ti", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"],
}
OLDER = {
    "5.2": ["M40", "Tesla M40", "Tesla M40 24GB", "m60", "NVIDIA GeForce GTX TITAN X", "GTX 980 Ti", "Quadro M6000"],
    "5.0": ["M10", "GTX 750 Ti", "maxwell"],
    "3.7": ["K80", "Tesla K80"],
    "3.5": ["K40", "tesla k40m", "GTX TITAN Black"],
}
CAPABILITIES = {
    "6.1": "6.1", "61": "6.1", "sm_61": "6.1", "SM61": "6.1", "sm_6.1": "6.1", "compute_70": "7.0", "cc7.5": "7.5",
    " 7.5 ": "7.5", "8.0": "8.0", "10.0": "10.0", "12.0": "12.0", "sm_120": "12.0", "sm_90a": "9.0", "5.2": "5.2",
}  # fmt: skip


@pytest.mark.parametrize(("family", "text"), [(name, text) for name, texts in NAMES.items() for text in [name, *texts]])
def test_every_name_is_its_family(family: str, text: str) -> None:
    assert find_gpu(text) == (family, GPUS[family].capability)


@pytest.mark.parametrize(("capability", "text"), [(key, text) for key, texts in NEWER.items() for text in texts])
def test_newer_cards_are_known_by_their_capability(capability: str, text: str) -> None:
    assert str(find_gpu(text)[1]) == capability


@pytest.mark.parametrize(("capability", "text"), [(key, text) for key, texts in OLDER.items() for text in texts])
def test_older_cards_are_no_slips_of_newer_ones(capability: str, text: str) -> None:
    assert str(find_gpu(text)[1]) == capability
    [note] = make_target(text).notes
    assert f"compute capability {capability} is below the cards that are covered (6.0 to 7.5)" in note
    assert ("no vLLM has" in note) == (capability[0] == "5") and ("start at 5.0" in note) == (capability[0] == "3")


@pytest.mark.parametrize(("text", "capability"), CAPABILITIES.items())
def test_capabilities(text: str, capability: str) -> None:
    assert find_gpu(text) == (text.strip(), Capability(*map(int, capability.split("."))))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p41", "did you mean p40"),
        ("vt100", "did you mean v100"),
        ("", "no GPU named ''"),
        ("mi300", "a capability such as 7.5, or auto"),
        ("0.1", "no GPU has compute capability 0.1"),
        ("61.0", "no GPU has compute capability 61.0"),
        ("6,1", "no GPU named '6,1'"),
    ],
)
def test_what_is_no_card_gets_one_line(text: str, says: str) -> None:
    with pytest.raises(TargetError) as caught:
        find_gpu(text)
    assert says in str(caught.value) and "\n" not in str(caught.value)


# what follows


@pytest.mark.parametrize("gpu", [*GPUS, "6.1", "7.0", "7.5", "a100", None])
def test_the_default_target_is_float32_and_eager(gpu: str | None) -> None:
    target = make_target(gpu)
    assert (target.dtype, target.attn) == ("float32", "eager")


@pytest.mark.parametrize("gpu", ["p40", "t4", "a100", None])
def test_explicit_options_win(gpu: str | None) -> None:
    target = make_target(gpu, "float16", "sdpa")
    assert (target.dtype, target.attn) == ("float16", "sdpa")
    assert target.capability == (find_gpu(gpu)[1] if gpu else Capability(6, 1))


@pytest.mark.parametrize(
    ("gpu", "dtype", "says"),
    [
        (None, None, None),
        ("p40", None, None),
        ("p40", "float32", None),
        ("p100", "float16", None),
        ("p40", "float16", "1/64 of the float32 rate on compute capability 6.1"),
        (None, "float16", "1/64 of the float32 rate on compute capability 6.1"),
        ("v100", None, "--dtype float16 --attn sdpa is worth a try"),
        ("t4", None, "the actor's from v0.6.1, the critic's from v0.8.0"),
        ("t4", "float32", None),
        ("t4", "float16", None),
        ("5.2", None, "PyTorch's cu126 builds have kernels for it, no vLLM has"),
        ("3.7", "float16", "PyTorch's kernels start at 5.0"),
        ("a100", None, "8.0 runs bfloat16 and flash attention: nothing has to be rewritten"),
        ("h100", "float16", "9.0 runs bfloat16 and flash attention: nothing has to be rewritten"),
    ],
)
def test_notes(gpu: str | None, dtype: str | None, says: str | None) -> None:
    notes = make_target(gpu, dtype).notes
    assert len(notes) == (says is not None)
    assert says is None or says in notes[0]


#: Codemods that need a reason in the card; all the others run for each.
BELOW_7 = {"torch-compile", "vllm-enforce-eager"}
BELOW_8 = {
    "batched-tokens", "flash-attn-cross-entropy", "flash-attn-requirement", "unsupported-backend",
    "vllm-attention-backend", "vllm-prefill", "vllm-server-flags",
}  # fmt: skip


@pytest.mark.parametrize("capability", ["5.2", "6.0", "6.1", "7.0", "7.5", "8.0", "8.9", "9.0", "12.0"])
def test_which_codemods_run(capability: str) -> None:
    target = make_target(capability)
    left_out = {name for name, codemod in discover().items() if not codemod.applies(target)} - {"loss-scaling"}
    assert left_out == (BELOW_7 if float(capability) >= 7 else set()) | (BELOW_8 if float(capability) >= 8 else set())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_loss_scaling_is_for_float16(dtype: str) -> None:
    assert discover()["loss-scaling"].applies(Target(dtype)) == (dtype == "float16")


def test_every_codemod_says_why() -> None:
    for codemod in discover().values():
        assert 20 < len(codemod.why()) < 180, codemod.why()


# this machine


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes an nvidia-smi of a script; until then there is none."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def make(script: str) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return make


def test_one_card(smi: Callable[[str], None]) -> None:
    smi('[ "$*" = "--query-gpu=name,compute_cap --format=csv,noheader" ] && echo "Tesla P40, 6.1"')
    target = make_target("auto")
    assert (target.gpu, target.capability) == ("Tesla P40", (6, 1))
    assert target.notes == ("nvidia-smi shows Tesla P40 (6.1)",)


def test_of_several_cards_the_lowest_counts(smi: Callable[[str], None]) -> None:
    smi("printf 'NVIDIA RTX A6000, 8.6\\nTesla T4, 7.5\\nNVIDIA H100, 9.0\\nNVIDIA B200, 10.0\\nTesla T4, 7.5\\n'")
    target = make_target("AUTO")
    assert (target.gpu, target.capability) == ("Tesla T4", (7, 5))
    assert target.notes[0] == (
        "nvidia-smi shows 2 x Tesla T4 (7.5), NVIDIA RTX A6000 (8.6), NVIDIA H100 (9.0), NVIDIA B200 (10.0): "
        "the lowest counts"
    )
    assert "--dtype float16" in target.notes[1]


def test_a_driver_that_knows_no_capabilities_tells_names(smi: Callable[[str], None]) -> None:
    smi(
        'case "$*" in *compute_cap*) echo "Field \\"compute_cap\\" is not a valid field to query."; exit 2;; esac\n'
        "echo 'Tesla V100-SXM2-16GB'; echo 'Tesla P100-PCIE-16GB'"
    )
    assert make_target("auto").capability == (6, 0)


def test_a_card_whose_capability_is_not_told_goes_by_its_name(smi: Callable[[str], None]) -> None:
    smi("printf 'GRID T4-16Q, [N/A]\\nNVIDIA A40, 8.6\\nGRID X9, [Not Supported]\\n'")
    target = make_target("auto")
    assert target.capability == (7, 5)
    assert target.notes[0].endswith("; not known, so not counted: GRID X9")


def test_mig_slices_are_their_card(smi: Callable[[str], None]) -> None:
    smi("printf 'NVIDIA A100-SXM4-40GB, 8.0\\n'")
    target = make_target("auto")
    assert target.capability == (8, 0)
    assert "nothing has to be rewritten" in target.notes[1]


FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "cannot run nvidia-smi (No such file or directory)"),
        ("echo 'No devices were found'", "nvidia-smi shows no GPU (No devices were found)"),
        ("echo 'No devices were found'; exit 6", "nvidia-smi shows no GPU (No devices were found)"),
        (f'echo "{FAILED}"; exit 9', f"nvidia-smi shows no GPU ({FAILED})"),
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18",
            "(Failed to initialize NVML",
        ),
        ("exit 1", "nvidia-smi shows no GPU;"),
        ("echo", "nvidia-smi shows no GPU;"),
        ("echo 'Mystery 9000, [N/A]'", "does not tell the compute capability of Mystery 9000"),
        ("printf '\\377\\376, 6.x'", "does not tell the compute capability of"),
        ("exec sleep 60", "nvidia-smi does not answer within 0.2 s"),
    ],
)
def test_no_answer_is_one_line(
    script: str | None, says: str, smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        smi(script.replace("sleep", "/bin/sleep"))
    monkeypatch.setattr(module, "PATIENCE", 0.2 if script and "sleep" in script else 20)
    with pytest.raises(TargetError) as caught:
        make_target("auto")
    text = str(caught.value)
    assert says in text and "\n" not in text
    assert text.startswith("--gpu auto: ")
    assert "--gpu p40" in text or "--gpu 6.1" in text


def test_what_is_no_program(smi: Callable[[str], None], tmp_path: Path) -> None:
    smi("")
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF")
    with pytest.raises(TargetError, match="cannot run nvidia-smi"):
        make_target("auto")


# the command line


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gpus"]) == 0
    out = capsys.readouterr().out
    for gpu in GPUS.values():
        assert f"{gpu.name:8} {gpu.cards}" in out
    every, below8, rest = re.split(r"Below compute capability \S+ only", out)
    below7, _, half = rest.partition("With --dtype float16 only")
    assert all(f"  {name} " in below7 for name in BELOW_7)
    assert all(f"  {name} " in below8 for name in BELOW_8)
    assert "  loss-scaling " in half
    assert all(f"  {name} " in every for name in discover().keys() - BELOW_7 - BELOW_8 - {"loss-scaling"})
    assert max(map(len, out.splitlines())) <= 115


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpu", "p40", "--dtype", "float16"], "Note: float16 runs at 1/64 of the float32 rate"),
        (["--gpu", "a100"], "Note: a card of compute capability 8.0 runs bfloat16"),
        (["--gpu", "auto"], "Note: nvidia-smi shows Tesla P40 (6.1)."),
    ],
)
def test_apply_says_the_notes(
    options: list[str], says: str, smi: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    smi("echo 'Tesla P40, 6.1'")
    os.environ["PATH"] += os.pathsep + os.defpath  # git
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").write_text("import torch\n\ndtype = torch.bfloat16\n")
    assert run(["apply", "--dry-run", *options, str(tmp_path)]) == 0
    assert says in capfd.readouterr().err.splitlines()[1]


def test_a_wrong_card_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--dry-run", "--gpu", "p41", str(PROJECT)]) == 2
    err = capfd.readouterr().err
    assert err.startswith("Error: no GPU named 'p41'; did you mean p40?") and err.count("\n") == 1
