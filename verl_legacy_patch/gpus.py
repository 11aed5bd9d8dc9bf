"""The cards that people have, and how they are named."""

from __future__ import annotations

import re
from typing import NamedTuple

from verl_legacy_patch.capability import Capability


class TargetError(ValueError):
    """A GPU, dtype or attention that cannot be meant; one line that says what can."""


class Gpu(NamedTuple):
    """A family of cards.

    Attributes:
        name: what the user types after ``--gpu``.
        cards: the cards in words.
        capability: CUDA compute capability (NVIDIA's table of CUDA GPUs).
        shared_memory: KiB per thread block at most (CUDA C++ programming guide, compute capabilities).
        float16: what half precision is worth on the card.
        models: a pattern for its cards' names as ``_plain`` leaves them.
    """

    name: str
    cards: str
    capability: Capability
    shared_memory: int
    float16: str
    models: str


_SLOW, _FAST, _CORES = "1/64 of the float32 rate", "yes, twice the float32 rate", "yes, tensor cores"
_QUADRO_P = r"p(?:[456]00|[56]20|[1-6][02]00)|mx(?:150|230|250|330|350)"
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("p100", "Tesla P100", Capability(6, 0), 48, _FAST, r"g?p100"),
        Gpu("p40", "Tesla P40, P4", Capability(6, 1), 48, _SLOW, r"p40|p4|p6|pascal"),
        Gpu(
            "gtx10",
            "GeForce GTX 10xx, Titan X/Xp",
            Capability(6, 1),
            48,
            _SLOW,
            rf"gtx10(?:xx)?|(?:gtx?)?10[1-8]0(?:ti)?|titanx(?:p\w*)?|{_QUADRO_P}",
        ),
        Gpu("v100", "Tesla V100, Titan V", Capability(7, 0), 96, _CORES, r"g?v100[sn]?|titanv|volta"),
        Gpu("t4", "Tesla T4", Capability(7, 5), 64, _CORES, r"t4g?|t(?:400|500|550|600|1000|1200|2000)|turing"),
        Gpu(
            "rtx20",
            "GeForce RTX 20xx, Titan RTX",
            Capability(7, 5),
            64,
            _CORES,
            r"rtx20(?:xx)?|(?:rtx)?20[678]0(?:ti|s|super)?|titanrtx",
        ),
        Gpu(
            "gtx16",
            "GeForce GTX 16xx",
            Capability(7, 5),
            64,
            "yes, no tensor cores",
            r"gtx16(?:xx)?|(?:gtx)?16[3-6]0(?:ti|s|super)?",
        ),
        Gpu("rtx8000", "Quadro RTX 4000 to 8000", Capability(7, 5), 64, _CORES, r"rtx[34568]000"),
    )
}
#: Cards that run bfloat16 and flash-attn, by the same kind of pattern: they may be asked for too.
NEWER = {
    Capability(8, 0): r"a100|a800|a30|ampere",
    Capability(
        8, 6
    ): r"a10[gm]?|a16|a2|a40|(?:rtx)?a(?:400|500|[1-6][05]00)|rtx30(?:xx)?|(?:rtx)?30[5-9]0(?:ti)?|rtx2050",
    Capability(8, 9): r"l2|l4|l20|l40s?|ada|(?:rtx)?40[5-9]0(?:ti|d)?|rtx40(?:xx)?|rtx[2-6]\d00\w*ada",
    Capability(9, 0): r"g?h100|h800|g?h200|h20|hopper",
    Capability(10, 0): r"g?b100|g?b200|blackwell",
    Capability(10, 3): r"g?b300",
    Capability(12, 0): r"(?:rtx)?50[5-9]0(?:ti|d)?|rtx50(?:xx)?|rtxpro\d+\w*",
}
#: Cards before those of the tables. They are told apart, so that none of them is taken for a slip of a newer one.
OLDER = {
    Capability(5, 2): r"m40|m60|m4|m6|gtxtitanx|(?:gtx)?9[5-8]0(?:ti)?|m[2-6]000|m2200",
    Capability(5, 0): r"m10|maxwell|(?:gtx)?7(?:45|50)(?:ti)?|m1200|k[12]200|k620",
    Capability(3, 7): r"k80",
    Capability(3, 5): r"k20[mcsx]?|k40[mcs]?|gtxtitan(?:z|black)?|(?:gtx)?780(?:ti)?|k6000|kepler",
}
_CAPABILITY = re.compile(r"(?:(?:sm|compute|cc)_?)?(\d{1,2})\.(\d)|(?:sm|compute)_?(\d{1,2})(\d)[af]?|([3-9])(\d)")
#: Words in a card's name that say nothing of its generation: makers, lines, connectors, memory, vGPU profiles.
_NOISE = re.compile(
    r"nvidia|tesla|geforce|quadro|grid|graphics|gpu|laptop|mobile|max|q|with|design|super|ti|edition|collectors|ceo"
    r"|sxm\d*|pcie|nvl|fhhl|dgxs|dgx|s|h|ls|hbm\w*|\d+(?:gb?|q|c|b|a)|generation"
)


def find_gpu(text: str) -> tuple[str, Capability]:
    """Return (name, compute capability) of a GPU by name (``p40``, ``RTX 2080 Ti``) or by capability (``7.5``).

    Raises:
        TargetError: it names no known card.
    """
    if match := _CAPABILITY.fullmatch(text.strip().lower()):
        major, minor = (int(part) for part in match.groups() if part is not None)
        if not 3 <= major <= 20:
            raise TargetError(f"no GPU has compute capability {major}.{minor}; an example is 6.1")
        return text.strip(), Capability(major, minor)
    if known := by_name(text):
        return known
    import difflib

    close = difflib.get_close_matches(_plain(text), [*GPUS, "a100", "titanv", "titanrtx"], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise TargetError(f"no GPU named {text!r}{hint} (known: {', '.join(GPUS)}, a capability such as 7.5, or auto)")


def by_name(text: str) -> tuple[str, Capability] | None:
    """Return (family, compute capability) of a card by its name; None for one that is not known."""
    name = _plain(text)
    for gpu in GPUS.values():
        if re.fullmatch(gpu.models, name) or name == gpu.name:
            return gpu.name, gpu.capability
    for capability, models in (*NEWER.items(), *OLDER.items()):
        if re.fullmatch(models, name):
            return name, capability
    return None


def _plain(text: str) -> str:
    """Return the name of a card without what says nothing: ``Tesla V100-SXM2-32GB`` is ``v100``."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "".join(word for word in words if not _NOISE.fullmatch(word))
