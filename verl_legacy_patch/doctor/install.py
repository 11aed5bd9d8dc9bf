"""What to install for a card and a release, in the order in which it goes: what a check says one by one, in one place.

Versions are facts (``facts.yaml``) and the checkout's own requirements; flash-attn is never among them below 8.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from verl_legacy_patch.capability import AMPERE, PASCAL, TURING
from verl_legacy_patch.doctor import facts
from verl_legacy_patch.doctor.findings import Case, Code, sentences
from verl_legacy_patch.doctor.told import filled

#: Without these nothing starts: where one is missing, the block is shown.
NEEDED = ("torch", "transformers", "ray")


@dataclass(frozen=True)
class Step:
    """One thing to install, or to leave out.

    Attributes:
        name: of the package, or of the group of packages.
        said: name of the sentence that says how.
        values: what the sentence is filled with.
        source: where it can be read.
    """

    name: str
    said: str
    values: dict[str, str] = field(default_factory=dict)
    source: str = ""

    def text(self, language: str) -> str:
        """Return the command, or why there is none."""
        return filled(sentences()[self.said][language], self.values)


def steps(case: Case) -> list[Step]:
    """Return what to install for a checkout; nothing without one, as all depends on the release."""
    return list(_steps(case, case.code)) if case.code is not None else []


def wanted(case: Case) -> bool:
    """Return whether something is missing without which nothing starts."""
    return any(not case.installed(name) for name in NEEDED)


def brings_torch(case: Case) -> bool:
    """Return whether the block is shown and has a vLLM, which brings its torch: no cure may name another then."""
    return case.code is not None and wanted(case) and not _vllm(case, case.code).said.startswith("install-none")


def _steps(case: Case, code: Code) -> Iterator[Step]:
    vllm = _vllm(case, code)
    if vllm.said.startswith("install-none"):
        builds = facts.facts()["builds"].source
        command = facts.install_torch(case.gpu, case.environment.driver, None)
        yield Step("torch", "install-torch", {"install": command}, builds)
        yield vllm
    else:
        yield vllm
        yield Step("torch", "install-with-vllm", {}, facts.facts()["vllm-pins-torch"].source)
    yield Step("verl", "install-verl", {"packages": " ".join(_others(code))}, _setup(code))
    if case.gpu < AMPERE:
        yield Step("flash-attn", "install-no-flash", {}, facts.facts()["flash-attn-capability"].source)


def _vllm(case: Case, code: Code) -> Step:
    """Return the vLLM that runs on the card and that the release takes; none where there is none, or no need."""
    release = facts.numbers(code.release)
    fact = facts.facts()["verl-vllm-to-install"]
    version = next((value for first, value in fact.value.items() if release >= facts.numbers(first)), "")
    values = {"release": code.release or "?", "gpu": str(case.gpu), "version": version}
    values["install"] = facts.install_torch(case.gpu, case.environment.driver, None)
    sft = case.script is not None and not case.script.generates
    pascal = case.gpu < facts.capability("vllm-capability")
    impossible = release >= facts.version("verl-v1-only") if pascal else release >= facts.version("verl-turing-only")
    impossible = impossible or case.gpu < PASCAL
    if sft or (case.gpu < TURING and impossible) or not version:
        said = "install-none-sft" if sft else "install-none-card" if version else "install-none-known"
        return Step("vLLM", said, values, _setup(code) if version else fact.source)
    if pascal:
        said = "install-pascal-or-hf" if release < facts.version("verl-hf-gone") else "install-pascal"
        return Step("vLLM", said, values, facts.facts()["vllm-pascal-last"].source)
    last = facts.last_vllm(case.gpu) if case.gpu < AMPERE else ""
    if last and facts.numbers(version)[:2] > facts.numbers(last):
        return Step("vLLM", "install-vllm-newer", {**values, "last": last}, facts.facts()["vllm-last-known"].source)
    return Step("vLLM", "install-vllm", values, _setup(code))


def _setup(code: Code) -> str:
    """Return where it can be read what a release asks for: its own file, not another's."""
    return facts.own_file(code.release, "setup.py")


def _others(code: Code) -> Iterator[str]:
    """Yield the packages that verl imports, each with the range that the release asks for."""
    release = facts.numbers(code.release)
    pins: dict[str, Any] = dict(code.pins)
    if release < facts.version("verl-transformers-5"):
        pins.setdefault("transformers", "<5")
    for first, names in facts.facts()["verl-needs"].value.items():
        for name in names if release >= facts.numbers(first) else ():
            specifier = pins.get(name.partition("[")[0], "")
            yield f"'{name}{specifier}'" if specifier or "[" in name else name
