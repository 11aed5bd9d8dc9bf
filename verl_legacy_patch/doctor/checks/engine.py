"""What generates: vLLM and SGLang against the GPU and the release."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.capability import AMPERE, TURING
from verl_legacy_patch.doctor import facts
from verl_legacy_patch.doctor.findings import Case, Finding


def vllm(case: Case) -> Iterator[Finding]:
    """Vllm's wheels start at 7.0, its V1 engine at 8.0 or, from 0.10.2 on, at 7.0; V0 is gone."""
    if not case.vllm or case.gpu >= AMPERE:
        return
    version, values = facts.numbers(case.vllm), {"version": case.vllm, "gpu": str(case.gpu)}
    if not case.installed("vllm"):
        values["bare"] = case.vllm.partition("+")[0]
        yield Finding("pascal-unnamed", "fails", "pascal-unnamed", values, "name-pascal")
    if case.gpu < facts.capability("vllm-capability"):
        if version >= facts.version("vllm-v0-gone"):
            yield Finding("vllm-capability", "fails", "only-v1", values)
        elif "vllm-pascal" not in case.environment.versions:
            yield Finding("vllm-capability", "warns", "needs-pascal-build", values)
    elif version >= facts.version("vllm-v1-below-ampere"):
        last = facts.last_vllm(case.gpu)
        if last and version[:2] > facts.numbers(last):
            values["last"] = last
            yield Finding("vllm-newer", "warns", "newer-than-known", values)
    elif version >= facts.version("vllm-v1-default"):
        yield Finding("v1-engine", "note", "falls-back", values)


def vllm_of_release(case: Case) -> Iterator[Finding]:
    """A release refuses a vLLM that is older than its rollout code."""
    release = facts.numbers(case.code.release if case.code else None)
    for first, least in facts.facts()["verl-vllm"].value.items():
        if release and release >= facts.numbers(first):
            if case.vllm and facts.numbers(case.vllm) < facts.numbers(least):
                values = {"version": case.vllm, "least": least, "release": (case.code and case.code.release) or ""}
                yield Finding("vllm-release", "fails", "vllm-too-old", values)
            return


def sglang(case: Case) -> Iterator[Finding]:
    """SGLang's kernels start at Turing."""
    version = case.installed("sglang")
    if version and case.gpu < facts.capability("sglang-capability"):
        yield Finding("sglang-capability", "warns", "sglang", {"version": version, "gpu": str(case.gpu)})


def rollout(case: Case) -> Iterator[Finding]:
    """A release that generates in no way that this GPU can go."""
    release = facts.numbers(case.code.release if case.code else None)
    if case.script is not None and not case.script.generates:
        return
    if case.code is None or release < facts.version("verl-v1-only") or case.gpu >= AMPERE:
        return
    values = {"release": case.code.release or "", "gpu": str(case.gpu), "version": case.vllm}
    first = facts.facts()["vllm-v1-below-ampere"].value
    if case.gpu < facts.capability("vllm-capability"):
        yield Finding("rollout-impossible", "fails", "v1-only", {**values, "newest": "v0.6.1"})
    elif case.gpu < TURING and release >= facts.version("verl-turing-only"):
        yield Finding("rollout-impossible", "fails", "starts-at-turing", {**values, "newest": "v0.8.0"})
    elif case.vllm and facts.numbers(case.vllm) < facts.numbers(first):
        yield Finding("v1-engine", "fails", "v1-needs-newer", {**values, "first": first})
