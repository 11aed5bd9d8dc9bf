"""An emulated Tesla P40 (compute capability 6.1): refuses what that card, or a package on it, refuses.

| what | raises |
| --- | --- |
| an operation on bfloat16 tensors, bf16 autocast, bf16 as default dtype | vLLM's ValueError about bfloat16 |
| `import flash_attn` | ModuleNotFoundError: its wheel cannot be built for the card |
| a kernel of an installed flash-attn | flash-attn's RuntimeError about Ampere |
| calling a compiled function (torch.compile, a Triton kernel) | Triton's RuntimeError about 7.0 |

Reading a bfloat16 checkpoint and converting it is allowed: that happens on the host's CPU.

It is stricter than the card about bfloat16 arithmetic. PyTorch emulates bfloat16 there: slowly, rounded, and without
an error. "Nothing raises here" therefore means that no bfloat16 is left, not only that the card accepts what is left.

Environment variables:
    LEGACY_GPU            raise | log | off (default). log writes each violation with verl's file and line, and goes on
    LEGACY_GPU_LOG        the file for log (default: stderr)
    LEGACY_GPU_FLASH      absent (default) | installed
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

MODE = os.environ.get("LEGACY_GPU", "off")
if MODE not in ("raise", "log", "off"):
    raise SystemExit(f"LEGACY_GPU={MODE}: must be raise, log or off")

HOOKS: dict[str, list[Callable[[ModuleType], None]]] = {}
WATCHED: dict[str, Callable[[], None]] = {}

if MODE != "off":
    from legacy_gpu import bf16, compilation, violations

    HOOKS["torch"] = [bf16.install, compilation.install]
    if MODE == "log":
        WATCHED["flash_attn"] = lambda: violations.log("import flash_attn")
    if os.environ.get("LEGACY_GPU_FLASH") == "installed":
        sys.path.append(str(Path(__file__).parents[1] / "flash_attn_wheel"))
