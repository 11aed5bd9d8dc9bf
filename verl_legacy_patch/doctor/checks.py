"""The checks: each looks at one thing and says what will fail. The facts and their sources are in the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from verl_legacy_patch.doctor.environment import Environment, numbers
from verl_legacy_patch.target import AMPERE, Capability

Level = Literal["fails", "warns"]

_VOLTA, _TURING = Capability(7, 0), Capability(7, 5)
#: Least driver for each major version of CUDA (CUDA release notes, minor version compatibility).
_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


class Finding(NamedTuple):
    """One thing that will fail (or may): the entry of the catalogue, and what is particular about this case."""

    id: str
    level: Level
    detail: str


class Case(NamedTuple):
    """What is looked at: the machine, the GPU that counts, the checkout."""

    environment: Environment
    capability: Capability
    release: str | None = None
    sites: int = 0
    packs: bool = False

    def version(self, package: str) -> tuple[int, ...]:
        """Return the version of an installed package as numbers; () when it is not installed."""
        return numbers(self.environment.versions.get(package))


Check = Callable[[Case], Iterator[Finding]]


def examine(case: Case) -> list[Finding]:
    """Return what all checks found, in the order of the work: machine, PyTorch, packages, variables, checkout."""
    checks: tuple[Check, ...] = (
        _torch,
        _arch,
        _driver,
        _flash_attn,
        _vllm,
        _sglang,
        _rollout,
        _packing,
        _variables,
        _sites,
    )
    return [finding for check in checks for finding in check(case)]


def _torch(case: Case) -> Iterator[Finding]:
    found = case.environment
    if found.torch_error:
        yield Finding("torch-missing", "fails", found.torch_error)
    elif "torch" not in found.versions:
        yield Finding("torch-missing", "fails", f"Python {found.python} has no torch")
    elif not found.cuda:
        yield Finding("torch-missing", "fails", f"torch {found.versions['torch']} is a build without CUDA")


def _arch(case: Case) -> Iterator[Finding]:
    arch = case.environment.arch
    if arch and not runs_on(arch, case.capability):
        have = ", ".join(arch)
        yield Finding("no-kernel-image", "fails", f"this torch has kernels for {have}; the GPU is {case.capability}")


def runs_on(arch: tuple[str, ...], capability: Capability) -> bool:
    """Return whether a build runs on a GPU: a binary of the same major version, or PTX that is not newer."""
    for name in arch:
        kind, _, digits = name.partition("_")
        digits = digits.rstrip("af")
        if not digits.isdigit():
            continue
        built = Capability(int(digits[:-1]), int(digits[-1]))
        if built <= capability and (kind == "compute" or built.major == capability.major):
            return True
    return False


def _driver(case: Case) -> Iterator[Finding]:
    cuda, driver = numbers(case.environment.cuda), numbers(case.environment.driver)
    least = _DRIVERS.get(cuda[0]) if cuda else None
    if least and driver and driver < least:
        wanted = ".".join(map(str, least))
        yield Finding(
            "driver-too-old", "fails", f"driver {case.environment.driver}, CUDA {case.environment.cuda} needs {wanted}"
        )


def _flash_attn(case: Case) -> Iterator[Finding]:
    version = case.environment.versions.get("flash-attn")
    if version and case.capability < AMPERE:
        yield Finding("flash-attn-ampere", "fails", f"flash-attn {version} is installed")


def _vllm(case: Case) -> Iterator[Finding]:
    version, name = case.version("vllm"), case.environment.versions.get("vllm")
    if not version or case.capability >= AMPERE:
        return
    if case.capability < _VOLTA:
        if version >= (0, 11):
            yield Finding("v1-engine", "fails", f"vLLM {name} has only the V1 engine; the GPU is {case.capability}")
        else:
            yield Finding(
                "vllm-capability", "warns", f"vLLM {name} has to be a build for Pascal; the GPU is {case.capability}"
            )
    elif version >= (0, 11) and version < (0, 13):
        return
    elif version >= (0, 13):
        yield Finding("v1-engine", "warns", f"vLLM {name} is newer than what is known to run on {case.capability}")
    elif version < (0, 10, 2):
        yield Finding("v1-engine", "warns", f"vLLM {name} needs VLLM_USE_V1=0 on {case.capability}")


def _sglang(case: Case) -> Iterator[Finding]:
    if "sglang" in case.environment.versions and case.capability < _TURING:
        yield Finding("sglang-capability", "warns", f"SGLang {case.environment.versions['sglang']} is installed")


def _rollout(case: Case) -> Iterator[Finding]:
    release = numbers(case.release)
    if release >= (0, 7) and case.capability < _VOLTA:
        yield Finding(
            "rollout-impossible",
            "warns",
            f"verl {case.release} rolls out through vLLM's V1 engine, which needs 7.0; the GPU is {case.capability}",
        )
    elif release >= (0, 9) and case.capability < _TURING:
        yield Finding("rollout-impossible", "warns", f"verl {case.release} asks for a vLLM whose builds start at 7.5")


def _packing(case: Case) -> Iterator[Finding]:
    if not case.packs:
        return
    transformers, torch = case.version("transformers"), case.version("torch")
    old = [
        f"{name} {case.environment.versions[name]}"
        for name, version, least in (("transformers", transformers, (4, 53, 1)), ("torch", torch, (2, 6)))
        if version and version < least
    ]
    if old:
        yield Finding("packing-leak", "fails", f"the checkout packs samples by default, with {' and '.join(old)}")


def _variables(case: Case) -> Iterator[Finding]:
    said = case.environment.variables
    nothing = {
        "TRITON_MAX_SHARED_MEMORY": "TRITON_MAX_SHARED_MEMORY is no setting of Triton: nothing reads it",
        "VLLM_DTYPE": "VLLM_DTYPE is no variable of vLLM: the dtype comes from rollout.dtype",
    }
    for name, detail in nothing.items():
        if name in said:
            yield Finding("useless-variable", "warns", detail)
    backend = said.get("VLLM_ATTENTION_BACKEND", "").upper()
    if backend.startswith(("FLASH_ATTN", "FLASHINFER")) and case.capability < AMPERE:
        yield Finding("flash-attn-ampere", "fails", f"VLLM_ATTENTION_BACKEND={backend} needs compute capability 8.0")
    if said.get("VLLM_USE_V1") == "1" and case.capability < AMPERE and case.version("vllm") < (0, 10, 2):
        yield Finding("v1-engine", "fails", "VLLM_USE_V1=1 is set")
    if said.get("VLLM_USE_V1") == "0" and case.version("vllm") >= (0, 11):
        yield Finding(
            "useless-variable", "warns", "VLLM_USE_V1=0 does nothing from vLLM 0.11 on: the V0 engine is gone"
        )


def _sites(case: Case) -> Iterator[Finding]:
    if case.sites:
        yield Finding("sites-left", "fails", f"{case.sites} places choose what this GPU cannot do")
