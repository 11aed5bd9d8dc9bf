"""Lets any release of verl run on a CPU: nothing here says anything about a GPU or about verl-patch.

It replaces what would need a CUDA device in functions of torch, ray and verl, in memory, after their import.
"""

from collections.abc import Callable
from types import ModuleType

from cpu_harness import torch_parts, verl_parts

HOOKS: dict[str, list[Callable[[ModuleType], None]]] = {
    "torch": [torch_parts.complete_torch_cpu, torch_parts.skip_pinning, torch_parts.use_gloo],
    "torch.distributed.fsdp._init_utils": [torch_parts.allow_fsdp1_sync],
    "ray": [verl_parts.pretend_gpu],
    "verl.utils.device": [verl_parts.use_cpu],
    "verl.workers.sharding_manager.base": [verl_parts.add_missing_timing],
    "verl.workers.rollout.base": [verl_parts.register_rollout],
    "verl.workers.rollout.replica": [verl_parts.register_replica],
    "verl.trainer.ppo.v1.replay_buffer": [verl_parts.poll_faster],
}
