"""How much memory a card has, in GiB: as the user says, as its name says, or as the machine says.

Sizes are those of NVIDIA's data sheets. ``RESERVE`` of them is not for tensors: ECC takes up to 6 % on GDDR cards (a
P40 shows 22919 MiB of 24), a CUDA context with cuBLAS and NCCL about 1 GiB.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.gpus import TargetError, find_gpu
from verl_legacy_patch.launch import LaunchError

GIB = 1 << 30
#: Part of the card, and GiB on top, that training cannot have.
RESERVE = (0.06, 1.0)
#: Cards by name, particular ones first.
_CARDS = (
    (r"p4(?!\d)", 8), (r"p6(?!\d)", 16), (r"titanv", 12), (r"titanrtx", 24), (r"titanxp?", 12),
    (r"2080ti", 11), (r"20[78]0", 8), (r"2060", 6), (r"1080ti", 11), (r"10[78]0", 8), (r"1060", 6), (r"1050", 4),
    (r"16[56]0", 6), (r"rtx8000", 48), (r"rtx6000", 24), (r"rtx5000", 16), (r"rtx4000", 8), (r"p5000", 16),
    (r"p6000", 24), (r"a100", 40), (r"a10(?!\d)", 24), (r"(?:rtx)?30[89]0ti|3090|4090", 24), (r"l4(?!\d)", 24),
)  # fmt: skip
#: Families of ``gpus.GPUS``: the smallest card first, which is assumed, then the others.
FAMILIES = {
    "p100": (12, 16),
    "p40": (24,),
    "gtx10": (8, 11, 6),
    "v100": (16, 32),
    "t4": (16,),
    "rtx20": (8, 11, 6),
    "gtx16": (6, 4),
    "rtx8000": (8, 16, 24, 48),
}


class Card(NamedTuple):
    """The card to write for.

    Attributes:
        name: as the user or the machine calls it.
        memory: GiB.
        others: sizes that cards of this family have, too, where the size was assumed.
    """

    name: str
    capability: Capability
    memory: float
    others: tuple[int, ...] = ()

    @property
    def usable(self) -> float:
        """Bytes for tensors."""
        part, more = RESERVE
        return max(0.0, self.memory * (1 - part) - more) * GIB


def find_card(gpu: str, memory: float | None) -> Card:
    """Return the card that ``--gpu`` and ``--memory`` name.

    Raises:
        LaunchError: there is no such card, or its memory is not known.
    """
    if gpu.strip().lower() == "auto":
        return _detected(memory)
    try:
        family, capability = find_gpu(gpu)
    except TargetError as error:
        raise LaunchError(str(error)) from None
    if memory is not None:
        return Card(gpu.strip(), capability, memory)
    if said := re.search(r"(\d+)\s*gi?b?\b", gpu.lower()):
        return Card(gpu.strip(), capability, float(said[1]))
    name = re.sub(r"[^a-z0-9]", "", gpu.lower())
    for pattern, size in _CARDS:
        if re.search(pattern, name):
            return Card(gpu.strip(), capability, float(size))
    if family in FAMILIES:
        first, *others = FAMILIES[family]
        return Card(gpu.strip(), capability, float(first), tuple(others))
    raise LaunchError(f"the memory of --gpu {gpu.strip()} is not known: add --memory with its GB")


def _detected(memory: float | None) -> Card:
    """Return the weakest card of this machine."""
    from verl_legacy_patch.cards import NoCards, read_cards
    from verl_legacy_patch.target import PATIENCE

    try:
        cards = [card for card in read_cards(PATIENCE, "memory.total") if card.capability is not None]
    except NoCards as error:
        raise LaunchError(f"--gpu auto: {error}; name the GPU instead, such as --gpu p40") from None
    sizes = [card.memory for card in cards if card.memory]
    if not cards or (memory is None and not sizes):
        raise LaunchError("--gpu auto: nvidia-smi does not tell the card; give --gpu and --memory")
    lowest = min(cards, key=lambda card: card.capability or Capability(0, 0))
    assert lowest.capability is not None
    return Card(lowest.name, lowest.capability, memory if memory is not None else round(min(sizes) / 1024, 1))
