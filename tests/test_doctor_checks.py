"""Each check, both ways: what it finds, and what it is silent about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.cards import Card
from verl_legacy_patch.doctor import checks, facts, show
from verl_legacy_patch.doctor.catalogue import entries
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.findings import LEVELS, NOT_KNOWN, Case, Code, Finding, Settled, sentences

PASCAL, VOLTA, TURING, AMPERE = (facts.as_capability(text) for text in ("6.1", "7.0", "7.5", "8.6"))
P40 = Card("Tesla P40", PASCAL, 24576, "535.161.07")
V100 = Card("Tesla V100-SXM2-16GB", VOLTA, 16384, "535.161.07")
T4 = Card("Tesla T4", TURING, 15360, "535.161.07")
A40 = Card("NVIDIA A40", AMPERE, 46068, "535.161.07")
OLD_ARCH = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")

#: A machine with nothing wrong: a P40 with what runs on it.
GOOD = Environment(
    cards=[P40],
    driver="535.161.07",
    python="3.10.14",
    versions={"torch": "2.7.1+cu118", "transformers": "4.53.1", "numpy": "1.26.4"},
    cuda="11.8",
    arch=OLD_ARCH,
    available=True,
)


def found(environment: Mapping[str, Any] | None = None, gpu: Capability = PASCAL, **more: Any) -> list[Finding]:
    """Return what the checks say of the good machine with something changed; ``packages`` are added."""
    changes = dict(environment or {})
    changes["versions"] = {**GOOD.versions, **changes.pop("packages", {})}
    return checks.examine(Case(replace(GOOD, **changes), gpu, **more))


def names(rows: list[Finding]) -> list[str]:
    return [f"{row.level} {row.id} {row.said}" for row in rows]


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert found() == []
    assert found(code=Code("0.5.0", python=">=3.10", pins={"numpy": "<2.0.0"})) == []
    newer = {
        "cards": [A40],
        "packages": {"vllm": "0.18.0", "flash-attn": "2.8.3", "triton": "3.5.0", "sglang": "0.5.0"},
    }
    assert found(newer, AMPERE, code=Code("0.9.0")) == []


CU128 = {"packages": {"torch": "2.8.0+cu128"}, "cuda": "12.8", "arch": ("sm_70", "sm_75", "sm_80", "sm_120")}
#: What is changed, for which GPU -> what is said of it.
MACHINES: list[tuple[str, dict[str, Any], Capability, list[str]]] = [
    ("no nvidia-smi", {"cards": [], "gpu_error": "?", "no_smi": True}, PASCAL, ["warns no-visible-gpu no-gpu"]),
    ("it fails", {"cards": [], "gpu_error": "NVIDIA-SMI has failed"}, PASCAL, ["fails no-visible-gpu no-gpu"]),
    ("all hidden", {"hidden": True, "available": False}, PASCAL, ["fails no-visible-gpu gpus-hidden"]),
    ("different ones", {"cards": [A40, P40]}, PASCAL, ["warns mixed-gpus mixed"]),
    ("the same ones", {"cards": [P40, P40]}, PASCAL, []),
    ("an unknown one", {"cards": [Card("X9", None)]}, PASCAL, ["warns unknown-gpu unknown-gpu"]),
    ("broken Python", {"python_error": "no", "python": "", "cuda": None, "arch": None, "packages": {}}, PASCAL,
     ["fails python-broken python-broken"]),
    ("no torch", {"packages": {"torch": ""}, "cuda": None, "arch": None}, PASCAL, ["fails torch-missing no-torch"]),
    ("CPU torch", {"packages": {"torch": "2.7.1+cpu"}, "cuda": None, "arch": None}, PASCAL,
     ["fails torch-missing torch-without-cuda"]),
    ("torch that does not load", {"torch_error": "ImportError: libc", "cuda": None, "arch": None}, PASCAL,
     ["fails torch-broken torch-broken"]),
    ("cu128 on Pascal", CU128, PASCAL, ["fails no-kernel-image no-kernels"]),
    ("cu128 on Volta", CU128, VOLTA, []),
    ("cu130 on Volta", {"cuda": "12.8", "arch": ("sm_75", "sm_80", "sm_90a", "compute_120")}, VOLTA,
     ["fails no-kernel-image no-kernels"]),
    ("cu130 on Turing", {"cuda": "12.8", "arch": ("sm_75", "sm_80", "compute_120")}, TURING, []),
    ("old driver", {"driver": "470.256.02", "cuda": "12.6", "available": False}, PASCAL,
     ["fails driver-too-old old-driver"]),
    ("old driver, CUDA 11", {"driver": "470.256.02"}, PASCAL, []),
    ("CUDA 13", {"cuda": "13.0"}, PASCAL, ["fails driver-too-old old-driver"]),
    ("CUDA of the future", {"cuda": "14.0"}, PASCAL, []),
    ("unknown driver", {"driver": None, "cuda": "13.0"}, PASCAL, []),
    ("not available", {"available": False}, PASCAL, ["fails no-visible-gpu unavailable"]),
    # packages
    ("built for another torch", {"torch_pins": {"xformers": "2.5.1"}}, PASCAL, ["fails binary-mismatch built-for"]),
    ("built for this torch", {"torch_pins": {"xformers": "2.7.1"}}, PASCAL, []),
    ("flash-attn", {"packages": {"flash-attn": "2.7.4"}}, TURING, ["fails flash-attn-ampere flash-attn"]),
    ("Triton on Pascal", {"packages": {"triton": "3.1.0"}}, PASCAL, ["warns triton-too-old triton-capability"]),
    ("Triton for Pascal", {"packages": {"triton": "3.1.0", "triton-pascal": "3.1.0"}}, PASCAL, []),
    ("Triton 3.3 on Turing", {"packages": {"triton": "3.3.0"}}, TURING, ["note triton-tensor-cores triton-slow"]),
    ("Triton 3.2 on Turing", {"packages": {"triton": "3.2.0"}}, TURING, []),
    # engine
    ("vLLM on Pascal", {"packages": {"vllm": "0.8.5"}}, PASCAL, ["warns vllm-capability needs-pascal-build"]),
    ("V1 only on Pascal", {"packages": {"vllm": "0.11.0"}}, PASCAL, ["fails vllm-capability only-v1"]),
    ("vLLM for Pascal", {"packages": {"vllm": "0.8.5", "vllm-pascal": "0.8.5+cu121"}}, PASCAL, []),
    ("only under its name", {"packages": {"vllm-pascal": "0.8.5+cu121"}}, PASCAL,
     ["fails pascal-unnamed pascal-unnamed"]),
    ("V0 on Volta", {"packages": {"vllm": "0.7.3"}}, VOLTA, []),
    ("V1 that falls back", {"packages": {"vllm": "0.8.5"}}, VOLTA, ["note v1-engine falls-back"]),
    ("V1 on Volta", {"packages": {"vllm": "0.10.2"}}, VOLTA, []),
    ("newer on Volta", {"packages": {"vllm": "0.13.0"}}, VOLTA, ["warns vllm-newer newer-than-known"]),
    ("newer on Turing", {"packages": {"vllm": "0.13.0"}}, TURING, []),
    ("much newer on Turing", {"packages": {"vllm": "0.18.1"}}, TURING, ["warns vllm-newer newer-than-known"]),
    ("SGLang on Volta", {"packages": {"sglang": "0.4.6"}}, VOLTA, ["warns sglang-capability sglang"]),
    ("Maxwell", {}, Capability(5, 2), ["warns older-card older-card"]),
    ("Kepler", {"arch": ("sm_35",)}, Capability(3, 5), ["fails older-card no-torch-for-card"]),
    ("an environment of its own", {"own": True, "packages": {"torch": ""}, "cuda": None, "arch": None}, PASCAL,
     ["fails own-environment own-environment"]),
    ("SGLang on Turing", {"packages": {"sglang": "0.4.6"}}, TURING, []),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "gpu", "expected"), MACHINES, ids=[row[0] for row in MACHINES])
def test_machines(what: str, change: dict[str, Any], gpu: Capability, expected: list[str]) -> None:
    assert names(found(change, gpu)) == expected


ENGINE = {"vllm": "0.8.5", "vllm-pascal": "0.8.5"}
#: Variables, vLLM and GPU -> what is said.
VARIABLES: list[tuple[dict[str, str], str, Capability, list[str]]] = [
    ({"VLLM_DTYPE": "float32"}, "", PASCAL, ["warns useless-variable useless-VLLM_DTYPE"]),
    ({"TRITON_MAX_SHARED_MEMORY": "1"}, "", PASCAL, ["warns useless-variable useless-TRITON_MAX_SHARED_MEMORY"]),
    ({"VLLM_ATTENTION_BACKEND": "flash_attn"}, "0.7.3", VOLTA, ["fails attention-backend backend-needs"]),
    ({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, "0.7.3", VOLTA, ["fails attention-backend backend-needs"]),
    ({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, "0.7.3", TURING, []),
    ({"VLLM_ATTENTION_BACKEND": "FLASHMLA"}, "0.7.3", AMPERE, ["fails attention-backend backend-needs"]),
    ({"VLLM_ATTENTION_BACKEND": "TRITON_ATTN_VLLM_V1"}, "0.10.2", VOLTA, []),
    ({"VLLM_ATTENTION_BACKEND": "XFORMERS"}, "0.7.3", VOLTA, []),
    ({"VLLM_ATTENTION_BACKEND": "XFORMERS"}, "0.12.0", VOLTA, ["fails attention-backend backend-gone"]),
    ({"VLLM_ATTENTION_BACKEND": "XFORMERS"}, "0.13.0", TURING, ["warns useless-variable backend-not-read"]),
    ({"VLLM_ATTENTION_BACKEND": ""}, "0.13.0", TURING, []),
    ({"VLLM_USE_V1": "1"}, "0.7.3", VOLTA, ["fails v1-engine v1-asked"]),
    ({"VLLM_USE_V1": "1"}, "0.10.2", VOLTA, []),
    ({"VLLM_USE_V1": "1"}, "", VOLTA, []),
    ({"VLLM_USE_V1": "1"}, "0.8.5", AMPERE, []),
    ({"VLLM_USE_V1": "0"}, "0.7.3", VOLTA, []),
    ({"VLLM_USE_V1": "0"}, "0.11.0", VOLTA, ["warns useless-variable v0-gone"]),
]


@pytest.mark.parametrize(("said", "vllm", "gpu", "expected"), VARIABLES)
def test_variables(said: dict[str, str], vllm: str, gpu: Capability, expected: list[str]) -> None:
    assert names(found({"variables": said, "packages": {"vllm": vllm}}, gpu)) == expected


#: A checkout, packages and GPU -> what is said.
CODES: list[tuple[Code, dict[str, str], Capability, list[str]]] = [
    (Code("0.5.0", {"dtype": 3}), {}, PASCAL, ["fails sites-left sites"]),
    (Code("0.5.0", {"remove-padding": 1}), {"transformers": "4.52.4"}, PASCAL,
     ["fails packing-leak packs", "fails sites-left sites"]),
    (Code("0.5.0", {"remove-padding": 1}), {"torch": "2.5.1"}, PASCAL,
     ["fails packing-leak packs", "fails sites-left sites"]),
    (Code("0.5.0", {"remove-padding": 1}), {}, PASCAL, ["fails sites-left sites"]),
    (Code("0.5.0"), {"transformers": "4.52.4"}, PASCAL, []),
    (Code("0.5.0"), {"flash-attn": "2.7.4"}, PASCAL, ["note flash-attn-ampere flash-attn"]),
    (Code("0.5.0"), {"triton": "3.3.0"}, PASCAL, ["note triton-too-old triton-capability"]),
    (Code("0.5.0", plain_trl=True), {"trl": "0.29.0"}, PASCAL, ["fails trl-import trl-moved"]),
    (Code("0.5.0", plain_trl=True), {"trl": "0.9.6"}, PASCAL, []),
    (Code("0.8.0"), {"trl": "0.29.0"}, TURING, []),
    (Code("0.5.0", python=">=3.11"), {}, PASCAL, ["fails python-version python-version"]),
    (Code("0.5.0", pins={"numpy": "<2.0.0"}), {"numpy": "2.1.0"}, PASCAL, ["warns requirement requirement"]),
    (Code("0.5.0", pins={"ray": ">=2.41.0"}), {}, PASCAL, []),
    (Code("0.5.0"), {**ENGINE, "vllm": "0.6.3", "vllm-pascal": "0.6.3"}, PASCAL, ["fails vllm-release vllm-too-old"]),
    (Code("0.4.1"), {**ENGINE, "vllm": "0.6.3", "vllm-pascal": "0.6.3"}, PASCAL, []),
    (Code("0.9.0.dev"), {"vllm": "0.12.0"}, TURING, ["fails vllm-release vllm-too-old"]),
    (Code("0.6.1"), ENGINE, PASCAL, []),
    (Code("0.7.1"), {}, PASCAL, ["fails rollout-impossible v1-only"]),
    (Code("0.7.1"), {}, VOLTA, []),
    (Code("0.7.1"), {"vllm": "0.8.5"}, VOLTA, ["fails v1-engine v1-needs-newer", "note v1-engine falls-back"]),
    (Code("0.9.0"), {}, VOLTA, ["fails rollout-impossible starts-at-turing"]),
    (Code("0.9.0"), {}, TURING, []),
    (Code(None), {"vllm": "0.10.2"}, VOLTA, []),
    (Code("0.5.0", patched="float32 sdpa 7.5", asked="float32 eager 7.5"), {}, TURING,
     ["fails patched-other patched-other"]),
    (Code("0.8.0", reported={"vllm-server-flags": 1}), {}, TURING, ["warns server-flags server-flags"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "packages", "gpu", "expected"), CODES)
def test_checkouts(code: Code, packages: dict[str, str], gpu: Capability, expected: list[str]) -> None:
    assert names(found({"packages": packages}, gpu, code=code)) == expected


def messages(rows: list[Finding]) -> list[str]:
    names = show.Names("~/verl", "python")
    return [show.as_row(row, names, "en")["message"] for row in rows]


#: What a message says in this case, and not in another; (not known …) where nobody knows.
OWN: list[tuple[dict[str, Any], Capability, Code | None, str]] = [
    ({"packages": {"torch": ""}, "cuda": None, "arch": None}, PASCAL, None, "No module named 'torch'"),
    ({"torch_error": "OSError: libx.so", "cuda": None, "arch": None}, PASCAL, None, "OSError: libx.so"),
    ({"torch_error": "import torch gave no answer", "cuda": None, "arch": None}, PASCAL, None, NOT_KNOWN),
    ({"packages": {"triton": "3.1.0"}}, PASCAL, None, "Found Tesla P40 which is too old"),
    ({"packages": {"triton": "3.1.0"}, "cards": []}, PASCAL, None, NOT_KNOWN),
    ({"packages": {"triton": "3.3.0"}}, TURING, None, NOT_KNOWN),
    ({"variables": {"TRITON_MAX_SHARED_MEMORY": "1"}}, PASCAL, None, NOT_KNOWN),
    ({"variables": {"VLLM_DTYPE": "x"}}, PASCAL, None, NOT_KNOWN),
    ({"variables": {"VLLM_DTYPE": "x"}, "packages": {"vllm": "0.12.0"}}, TURING, None, "detected: VLLM_DTYPE"),
    ({"variables": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}, VOLTA, None, NOT_KNOWN),
    ({"variables": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}}, VOLTA, None, "FlashInfer requires GPUs with sm75"),
    ({}, PASCAL, Code("0.6.1", reported={"vllm-server-flags": 1}), "Hardware limit: 49152."),
    ({}, TURING, Code("0.6.1", reported={"vllm-server-flags": 1}), "Hardware limit: 65536."),
    ({}, VOLTA, Code("0.6.1", reported={"vllm-server-flags": 1}), NOT_KNOWN),  # 98304 bytes are enough for 81920
    ({"packages": {"numpy": "2.1"}}, PASCAL, Code("0.5.0", pins={"numpy": "<2"}), "verl 0.5.0 requires numpy<2"),
    ({}, PASCAL, Code("0.5.0", python=">=3.11"), "3.10.14 not in '>=3.11'"),
]


@pytest.mark.parametrize(("change", "gpu", "code", "says"), OWN)
def test_a_message_is_that_of_the_case(change: dict[str, Any], gpu: Capability, code: Code | None, says: str) -> None:
    [said] = messages(found(change, gpu, code=code))
    assert said == NOT_KNOWN if says == NOT_KNOWN else says in said


def test_a_message_that_is_not_known_is_not_printed() -> None:
    rows = found({"variables": {"TRITON_MAX_SHARED_MEMORY": "1"}})
    lines = [line.text for line in show.findings(rows, show.Names("~/verl", "python"), "en")]
    assert not [line for line in lines if "seen as" in line or NOT_KNOWN in line]
    assert [line for line in lines if line.startswith("  cure:")]


def test_what_a_script_decides_is_not_warned_of() -> None:
    code = Code("0.6.1", reported={"vllm-server-flags": 1})
    for script, expected in (
        (None, ["warns server-flags server-flags"]),
        (Settled(generates=True, serves=True), ["warns server-flags server-flags"]),
        (Settled(generates=True, serves=False), []),
    ):
        assert names(found(code=code, script=script)) == expected
    assert names(found(code=Code("0.9.0"), script=Settled(generates=False, serves=False))) == []


def test_a_gpu_that_is_only_named_is_not_looked_for() -> None:
    nothing = {"cards": [], "gpu_error": "?", "no_smi": True, "available": None}
    assert found(nothing, planned=True) == []


def test_the_surest_findings_come_first() -> None:
    rows = found({"packages": {"vllm": "0.8.5", "flash-attn": "2.7.4", "triton": "3.3.0"}}, VOLTA)
    assert [row.level for row in rows] == sorted((row.level for row in rows), key=LEVELS.index)
    assert {row.level for row in rows} == {"fails", "note"}


def test_every_sentence_is_used_in_both_languages_and_filled_by_some_check() -> None:
    rows = [row for _, change, gpu, _ in MACHINES for row in found(change, gpu)]
    rows += [
        row for said, vllm, gpu, _ in VARIABLES for row in found({"variables": said, "packages": {"vllm": vllm}}, gpu)
    ]
    rows += [row for code, packages, gpu, _ in CODES for row in found({"packages": packages}, gpu, code=code)]
    assert {row.id for row in rows} <= entries().keys()
    for what in ({"torch": ""}, {"torch": "2.7.1+cpu"}):  # vLLM brings one
        rows += found({"packages": {**what, "ray": ""}, "cuda": None, "arch": None}, code=Code("0.6.1"))
    rows += found({"packages": {"ray": ""}, "driver": "470.1", "cuda": "12.6"}, code=Code("0.6.1"))
    names = show.Names("~/my verl", "/opt/env/bin/python")
    for row in rows:
        for language in ("en", "zh"):
            data = show.as_row(row, names, language)
            assert not re.search(r"\{\w+\}", "".join(data.values())), (row, data)
            assert data["source"].startswith("https://")
    scripts = {
        name
        for name in sentences()
        if re.match("script|unknown-key|key-|nothing-|add-|close-|set-|drop-|rollout-vllm|install-|no-hf|one-", name)
    }
    assert {row.said for row in rows} | {row.cure for row in rows if row.cure} | scripts == sentences().keys()
    for name, texts in sentences().items():
        assert set(re.findall(r"\{\w+\}", texts["en"])) == set(re.findall(r"\{\w+\}", texts["zh"])), name
