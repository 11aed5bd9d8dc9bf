"""The checkout: what is left in it, and what verl-patch cannot rewrite."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.doctor.findings import Case, Finding


def sites(case: Case) -> Iterator[Finding]:
    """Places that choose what the GPU cannot do."""
    left = case.code.left if case.code else {}
    if left:
        by_codemod = ", ".join(f"{name} {count}" for name, count in sorted(left.items(), key=lambda row: -row[1]))
        yield Finding("sites-left", "fails", "sites", {"count": str(sum(left.values())), "codemods": by_codemod})


def server_flags(case: Case) -> Iterator[Finding]:
    """A server that drops False, so that vLLM's own defaults run the kernel that does not fit."""
    if case.code and case.code.reported.get("vllm-server-flags"):
        yield Finding("server-flags", "warns", "server-flags", {"release": case.code.release or "?"})
