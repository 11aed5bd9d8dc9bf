"""What is on this machine: GPUs, driver, the installed packages of a Python, its PyTorch. Nothing is imported here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from verl_legacy_patch.target import Capability

PACKAGES = ("torch", "vllm", "sglang", "transformers", "flash-attn", "xformers", "triton", "ray", "trl", "tensordict")
#: PyTorch loads hundreds of megabytes; a cold disk takes its time.
SECONDS = 120

# Runs in the Python that is looked at, isolated from the current folder: a checkout must not be imported.
_PROBE = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in %r:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps({"python": sys.version.split()[0], "versions": found}), flush=True)
if "torch" in found:
    try:
        import torch
        print(json.dumps({"cuda": torch.version.cuda, "arch": torch.cuda.get_arch_list()}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""


class Card(NamedTuple):
    """A GPU of this machine. ``memory`` is in MiB."""

    name: str
    capability: Capability
    memory: int


@dataclass
class Environment:
    """What was found. Empty or None: not found, or not to be had."""

    cards: list[Card] = field(default_factory=list)
    driver: str | None = None
    gpu_error: str = ""
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    cuda: str | None = None
    arch: tuple[str, ...] | None = None
    torch_error: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


def look(python: str | None = None) -> Environment:
    """Look at this machine and at the packages of a Python (this one by default)."""
    found = Environment(variables=dict(os.environ))
    _look_at_cards(found)
    _look_at_packages(found, python or sys.executable)
    return found


def _look_at_cards(found: Environment) -> None:
    ask = ["nvidia-smi", "--query-gpu=name,compute_cap,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        found.gpu_error = f"nvidia-smi: {getattr(error, 'strerror', None) or 'no answer in time'}"
        return
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"\s*(.+?),\s*(\d+)\.(\d+),\s*(\d+),\s*([\d.]+)\s*", line)
        if match:
            capability = Capability(int(match[2]), int(match[3]))
            found.cards.append(Card(match[1], capability, int(match[4])))
            found.driver = match[5]
    if not found.cards:
        said = (done.stderr or done.stdout).strip().splitlines()
        found.gpu_error = f"nvidia-smi: {said[0]}" if said else "nvidia-smi shows no GPU"


def _look_at_packages(found: Environment, python: str) -> None:
    command = [python, "-I", "-c", _PROBE % (PACKAGES,)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        lines = done.stdout.splitlines()
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
        lines = (out.decode() if isinstance(out, bytes) else out).splitlines()
        found.torch_error = f"import torch gave no answer within {SECONDS} seconds"
    except OSError as error:
        found.torch_error = f"cannot run {python}: {error.strerror}"
        return
    answers: dict[str, Any] = {}
    for line in lines:
        if line.startswith("{"):
            answers.update(json.loads(line))
    found.python = answers.get("python", "")
    found.versions = answers.get("versions", {})
    found.cuda = answers.get("cuda")
    found.arch = tuple(answers["arch"]) if answers.get("arch") else None
    found.torch_error = answers.get("error", found.torch_error)


def numbers(version: str | None) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 6, 0) for ``2.6.0+cu118``; () for none."""
    match = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()
