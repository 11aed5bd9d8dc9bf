"""What to rewrite to: a dtype, an attention implementation, and the GPU that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verl_legacy_patch.capability import AMPERE, DEFAULT_CAPABILITY, MAXWELL, PASCAL, VOLTA, Capability

DTYPES = ("float32", "float16")
ATTENTIONS = ("eager", "sdpa")
#: Seconds that nvidia-smi may take; without persistence mode it wakes one card after the other.
PATIENCE = 30.0
#: A note for cards that have fast float16, for whatever checkout.
FLOAT16 = (
    "--dtype float16 --attn sdpa is worth a try on this card where the release scales the loss: the actor's from "
    "v0.6.1, the critic's from v0.8.0"
)


class Target(NamedTuple):
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
        from verl_legacy_patch.gpus import find_gpu

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
    if capability < PASCAL:
        what = "no vLLM has" if capability >= MAXWELL else "start at 5.0"
        have = "PyTorch's cu126 builds have kernels for it, " if capability >= MAXWELL else "PyTorch's kernels "
        return [f"compute capability {capability} is below the cards that are covered (6.0 to 7.5): {have}{what}"]
    if dtype == "float16" and capability < VOLTA and capability != Capability(6, 0):
        return [f"float16 runs at 1/64 of the float32 rate on compute capability {capability}: float32 is faster there"]
    if dtype is None and asked and capability >= VOLTA:
        return [FLOAT16]
    return []


def detect() -> tuple[str, Capability, str]:
    """Ask nvidia-smi for the cards of this machine: return name and capability of the lowest, and what was found.

    Raises:
        TargetError: there is no nvidia-smi, it fails or does not answer, or it shows no card that is known.
    """
    from verl_legacy_patch.cards import NoCards, read_cards
    from verl_legacy_patch.gpus import TargetError

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
    from collections import Counter

    cards = Counter(sorted(known, key=lambda card: card[1]))
    parts = [
        f"{f'{count} x ' if count > 1 else ''}{name} ({capability})" for (name, capability), count in cards.items()
    ]
    lowest = ": the lowest counts" if len({capability for _, capability in known}) > 1 else ""
    ignored = f"; not known, so not counted: {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    return f"nvidia-smi shows {', '.join(parts)}{lowest}{ignored}"
