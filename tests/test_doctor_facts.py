"""What the facts of doctor mean: which torch, which build, which version, which cards."""

from __future__ import annotations

import pytest
from test_doctor_checks import A40, OLD_ARCH, P40, PASCAL, T4, TURING, V100, VOLTA

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.cards import Card
from verl_legacy_patch.doctor import facts
from verl_legacy_patch.doctor.environment import visible


@pytest.mark.parametrize(
    ("gpu", "driver", "torch", "command"),
    [
        (PASCAL, "535.1", "2.8.0+cu128", "torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126"),
        (PASCAL, "470.1", "2.8.0+cu128", "torch==2.7.1 --index-url https://download.pytorch.org/whl/cu118"),
        (PASCAL, "470.1", "2.4.0+cu121", "torch==2.4.0 --index-url https://download.pytorch.org/whl/cu118"),
        (PASCAL, "535.1", "2.5.1+cu121", "torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124"),
        (VOLTA, "580.1", "2.11.0+cu130", "torch==2.11.0 --index-url https://download.pytorch.org/whl/cu126"),
        (PASCAL, None, None, "torch==2.7.1 --index-url https://download.pytorch.org/whl/cu126"),
        (PASCAL, "535.1", "9.9", "torch==2.7.1 --index-url https://download.pytorch.org/whl/cu126"),
        (Capability(3, 5), "390.1", None, "torch==2.7.1 --index-url https://download.pytorch.org/whl/cu118"),
    ],
)
def test_the_torch_that_a_cure_names(gpu: Capability, driver: str | None, torch: str | None, command: str) -> None:
    assert facts.install_torch(gpu, driver, torch) == f"{{python}} -m pip install {command}"


@pytest.mark.parametrize(
    ("arch", "gpu", "runs"),
    [
        (OLD_ARCH, PASCAL, True),
        (("sm_60",), Capability(6, 0), True),
        (("sm_61",), Capability(6, 0), False),
        (("sm_75", "sm_80"), PASCAL, False),
        (("compute_50",), VOLTA, True),
        (("compute_80",), VOLTA, False),
        (("sm_70",), TURING, True),
        (("sm_90a", "sm_100f"), Capability(9, 0), True),
        (("sm_90a", "sm_100f"), Capability(10, 3), False),
        (("gfx90a", "sm_", "sm_x", ""), PASCAL, False),
        (("sm_120",), Capability(12, 0), True),
    ],
)
def test_what_a_build_runs_on(arch: tuple[str, ...], gpu: Capability, runs: bool) -> None:
    assert facts.runs_on(arch, gpu) is runs


@pytest.mark.parametrize(
    ("specifier", "installed", "met"),
    [
        (">=0.8.0,<=0.10.0,!=0.9.0", "0.9.1", True),
        (">=0.8.0,<=0.10.0,!=0.9.0", "0.9.0", False),
        (">=0.8.0,<=0.10.0,!=0.9.0", "0.10.1", False),
        ("<2.0.0", "2.0", False),
        ("<4.48", "4.47.1", True),
        ("==2.6.*", "2.6.1+cu118", True),
        (">=2.41", "2.41.0.dev1", True),
        ("~=1.0", "9", True),
        ("", "1", True),
    ],
)
def test_requirements(specifier: str, installed: str, met: bool) -> None:
    assert facts.allows(specifier, installed) is met


@pytest.mark.parametrize(
    ("cards", "variables", "left", "hidden"),
    [
        ([P40, A40], {}, [P40, A40], False),
        ([P40, P40], {"CUDA_VISIBLE_DEVICES": "1"}, [P40], False),
        ([P40, A40], {"CUDA_VISIBLE_DEVICES": "1"}, [P40, A40], False),
        ([P40, A40], {"CUDA_VISIBLE_DEVICES": " 1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [A40], False),
        ([P40, A40], {"CUDA_VISIBLE_DEVICES": "GPU-1f2e"}, [P40, A40], False),
        ([P40], {"CUDA_VISIBLE_DEVICES": ""}, [P40], True),
        ([P40], {"CUDA_VISIBLE_DEVICES": "-1"}, [P40], True),
        ([P40], {"CUDA_VISIBLE_DEVICES": "3"}, [P40], True),
        ([T4, V100], {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [T4, V100], False),
    ],
)
def test_hidden_cards(cards: list[Card], variables: dict[str, str], left: list[Card], hidden: bool) -> None:
    assert visible(cards, variables) == (left, hidden)
