"""The keys that a trainer's configuration has in a checkout, by composing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.mirror.compose import compose
from verl_legacy_patch.mirror.tree import Leaf, Map, Origin, Seq, Unsupported, leaves
from verl_legacy_patch.setting import Span

FOLDER = "trainer/config"


def composed_keys(
    checkout: Checkout, primary: str, choices: Sequence[str] = ()
) -> Mapping[tuple[str, ...], Leaf | Seq | Map] | None:
    """Return every key of a primary configuration with its value; None when there is none, or it cannot be composed.

    Args:
        checkout: where the configuration is.
        primary: name without ``.yaml``.
        choices: words of the command line that choose config groups, such as ``model_engine=megatron``.
    """
    read = lru_cache(maxsize=None)(checkout.read_path)
    nowhere = Origin("", Span(0, 0), "", 0)
    for package in checkout.packages():
        folder = f"{package}/{FOLDER}"
        if read(f"{folder}/{primary}.yaml") is None:
            continue
        try:
            return leaves(compose(folder, primary, [(word, nowhere) for word in choices], read))
        except (Unsupported, RecursionError):
            return None
    return None
