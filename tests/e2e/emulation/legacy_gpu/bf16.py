"""Refuses bfloat16: every operation that computes it, bf16 autocast, and bf16 as the default dtype."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from legacy_gpu import violations

#: Make a bfloat16 tensor out of one that exists, without arithmetic: how a checkpoint is read and cut into pieces.
VIEWS = frozenset(
    (
        "aten::_reshape_alias",
        "aten::_unsafe_view",
        "aten::alias",
        "aten::as_strided",
        "aten::detach",
        "aten::expand",
        "aten::lift_fresh",
        "aten::permute",
        "aten::select.int",
        "aten::set_.source_Storage",
        "aten::set_.source_Storage_storage_offset",
        "aten::slice.Tensor",
        "aten::split.Tensor",
        "aten::split_with_sizes",
        "aten::squeeze.dim",
        "aten::t",
        "aten::transpose.int",
        "aten::unbind.int",
        "aten::unsqueeze",
        "aten::view",
        "aten::view.dtype",
    )
)
#: Take a bfloat16 tensor and give another dtype: the way out of it.
CONVERSIONS = frozenset(("aten::_to_copy", "aten::copy_", "aten::view.dtype", "aten::is_same_size"))


def install(torch: ModuleType) -> None:
    """Put the emulation into a torch that was just imported, for all its threads."""
    _refuse_operations(torch)
    _refuse_autocast(torch)
    set_default_dtype = torch.set_default_dtype

    def refuse_default(dtype: Any) -> Any:
        if dtype is torch.bfloat16:
            violations.bf16("torch.set_default_dtype(torch.bfloat16)")
        return set_default_dtype(dtype)

    torch.set_default_dtype = refuse_default  # type: ignore[attr-defined]


def _refuse_operations(torch: ModuleType) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    def computed(value: Any) -> bool:
        """Return whether a bfloat16 tensor with data is in it; a meta tensor is only a shape."""
        if isinstance(value, torch.Tensor):
            return value.dtype is torch.bfloat16 and value.device.type != "meta"
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, (list, tuple)):
            return False
        return any(computed(part) for part in value)

    class RefuseBf16(TorchDispatchMode):
        """Sees each operation after autograd and autocast, as the kernels of a device do."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = func.name()
            if computed(result):
                if name not in VIEWS:
                    violations.bf16(name)
            elif name not in CONVERSIONS and computed(args):
                violations.bf16(name)
            return result

    RefuseBf16().__enter__()
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap_refusing(thread: threading.Thread) -> None:
        # a dispatch mode holds for one thread
        with RefuseBf16():
            bootstrap(thread)

    threading.Thread._bootstrap_inner = bootstrap_refusing  # type: ignore[attr-defined]


def _refuse_autocast(torch: ModuleType) -> None:
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    def refuse(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, *rest: Any, **more: Any) -> None:
        if enabled and dtype is torch.bfloat16:
            violations.bf16(f"torch.autocast({device_type!r}, dtype=torch.bfloat16)")
        init(self, device_type, dtype, enabled, *rest, **more)

    autocast.__init__ = refuse
