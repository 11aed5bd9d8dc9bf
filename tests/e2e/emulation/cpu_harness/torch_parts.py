"""What verl asks torch for that a CPU does not have."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

MEMORY = 24 << 30
CAPABILITY = (6, 1)
CARD = SimpleNamespace(
    name="Tesla P40 (emulated)",
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    total_memory=MEMORY,
    multi_processor_count=30,
)


def complete_torch_cpu(torch: ModuleType) -> None:
    """Give ``torch.cpu`` the functions of ``torch.cuda`` that verl calls through ``get_torch_device()``."""

    def answering(value: Any) -> Any:
        return lambda *args, **kwargs: value

    answers = dict.fromkeys(("empty_cache", "ipc_collect", "reset_peak_memory_stats"))
    answers |= dict.fromkeys(("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"), 0)
    answers |= {
        "memory_stats": {},
        "mem_get_info": (MEMORY, MEMORY),
        "get_device_properties": CARD,
        "get_device_capability": CAPABILITY,
        "get_device_name": CARD.name,
        "is_bf16_supported": False,
    }
    functions = {name: answering(value) for name, value in answers.items()}
    functions["manual_seed"] = functions["manual_seed_all"] = torch.manual_seed
    functions["get_rng_state"] = lambda *device: torch.get_rng_state()
    functions["set_rng_state"] = lambda state, *device: torch.set_rng_state(state)
    for name, function in functions.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, function)


def skip_pinning(torch: ModuleType) -> None:
    """Leave memory unpinned: pinning needs an accelerator."""
    torch.Tensor.pin_memory = lambda self, *device: self


def use_gloo(torch: ModuleType) -> None:
    """Use gloo whatever backend is asked for, and average by hand: gloo only sums."""
    import torch.distributed as dist

    init_process_group, all_reduce = dist.init_process_group, dist.all_reduce

    def init_gloo(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return init_process_group("gloo" if isinstance(backend, str) else backend, *args, **kwargs)

    def all_reduce_average(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, **kwargs: Any) -> Any:
        if op != dist.ReduceOp.AVG:
            return all_reduce(tensor, op, group, **kwargs)
        work = all_reduce(tensor, dist.ReduceOp.SUM, group, **kwargs)
        tensor.div_(dist.get_world_size(group))
        return work

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_gloo
    dist.all_reduce = all_reduce_average


def allow_fsdp1_sync(init_utils: ModuleType) -> None:
    """Let FSDP1 broadcast parameters on a CPU: it refuses to, gloo can."""
    init_utils._check_module_states_for_sync_module_states = lambda states: None  # type: ignore[attr-defined]
