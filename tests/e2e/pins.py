"""The one table of what each release of verl is run with.

A row names what verl itself imports; the versions of everything below that stand in ``locks/`` (``pip freeze`` of
the environment that the figures in README.md come from). Nothing here is a GPU package: no flash-attn, no vLLM, no
triton.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).parent / "locks"

_COMMON = (
    "torch==2.13.0",
    # verl/__init__.py imports pkg_resources, which newer releases of setuptools do not have
    "setuptools==80.9.0",
    "ray[default]==2.49.2",
    "hydra-core==1.3.2",
    "codetiming==1.4.0",
    "pybind11==3.1.0",
    "pylatexenc==2.11",
    "torchdata==0.11.0",
    "uvicorn==0.54.0",
    "fastapi==0.165.0",
    "wandb==0.31.0",
    "latex2sympy2_extended==1.11.0",
    "math-verify==0.9.0",
    "cachetools==8.0.2",
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-timeout==2.4.0",
)

#: What belongs to transformers 4.51, the newest that the v0.4 and v0.5 lines were made for.
_TRANSFORMERS_4 = (
    "transformers==4.51.3",
    "tensordict==0.6.2",
    "accelerate==1.7.0",
    "datasets==3.6.0",
    "numpy==1.26.4",
    "pandas==3.0.6",
    "peft==0.15.2",
    "pyarrow==20.0.0",
    "packaging==26.4",
    "huggingface_hub==0.36.2",
)

_TRANSFORMERS_5 = (
    "transformers==5.10.4",
    "tensordict==0.10.0",
    "accelerate==1.15.0",
    "datasets==5.2.0",
    "numpy==2.4.6",
    "pandas==2.3.3",
    "peft==0.21.2",
    "pyarrow==26.0.1",
    "packaging==25.0",
    "tensorboard==2.21.0",
    "TransferQueue==0.1.8",
)


@dataclass(frozen=True)
class Pins:
    """The environment of one or more releases."""

    name: str
    packages: tuple[str, ...]

    @property
    def lock(self) -> Path:
        """Return the file with the versions of all packages, those of the table included."""
        return LOCKS / f"{self.name}.txt"


OLD = Pins("transformers-4", _COMMON + _TRANSFORMERS_4)
NEW = Pins("transformers-5", _COMMON + _TRANSFORMERS_5)

#: Release of verl on PyPI -> what it runs with.
TABLE = {"0.4.1": OLD, "0.5.0": OLD, "0.9.0": NEW}
