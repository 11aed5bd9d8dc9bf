"""What is wrong with a launch script: keys that the checkout does not have, or that nothing reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.doctor.checks import Finding
from verl_legacy_patch.mirror.keys import composed_keys

#: Module that is run -> its primary configuration, where no --config-name says otherwise.
PRIMARY = {"main_ppo": "ppo_trainer", "fsdp_sft_trainer": "sft_trainer", "sft_trainer": "sft_trainer_engine"}


def check_script(source: bytes, checkout: Checkout) -> Iterator[Finding]:
    """Yield a finding for each override of an unknown or a dead key in the commands of a script."""
    from verl_legacy_patch.languages.shell.commands import commands

    for command in commands(source):
        words = [word.text for word in command.words]
        module = next((word.rpartition(".")[2] for word in words if word.startswith("verl.")), "")
        named = next((word.partition("=")[2] for word in words if word.startswith("--config-name=")), "")
        primary = (named or PRIMARY.get(module, "")).removesuffix(".yaml").strip("'\"")
        keys = composed_keys(checkout, primary) if primary else None
        if keys is not None:
            yield from _unknown(words, keys, primary)


def _unknown(words: list[str], keys: Mapping[tuple[str, ...], Any], primary: str) -> Iterator[Finding]:
    names = {".".join(path) for path in keys}
    groups = {name[:end] for name in names for end, character in enumerate(name) if character == "."}
    for word in words:
        key, equals, _ = word.strip("'\"").partition("=")
        if not equals or key.startswith(("-", "+", "~")) or "." not in key or "@" in key or "/" in key or "$" in key:
            continue
        if key not in names and key not in groups and not any(key.startswith(f"{name}.") for name in names):
            close = difflib.get_close_matches(key, names, 1, 0.8)
            hint = f"; did you mean {close[0]}?" if close else f"; write +{key}=… to add it"
            yield Finding("unknown-key", "fails", f"{key} is no key of {primary}.yaml{hint}")
