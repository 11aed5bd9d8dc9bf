"""The checks: each looks at one thing and says what will fail. What they compare with is in ``facts.yaml``."""

from __future__ import annotations

from verl_legacy_patch.doctor.checks import code, engine, machine, packages, variables
from verl_legacy_patch.doctor.findings import LEVELS, Case, Check, Finding

#: In the order of the work: machine, PyTorch, packages, engine, variables, checkout.
CHECKS: tuple[Check, ...] = (
    machine.gpus,
    machine.older_than_covered,
    machine.own,
    machine.python,
    machine.torch,
    machine.arch,
    machine.driver,
    machine.unavailable,
    packages.built_for_another_torch,
    packages.flash_attn,
    packages.triton,
    packages.value_head,
    packages.packing,
    packages.pins,
    engine.vllm,
    engine.vllm_of_release,
    engine.sglang,
    engine.rollout,
    variables.variables,
    code.another_target,
    code.sites,
    code.server_flags,
)


def examine(case: Case) -> list[Finding]:
    """Return what all checks found, the surest first."""
    return in_order([finding for check in CHECKS for finding in check(case)])


def in_order(findings: list[Finding]) -> list[Finding]:
    """Return findings by how sure they are; those that are equally sure stay as they are."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
