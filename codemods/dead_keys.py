"""Report overrides in launch scripts that nothing in the checkout reads.

What it does: nothing is rewritten. A script that sets a key which this release ignores is listed, with the key that
works in its place.

Why: verl moved these settings between releases and kept the old keys in the configuration, so that Hydra accepts them.
A script that chooses float32 by a dead key still trains in the code's own default.

What it leaves alone: keys that some Python file of the checkout reads.

Source: https://github.com/volcengine/verl/blob/main/verl/workers/engine/fsdp/transformer_impl.py
"""

from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Edit, Setting, Site
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout


class Dead(NamedTuple):
    """A key that some releases ignore: what reading it looks like in Python, and the key that works instead."""

    key: tuple[str, ...]
    reads: tuple[str, ...]
    instead: str


KEYS = (
    Dead(
        ("fsdp_config", "dtype"),
        ("fsdp_config.dtype", 'fsdp_config.get("dtype"', "fsdp_config.get('dtype'"),
        "+...fsdp_config.mixed_precision.param_dtype",
    ),
    Dead(
        ("actor", "use_torch_compile"),
        ("self.config.use_torch_compile", 'self.config.get("use_torch_compile"', "self.config.get('use_torch_compile'"),
        "...actor.fsdp_config.use_torch_compile",
    ),
)


class DeadKeys(Codemod):
    """See the module's docstring."""

    name = "dead-keys"
    grade = "review"
    words = tuple(".".join(dead.key) for dead in KEYS)
    trigger = "|".join(rf"{'[.]'.join(dead.key)}\s*=\s*\S" for dead in KEYS)

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Point at an override of one of the keys; ``settle`` drops those that the checkout reads."""
        for dead in KEYS:
            if setting.path[-2:] == dead.key and "override" in setting.position.lower() and not setting.names:
                return self.report(setting, f"nothing here reads this key: set {dead.instead} instead")
        return None

    def settle(self, sites: list[Site], checkout: "Checkout") -> list[Site]:
        """Keep the rows whose key no Python file reads."""
        pointed = {dead for dead in KEYS for site in sites if site.action == "report" and dead.instead in site.reason}
        alive = {dead.instead for dead in pointed if _is_read(dead, checkout)}
        return [site for site in sites if not any(key in site.reason for key in alive)]


def _is_read(dead: Dead, checkout: "Checkout") -> bool:
    """Return whether a Python file of the checkout, tests aside, reads the key."""
    found = checkout.candidates([text.encode() for text in dead.reads], suffixes=(".py",))
    return any("tests" not in candidate.path.split("/") for candidate in found)
