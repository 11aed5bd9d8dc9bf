"""Count the parameters that the weights of a model hold, from the headers of their files: no weight is read.

The format: 8 bytes with the length of a JSON text, little-endian, then that text, which has the shape of each tensor
(https://github.com/huggingface/safetensors#format). An index beside it names the files and the bytes of all of them.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

_MOST = 100 << 20  # what safetensors itself takes at most for a header
_FILES = 1000
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_NAMES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


class Weights(NamedTuple):
    """How many parameters there are, 0 where the files do not tell; ``notes`` are keys of ``words``."""

    parameters: int = 0
    notes: tuple[str, ...] = ()


def read_weights(folder: Path) -> Weights:
    """Return what the files of a model's folder say."""
    single = folder / "model.safetensors"
    try:
        if single.exists():
            return Weights(_count(single))
        for name in _INDEXES:
            if (folder / name).exists():
                return _indexed(folder, name)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, struct.error):
        return Weights(notes=("weights-broken",))
    return Weights()


def _indexed(folder: Path, name: str) -> Weights:
    """Count by the headers of all files, else by the total of bytes and the dtype of the configuration."""
    index = _json((folder / name).read_bytes())
    files = sorted(set(index["weight_map"].values()))
    paths = [folder / file for file in files if "/" not in file]
    if name == _INDEXES[0] and 0 < len(paths) <= _FILES and all(path.exists() for path in paths):
        return Weights(sum(map(_count, paths)))
    config = _json((folder / "config.json").read_bytes())
    each = _NAMES.get(str(config.get("torch_dtype", config.get("dtype"))))
    total = index["metadata"]["total_size"]
    return Weights(int(total) // each) if each else Weights()


def _count(path: Path) -> int:
    """Return the number of floating-point values of a file."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > _MOST:
            raise ValueError("no safetensors file, perhaps a pointer of Git LFS")
        tensors = _json(stream.read(length))
    shapes = [one["shape"] for name, one in tensors.items() if name != "__metadata__" and one["dtype"] in _BYTES]
    count = sum(int(math.prod(shape)) for shape in shapes)
    if count <= 0:
        raise ValueError("no weights")
    return count


def _json(source: bytes) -> dict[str, Any]:
    data = json.loads(source)
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return data
