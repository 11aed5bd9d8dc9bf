"""The guard that is added to a checkout: when it raises, and what it says. Needs no torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "codemods" / "support" / "packing_guard.py"
OLD = {"transformers": "4.51.3", "torch": "2.6.0"}
NEW = {"transformers": "4.53.1", "torch": "2.6.0"}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packing_guard", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_packing = load().check_packing


def install(monkeypatch: pytest.MonkeyPatch, transformers: str, torch: str) -> None:
    for name, version in {"transformers": transformers, "torch": torch}.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))


def config(attention: Any = "eager", **parts: Any) -> SimpleNamespace:
    return SimpleNamespace(_attn_implementation=attention, **parts)


class FakeModel:
    """A model of one module whose class stands in the module ``source``."""

    def __init__(self, config: Any, source: str) -> None:
        self.config = config
        self.layer = type("Decoder", (), {"__module__": source})()

    def modules(self) -> list[Any]:
        return [self, self.layer]


FLASH = [
    "flash_attention_2",
    "flash_attention_3",
    "kernels-community/vllm-flash-attn3",
    "verl_flash_attention_with_sp",
]
OTHER = ["eager", "sdpa", "flex_attention", None]


@pytest.mark.parametrize("attention", FLASH)
@pytest.mark.parametrize("sp", [1, 2])
@pytest.mark.parametrize("parts", [{}, {"vision_config": config("eager")}])
def test_flash_attention_passes(
    monkeypatch: pytest.MonkeyPatch, attention: str, sp: int, parts: dict[str, Any]
) -> None:
    install(monkeypatch, **OLD)
    check_packing(config(attention, **parts), packed=True, ulysses_sp_size=sp)
    check_packing(attention, packed=True, ulysses_sp_size=sp)


@pytest.mark.parametrize("attention", OTHER)
def test_padded_rows_pass(monkeypatch: pytest.MonkeyPatch, attention: str | None) -> None:
    install(monkeypatch, "4.40.0", "2.1.0")
    check_packing(config(attention), packed=False)
    check_packing(config(attention, vision_config=config()), False, 1)


@pytest.mark.parametrize("attention", OTHER)
def test_packing_raises_where_samples_are_not_separated(monkeypatch: pytest.MonkeyPatch, attention: str | None) -> None:
    install(monkeypatch, **OLD)
    with pytest.raises(RuntimeError, match=r"transformers 4\.51\.3 does not keep them apart"):
        check_packing(config(attention), packed=True)


@pytest.mark.parametrize("attention", OTHER)
def test_packing_passes_where_samples_are_separated(monkeypatch: pytest.MonkeyPatch, attention: str | None) -> None:
    install(monkeypatch, **NEW)
    check_packing(config(attention), packed=True)


@pytest.mark.parametrize(
    ("transformers", "torch", "blamed"),
    [
        ("4.53.0", "2.6.0", "transformers 4.53.0"),
        ("4.47.1", "2.5.1+cu118", "transformers 4.47.1"),
        ("4.53.1", "2.5.1+cu118", "torch 2.5.1+cu118"),
        ("4.57.6", "2.5.0a0+872d972e41.nv24.08", "torch 2.5.0a0"),
        ("4.9.2", "2.13.0", "transformers 4.9.2"),
        ("4.53", "2.6", "transformers 4.53"),
        ("a-build", "2.6.0", "transformers a-build"),
        ("4.53.1", "2.6.0+cu118", None),
        ("4.53.3", "2.10.0", None),
        ("4.54.0.dev0", "2.6.0a0+ecf3bae40a.nv25.01", None),
        ("5.0.0rc1", "2.13.0+cpu", None),
        ("5", "3", None),
    ],
)
def test_versions_are_compared_by_number(
    monkeypatch: pytest.MonkeyPatch, transformers: str, torch: str, blamed: str | None
) -> None:
    install(monkeypatch, transformers, torch)
    if blamed is None:
        check_packing(config(), packed=True)
    else:
        with pytest.raises(RuntimeError) as error:
            check_packing(config(), packed=True)
        assert f"'eager' {blamed}" in str(error.value)


def test_versions_come_from_the_installation_if_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = load()
    for name in ("transformers", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(guard, "version", lambda name: {"transformers": "5.1.0", "torch": "2.9.0"}[name])
    guard.check_packing(config(), packed=True)

    def missing(name: str) -> str:
        raise guard.PackageNotFoundError(name)

    monkeypatch.setattr(guard, "version", missing)
    with pytest.raises(RuntimeError, match="transformers unknown"):
        guard.check_packing(config(), packed=True)
    assert "torch" not in sys.modules


@pytest.mark.parametrize("attention", OTHER)
@pytest.mark.parametrize("versions", [OLD, NEW])
@pytest.mark.parametrize("packed", [True, False])
def test_sequence_parallelism_needs_flash(
    monkeypatch: pytest.MonkeyPatch, attention: str | None, versions: dict[str, str], packed: bool
) -> None:
    install(monkeypatch, **versions)
    with pytest.raises(RuntimeError, match="ulysses_sequence_parallel_size=1"):
        check_packing(config(attention), packed, ulysses_sp_size=2)


def test_vision_models_are_packed_for_flash_only(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, **NEW)
    vision = config("sdpa", vision_config=config("sdpa"), text_config=config("sdpa"))
    with pytest.raises(RuntimeError, match="vision models for flash attention only"):
        check_packing(vision, packed=True)
    check_packing(config("sdpa", vision_config=None), packed=True)


@pytest.mark.parametrize(
    ("nested", "raises"),
    [
        (config("flash_attention_2", text_config=config("eager")), True),
        (config("eager", text_config=config("flash_attention_2")), False),
        (config("flash_attention_2", text_config=config(None)), False),
        (config({"": "sdpa", "text_config": "flash_attention_2", "vision_config": "eager"}), False),
        (config({"": "flash_attention_2", "vision_config": "eager"}), False),
        (config({"text_config": "eager", "vision_config": "flash_attention_2"}), True),
        (SimpleNamespace(), True),
    ],
)
def test_the_text_model_decides(monkeypatch: pytest.MonkeyPatch, nested: Any, raises: bool) -> None:
    install(monkeypatch, **OLD)
    if raises:
        with pytest.raises(RuntimeError):
            check_packing(nested, packed=True)
    else:
        check_packing(nested, packed=True)


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("create_causal_mask(config=config, position_ids=position_ids)", False),
        ("create_causal_mask(**{'attention_mask': None, 'position_ids': position_ids})", False),
        ("create_causal_mask(**dict(attention_mask=None, position_ids=position_ids))", False),
        ("create_causal_mask(**{'attention_mask': None, 'config': config})", True),
        ("(create_causal_mask if config else print)(config=config, position_ids=position_ids)", False),
        ("create_causal_mask(config=config, attention_mask=None)", True),
        ("create_causal_mask(config=config); self.layer(position_ids=position_ids)", True),
    ],
)
def test_a_model_must_give_its_position_ids_to_the_mask_builder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, raises: bool
) -> None:
    install(monkeypatch, **NEW)
    text = f"create_causal_mask = print\n\ndef forward(self, config, position_ids):\n    {call}\n"
    (tmp_path / "modeling_probe.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "modeling_probe", raising=False)
    monkeypatch.setitem(sys.modules, "modeling_probe", importlib.import_module("modeling_probe"))
    check_packing(FakeModel(config("flash_attention_2"), "modeling_probe"), packed=True)
    if raises:
        with pytest.raises(RuntimeError, match="the code of FakeModel does not keep them apart"):
            check_packing(FakeModel(config(), "modeling_probe"), packed=True)
    else:
        check_packing(FakeModel(config(), "modeling_probe"), packed=True)


def test_a_model_without_the_mask_builder_is_refused_and_one_without_source_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, **NEW)
    monkeypatch.setitem(sys.modules, "modeling_old", ModuleType("modeling_old"))
    builds = ModuleType("modeling_frozen")
    monkeypatch.setattr(builds, "create_causal_mask", print, raising=False)
    monkeypatch.setitem(sys.modules, "modeling_frozen", builds)
    check_packing(FakeModel(config(), "modeling_frozen"), packed=True)
    for source in ("modeling_old", "modeling_not_imported"):
        with pytest.raises(RuntimeError, match="the code of FakeModel does not keep them apart"):
            check_packing(FakeModel(config(), source), packed=True)


def test_the_message_is_one_paragraph_with_cause_danger_and_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, **OLD)
    with pytest.raises(RuntimeError) as error:
        check_packing(config("sdpa"), packed=True)
    text = str(error.value)
    assert "\n" not in text
    for part in (
        "'sdpa'",
        "attend to each other",
        "without an error",
        "transformers >= 4.53.1 with torch >= 2.6",
        "actor_rollout_ref.model.use_remove_padding=False",
        "critic.model.use_remove_padding=False",
        "reward_model.model.use_remove_padding=False",
        "SFT: use_remove_padding=False",
        "model.use_remove_padding=False",
    ):
        assert part in text


def test_the_licence_header_is_on_the_list_of_every_release() -> None:
    for source in SOURCE.parent.glob("*.py"):
        text = source.read_text(encoding="utf-8")
        assert "Copyright 2024 Bytedance Ltd. and/or its affiliates" in text  # v0.2, v0.3 know nothing else
        assert "Copyright 2025 Individual Contributor:" in text
        for word in (".cuda", '"cuda"', '"nccl"'):  # tests/special_sanity/check_device_api_usage.py
            assert word not in text
