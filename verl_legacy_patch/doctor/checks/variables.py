"""Variables of the environment, or those that a script sets."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.capability import AMPERE
from verl_legacy_patch.doctor import facts
from verl_legacy_patch.doctor.findings import Case, Finding


def variables(case: Case) -> Iterator[Finding]:
    """Yield variables that do nothing, that no longer exist, or that choose what the GPU cannot run."""
    said = case.environment.variables
    for name in facts.facts()["useless-variables"].value:
        if name in said:
            # from about here on vLLM names variables of its prefix that it does not know
            known = case.vllm and facts.numbers(case.vllm) >= facts.version("vllm-v0-gone")
            seen = f"WARNING Unknown vLLM environment variable detected: {name}" if known else ""
            yield Finding("useless-variable", "warns", f"useless-{name}", {"name": name, "seen": seen})
    yield from _attention(case, said.get("VLLM_ATTENTION_BACKEND", "").strip().upper())
    yield from _engine(case, said.get("VLLM_USE_V1", "").strip())


def _attention(case: Case, backend: str) -> Iterator[Finding]:
    version, rows = facts.numbers(case.vllm), facts.facts()["attention-backends"].value
    values = {"value": backend, "version": case.vllm, "gpu": str(case.gpu), "name": "VLLM_ATTENTION_BACKEND"}
    least = next((least for prefix, least in rows.items() if backend.startswith(prefix)), None)
    if backend and version >= facts.version("vllm-attention-backend-deprecated"):
        source = facts.facts()["vllm-attention-backend-deprecated"].source
        yield Finding("useless-variable", "warns", "backend-not-read", values, "backend-argument", source)
    elif least and case.gpu < facts.as_capability(least):
        seen = "FlashInfer requires GPUs with sm75 or higher" if backend.startswith("FLASHINFER") else ""
        yield Finding("attention-backend", "fails", "backend-needs", {**values, "least": least, "seen": seen})
    elif backend == "XFORMERS" and version >= facts.version("vllm-xformers-gone"):
        yield Finding("attention-backend", "fails", "backend-gone", values)


def _engine(case: Case, asked: str) -> Iterator[Finding]:
    version = facts.numbers(case.vllm)
    values = {"version": case.vllm, "gpu": str(case.gpu), "value": asked, "name": "VLLM_USE_V1"}
    if not version or asked not in ("0", "1"):
        return
    if version >= facts.version("vllm-v0-gone"):
        if asked == "0":
            source = facts.facts()["vllm-v0-gone"].source
            yield Finding("useless-variable", "warns", "v0-gone", values, source=source)
    elif asked == "1" and case.gpu < AMPERE:
        old = version < facts.version("vllm-v1-below-ampere")
        if old or case.gpu < facts.capability("vllm-capability"):
            yield Finding("v1-engine", "fails", "v1-asked", values, "unset-v1")
