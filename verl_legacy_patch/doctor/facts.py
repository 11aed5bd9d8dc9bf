"""The facts that checks compare with, read from their data file, and what versions mean."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from verl_legacy_patch.capability import Capability

Version = tuple[int, ...]


class Fact(NamedTuple):
    """One thing that holds for a range of versions, and where it can be read."""

    value: Any
    holds: str
    source: str


class Build(NamedTuple):
    """PyTorch for one version of CUDA.

    Attributes:
        channel: last part of the address that pip takes it from.
        cuda: its CUDA.
        first: first release.
        last: last release.
        least: lowest compute capability that it runs on.
    """

    channel: str
    cuda: str
    first: str
    last: str
    least: Capability


@cache
def facts() -> Mapping[str, Fact]:
    """Return all facts by name."""
    import yaml

    text = (files("verl_legacy_patch.doctor") / "facts.yaml").read_text("utf-8")
    return {name: Fact(**row) for name, row in yaml.safe_load(text).items()}


def version(name: str) -> Version:
    """Return a fact that is a version."""
    return numbers(facts()[name].value)


def capability(name: str) -> Capability:
    """Return a fact that is a compute capability."""
    return as_capability(facts()[name].value)


def as_capability(text: str) -> Capability:
    """Return ``7.5`` as a compute capability."""
    major, minor = text.split(".")
    return Capability(int(major), int(minor))


@cache
def builds() -> tuple[Build, ...]:
    """Return PyTorch's builds, the ones to prefer first."""
    rows = facts()["builds"].value
    return tuple(
        Build(row["index"], row["cuda"], row["torch"][0], row["torch"][1], as_capability(row["least"])) for row in rows
    )


def install_torch(gpu: Capability, driver: str | None, installed: str | None) -> str:
    """Return the command that installs a PyTorch with kernels for a card, of the installed version if there is one.

    ``{python}`` in it stands for the Python that it is for.

    Args:
        gpu: compute capability of the card.
        driver: version of its driver, if known.
        installed: version of the PyTorch that is there.
    """
    fits = [build for build in builds() if build.least <= gpu and driver_runs(driver, build.cuda)]
    for build in fits:
        if installed and numbers(build.first) <= numbers(installed) <= numbers(build.last):
            return _pip(".".join(map(str, numbers(installed))), build)
    wanted = facts()["torch-for-old-cards"].value
    known = [build for build in fits if numbers(build.first) <= numbers(wanted) <= numbers(build.last)]
    return _pip(wanted, known[0] if known else builds()[-1])


def last_vllm(gpu: Capability) -> str:
    """Return the last vLLM that is known to run on such cards; empty for none."""
    rows = facts()["vllm-last-known"].value
    return next((last for least, last in reversed(rows.items()) if as_capability(least) <= gpu), "")


def own_file(release: str | None, path: str) -> str:
    """Return the address of a file of verl in a release; of its main branch where that is none that was published."""
    tag = f"v{release}" if release and re.fullmatch(r"\d+(?:\.\d+)*(?:\.?(?:post|rc)\d+)?", release) else "main"
    return f"https://github.com/verl-project/verl/blob/{tag}/{path}"


def _pip(torch: str, build: Build) -> str:
    return f"{{python}} -m pip install torch=={torch} --index-url https://download.pytorch.org/whl/{build.channel}"


def least_driver(cuda: str | None) -> str | None:
    """Return the least driver for a version of CUDA; None for one that is not known."""
    least = facts()["drivers"].value.get(numbers(cuda)[0] if numbers(cuda) else None)
    return str(least) if least else None


def driver_runs(driver: str | None, cuda: str | None) -> bool:
    """Return whether a driver runs what is built for a version of CUDA; what is not known counts as good."""
    least = least_driver(cuda)
    return not driver or not least or numbers(driver) >= numbers(least)


def runs_on(arch: tuple[str, ...], gpu: Capability) -> bool:
    """Return whether a build runs on a GPU: a binary of the same major version, or PTX, neither of them newer."""
    for name in arch:
        kind, _, digits = name.partition("_")
        bare = digits.rstrip("af")
        if not bare.isdigit() or len(bare) < 2:
            continue
        built = Capability(int(bare[:-1]), int(bare[-1]))
        only = digits != bare  # sm_90a: for exactly this one
        if built == gpu or (built < gpu and not only and (kind == "compute" or built.major == gpu.major)):
            return True
    return False


def numbers(text: str | None) -> Version:
    """Return the leading numbers of a version: (2, 6, 0) for ``v2.6.0+cu118``; () for none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else ()


_OPERATORS: dict[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def allows(specifier: str, installed: str) -> bool:
    """Return whether a version is within a requirement (``>=0.8.0,<=0.10.0,!=0.9.0``); what is not read counts as met.

    Only the numbers are compared: a development version counts as its release, and ``+cu118`` says nothing.
    """
    for part in specifier.split(","):
        match = re.fullmatch(r"\s*(<=|>=|==|!=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*", part)
        if match is None:
            continue
        wanted, have = numbers(match[2]), numbers(installed)
        size = len(wanted) if match[3] else max(len(wanted), len(have))
        if not _OPERATORS[match[1]](_padded(have, size), _padded(wanted, size)):
            return False
    return True


def _padded(numbers: Version, size: int) -> Version:
    return (*numbers, *[0] * (size - len(numbers)))[:size]
