"""What to rewrite to: a dtype, an attention implementation, and the GPU that they are for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

DTYPES = ("float32", "float16")
ATTENTIONS = ("eager", "sdpa")
#: Seconds that nvidia-smi may take; without persistence mode it wakes one card after the other.
PATIENCE = 30.0


class TargetError(ValueError):
    """A GPU, dtype or attention that cannot be meant; one line that says what can."""


class Capability(NamedTuple):
    """A CUDA compute capability, such as 6.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


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
DEFAULT_CAPABILITY = Capability(6, 1)
VOLTA, AMPERE = Capability(7, 0), Capability(8, 0)

_CAPABILITY = re.compile(r"(?:(?:sm|compute|cc)_?)?(\d{1,2})\.(\d)|(?:sm|compute)_?(\d{1,2})(\d)[af]?|([3-9])(\d)")
#: Words in a card's name that say nothing of its generation: makers, lines, connectors, memory, vGPU profiles.
_NOISE = re.compile(
    r"nvidia|tesla|geforce|quadro|grid|graphics|gpu|laptop|mobile|max|q|with|design|super|ti|edition|collectors|ceo"
    r"|sxm\d*|pcie|nvl|fhhl|dgxs|dgx|s|h|ls|hbm\w*|\d+(?:gb?|q|c|b|a)|generation"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The dtype and attention implementation to choose, and the GPU's compute capability.

    ``notes`` are sentences for people about this choice.
    """

    dtype: str = "float32"
    attn: str = "eager"
    gpu: str | None = None
    capability: Capability = DEFAULT_CAPABILITY
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype} + {self.attn} for compute capability {self.capability}"


def make_target(gpu: str | None = None, dtype: str | None = None, attn: str | None = None) -> Target:
    """Return the target for what the user asked for; what is not given follows from the GPU.

    All cards below 8.0 default to float32 and eager: float16 training needs loss scaling, which verl has for
    few roles and releases. Newer cards do too: whoever asks for a rewrite gets one, and a note.

    Raises:
        TargetError: no such GPU, or ``auto`` finds none.
    """
    name: str | None = None
    capability, found = DEFAULT_CAPABILITY, []
    if gpu is not None and gpu.strip().lower() == "auto":
        name, capability, note = detect()
        found = [note]
    elif gpu is not None:
        name, capability = find_gpu(gpu)
    notes = (*found, *_notes(gpu is not None, capability, dtype))
    return Target(dtype or DTYPES[0], attn or ATTENTIONS[0], name, capability, notes)


def _notes(asked: bool, capability: Capability, dtype: str | None) -> list[str]:
    """Return what a person should know before choosing this.

    Args:
        asked: whether the user named a card at all.
        capability: that of the card.
        dtype: the one asked for, if any.
    """
    if capability >= AMPERE:
        return [
            f"a card of compute capability {capability} runs bfloat16 and flash attention: nothing has to be rewritten "
            "for it. What only older cards need is left out"
        ]
    if dtype == "float16" and capability < VOLTA and capability != Capability(6, 0):
        return [f"float16 runs at 1/64 of the float32 rate on compute capability {capability}: float32 is faster there"]
    if dtype is None and asked and capability >= VOLTA:
        return [
            "--dtype float16 --attn sdpa is worth a try on this card where the release scales the loss: the actor's "
            "from v0.6.1, the critic's from v0.8.0"
        ]
    return []


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
    if name == "gtxtitanx":  # of the generation before Pascal, unlike all that is called Titan X without GTX
        return name, Capability(5, 2)
    for gpu in GPUS.values():
        if re.fullmatch(gpu.models, name) or name == gpu.name:
            return gpu.name, gpu.capability
    for capability, models in NEWER.items():
        if re.fullmatch(models, name):
            return name, capability
    return None


def _plain(text: str) -> str:
    """Return the name of a card without what says nothing: ``Tesla V100-SXM2-32GB`` is ``v100``."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "".join(word for word in words if not _NOISE.fullmatch(word))


def detect() -> tuple[str, Capability, str]:
    """Ask nvidia-smi for the cards of this machine: return name and capability of the lowest, and what was found.

    Raises:
        TargetError: there is no nvidia-smi, it fails or does not answer, or it shows no card that is known.
    """
    from verl_legacy_patch.cards import NoCards, read_cards

    try:
        cards = read_cards(PATIENCE)
    except NoCards as error:
        raise TargetError(f"--gpu auto: {error}; name the GPU instead, such as --gpu p40") from None
    known = [(card.name, card.capability) for card in cards if card.capability is not None]
    unknown = [card.name for card in cards if card.capability is None]
    if not known:
        names = ", ".join(dict.fromkeys(unknown))
        raise TargetError(
            f"--gpu auto: nvidia-smi does not tell the compute capability of {names}; give it, such as --gpu 6.1"
        )
    name, capability = min(known, key=lambda card: card[1])
    return name, capability, _found(known, unknown)


def _found(known: Sequence[tuple[str, Capability]], unknown: Sequence[str]) -> str:
    """Return the cards of a machine in words, the lowest first."""
    cards = Counter(sorted(known, key=lambda card: card[1]))
    parts = [
        f"{f'{count} x ' if count > 1 else ''}{name} ({capability})" for (name, capability), count in cards.items()
    ]
    lowest = ": the lowest counts" if len({capability for _, capability in known}) > 1 else ""
    ignored = f"; not known, so not counted: {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    return f"nvidia-smi shows {', '.join(parts)}{lowest}{ignored}"
