"""CUDA compute capabilities: what a card can do follows from its generation."""

from __future__ import annotations

from typing import NamedTuple


class Capability(NamedTuple):
    """A CUDA compute capability, such as 6.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


#: That of a Tesla P40, for which is rewritten when nobody names a card.
DEFAULT_CAPABILITY = Capability(6, 1)
MAXWELL, PASCAL = Capability(5, 0), Capability(6, 0)
VOLTA, TURING, AMPERE = Capability(7, 0), Capability(7, 5), Capability(8, 0)
