"""What a model is made of: its config.json, and the headers of its weights where they are there.

Counts are numbers of parameters, lengths are tokens. The names of the fields are those of transformers'
configuration classes (https://huggingface.co/docs/transformers/main_classes/configuration).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.weights import Weights, read_weights

_MOST = 16 << 20
_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


class Model(NamedTuple):
    """The sizes of a decoder.

    Attributes:
        path: its folder, absolute.
        kind: ``model_type`` of transformers.
        intermediate: width of the feed-forward layer that one token goes through (of all its experts).
        tied: whether the output layer shares the embedding's weights.
        parameters: all of them, shared ones once.
        context: positions that it was made for; None where the configuration does not say.
        counted: whether ``parameters`` was read from the weights; computed from the configuration otherwise.
        notes: keys of ``words`` about what could not be read.
    """

    path: str
    kind: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    parameters: int
    context: int | None
    counted: bool = False
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> int:
        """Parameters of embedding and output layer, which FSDP keeps whole through forward and backward."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        return max(0, self.parameters - self.ends) // self.layers

    @property
    def backbone(self) -> int:
        """Parameters without an output layer of its own: what a critic has, but for its one row."""
        return self.parameters - (0 if self.tied else self.vocab * self.hidden)


def read_model(path: Path) -> Model:
    """Return the sizes of the model in a folder.

    Raises:
        LaunchError: there is no such folder, or its config.json is missing, broken, or lacks what is needed.
    """
    folder = path.expanduser().absolute()
    config = _config(folder, path)
    inner = config.get("text_config", config.get("llm_config"))
    several = isinstance(inner, dict) and "hidden_size" not in config
    text: Mapping[str, Any] = {**config, **inner} if several and isinstance(inner, dict) else config
    where = show(str(folder / "config.json"))
    if "quantization_config" in config:
        raise LaunchError(f"{where} describes a quantised model: FSDP trains plain weights, give the original model")
    missing = [name for name in _NEEDED if text.get(name) is None]
    if missing:
        raise LaunchError(f"{where} has no {', '.join(missing)}: is it the configuration of a language model?")
    hidden, layers, heads, vocab = (_number(text, name, where) for name in _NEEDED)
    kv_heads = _number(text, "num_key_value_heads", where, heads)
    head_dim = _number(text, "head_dim", where, max(1, hidden // heads))
    intermediate = _number(text, "intermediate_size", where, 4 * hidden)
    tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    context = None
    if text.get("max_position_embeddings") is not None:
        context = _number(text, "max_position_embeddings", where)
        scaling = text.get("rope_scaling")
        factor = scaling.get("factor") if isinstance(scaling, dict) else None
        if isinstance(factor, int | float) and not isinstance(factor, bool) and 1 <= factor <= 1000:
            context = int(context * factor)
    model = Model(
        str(folder), str(text.get("model_type", "?")), hidden, layers, heads, kv_heads, head_dim,
        intermediate, vocab, tied, 0, context, notes=("vision",) if several else (),
    )  # fmt: skip
    experts = next((_number(text, name, where) for name in _EXPERTS if text.get(name) is not None), 0)
    model = model._replace(parameters=_computed(model, text, experts, where))
    if experts:
        width = _number(text, "moe_intermediate_size", where, intermediate)
        chosen = _number(text, "num_experts_per_tok", where, min(2, experts))
        model = model._replace(intermediate=width * chosen)
    weights = read_weights(folder)
    return _with(model, weights, bool(experts))


def _with(model: Model, weights: Weights, moe: bool) -> Model:
    """Let what the weights say count for more than what follows from the configuration."""
    notes = model.notes + weights.notes
    if weights.parameters:
        return model._replace(parameters=weights.parameters, counted=True, notes=notes)
    return model._replace(notes=(*notes, "moe") if moe else notes)


def _computed(model: Model, text: Mapping[str, Any], experts: int, where: str) -> int:
    """Count the parameters of a Llama-like decoder: grouped-query attention, a gated feed-forward layer, two norms."""
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = model.hidden * (2 * query + 2 * key)
    if text.get("attention_bias") or model.kind.startswith("qwen2"):
        attention += query + 2 * key + (model.hidden if text.get("attention_bias") else 0)
    if model.kind.startswith("qwen3"):
        attention += 2 * model.head_dim
    feed = 3 * model.hidden * model.intermediate
    if experts:
        width = _number(text, "moe_intermediate_size", where, model.intermediate)
        feed = experts * (3 * model.hidden * width + model.hidden)
    return model.ends + model.layers * (attention + feed + 2 * model.hidden) + model.hidden


def _config(folder: Path, asked: Path) -> Mapping[str, Any]:
    """Return config.json as it is; an error says what is wrong with the folder."""
    file = folder / "config.json"
    try:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            hint = "give the folder with its config.json; a model of the hub has to be downloaded first"
            raise LaunchError(f"--model {show(str(asked))} {what}: {hint}")
        if not file.exists():
            raise LaunchError(f"{show(str(folder))} has no config.json: give the folder of a transformers model")
        with file.open("rb") as stream:
            source = stream.read(_MOST + 1)
    except OSError as error:
        raise LaunchError(f"cannot read {show(str(file))}: {error.strerror or error}") from None
    try:
        if len(source) > _MOST:
            raise ValueError("too long")
        config = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"{show(str(file))} is no JSON: {show(str(error))}") from None
    if not isinstance(config, dict):
        raise LaunchError(f"{show(str(file))} is no JSON object")
    return config


def _number(text: Mapping[str, Any], name: str, where: str, default: int | None = None) -> int:
    """Return a whole number above zero."""
    value = text.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, list) and value and name == "intermediate_size":
        value = max((one for one in value if isinstance(one, int)), default=None)  # one for each layer
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**9:
        raise LaunchError(f"{where}: {name} is {show(repr(value))}, and has to be a whole number above 0")
    return value
