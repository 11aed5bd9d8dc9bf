"""Report overrides in launch scripts that nothing in the checkout reads.

What it does: nothing is rewritten. A script that sets a key which this release ignores is listed, with the key that
works in its place, or the word that none does.

Why: verl moved these settings between releases and kept the old keys in the configuration, so that Hydra accepts them.
A script that chooses float32 by a dead key still trains in the code's own default.

What it leaves alone: keys that some Python file of the checkout reads (a backend that is out of scope does not count),
and scripts for such a backend.

Source: https://github.com/volcengine/verl/blob/main/verl/workers/engine/fsdp/transformer_impl.py
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Setting, Site
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout


class Dead(NamedTuple):
    """A key that some releases ignore.

    Attributes:
        key: pattern for the whole dotted key.
        reads: what reading it looks like in Python; none where no release ever read it.
        instead: the key that works, made of the groups of ``key``; empty where none does.
        instead_reads: what reading that one looks like.
    """

    key: str
    reads: tuple[str, ...]
    instead: str = ""
    instead_reads: tuple[str, ...] = ()


_MIXED = ('.get("mixed_precision"', ".get('mixed_precision'", "engine_config.mixed_precision")
_ENGINE = ("self.engine_config.dtype",)
KEYS = (
    Dead(
        r"(.*\b(?:actor|ref)\.fsdp_config)\.dtype",
        ("fsdp_config.dtype", 'fsdp_config.get("dtype"', "fsdp_config.get('dtype'", *_ENGINE),
        r"+\1.mixed_precision.param_dtype",
        _MIXED,
    ),
    # the workers of critic and reward model never looked at it, not even where the actor's does
    Dead(
        r"(.*\bcritic\.(?:model\.fsdp_config|fsdp_config|fsdp)|engine)\.dtype",
        _ENGINE,
        r"+\1.mixed_precision.param_dtype",
        _MIXED,
    ),
    Dead(r".*\breward_model\.model\.fsdp_config\.dtype", _ENGINE),
    Dead(
        r"(.*\b(?:actor|ref))\.use_torch_compile",
        ("self.config.use_torch_compile", 'self.config.get("use_torch_compile"', "self.config.get('use_torch_compile'"),
        r"\1.fsdp_config.use_torch_compile",
        ("self.engine_config.use_torch_compile",),
    ),
    # the critic's model is loaded with a literal in every release
    Dead(r".*\bcritic\.model\.override_config\.attn_implementation", ()),
    Dead(
        r".*\bmodel\.override_config\.attn_implementation",
        ('.get("attn_implementation"', ".get('attn_implementation'", "override_config.attn_implementation"),
    ),
)
_OTHER_BACKEND = lazy(
    rb"=(?:(?<=engine=)|(?<=strategy=)|(?<=backend=))[\"']?(?:\$\{\w+:?[-=])?[\"']?"
    rb"(?:megatron|veomni|torchtitan|automodel|mindspeed)|_megatron_trainer",
)


class DeadKeys(Codemod):
    """See the module's docstring."""

    name = "dead-keys"
    grade = "review"
    does = "reports"
    languages = ("shell", "yaml", "json")
    words = (".dtype=", ".use_torch_compile=", "_config.attn_implementation=")
    trigger = (
        r"\.(?:dtype=(?:(?<=config.dtype=)|(?<=.fsdp.dtype=)|(?<=engine.dtype=))|use_torch_compile="
        r"|attn_implementation=(?<=override_config.attn_implementation=))\S"
    )

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Point at an override of one of the keys; ``settle`` drops those that the checkout reads."""
        key = ".".join(setting.path)
        if "override" not in setting.position.lower() or setting.names or _dead(key) is None:
            return None
        return self.report(setting, f"{key}: nothing may read this key")

    def settle(self, sites: list[Site], checkout: "Checkout") -> list[Site]:
        """Keep the rows whose key no Python file reads, and say which key works."""
        asked = [site for site in sites if site.action == "report"]
        if not asked:
            return sites
        found = {dead for site in asked if (dead := _dead(site.reason.partition(":")[0]))}
        texts = sorted({text.encode() for dead in found for text in (*dead.reads, *dead.instead_reads)})
        code = b"\n".join(checkout.code(texts)) if texts else b""
        scripts = checkout.read(checkout.named(sorted({site.path for site in asked})))
        others = {script.path for script, content in scripts if _OTHER_BACKEND.search(content.lower())}
        kept = []
        for site in sites:
            key = site.reason.partition(":")[0]
            dead = _dead(key)
            if site.action != "report" or dead is None:
                kept.append(site)
            elif not _holds(code, dead.reads) and site.path not in others:
                kept.append(site._replace(reason=_advice(dead, key, code)))
        return kept


def _dead(key: str) -> Dead | None:
    return next((dead for dead in KEYS if re.fullmatch(dead.key, key)), None)


def _advice(dead: Dead, key: str, code: bytes) -> str:
    if dead.instead and _holds(code, dead.instead_reads):
        instead = re.sub(dead.key, dead.instead, key)
        return f"nothing here reads this key: set {instead} instead"
    return "nothing here reads this key, and no other does this: the code's own choice counts"


def _holds(code: bytes, texts: Iterable[str]) -> bool:
    return any(text.encode() in code for text in texts)
