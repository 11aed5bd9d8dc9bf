"""What to rewrite to: a dtype, an attention implementation, and the GPU that they are for."""

from __future__ import annotations

from dataclasses import dataclass

DTYPES = ("float32", "float16")
ATTENTIONS = ("eager", "sdpa")


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """A CUDA compute capability, such as 6.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Target:
    """The dtype and attention implementation to choose, and the GPU's compute capability."""

    dtype: str = "float32"
    attn: str = "eager"
    gpu: str | None = None
    capability: Capability = Capability(6, 1)
