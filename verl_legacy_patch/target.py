"""What to rewrite to: a dtype, an attention implementation, and the GPU that they are for."""

from __future__ import annotations

import difflib
import re
import subprocess
from dataclasses import dataclass
from typing import NamedTuple

DTYPES = ("float32", "float16")
ATTENTIONS = ("eager", "sdpa")


class TargetError(ValueError):
    """A GPU, dtype or attention that cannot be meant; one line that says what can."""


class Capability(NamedTuple):
    """A CUDA compute capability, such as 6.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A family of cards.

    Attributes:
        name: what the user types after ``--gpu``.
        cards: the cards in words.
        capability: CUDA compute capability (NVIDIA's table of CUDA GPUs).
        shared_memory: KiB per thread block at most (CUDA C++ programming guide, compute capabilities).
        float16: what half precision is worth on the card.
    """

    name: str
    cards: str
    capability: Capability
    shared_memory: int
    float16: str


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("p100", "Tesla P100", Capability(6, 0), 48, "yes, twice the float32 rate"),
        Gpu("p40", "Tesla P40, P4", Capability(6, 1), 48, "1/64 of the float32 rate"),
        Gpu("gtx10", "GeForce GTX 10xx, Titan X/Xp", Capability(6, 1), 48, "1/64 of the float32 rate"),
        Gpu("v100", "Tesla V100, Titan V", Capability(7, 0), 96, "yes, tensor cores"),
        Gpu("t4", "Tesla T4", Capability(7, 5), 64, "yes, tensor cores"),
        Gpu("rtx20", "GeForce RTX 20xx, Titan RTX", Capability(7, 5), 64, "yes, tensor cores"),
        Gpu("gtx16", "GeForce GTX 16xx", Capability(7, 5), 64, "yes, no tensor cores"),
        Gpu("rtx8000", "Quadro RTX 4000 to 8000", Capability(7, 5), 64, "yes, tensor cores"),
    )
}
#: Names that people type for a family above.
ALIASES = {
    "p4": "p40", "pascal": "p40", "titanxp": "gtx10", "volta": "v100", "titanv": "v100", "turing": "t4",
    "titanrtx": "rtx20", "rtx6000": "rtx8000", "rtx5000": "rtx8000", "rtx4000": "rtx8000",
}  # fmt: skip
DEFAULT_CAPABILITY = Capability(6, 1)
AMPERE = Capability(8, 0)


@dataclass(frozen=True, slots=True)
class Target:
    """The dtype and attention implementation to choose, and the GPU's compute capability."""

    dtype: str = "float32"
    attn: str = "eager"
    gpu: str | None = None
    capability: Capability = DEFAULT_CAPABILITY

    def __str__(self) -> str:
        return f"{self.dtype} + {self.attn} for compute capability {self.capability}"


def make_target(gpu: str | None = None, dtype: str | None = None, attn: str | None = None) -> Target:
    """Return the target for what the user asked for; what is not given follows from the GPU.

    All cards below 8.0 default to float32 and eager: float16 training needs loss scaling, which verl has for
    few roles and releases.

    Raises:
        TargetError: no such GPU, or ``auto`` finds none.
    """
    name, capability = (None, DEFAULT_CAPABILITY) if gpu is None else find_gpu(gpu)
    return Target(dtype or DTYPES[0], attn or ATTENTIONS[0], name, capability)


def find_gpu(text: str) -> tuple[str, Capability]:
    """Return (name, compute capability) of a GPU by name, by capability (``7.5``) or ``auto``.

    Raises:
        TargetError: it names no known card.
    """
    if text.lower() == "auto":
        return detect()
    if match := re.fullmatch(r"(?:sm_?|cc)?(\d{1,2})\.(\d)|(?:sm_?)(\d{1,2})(\d)", text.lower()):
        major, minor = (int(part) for part in match.groups() if part is not None)
        return text, Capability(major, minor)
    name = re.sub(r"tesla|geforce|quadro|nvidia|[\s_-]", "", text.lower())
    name = ALIASES.get(name, name)
    for pattern, family in (
        (r"gtx10\d\d.*", "gtx10"),
        (r"(?:rtx)?20\d\d.*", "rtx20"),
        (r"(?:gtx)?16\d\d.*", "gtx16"),
    ):
        if re.fullmatch(pattern, name):
            name = family
    if name in GPUS:
        return name, GPUS[name].capability
    close = difflib.get_close_matches(name, [*GPUS, *ALIASES], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise TargetError(f"no GPU named {text!r}{hint} (known: {', '.join(GPUS)}, a capability such as 7.5, or auto)")


def detect() -> tuple[str, Capability]:
    """Ask nvidia-smi for the cards of this machine and return the lowest compute capability among them.

    Raises:
        TargetError: there is no nvidia-smi, it fails, or it is too old to know compute capabilities.
    """
    ask = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            f"--gpu auto: cannot run nvidia-smi ({error}); name the GPU instead, such as --gpu p40"
        ) from None
    cards = re.findall(r"^(.*),\s*(\d+)\.(\d+)\s*$", done.stdout, re.MULTILINE)
    if done.returncode or not cards:
        said = (done.stderr or done.stdout).strip().splitlines()[:1]
        raise TargetError(f"--gpu auto: nvidia-smi shows no GPU ({''.join(said)}); name it instead, such as --gpu p40")
    name, major, minor = min(cards, key=lambda card: (int(card[1]), int(card[2])))
    return name.strip(), Capability(int(major), int(minor))
