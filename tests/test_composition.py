"""What a training run reads: the trainer configurations of rewritten releases, composed by Hydra itself.

What must be gone is written down here a second time, by shape and not by the codemods' own lists of keys.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from releases import VERSIONS
from rewritten import carry_out, plan_of, rewritten, source

from verl_legacy_patch.scope import backend, file_reason

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:invalid escape")]

#: Nearest key -> values that an old card cannot run. Keys and values are matched as a whole, without case.
LEFT = (
    (r".*dtype|.*precision.*", r".*(?:bf16|bfloat16).*"),
    (r".*att(?:n|ention).*", r".*flash.*|true"),
    (r".*(?:torch_)?compile(?:_mode)?", r"(?!false|none).+"),
    (r"enable_(?:prefix_caching|chunked_prefill)|.*prefix_cach.*|.*chunked_prefill.*", r"true"),
    (r"enforce_eager", r"false"),
    (r".*(?:remove_padding|rmpad|fused_kernels?|packing)", r"true"),
)
#: All that a rewrite may change: nearest key, before, after.
CHANGES = (
    (r"(?:\w+_)?dtype", "bfloat16", "float32"),
    (r"(?:\w+_)?dtype", "bf16", "fp32"),
    (r"attn_implementation", "flash_attention_2", "eager"),
    (r"use_torch_compile|enable_prefix_caching|enable_chunked_prefill|use_remove_padding", True, False),
    (r"enforce_eager", False, True),
)
#: These were empty if the test looked in the wrong place: release -> settings of ppo_trainer that change.
COUNTS = {
    "0.1": 1, "0.2": 2, "0.3.0.post1": 3, "0.4.1": 4, "0.5.0": 4,
    "0.6.1": 12, "0.7.1": 17, "0.8.0": 21, "0.9.0": 21, "0.9.1": 21,
}  # fmt: skip


def primaries(tree: Path) -> Iterator[Path]:
    """Yield the configurations that a program of the FSDP path is started with."""
    for folder in sorted(tree.rglob("config")):
        for path in sorted(folder.glob("*.yaml")):
            if not path.name.startswith("_") and not file_reason(path.relative_to(tree).as_posix()):
                yield path.relative_to(tree)


def composed(tree: Path, primary: Path, *overrides: str) -> DictConfig:
    """Return a configuration as Hydra composes it in the folder of the checkout, where programs are started."""
    # the search path of some primaries starts with pkg://, and importing verl needs torch
    search = f"hydra.searchpath=[file://{tree}/verl/trainer/config]"
    with initialize_config_dir(str(tree / primary.parent), version_base=None):
        return compose(primary.stem, overrides=[search, *overrides])


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from leaves(value, (*path, str(index)))
    else:
        yield path, node


def is_left(path: tuple[str, ...], value: object) -> bool:
    """Return whether a setting that FSDP's workers read still asks for what an old card cannot run."""
    if backend(".".join(path)):
        return False
    key = next((part for part in reversed(path) if not part.isdigit()), "")
    text = "" if value is None else str(value)
    return any(re.fullmatch(k, key, re.I) and re.fullmatch(v, text, re.I | re.S) for k, v in LEFT)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {version: rewritten(version, tmp_path_factory.mktemp("tree")) for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_composed_trainers_have_nothing_left_and_nothing_else_changed(
    version: str, trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, tree = source(version), trees[version]
    found = list(primaries(tree))
    assert found == list(primaries(original))
    assert {"ppo_trainer", "evaluation"} <= {path.stem for path in found}
    assert any(path.stem.startswith("sft_trainer") for path in found)
    for primary in found:
        trained: dict[str, dict[tuple[str, ...], Any]] = {}
        for name, root in (("before", original), ("after", tree)):
            monkeypatch.chdir(root)
            config = composed(root, primary)
            trained[name] = dict(leaves(OmegaConf.to_container(config, resolve=True)))
            if name == "after":  # what an interpolation falls back to is a default too
                for key, text in leaves(OmegaConf.to_container(config, resolve=False)):
                    for fallback in re.findall(r",\s*([^,{}]+)\}", text) if isinstance(text, str) else ():
                        assert not is_left(key, fallback), (key, text)
        before, after = trained["before"], trained["after"]
        assert not [(key, after[key]) for key in after if is_left(key, after[key])], primary
        assert list(before) == list(after)
        changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
        assert all(map(is_left, changed, (old for old, _ in changed.values())))
        for key, (old, new) in changed.items():
            assert any(re.fullmatch(k, key[-1]) and (b, a) == (old, new) for k, b, a in CHANGES), (key, old, new)
        if primary.stem == "ppo_trainer":
            assert len(changed) == COUNTS[version], changed


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= "0.5"])
def test_generated_files_are_what_verl_would_generate(
    version: str, trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrors = sorted(trees[version].rglob("_generated_*.yaml"))
    assert mirrors
    for mirror in mirrors:
        for root in (source(version), trees[version]):  # else a release that is out of date would be our failure
            monkeypatch.chdir(root)
            text = (root / mirror.relative_to(trees[version])).read_text()
            command = re.search(r"--cfg job (\S*?)'? ?(?:--config-name=(\S+?))?'? to flatten the '(\S+)\.yaml'", text)
            assert command, text[:400]
            words = [command[1]] if command[1] and not command[1].startswith("--") else []
            full = OmegaConf.to_yaml(composed(root, Path(f"{command[3]}.yaml"), *words))
            start = re.search(r"^actor_rollout_ref:", full, re.MULTILINE)
            assert start is not None
            assert text.partition("\n\n")[2].rstrip("\n") == full[start.start() :].rstrip("\n")


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1"])
@pytest.mark.parametrize("name", ["ppo_trainer", "ppo_megatron_trainer"])
def test_legacy_copies_of_verls_own_tests_follow(
    version: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl compares tests/trainer/config/legacy_*.yaml, which no distribution holds, with the composition."""
    tree, primary = tmp_path / "verl", Path(f"verl/trainer/config/{name}.yaml")
    copy = Path(f"tests/trainer/config/legacy_{name}.yaml")
    clone = os.environ.get("VERL_PATCH_VERL_REPO")
    if clone:
        command = ["git", "clone", "--quiet", "--branch", f"v{version}", clone, str(tree)]
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(tree / ".git")
    else:
        shutil.copytree(source(version), tree)
        monkeypatch.chdir(tree)
        (tree / copy).parent.mkdir(parents=True, exist_ok=True)
        (tree / copy).write_text(OmegaConf.to_yaml(composed(tree, primary)))
    if not (tree / copy).exists():
        pytest.skip(f"{version} has no {copy}")
    monkeypatch.chdir(tree)

    def pairs() -> list[tuple[tuple[str, ...], Any, Any]]:
        config = OmegaConf.to_container(composed(tree, primary), resolve=True)
        legacy = dict(leaves(OmegaConf.to_container(OmegaConf.load(tree / copy), resolve=True)))
        return [(key, value, legacy[key]) for key, value in leaves(config) if key in legacy]

    before = pairs()
    same = {key for key, value, copied in before if value == copied}
    assert len(same) == len(before) or (
        clone and len(same) > 0.9 * len(before)
    )  # v0.6.1's copies are a bit out of date
    carry_out(plan_of(tree), tree)
    after = pairs()
    assert [key for key, *_ in after] == [key for key, *_ in before]
    assert after != before
    assert not [pair for pair in after if pair[1] != pair[2] and pair[0] in same]
    assert not [pair for pair in after if is_left(pair[0], pair[2]) and pair[0] in same]


#: What reports and refusals tell the user to add.
CURES = (
    "actor_rollout_ref.rollout.max_num_batched_tokens=18432",
    "actor_rollout_ref.model.use_remove_padding=False",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=1",
)
SERVER_CURES = ("prefix_caching", "chunked_prefill")


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_hydra_takes_the_cures_that_we_name(
    version: str, trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = trees[version]
    monkeypatch.chdir(tree)
    cures = [*CURES, "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32"]
    critic = "critic.fsdp" if version >= "0.8" else "critic.model.fsdp_config"
    cures.append(f"+{critic}.mixed_precision.param_dtype=fp32")
    if "0.6" < version < "0.9.1":
        server = "+actor_rollout_ref.rollout.engine_kwargs.vllm.no_enable_{}=True"
        cures += [server.format(name) for name in SERVER_CURES]
    config = OmegaConf.to_container(composed(tree, Path("verl/trainer/config/ppo_trainer.yaml"), *cures), resolve=True)
    found = {".".join(key): value for key, value in leaves(config)}
    for cure in cures:
        key, _, value = cure.lstrip("+").partition("=")
        assert str(found[key]) == value


@pytest.mark.parametrize("version", VERSIONS)
def test_config_classes_have_nothing_left(version: str, trees: dict[str, Path]) -> None:
    fields = {root: dict(class_fields(root)) for root in (source(version), trees[version])}
    before, after = fields.values()
    assert before.keys() == after.keys()
    left = [(*key, value) for key, value in after.items() if is_left((*key[1:],), value)]
    assert not left
    changed = {key for key in before if before[key] != after[key]}
    assert all(is_left(key[1:], before[key]) for key in changed)
    if version >= "0.6":  # configuration classes came with it; a test that looks in the wrong place would see none
        assert len(changed) >= 6


def class_fields(tree: Path) -> Iterator[tuple[tuple[str, str, str], object]]:
    """Yield (file, class, field) and default of each class attribute in scope, without an import."""
    for path in sorted(tree.rglob("*.py")):
        name = path.relative_to(tree).as_posix()
        if file_reason(name):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.ClassDef):
                continue
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None:
                    yield (name, node.name, item.target.id), default(item.value)
                elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
                    yield (name, node.name, item.targets[0].id), default(item.value)


def default(node: ast.expr) -> object:
    """Return a default as text; that of ``field(default=...)`` and ``field(default_factory=lambda: ...)`` too."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if "default" in given:
            return default(given["default"])
        if isinstance(factory := given.get("default_factory"), ast.Lambda):
            return ast.unparse(factory.body)
    return ast.unparse(node)
