# Copyright 2025 Individual Contributor: the verl-patch contributors
#
# An addition to verl, which is Copyright 2024 Bytedance Ltd. and/or its affiliates.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""Stops a run whose packed samples would attend to each other.

``use_remove_padding`` puts several samples into one row. Flash attention keeps them apart. Other attention
does so only where transformers builds the mask from the position ids; elsewhere the run goes on without an
error, with finite and wrong log-probabilities.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["check_packing"]

# Below these, transformers does not separate the samples of a packed row.
_SEPARATES_SINCE = {"transformers": (4, 53, 1), "torch": (2, 6)}

# The function of transformers that reads the borders between samples off the position ids.
_MASK_BUILDER = "create_causal_mask"

_PACKING_OFF = (
    "Turn packing off for the role that fails: actor_rollout_ref.model.use_remove_padding=False, "
    "critic.model.use_remove_padding=False, reward_model.model.use_remove_padding=False; SFT: "
    "use_remove_padding=False, or model.use_remove_padding=False where the trainer has a model.* key for it; "
    "where the key is padding_free: worker.actor.padding_free=false, worker.critic.padding_free=false."
)
_SP_OFF = (
    "Turn it off: ulysses_sequence_parallel_size=1, under actor_rollout_ref.actor, critic and reward_model "
    "(where the key is deprecated: under their fsdp_config); SFT: ulysses_sequence_parallel_size=1 or "
    "engine.ulysses_sequence_parallel_size=1."
)


def check_packing(model_or_config: Any, packed: bool, ulysses_sp_size: int = 1) -> None:
    """Raises when packing or sequence parallelism would silently compute the wrong attention.

    A model on flash attention passes, whatever the rest. Otherwise sequence parallelism is refused, and
    packing is refused with transformers < 4.53.1 or torch < 2.6, for a model whose code does not give its
    position ids to transformers' ``create_causal_mask``, and for a vision model (verl packs those for flash
    attention only). Only attention is judged: a recurrent layer mixes packed samples under flash too.

    Args:
        model_or_config: a model, its configuration, or, where neither exists yet, the name of the
            attention implementation. Only a model tells how it builds its mask.
        packed: whether samples are packed (`use_remove_padding`).
        ulysses_sp_size: number of ranks that share a sequence; above 1 is sequence parallelism.

    Raises:
        RuntimeError: with the cause, and the overrides that cure it.
    """
    if not packed and ulysses_sp_size <= 1:
        return
    config = getattr(model_or_config, "config", model_or_config)
    attention = _attention(config)
    if attention is not None and "flash" in attention.lower():
        return
    on = f"with attention implementation {attention or 'unknown'!r}"
    if ulysses_sp_size > 1:
        raise RuntimeError(
            f"Ulysses sequence parallelism exists only inside flash attention: {on} each rank would attend "
            f"inside its own slice of the sequence, without an error and with wrong results. {_SP_OFF}"
        )
    cause = _leak(model_or_config, config)
    if cause is not None:
        raise RuntimeError(
            f"use_remove_padding packs samples into one row, and {on} {cause}: they would attend to each "
            f"other, without an error and with wrong log-probabilities. {_PACKING_OFF}"
        )


def _attention(config: Any) -> str | None:
    """Returns the name of the attention implementation of the text model, None if it is not set."""
    if isinstance(config, str):
        return config
    for part in (getattr(config, "text_config", None), config):
        name = getattr(part, "_attn_implementation", None)
        if isinstance(name, dict):  # one entry per part of the model
            name = name.get("text_config") or name.get("")
        if name:
            return str(name)
    return None


def _leak(model: Any, config: Any) -> str | None:
    """Returns why packed samples are not kept apart without flash attention, None if they are."""
    if getattr(config, "vision_config", None) is not None:
        return "verl packs vision models for flash attention only"
    for package, minimum in _SEPARATES_SINCE.items():
        installed = _installed(package)
        if _release(installed) < minimum:
            needed = "transformers >= 4.53.1 with torch >= 2.6"
            return f"{package} {installed} does not keep them apart ({needed} does)"
    if callable(getattr(model, "modules", None)) and not _shows_borders(model):
        return f"the code of {type(model).__name__} does not keep them apart"
    return None


def _shows_borders(model: Any) -> bool:
    """Returns whether the code of a model gives position ids to the mask builder of transformers.

    True also where it cannot be told: no source to read, or the builder is called under another name.
    """
    for name in {type(module).__module__ for module in model.modules()}:
        source = sys.modules.get(name)
        if source is None or not hasattr(source, _MASK_BUILDER):
            continue
        try:
            nodes = list(ast.walk(ast.parse(inspect.getsource(source))))
        except (OSError, TypeError):
            return True
        calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", None) == _MASK_BUILDER]
        given = [{keyword.arg for keyword in call.keywords} for call in calls]
        if any(None in names for names in given):  # **mask_kwargs, a dict that is spelt out nearby
            dicts = [{getattr(key, "value", None) for key in n.keys} for n in nodes if isinstance(n, ast.Dict)]
            given = [keys for keys in dicts if "attention_mask" in keys]
        if not given or any("position_ids" in names for names in given):
            return True
    return False


def _installed(package: str) -> str:
    """Returns the version of a package without importing it, "unknown" if it cannot be told."""
    imported = getattr(sys.modules.get(package), "__version__", None)
    if imported is not None:
        return str(imported)
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _release(text: str) -> tuple[int, ...]:
    """Returns the numbers a version starts with: (2, 6, 0) for 2.6.0+cu118, () if there are none."""
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
