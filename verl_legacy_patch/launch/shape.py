"""What a checkout has, by the shape of its files: entry points, engines for generation, and what they cannot do.

Nothing is imported, and no release is asked for by its number: forks and commits between releases count as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.mirror.keys import composed_keys
from verl_legacy_patch.mirror.tree import Leaf, Map, Seq

Keys = Mapping[tuple[str, ...], Leaf | Seq | Map]

#: Trainer below ``verl/trainer/`` -> its primary configuration, where its file names none. The first that is there is
#: taken: where both SFT trainers are, the older one is the one that verl's own examples start.
ENTRIES = {
    "rl": (("main_ppo", "ppo_trainer"),),
    "sft": (("fsdp_sft_trainer", "sft_trainer"), ("sft_trainer", "sft_trainer_engine")),
}
_NAMED = re.compile(r"config_name\s*=\s*[\"']([\w./-]+)[\"']")
#: In-process engine: what an object of vLLM's class LLM is made like.
_IN_PROCESS = re.compile(r"= LLM\(")
_FLOOR = re.compile(r"vllm versions are (\d+)\.(\d+)")


class Shape:
    """A checkout, as far as a launch script is concerned."""

    def __init__(self, checkout: Checkout) -> None:
        packages = checkout.packages()
        if not packages:
            raise LaunchError(f"{checkout.root} has no verl/ package: launch starts verl's own trainers", 3)
        self.checkout = checkout
        self.package = packages[0]

    def text(self, path: str) -> str:
        """Return a file below the package; empty where there is none."""
        return (self.checkout.read_path(f"{self.package}/{path}") or b"").decode("utf-8", "replace")

    def entry(self, kind: str) -> tuple[str, Keys]:
        """Return the trainer (``main_ppo``) and the keys of its configuration.

        Raises:
            LaunchError: there is no such trainer, or its configuration cannot be composed.
        """
        for module, usual in ENTRIES[kind]:
            if not self.checkout.has_file(f"{self.package}/trainer/{module}.py"):
                continue
            named = _NAMED.search(self.text(f"trainer/{module}.py"))
            primary = named[1].removesuffix(".yaml") if named else usual
            keys = composed_keys(self.checkout, primary)
            if keys is not None:
                return module, keys
            where = f"{self.package}/trainer/config/{primary}.yaml"
            raise LaunchError(f"{where} is missing or cannot be composed: launch takes its keys from there", 3)
        names = " or ".join(f"{self.package}/trainer/{module}.py" for module, _ in ENTRIES[kind])
        raise LaunchError(f"no {names} in {self.checkout.root}: launch starts verl's own trainers", 3)

    @cached_property
    def vllm_files(self) -> tuple[str, ...]:
        """Files (below the package) that run vLLM in the worker's own process; none where only a server is left."""
        folder = f"{self.package}/workers/rollout/vllm_rollout"
        paths = sorted(self.checkout.list_folder(folder))
        short = [path.removeprefix(f"{self.package}/") for path in paths if path.endswith(".py")]
        return tuple(path for path in short if _IN_PROCESS.search(self.text(path)))

    @cached_property
    def has_hf(self) -> bool:
        """Whether ``rollout.name=hf`` can be chosen."""
        return "HFRollout(" in self.text("workers/fsdp_workers.py")

    @cached_property
    def hf_samples(self) -> bool:
        """Whether the HF rollout can give several answers to a prompt.

        Either the trainer repeats the prompts before it generates or the rollout returns several; with both there
        are too many answers, with neither too few.
        """
        rollout = re.search(r"num_return_sequences\W+self\.config\.n\b", self.text("workers/rollout/hf_rollout.py"))
        trainer = re.search(r"gen_batch\w* = gen_batch\w*\.repeat\(", self.text("trainer/ppo/ray_trainer.py"))
        return bool(rollout) != bool(trainer)

    @cached_property
    def hf_lacks_timing(self) -> bool:
        """Whether the worker reads a ``timing`` that the HF rollout's sharding manager does not have."""
        reads = "rollout_sharding_manager.timing" in self.text("workers/fsdp_workers.py")
        return reads and "timing" not in self.text("workers/sharding_manager/base.py")

    @cached_property
    def server(self) -> str:
        """The file that starts vLLM's server; empty text where there is none."""
        return self.text("workers/rollout/vllm_rollout/vllm_async_server.py")

    @cached_property
    def server_drops_false(self) -> bool:
        """Whether a False of the configuration is lost on its way to vLLM's command line."""
        from verl_legacy_patch.codemod import discover
        from verl_legacy_patch.target import Target

        reports = discover()["vllm-server-flags"]
        paths = sorted(self.checkout.list_folder(f"{self.package}/workers/rollout"))
        sources = (self.checkout.read_path(path) or b"" for path in paths if path.endswith(".py"))
        return any(edit for source in sources for edit in reports.inspect(source, "python", Target()))

    @cached_property
    def vllm_floor(self) -> tuple[int, int]:
        """The oldest vLLM that the code accepts; (0, 0) where it does not say."""
        match = _FLOOR.search(self.text("third_party/vllm/__init__.py"))
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def scales_loss(self, path: str) -> bool:
        """Return whether each backward pass in a file (below the package) is under a scaler, which float16 needs."""
        from verl_legacy_patch.codemod import discover
        from verl_legacy_patch.languages import SourceError
        from verl_legacy_patch.rewrite import rewrite
        from verl_legacy_patch.target import Target

        source = self.text(path).encode()
        try:
            sites = rewrite(f"{self.package}/{path}", source, [discover()["loss-scaling"]], Target("float16")).sites
        except SourceError:
            return False
        return not any(site.action == "report" for site in sites)
