"""What is on this machine: GPUs, driver, the installed packages of a Python, its PyTorch. Nothing is imported here."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.cards import Card, NoCards, ask, read_cards

PACKAGES = (
    "torch", "vllm", "vllm-pascal", "sglang", "transformers", "flash-attn", "xformers", "triton", "triton-pascal",
    "ray", "trl", "tensordict", "numpy",
)  # fmt: skip
#: PyTorch loads hundreds of megabytes; a cold disk takes its time.
SECONDS = 120.0
#: Seconds that nvidia-smi may take.
PATIENCE = 30.0

# Runs in the Python that is looked at, in the root folder: a checkout's own code must not run, whatever it is named.
# The list of architectures is asked below torch.cuda, which hides it without a GPU.
_PROBE = """
import sys
sys.path[:] = [path for path in sys.path if path]
import json
from importlib.metadata import PackageNotFoundError, requires, version
found, pins = {}, {}
for name in %r:
    try:
        found[name] = version(name)
        wanted = [text.split(";")[0].replace(" ", "") for text in requires(name) or ()]
        pins[name] = [text[7:] for text in wanted if text.startswith("torch==")]
    except PackageNotFoundError:
        pass
def has(name):
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
own = has("verl-legacy-patch") and not any(map(has, ("torch", "vllm", "vllm-pascal", "verl")))
print(json.dumps({"python": sys.version.split()[0], "versions": found, "pins": pins, "own": own}), flush=True)
if "torch" in found:
    try:
        import torch
        try:
            arch = torch._C._cuda_getArchFlags().split()
        except Exception:
            arch = torch.cuda.get_arch_list()
        print(json.dumps({"cuda": torch.version.cuda, "arch": arch}), flush=True)
        print(json.dumps({"available": torch.cuda.is_available()}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""


@dataclass
class Environment:
    """What was found. Empty or None: not found, or not to be had.

    Attributes:
        cards: the GPUs that count, in the order of nvidia-smi.
        hidden: whether CUDA_VISIBLE_DEVICES hides all of them.
        gpu_error: why there is no card.
        no_smi: whether there is no nvidia-smi at all.
        python: version of the Python whose packages count.
        python_error: why that Python said nothing.
        own: whether it has verl-patch, and nothing of what trains: it was made for verl-patch alone.
        torch_pins: package -> the one torch that it is built for.
        torch_error: what went wrong with ``import torch``.
        available: whether PyTorch can use a GPU.
    """

    cards: list[Card] = field(default_factory=list)
    hidden: bool = False
    driver: str | None = None
    gpu_error: str = ""
    no_smi: bool = False
    python: str = ""
    python_error: str = ""
    own: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    torch_pins: Mapping[str, str] = field(default_factory=dict)
    cuda: str | None = None
    arch: tuple[str, ...] | None = None
    available: bool | None = None
    torch_error: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def weakest(self) -> Capability | None:
        """Return the lowest compute capability; None when no card is known."""
        return min((card.capability for card in self.cards if card.capability is not None), default=None)


class NoPython(ValueError):
    """A Python that was named and is not there; one phrase that says so."""


def find_python(text: str) -> str:
    """Return the program that is meant: a file, a name on the PATH, or the folder of a virtual environment.

    Raises:
        NoPython: there is none.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        program = path / "bin" / "python"
        if not program.is_file():
            raise NoPython(f"{text} is a folder without bin/python: give a Python or the folder of its environment")
        return str(program)
    if path.exists() and os.sep in text:
        return str(path)
    if os.sep in text or shutil.which(text) is None:
        raise NoPython(f"there is no {text}: give a Python or the folder of its environment")
    return text


def look(python: str) -> Environment:
    """Look at this machine and at the packages of a Python."""
    found = Environment(variables=dict(os.environ))
    _look_at_cards(found)
    _look_at_packages(found, python)
    return found


def usual_python(variables: Mapping[str, str]) -> str:
    """Return the Python of the environment that is active, else the one that runs this.

    verl-patch may be installed apart from what verl runs with.
    """
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        program = Path(variables.get(name) or os.devnull) / "bin" / "python"
        if program.is_file():
            return str(program)
    return sys.executable


def _look_at_cards(found: Environment) -> None:
    try:
        cards = read_cards(PATIENCE, "memory.total", "driver_version")
    except NoCards as error:
        found.gpu_error, found.no_smi = str(error), error.missing
        return
    found.cards, found.hidden = visible(cards, found.variables)
    found.driver = next((card.driver for card in cards if card.driver), None)


def visible(cards: Sequence[Card], variables: Mapping[str, str]) -> tuple[list[Card], bool]:
    """Return the cards that CUDA_VISIBLE_DEVICES leaves, and whether it hides all.

    Its numbers are those of nvidia-smi only with CUDA_DEVICE_ORDER=PCI_BUS_ID, or where all cards are the same.
    """
    said = variables.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        return [*cards], False
    names = [name.strip() for name in said.split(",")]
    if not said.strip() or names[0] == "-1":
        return [*cards], True
    ordered = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({card[:3] for card in cards}) == 1
    if ordered and all(name.isdigit() for name in names):
        left = [cards[int(name)] for name in names if int(name) < len(cards)]
        return left or [*cards], not left
    return [*cards], False


def _look_at_packages(found: Environment, python: str) -> None:
    # a path is meant from here, a name is looked up
    program = str(Path(python).absolute()) if os.sep in python else python
    variables = {**os.environ, "PYTHONPATH": _foreign(os.environ.get("PYTHONPATH", ""))}
    try:
        answer = ask([program, "-c", _PROBE % (PACKAGES,)], SECONDS, folder=Path(os.sep), variables=variables)
    except OSError as error:
        found.python_error = f"{python}: {error.strerror or error}"
        return
    answers: dict[str, Any] = {}
    for line in answer.out.splitlines():
        answers.update(_read(line))
    found.python = str(answers.get("python") or "")
    found.versions = answers.get("versions") or {}
    found.own = answers.get("own") is True
    found.torch_pins = {name: pins[0] for name, pins in (answers.get("pins") or {}).items() if pins}
    found.cuda = answers.get("cuda")
    found.arch = tuple(answers["arch"]) if answers.get("arch") else None
    found.available = answers.get("available")
    last = (answer.err.strip().splitlines() or ["it says nothing"])[-1]
    if not found.python:
        found.python_error = f"{python}: {'no answer in time' if answer.code is None else last}"
    elif "error" in answers:
        found.torch_error = " ".join(str(answers["error"]).split())
    elif "torch" in found.versions and answer.code is None:
        what = "torch.cuda.is_available()" if "arch" in answers else "import torch"
        found.torch_error = f"{what} gave no answer within {SECONDS:g} seconds"
    elif "torch" in found.versions and answer.code != 0:
        found.torch_error = f"import torch ended with code {answer.code}: {last}"


def _foreign(path: str) -> str:
    """Return the folders of a PYTHONPATH that hold no verl: modules of a cluster may lie there."""
    folders = [folder for folder in path.split(os.pathsep) if Path(folder).is_absolute()]
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "verl").exists())


def _read(line: str) -> Mapping[str, Any]:
    """Return what a line of the probe says; empty for anything else, which a package may have printed."""
    try:
        data = json.loads(line) if line.startswith("{") else {}
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
