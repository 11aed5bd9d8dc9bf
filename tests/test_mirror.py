from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader
from releases import VERSIONS, release

from verl_legacy_patch.languages.yaml import settings
from verl_legacy_patch.mirror import _from_header, follow, is_mirror, origins
from verl_legacy_patch.mirror.compose import compose
from verl_legacy_patch.mirror.tree import Leaf, Node, Origin, Seq, Unsupported, leaves
from verl_legacy_patch.setting import Setting, Span

Files = dict[str, str]
LOADER = get_yaml_loader()

HEADER = """\
# This file was made by 'scripts/flatten.sh'
# which runs 'python3 scripts/print_cfg.py --cfg job {words}' on 'verl/trainer/config/main.yaml'
# Do not modify it.

"""

#: The shapes of verl's own tree: engines, roles, a choice that names the others, a deprecated second primary.
TREE: Files = {
    "main.yaml": """
        defaults:
          - model_engine: dp
          - actor@ar.actor: ${model_engine}_actor
          - rollout@ar.rollout: rollout
          - model@ar.model: hf
          - critic@critic: ${model_engine}_critic
          - model@critic.model: hf
          - legacy_keys
          - _self_
        ar:
          hybrid: true
          rollout: {name: "???", enforce_eager: False}
        trainer: {logger: [console, file]}
        """,
    "main_mega.yaml": """
        defaults:
          - main
          - override model_engine: mega
          - _self_
        """,
    "legacy_keys.yaml": "reward: {model: {dtype: null}}\n",
    "model_engine/dp.yaml": "# @package _global_\nmodel_engine: dp\n",
    "model_engine/mega.yaml": "# @package _global_\nmodel_engine: mega",
    "actor/actor.yaml": "lr: 1e-6\nuse_torch_compile: true\nprofile: {}\n",
    "actor/dp_actor.yaml": """
        defaults: [../optim@optim: fsdp, ../engine@fsdp_config: fsdp, actor, _self_]
        strategy: fsdp
        """,
    "actor/mega_actor.yaml": """
        defaults:
          - ../optim@optim: mega
          - ../engine@mega:
              - fsdp
              - mega
          - actor
          - _self_
        lr: 2e-6
        """,
    "critic/dp_critic.yaml": """
        defaults:
          - ../engine@fsdp: fsdp
          - _self_
        fsdp: {dtype: fp32}
        compile: ${oc.select:ar.actor.use_torch_compile,true}
        """,
    "critic/mega_critic.yaml": "a: b\n",
    "rollout/rollout.yaml": "dtype: bfloat16\nenforce_eager: true\nname: vllm\nenable_prefix_caching: True\n",
    "model/hf.yaml": 'path: ~/é\nlora: {targets: ["q bf16", v]}\nuse_remove_padding: True\n',
    "engine/fsdp.yaml": "dtype: bfloat16 # or fp16\nwrap: {min: 0}\n",
    "engine/mega.yaml": "dtype: 'bf16'\nwrap: {max: 1}\n",
    "optim/fsdp.yaml": "lr: 1\nbetas: [0.9, 0.999]\n",
    "optim/mega.yaml": "lr: 2\n",
}
FOLDER = "verl/trainer/config"


def changed(**files: str | None) -> Files:
    """Return ``TREE`` with files changed; ``__`` in a name is a slash."""
    tree = dict(TREE)
    for name, content in files.items():
        path = name.replace("__", "/") + ".yaml"
        if content is None:
            del tree[path]
        else:
            tree[path] = content
    return tree


def reader(files: Files) -> Callable[[str], bytes | None]:
    data = {f"{FOLDER}/{name}": dedent(text).lstrip("\n").encode() for name, text in files.items()}
    return data.get


def folder_reader(root: Path) -> Callable[[str], bytes | None]:
    return lambda path: (root / path).read_bytes() if (root / path).is_file() else None


def value(node: Node) -> Any:
    if isinstance(node, Leaf):
        return yaml.load(node.value, LOADER) if node.plain else node.value
    if isinstance(node, Seq):
        return [value(item) for item in node.items]
    return {key: value(item) for key, item in node.items.items()}


def flat(node: dict[Any, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, item in node.items():
        if isinstance(item, dict) and item:
            found |= flat(item, (*path, str(key)))
        else:
            found[(*path, str(key))] = item
    return found


def by_hydra(folder: Path, name: str, words: list[str]) -> dict[tuple[str, ...], Any]:
    with initialize_config_dir(config_dir=str(folder.resolve()), version_base=None):
        config = hydra_compose(config_name=name, overrides=words)
    found = OmegaConf.to_container(config, resolve=False)
    assert isinstance(found, dict)
    return flat({str(key): item for key, item in found.items()})


def by_us(folder: str, name: str, words: list[str], read: Callable[[str], bytes | None]) -> dict[Any, Any]:
    nowhere = Origin("", Span(0, 0), "", 0)
    found = leaves(compose(folder, name, [(word, nowhere) for word in words], read))
    for node in found.values():
        if node.origin and node.origin.path:
            source = read(node.origin.path)
            assert source is not None
            assert source[slice(*node.origin.span)].decode() == node.origin.text
            assert source.count(b"\n", 0, node.origin.span.start) + 1 == node.origin.line
    return {path: value(node) for path, node in found.items()}


@pytest.mark.parametrize(
    ("files", "name", "words"),
    [
        (TREE, "main", []),
        (TREE, "main", ["model_engine=mega"]),
        (TREE, "main_mega", []),
        (TREE, "main_mega", ["model_engine=dp"]),
        (TREE, "main", ["rollout@ar.rollout=rollout", "ar.rollout.dtype=half", "+ar.extra.x=y"]),
        (TREE, "main", ["+optim@other=mega"]),
        (
            changed(rollout__rollout="defaults: [_self_, extra]\na: 1\nb: 1", rollout__extra="b: 2"),
            "main",
            [],
        ),
        (changed(rollout__rollout="defaults: [extra]\na: 1\nb: 1", rollout__extra="b: 2"), "main", []),
        (changed(rollout__rollout="defaults: [/optim@o: fsdp, optional /no@n: such]\na: 1"), "main", []),
        (changed(rollout__rollout="defaults: [/optim: mega, /engine@_here_: mega]\na: 1"), "main", []),
        (changed(rollout__rollout="defaults: [/optim@_global_.top: mega]\na: 1"), "main", []),
        (changed(rollout__rollout="defaults: [sub/deep]\na: 1", rollout__sub__deep="x: 1"), "main", []),
        (changed(rollout__rollout="defaults: [sub: deep]\na: 1", rollout__sub__deep="x: 1"), "main", []),
        (changed(rollout__rollout="defaults: [/optim@_group_: mega]\na: 1"), "main", []),
        (changed(legacy_keys="# @package odd.place\n\na: 1\n"), "main", []),
        (changed(legacy_keys="# a comment\n# @package odd.place\na: 1\n"), "main", []),
        (
            changed(legacy_keys="defaults: [optim: null, engine: mega]\na: ???\nmodel_engine: ???\n"),
            "main",
            [],
        ),
        (changed(legacy_keys="ar: {rollout: null}\ncritic: {model: x}"), "main", []),
        (
            changed(legacy_keys="a: &x {b: 1, c: [1]}\nd: {<<: *x, b: 2}\ne: *x\nf: |\n  text\n  more\n"),
            "main",
            [],
        ),
        (changed(legacy_keys=""), "main", []),
        (changed(model_engine__dp="defaults: [/optim@late: fsdp]\nmodel_engine: dp\n"), "main", []),
        (changed(main_mega="defaults: [main, override actor@ar.actor: mega_actor]\nx: 1"), "main_mega", []),
        (changed(legacy_keys="hydra: {run: {dir: x}}\na: 1"), "main", []),
        (
            changed(main_mega="defaults: [main, override hydra/job_logging: disabled, _self_]"),
            "main_mega",
            [],
        ),
    ],
)
def test_composition_is_hydras(files: Files, name: str, words: list[str], tmp_path: Path) -> None:
    read = reader(files)
    for path in files:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(read(f"{FOLDER}/{path}") or b"")
    assert by_us(FOLDER, name, words, read) == by_hydra(tmp_path, name, words)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (changed(model__hf=None), []),
        (changed(legacy_keys="defaults: [optim: '???']"), []),
        (changed(legacy_keys="defaults: [main]"), []),
        (changed(legacy_keys="defaults: {a: b}"), []),
        (changed(legacy_keys="defaults: ['${nothing}_x']"), []),
        (changed(legacy_keys="defaults: [/../../outside]"), []),
        (changed(legacy_keys="a: 1\na: 2"), []),
        (changed(legacy_keys="a: ["), []),
        (changed(legacy_keys="- a"), []),
        (changed(legacy_keys="a: 1\n---\nb: 1"), []),
        (changed(main="hydra: {searchpath: ['pkg://x']}\na: 1"), []),
        (changed(legacy_keys="trainer: '${critic}'"), []),
        (TREE, ["~trainer"]),
        (TREE, ["trainer.logger=[a]"]),
        (TREE, ["optim@nowhere=mega"]),
        (TREE, ["trainer.unheard=x"]),
        (TREE, ["+trainer.logger=x"]),
        (TREE, ["--config-dir=x"]),
        (TREE, ["word"]),
    ],
)
def test_what_is_unsupported_is_not_guessed(files: Files, words: list[str]) -> None:
    source = HEADER.format(words=" ".join(words)).encode()
    assert origins(f"{FOLDER}/_generated_main.yaml", source, reader(files)) is None


def test_aliases_of_aliases_are_given_up() -> None:
    flood = "_0: &a0 {x: 1}\n"
    for level in range(1, 20):
        flood += f"_{level}: &a{level} {{" + ", ".join(f"k{n}: *a{level - 1}" for n in range(9)) + "}\n"
    read = reader({"main.yaml": flood})
    with pytest.raises(Unsupported):
        leaves(compose(FOLDER, "main", [], read))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("verl/trainer/config/_generated_ppo_trainer.yaml", True),
        ("training/verl/trainer/config/_generated_x.yaml", True),
        ("tests/trainer/config/legacy_ppo_trainer.yaml", True),
        ("verl/trainer/config/legacy_reward_impl.yaml", False),
        ("verl/trainer/config/ppo_trainer.yaml", False),
        ("tests/trainer/config/legacy_x.py", False),
    ],
)
def test_mirrors_by_shape(path: str, expected: bool) -> None:
    assert is_mirror(path) is expected


@pytest.mark.parametrize(
    ("words", "config", "expected"),
    [
        ("", "main", ("main", [])),
        ("model_engine=mega", "main", ("main", ["model_engine=mega"])),
        ("--config-name=main_mega.yaml", "main_mega", ("main_mega", [])),
        ("--config-name main_mega a.b=c", "main", ("main_mega", ["a.b=c"])),
        ("--resolve", "main", None),
        ("", "gone", None),
    ],
)
def test_header(words: str, config: str, expected: tuple[str, list[str]] | None) -> None:
    source = HEADER.replace("main.yaml", f"{config}.yaml").format(words=words).encode()
    got = _from_header(f"{FOLDER}/_generated_x.yaml", source, reader(TREE))
    assert (got and (got.name, [word for word, _ in got.overrides])) == expected
    for word, origin in got.overrides if got else []:
        assert source[slice(*origin.span)].decode() == word.partition("=")[2]


def test_no_header_is_no_mirror() -> None:
    assert origins(f"{FOLDER}/_generated_main.yaml", b"a: 1\n", reader(TREE)) is None


def test_legacy_configs_find_their_primary() -> None:
    read = reader(TREE)
    found = origins("tests/trainer/config/legacy_main.yaml", b"", read)
    assert found is not None
    assert found["ar", "rollout", "dtype"].path == f"{FOLDER}/rollout/rollout.yaml"
    assert origins("tests/trainer/config/legacy_gone.yaml", b"", read) is None

    def moved(path: str) -> bytes | None:
        return read(path.replace("src/verl", "verl")) if path.startswith("src/") else None

    found = origins("tests/trainer/config/legacy_main.yaml", b"", moved, lambda suffix: [f"src/verl{suffix}"])
    assert found is not None and found["trainer", "logger"].path == f"src/{FOLDER}/main.yaml"


def listed(source: bytes, words: str = r"bfloat16|bf16|true|false|half") -> list[Setting]:
    return list(settings(source, [Span(*m.span()) for m in re.finditer(words.encode(), source, re.I)]))


def decided(path: str, source: bytes, read: Callable[[str], bytes | None]) -> dict[str, tuple[Any, ...]]:
    """Follow sources in which every bfloat16 became float32, true became False and the model stays."""
    new = {"bfloat16": "float32", "bf16": "fp32", "true": "False"}
    edits: dict[str, dict[Span, str | None]] = {}
    for name in TREE:
        place = f"{FOLDER}/{name}"
        for setting in listed(read(place) or b""):
            stays = name.startswith("model/")
            edits.setdefault(place, {})[setting.span] = None if stays else new.get(setting.value.lower())
    found = origins(path, source, read)
    assert found is not None
    return {
        ".".join(done.setting.path): (done.action, done.replacement, done.reason)
        for done in follow(listed(source), found, edits)
    }


def test_mirror_follows_its_sources() -> None:
    mirror = HEADER.format(words="critic.fsdp.dtype=half") + dedent(
        """
        ar:
          actor: {use_torch_compile: true, fsdp_config: {dtype: bfloat16}}
          model:
            use_remove_padding: true
            lora: {targets: [q bf16, v]}
          rollout: {dtype: "bfloat16", enforce_eager: false, enable_prefix_caching: TRUE}
        critic:
          compile: ${oc.select:ar.actor.use_torch_compile,true}
          fsdp: {dtype: half}
          fsdp_more: {dtype: bf16}
          model: {path: bf16}
        """
    )
    path = f"{FOLDER}/_generated_main.yaml"
    assert decided(path, mirror.encode(), reader(TREE)) == {
        "ar.actor.use_torch_compile": ("rewrite", "false", f"follows {FOLDER}/actor/actor.yaml:2"),
        "ar.actor.fsdp_config.dtype": ("rewrite", "float32", f"follows {FOLDER}/engine/fsdp.yaml:1"),
        "ar.model.use_remove_padding": ("keep", None, f"follows {FOLDER}/model/hf.yaml:3, which stays"),
        "ar.model.lora.targets": ("keep", None, f"follows {FOLDER}/model/hf.yaml:2, which stays"),
        "ar.rollout.dtype": ("rewrite", "float32", f"follows {FOLDER}/rollout/rollout.yaml:1"),
        "ar.rollout.enforce_eager": ("keep", None, f"follows {FOLDER}/main.yaml:12, which stays"),
        "ar.rollout.enable_prefix_caching": ("rewrite", "FALSE", f"follows {FOLDER}/rollout/rollout.yaml:4"),
        "critic.compile": ("rewrite", "false", f"follows {FOLDER}/critic/dp_critic.yaml:5"),
        "critic.fsdp.dtype": ("keep", None, f"follows {path}:2, which stays"),
        "critic.fsdp_more.dtype": ("unknown", None, ""),
        "critic.model.path": ("differs", "~/é", f"differs from {FOLDER}/model/hf.yaml:1 already"),
    }


def test_one_source_with_two_futures_is_unknown() -> None:
    origin = Origin("s.yaml", Span(0, 14), "[true, true, x]", 1)
    setting = Setting(("a", "b"), "True", Span(5, 9), "YAML value")
    edits = {"s.yaml": {Span(1, 5): "no", Span(7, 11): "maybe"}}
    [done] = follow([setting], {("a",): origin}, edits)
    assert (done.action, done.replacement) == ("unknown", None)


@pytest.mark.real
@pytest.mark.parametrize("version", VERSIONS)
def test_releases_are_composed_as_hydra_does(version: str) -> None:
    root = release(version)
    read = folder_reader(root)
    for mirror in sorted(root.rglob("_generated_*.yaml")):
        path = mirror.relative_to(root).as_posix()
        source = mirror.read_bytes()
        primary = _from_header(path, source, read)
        assert primary is not None, path
        words = [word for word, _ in primary.overrides]
        ours = by_us(primary.folder, primary.name, words, read)
        assert ours == by_hydra(root / primary.folder, primary.name, words)
        # the file itself is what verl promises: the composition, cut above its first key
        copied = flat(yaml.load(source, LOADER))
        assert {key: ours[key] for key in copied} == copied
        found = origins(path, source, read)
        assert found is not None and copied.keys() <= found.keys()


@pytest.mark.real
@pytest.mark.parametrize("version", ["0.4.1", "0.9.0"])
def test_every_primary_of_a_release(version: str) -> None:
    root = release(version)
    for primary in sorted((root / FOLDER).glob("[!_]*.yaml")):
        if version == "0.9.0" and primary.stem == "legacy_reward_impl":
            continue
        ours = by_us(FOLDER, primary.stem, [], folder_reader(root))
        assert ours == by_hydra(root / FOLDER, primary.stem, [])
