"""The machine: its GPUs, its driver, its Python and PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from verl_legacy_patch.capability import MAXWELL, PASCAL, Capability
from verl_legacy_patch.cards import Card
from verl_legacy_patch.doctor.facts import allows, driver_runs, install_torch, least_driver, runs_on
from verl_legacy_patch.doctor.findings import Case, Finding, Level
from verl_legacy_patch.doctor.install import brings_torch

#: What Python prints of an exception; other words about PyTorch are doctor's own.
_RAISED = re.compile(r"\w+(?:Error|Exception): ")


def gpus(case: Case) -> Iterator[Finding]:
    """No GPU, all hidden, or different ones. Nothing is said of a GPU that was only named."""
    found = case.environment
    if case.planned:
        return
    if found.hidden:
        said = found.variables.get("CUDA_VISIBLE_DEVICES", "")
        yield Finding("no-visible-gpu", "fails", "gpus-hidden", {"value": said}, "unhide")
    elif found.gpu_error:
        yield Finding("no-visible-gpu", "warns" if found.no_smi else "fails", "no-gpu", {"why": found.gpu_error})
    known = {card.capability for card in found.cards if card.capability is not None}
    if len(known) > 1:
        best = max(known)
        numbers = ",".join(str(at) for at, card in enumerate(found.cards) if card.capability == best)
        values = {"cards": describe(found.cards), "numbers": numbers}
        yield Finding("mixed-gpus", "warns", "mixed", values)
    for card in found.cards:
        if card.capability is None:
            yield Finding("unknown-gpu", "warns", "unknown-gpu", {"name": card.name})


def describe(cards: Sequence[Card]) -> str:
    """Return cards in words, equal ones counted."""
    counts: dict[tuple[str, Capability | None], int] = {}
    for card in cards:
        counts[card[:2]] = counts.get(card[:2], 0) + 1
    return ", ".join(
        f"{f'{count} x ' if count > 1 else ''}{name} ({capability or '?'})"
        for (name, capability), count in counts.items()
    )


def older_than_covered(case: Case) -> Iterator[Finding]:
    """A card of a generation before those that the facts are about."""
    if case.gpu < PASCAL:
        said = "older-card" if case.gpu >= MAXWELL else "no-torch-for-card"
        level: Level = "warns" if case.gpu >= MAXWELL else "fails"
        yield Finding("older-card", level, said, {"gpu": str(case.gpu)}, f"{said}-cure")


def own(case: Case) -> Iterator[Finding]:
    """The environment that verl-patch was installed into, where nobody said that it is the one that trains."""
    if case.environment.own:
        yield Finding("own-environment", "fails", "own-environment")


def python(case: Case) -> Iterator[Finding]:
    """A Python that does not answer, or one that the release is too new for."""
    found = case.environment
    if found.python_error:
        yield Finding("python-broken", "fails", "python-broken", {"why": found.python_error})
    elif case.code and case.code.python and not found.own and not allows(case.code.python, found.python):
        values = {"have": found.python, "wanted": case.code.python}
        yield Finding("python-version", "fails", "python-version", values)


def torch(case: Case) -> Iterator[Finding]:
    """No PyTorch, one that does not load, one without CUDA."""
    found = case.environment
    if found.python_error or found.own:
        return
    values = {"have": found.python, "torch": case.installed("torch"), "why": found.torch_error, **_install(case)}
    values["seen"] = found.torch_error if _RAISED.match(found.torch_error) else ""
    if found.torch_error:
        yield Finding("torch-broken", "fails", "torch-broken", values, _cure(case))
    elif not case.installed("torch"):
        yield Finding("torch-missing", "fails", "no-torch", values, _cure(case))
    elif not found.cuda:
        yield Finding("torch-missing", "fails", "torch-without-cuda", values, _cure(case))


def _cure(case: Case) -> str:
    """Return the sentence that cures a torch that cannot be used: vLLM brings its own, else a command."""
    if not brings_torch(case):
        return "install-torch"
    return "vllm-again" if case.installed("torch") else "vllm-brings"


def _install(case: Case) -> dict[str, str]:
    found = case.environment
    torch = found.torch_pins.get("vllm") or found.torch_pins.get("vllm-pascal") or found.versions.get("torch")
    return {"install": install_torch(case.gpu, found.driver, torch)}


def arch(case: Case) -> Iterator[Finding]:
    """A build of PyTorch without kernels for the GPU."""
    found = case.environment
    if found.arch and not runs_on(found.arch, case.gpu):
        values = {"arch": ", ".join(found.arch), "torch": case.installed("torch"), "gpu": str(case.gpu)}
        yield Finding("no-kernel-image", "fails", "no-kernels", {**values, **_install(case)}, _cure(case))


def driver(case: Case) -> Iterator[Finding]:
    """A driver that is too old for PyTorch's CUDA."""
    found = case.environment
    if found.cuda and not driver_runs(found.driver, found.cuda):
        values = {"driver": found.driver or "", "cuda": found.cuda, "least": least_driver(found.cuda) or ""}
        cure = "newer-driver" if brings_torch(case) else "driver-or-torch"
        yield Finding("driver-too-old", "fails", "old-driver", {**values, **_install(case)}, cure)


def unavailable(case: Case) -> Iterator[Finding]:
    """A driver and a CUDA build that should fit, and PyTorch sees no GPU all the same."""
    found = case.environment
    seen = found.cards and found.cuda and not found.hidden and driver_runs(found.driver, found.cuda)
    if seen and found.available is False:
        yield Finding("no-visible-gpu", "fails", "unavailable")
