"""Machines that are faked for doctor: their nvidia-smi, their Python, their variables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minis import Verl

P40 = "Tesla P40, 6.1, 24576 MiB, 535.161.07"
HEALTHY = {
    "python": "3.10.14",
    "versions": {"torch": "2.7.1+cu118", "transformers": "4.53.1", "ray": "2.44.0"},
    "pins": {},
    "cuda": "11.8",
    "arch": ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"],
    "available": True,
}


class Machine:
    """A folder of programs that is all that can be run, beside git; and a Python that answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = str(folder / "envs" / "python")

    def program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def smi(self, *lines: str, script: str = "") -> None:
        self.program("nvidia-smi", script or "\n".join(f"echo '{line}'" for line in lines))

    def answers(self, **changes: Any) -> None:
        data = {**HEALTHY, **changes}
        self.program("envs/python", f"/bin/cat <<'END'\nsome package prints this\n{json.dumps(data)}\nEND")


@pytest.fixture
def machine(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with a P40 and a Python where nothing is wrong."""
    made = Machine(tmp_path / "machine")
    made.smi(P40)
    made.answers()
    (made.folder / "git").symlink_to(shutil.which("git") or "git")
    monkeypatch.setenv("PATH", str(made.folder))
    named = ("LANG", "LC_ALL", "LC_MESSAGES", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH")
    prefixes = ("VLLM_", "CUDA_", "TRITON_")
    for name in [name for name in os.environ if name in named or name.startswith(prefixes)]:
        monkeypatch.delenv(name)
    return made


Doctor = Callable[..., dict[str, Any]]


@pytest.fixture
def doctor(machine: Machine, verl: Verl) -> Doctor:
    """Run doctor with the faked Python and return its JSON, with the exit code."""

    def call(*arguments: str | Path) -> dict[str, Any]:
        ran = verl("doctor", "--python", machine.python, "--format", "json", *arguments)
        assert ran.code in (0, 1) and ran.err == "", ran
        return {**ran.data, "code": ran.code}

    return call


def said(data: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["level"], row["id"]) for row in data["findings"]]
