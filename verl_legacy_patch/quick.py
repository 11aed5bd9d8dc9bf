"""A first look at the files of a hook: mostly there is nothing in them, and then nothing else has to be loaded.

The command line, the plan and the languages cost four times as much as this look. It only ever answers that there is
nothing to say; in every other case, errors included, the command itself looks again and says what it has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verl_legacy_patch.checkout.selection import SelectedFiles


def nothing_to_say(arguments: Sequence[str]) -> bool:
    """Return whether ``check`` with these arguments ends with 0 and without a word."""
    names = [each for each in arguments if each not in ("--fix", "--strict")]
    paths = [Path(name) for name in names]
    if not paths or any(name.startswith("-") for name in names):
        return False
    from verl_legacy_patch.checkout.gitio import CheckoutError
    from verl_legacy_patch.checkout.selection import SelectedFiles, select
    from verl_legacy_patch.config import ConfigError
    from verl_legacy_patch.plugins import PluginError

    try:
        return not any(path.is_dir() for path in paths) and all(
            _nothing_in(SelectedFiles(root, names)) for root, names in select(paths).items()
        )
    except (CheckoutError, ConfigError, PluginError, ImportError, OSError, ValueError):
        return False


def _nothing_in(files: SelectedFiles) -> bool:
    from verl_legacy_patch.codemod import discover
    from verl_legacy_patch.config import load
    from verl_legacy_patch.suppression import WORD
    from verl_legacy_patch.target import make_target

    config, _ = load(files.root)
    codemods = discover()
    named = {*(config.select or ()), *config.ignore, *config.keys}
    if config.select == () or config.gpu == "auto" or not codemods.keys() >= named:
        return False
    chosen = codemods.keys() if config.select is None else config.select
    if not any(
        name in chosen and name not in config.ignore and not (config.safe_only and codemod.needs_review())
        for name, codemod in codemods.items()
    ):
        return False
    make_target(config.gpu, config.dtype, config.attn)  # an error if there is no such GPU
    words = {WORD}
    for name, names in config.keys.items():
        words.update(word.encode() for word in codemods[name].with_keys(names).words)
    for codemod in codemods.values():
        words.update(word.encode() for word in codemod.words)
        words.update(f"utils.{module}".encode() for module in codemod.support)
    return not files.selected(sorted(words))
