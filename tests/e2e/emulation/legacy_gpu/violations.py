"""Raises, or logs, what a user of the card would see, and says where verl asked for it."""

from __future__ import annotations

import os
import sys
import traceback

#: Stands in every error that the emulation makes, so that no log can be taken for one of a real card.
MARK = "legacy-gpu"


def bf16(what: str) -> None:
    """Refuse bfloat16 in vLLM's words (``vllm/worker/worker.py``), which is the error that users post."""
    text = (
        "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla P40 GPU has compute "
        "capability 6.1. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: "
        "--dtype=half."
    )
    _violate(ValueError(f"{text} [{MARK}: {what}]"), what)


def triton(what: str) -> None:
    """Refuse generated kernels in the words of PyTorch's Inductor (``torch/_inductor/scheduler.py``)."""
    text = (
        "Found Tesla P40 which is too old to be supported by the triton GPU compiler, which is used as the backend. "
        "Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1"
    )
    _violate(RuntimeError(f"{text} [{MARK}: {what}]"), what)


def flash(what: str) -> None:
    """Refuse a flash-attn kernel in flash-attn's words (``csrc/flash_attn/flash_api.cpp``)."""
    raise RuntimeError(f"FlashAttention only supports Ampere GPUs or newer. [{MARK}: {what}]")


def log(what: str) -> None:
    """Write one violation and the lines of verl that led to it, innermost first."""
    frames = traceback.extract_stack()
    places = [
        f"verl/{frame.filename.rpartition('/verl/')[2]}:{frame.lineno}"
        for frame in frames
        if "/verl/" in frame.filename
    ]
    line = f"[{MARK}] {what} @ {' < '.join(places[-3:][::-1]) or 'outside verl'}\n"
    path = os.environ.get("LEGACY_GPU_LOG")
    if path:
        with open(path, "a") as file:  # noqa: PTH123
            file.write(line)
    else:
        sys.stderr.write(line)


def _violate(error: Exception, what: str) -> None:
    if os.environ.get("LEGACY_GPU") == "log":
        log(what)
    else:
        raise error
