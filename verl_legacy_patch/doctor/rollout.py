"""A launch script that generates through an engine that the checkout does not have: what ``launch`` knows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from verl_legacy_patch.checkout.base import Checkout, verl_version
from verl_legacy_patch.doctor.findings import Finding
from verl_legacy_patch.doctor.keys import runs
from verl_legacy_patch.languages.shell.commands import Word
from verl_legacy_patch.launch.shape import Shape
from verl_legacy_patch.mirror.tree import Leaf, Node
from verl_legacy_patch.setting import Lines

_ROLLOUT = "actor_rollout_ref.rollout"


def hf_rollout(source: bytes, name: str, checkout: Checkout) -> Iterator[Finding]:
    """Yield a finding for each command that generates through an HF rollout that cannot do it.

    Raises:
        SourceError: the script cannot be parsed.
    """
    lines = Lines(source)
    for run, keys in runs(source, checkout):
        said = {word.text.lstrip("+").partition("=")[0]: word for word in run.words if "=" in word.text}
        engine = said.get(f"{_ROLLOUT}.name")
        if engine is None or "sft" in run.primary or _value("name", said, keys).lower() != "hf":
            continue
        count, mode = (_value(name, said, keys) for name in ("n", "mode"))
        shape = Shape(checkout)
        values = {"version": verl_version(checkout) or "?", "samples": count}
        values["what"] = f"{name}:{lines.locate(engine.span.start)[0]}: {engine.text}"
        values["seen"] = "" if shape.has_hf else f"AssertionError: Rollout hf with mode {mode or 'async'} not found"
        if not shape.has_hf:
            yield Finding("rollout-hf", "fails", "no-hf", values, "rollout-vllm")
        elif count.isdigit() and int(count) > 1 and not shape.hf_samples:
            yield Finding("rollout-hf", "fails", "no-hf-samples", values, "one-answer")


def _value(name: str, said: Mapping[str, Word], keys: Mapping[tuple[str, ...], Node]) -> str:
    """Return the value of a key of the rollout: that of the script, else that of the configuration."""
    path = f"{_ROLLOUT}.{name}"
    if path in said:
        return said[path].text.partition("=")[2].strip("\"'")
    held = keys.get(tuple(path.split(".")))
    return held.value if isinstance(held, Leaf) else ""
