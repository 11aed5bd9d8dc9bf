"""What verl and Ray take from the machine that a CPU does not have, and two shortcomings of verl itself."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from cpu_harness import torch_parts


class _Device(str):
    """``"cpu"`` as a device; in ``f"{get_device_name()}:{get_device_id()}"`` its number."""

    def __format__(self, spec: str) -> str:
        return "0"


def use_cpu(device: ModuleType) -> None:
    """Make verl see one device, the CPU, and still take its branches for CUDA.

    ``is_cuda_available`` is what makes older releases import flash-attn; it stays True so that a run fails or
    passes where it would on a machine with a GPU.
    """
    import torch

    cpu = _Device("cpu")
    device.is_cuda_available = True  # type: ignore[attr-defined]
    answers = {
        "get_nccl_backend": "gloo",
        "get_device_name": "cpu",
        "get_torch_device": torch.cpu,
        "get_device_id": cpu,
        "get_device_capability": torch_parts.CAPABILITY,
    }
    for name, value in answers.items():
        setattr(device, name, lambda *args, _value=value, **kwargs: _value)

    def auto_set_device(config: Any) -> None:
        # newer releases overwrite trainer.device with "cuda"
        if config and "device" in config.get("trainer", {}):
            config.trainer.device = "cpu"

    device.auto_set_device = auto_set_device  # type: ignore[attr-defined]


def pretend_gpu(ray: ModuleType) -> None:
    """Let a local Ray cluster offer one GPU for verl's placement groups, and keep it small."""
    init = ray.init

    def small_init(*args: Any, **kwargs: Any) -> Any:
        if not os.environ.get("RAY_ADDRESS"):
            kwargs = {"num_gpus": 1, "include_dashboard": False, "object_store_memory": 512 << 20, **kwargs}
        return init(*args, **kwargs)

    ray.init = small_init  # type: ignore[attr-defined]


def add_missing_timing(base: ModuleType) -> None:
    """Give the sharding manager of the HF rollout its ``timing``.

    A bug of v0.4 and v0.5: the worker reads it, and only the managers of vLLM and SGLang have it.
    """
    if not hasattr(base.BaseShardingManager, "timing"):
        base.BaseShardingManager.timing = {}


def register_rollout(base: ModuleType) -> None:
    """Offer our server as ``rollout.name=hf`` where verl has no rollout without vLLM or SGLang any more."""
    if hasattr(base, "_ROLLOUT_REGISTRY"):
        base._ROLLOUT_REGISTRY.setdefault(("hf", "async"), "hf_server.Adapter")


def register_replica(replica: ModuleType) -> None:
    """Offer the other half of our server."""
    if not hasattr(replica, "RolloutReplicaRegistry"):
        return

    def load() -> Any:
        from hf_server import Replica

        return Replica

    replica.RolloutReplicaRegistry.register("hf", load)


def poll_faster(replay_buffer: ModuleType) -> None:
    """Look for finished samples five times a second, not every other second: ours are tiny."""
    for value in list(vars(replay_buffer).values()):
        wait = getattr(value, "_wait_for_next_poll", None)
        if wait is None:
            continue

        def wait_less(self: Any, *args: Any, _wait: Any = wait, **kwargs: Any) -> Any:
            self.poll_interval = min(self.poll_interval, 0.2)
            return _wait(self, *args, **kwargs)

        value._wait_for_next_poll = wait_less
