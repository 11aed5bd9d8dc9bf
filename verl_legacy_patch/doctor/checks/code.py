"""The checkout: what is left in it, and what verl-patch cannot rewrite."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.doctor.findings import Case, Finding
from verl_legacy_patch.gpus import GPUS

#: Bytes of shared memory that the kernel is reported to ask for.
_NEEDED = 81920
_SHARED = (
    f"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: {_NEEDED}, "
    "Hardware limit: {limit}."
)


def another_target(case: Case) -> Iterator[Finding]:
    """A patch for another dtype or attention than is asked for: apply does not go on with it."""
    if case.code and case.code.patched:
        values = {"patched": case.code.patched, "asked": case.code.asked}
        yield Finding("patched-other", "fails", "patched-other", values)


def sites(case: Case) -> Iterator[Finding]:
    """Places that choose what the GPU cannot do."""
    left = case.code.left if case.code else {}
    if left:
        by_codemod = ", ".join(f"{name} {count}" for name, count in sorted(left.items(), key=lambda row: -row[1]))
        yield Finding("sites-left", "fails", "sites", {"count": str(sum(left.values())), "codemods": by_codemod})


def server_flags(case: Case) -> Iterator[Finding]:
    """A server that drops False, so that vLLM's own defaults run the kernel that does not fit."""
    if case.script is not None and not case.script.serves:
        return
    if case.code and case.code.reported.get("vllm-server-flags"):
        limit = next((gpu.shared_memory for gpu in GPUS.values() if gpu.capability == case.gpu), 0) * 1024
        seen = _SHARED.format(limit=limit) if 0 < limit < _NEEDED else ""
        yield Finding("server-flags", "warns", "server-flags", {"release": case.code.release or "?", "seen": seen})
