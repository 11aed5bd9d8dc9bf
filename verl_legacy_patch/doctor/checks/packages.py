"""Installed packages against the GPU, PyTorch and the checkout."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.capability import AMPERE
from verl_legacy_patch.doctor import facts
from verl_legacy_patch.doctor.findings import Case, Finding


def built_for_another_torch(case: Case) -> Iterator[Finding]:
    """Compiled packages load with the one torch that they were built for."""
    have = case.version("torch")
    for package, pin in case.environment.torch_pins.items():
        if have and facts.numbers(pin) and facts.numbers(pin) != have:
            values = {"package": package, "version": case.installed(package), "pin": pin}
            yield Finding("binary-mismatch", "fails", "built-for", {**values, "torch": case.installed("torch")})


def flash_attn(case: Case) -> Iterator[Finding]:
    """flash-attn is picked up by what is not rewritten; a rewritten checkout does without it."""
    version = case.installed("flash-attn")
    if version and case.gpu < facts.capability("flash-attn-capability"):
        rewritten = case.code is not None and not case.code.left
        values = {"version": version, "gpu": str(case.gpu)}
        yield Finding("flash-attn-ampere", "note" if rewritten else "fails", "flash-attn", values)


def triton(case: Case) -> Iterator[Finding]:
    """Triton compiles for 7.0 and newer; from 3.3 on its matrix products below 8.0 are slow."""
    version = case.version("triton")
    values = {"version": case.installed("triton"), "gpu": str(case.gpu), "seen": _too_old(case)}
    if not version or "triton-pascal" in case.environment.versions or case.gpu >= AMPERE:
        return
    if case.gpu < facts.capability("triton-capability"):
        compiles = case.code is None or case.code.left.keys() & {"torch-compile", "vllm-enforce-eager"}
        yield Finding("triton-too-old", "warns" if compiles else "note", "triton-capability", values)
    elif version >= facts.version("triton-without-old-tensor-cores"):
        source = facts.facts()["triton-without-old-tensor-cores"].source
        yield Finding("triton-tensor-cores", "note", "triton-slow", values, source=source)


def _too_old(case: Case) -> str:
    """Return what PyTorch says of the card; empty where its name is not known."""
    names = [card.name for card in case.environment.cards if card.capability == case.gpu]
    if not names:
        return ""
    return (
        f"RuntimeError: Found {names[0]} which is too old to be supported by the triton GPU compiler, which is used as "
        "the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability "
        f"{case.gpu}"
    )


def value_head(case: Case) -> Iterator[Finding]:
    """A trl that has moved what verl imports from it as soon as there is a trl at all."""
    if case.code and case.code.plain_trl and case.version("trl") >= facts.version("trl-value-head"):
        values = {"version": case.installed("trl"), "release": case.code.release or "?"}
        yield Finding("trl-import", "fails", "trl-moved", values)


def packing(case: Case) -> Iterator[Finding]:
    """Packed samples leak with what is installed, and the checkout packs by default."""
    if case.code is None or not case.code.left.get("remove-padding"):
        return
    old = [
        f"{name} {case.installed(name)}"
        for name in ("transformers", "torch")
        if case.installed(name) and case.version(name) < facts.version(f"packing-{name}")
    ]
    if old:
        yield Finding("packing-leak", "fails", "packs", {"old": ", ".join(old)})


def pins(case: Case) -> Iterator[Finding]:
    """What the checkout's own requirements say against what is installed."""
    for package, specifier in (case.code.pins if case.code else {}).items():
        have = case.installed(package)
        if have and not facts.allows(specifier, have):
            values = {"package": package, "have": have, "wanted": specifier, "quoted": f"'{package}{specifier}'"}
            values["release"] = (case.code and case.code.release) or "?"
            yield Finding("requirement", "warns", "requirement", values)
