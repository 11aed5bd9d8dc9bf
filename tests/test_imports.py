"""Rewritten releases import where there is no flash-attn, and the published ones do not.

Takes the environments of ``tests/e2e``: two, of which each release gets the one in which it imports, and the harness
that lets ``is_cuda_available`` be True on a CPU: from v0.4.1 on it decides whether flash-attn is imported at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e import runs
from e2e.venvs import python_for
from rewritten import rewritten, source

pytestmark = pytest.mark.e2e

ACTOR, CRITIC, WORKERS = "verl.workers.actor.dp_actor", "verl.workers.critic.dp_critic", "verl.workers.fsdp_workers"
SFT, DRIVER, MERGER = "verl.trainer.fsdp_sft_trainer", "verl.trainer.main_ppo", "verl.model_merger.fsdp_model_merger"
ENGINE, NEW_WORKERS, NEW_SFT = (
    "verl.workers.engine.fsdp.transformer_impl",
    "verl.workers.engine_workers",
    "verl.trainer.sft_trainer",
)
OLD = "verl.trainer.ppo"
OLD_CRITIC = f"{OLD}.critic.dp_critic"
#: The four functions, called: newer releases import flash-attn at the first call, also when packing is off.
PADDING = "verl.utils.attention_utils"
FIRST = {ACTOR, CRITIC, SFT}
OLDER = {f"{OLD}.actor.dp_actor", OLD_CRITIC, f"{OLD}.workers.fsdp_workers"}
#: Release -> (row of the environments' table, what must import, and of that what fails without the patch).
RELEASES: dict[str, tuple[str, set[str], set[str]]] = {
    "0.1": ("0.4.1", {*OLDER, SFT, DRIVER}, {OLD_CRITIC}),
    "0.2": ("0.4.1", {ACTOR, CRITIC, WORKERS, SFT, DRIVER}, FIRST),
    "0.3.0.post1": ("0.4.1", {ACTOR, CRITIC, WORKERS, SFT, DRIVER}, FIRST),
    "0.4.1": ("0.4.1", {ACTOR, CRITIC, WORKERS, SFT, MERGER, DRIVER}, FIRST),
    "0.5.0": ("0.5.0", {ACTOR, CRITIC, WORKERS, SFT, MERGER, DRIVER}, FIRST),
    "0.6.1": ("0.4.1", {ACTOR, CRITIC, WORKERS, SFT, NEW_SFT, MERGER, ENGINE, DRIVER, PADDING}, {PADDING}),
    "0.7.1": ("0.9.0", {ACTOR, CRITIC, WORKERS, NEW_SFT, MERGER, ENGINE, NEW_WORKERS, DRIVER, PADDING}, {PADDING}),
    "0.8.0": ("0.9.0", {NEW_SFT, MERGER, ENGINE, NEW_WORKERS, DRIVER, PADDING}, {PADDING}),
    "0.9.0": ("0.9.0", {NEW_SFT, MERGER, ENGINE, NEW_WORKERS, DRIVER, PADDING}, {PADDING}),
    # falls back by itself, on einops, which the environment does not have
    "0.9.1": ("0.9.0", {NEW_SFT, MERGER, ENGINE, NEW_WORKERS, DRIVER}, set()),
}
MISSING = "ModuleNotFoundError: No module named 'flash_attn'"

PROBE = """
import importlib, importlib.util, json, sys, warnings
warnings.simplefilter("ignore")
if importlib.util.find_spec("verl.utils.device"):
    assert importlib.import_module("verl.utils.device").is_cuda_available is True

def use(name):
    module = importlib.import_module(name)
    if name.endswith(".attention_utils"):
        import torch
        hidden = torch.arange(12.0).reshape(2, 3, 2)
        mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
        packed, indices, *_ = module.unpad_input(hidden, mask)
        assert torch.equal(module.pad_input(packed, indices, 2, 3), hidden * mask[..., None])
        rows = module.index_first_axis(module.rearrange(hidden, "b s ... -> (b s) ..."), indices)
        assert torch.equal(rows, packed)

results = {}
for name in sys.argv[1:]:
    try:
        use(name)
        results[name] = ""
    except BaseException as error:
        results[name] = f"{type(error).__name__}: {error}"
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def tree(version: str) -> Path:
        if version not in made:
            made[version] = rewritten(version, tmp_path_factory.mktemp("tree"))
        return made[version]

    return tree


def imported(version: str, tree: Path, modules: set[str], folder: Path) -> dict[str, str]:
    """Return what importing each module raised, empty for nothing."""
    machine = runs.Machine(python_for(RELEASES[version][0]), folder, folder)
    outcome = runs.run(f"{version} imports", machine, tree, ["-c", PROBE, *sorted(modules)], gpu="off")
    assert "RESULTS" in outcome.log, outcome.tail()
    results: dict[str, str] = json.loads(outcome.log.rpartition("RESULTS")[2])
    return results


@pytest.mark.parametrize("version", RELEASES)
def test_the_rewritten_release_imports_without_flash_attn(
    version: str, trees: Callable[[str], Path], tmp_path: Path
) -> None:
    _, modules, _ = RELEASES[version]
    assert imported(version, trees(version), modules, tmp_path) == dict.fromkeys(modules, "")


@pytest.mark.parametrize("version", RELEASES)
def test_the_published_release_does_not(version: str, tmp_path: Path) -> None:
    _, modules, fail = RELEASES[version]
    results = imported(version, source(version), modules, tmp_path)
    assert results == {name: MISSING if name in fail else "" for name in modules}


@pytest.mark.parametrize("version", RELEASES)
def test_the_table_names_every_module_that_the_release_has(version: str) -> None:
    every = FIRST | {WORKERS, DRIVER, MERGER, ENGINE, NEW_WORKERS, NEW_SFT, PADDING}
    there = {name for name in every if (source(version) / f"{name.replace('.', '/')}.py").exists()}
    assert there - ({PADDING} if version == "0.9.1" else set()) == RELEASES[version][1] - OLDER
