"""What a launch script decides for the run, so that checks do not warn of what it does not do."""

from __future__ import annotations

from collections.abc import Mapping

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.doctor.findings import Settled
from verl_legacy_patch.doctor.keys import runs
from verl_legacy_patch.mirror.tree import Leaf

_ROLLOUT = "actor_rollout_ref.rollout"
_FLAGS = tuple(f"{_ROLLOUT}.engine_kwargs.vllm.no_enable_{flag}" for flag in ("prefix_caching", "chunked_prefill"))


def settled(source: bytes, checkout: Checkout) -> Settled | None:
    """Return what a script decides; None where no command of it runs a trainer that is known.

    Raises:
        SourceError: the script cannot be parsed.
    """
    rows = []
    for run, keys in runs(source, checkout):
        said = dict(word.text.lstrip("+").partition("=")[::2] for word in run.words if "=" in word.text)
        values = {key: value.strip("\"'").lower() for key, value in said.items()}

        def value(key: str, values: Mapping[str, str] = values, keys: Mapping[tuple[str, ...], object] = keys) -> str:
            held = keys.get(tuple(key.split(".")))
            return values.get(key, held.value.lower() if isinstance(held, Leaf) else "")

        generates = "sft" not in run.primary
        elsewhere = value(f"{_ROLLOUT}.mode") == "sync" or value(f"{_ROLLOUT}.name") not in ("vllm", "")
        off = all(value(flag) == "true" for flag in _FLAGS)
        rows.append((generates, generates and not elsewhere and not off))
    if not rows:
        return None
    return Settled(any(generates for generates, _ in rows), any(serves for _, serves in rows))
