"""What a checkout says about itself, read as text: release, requirements, what is left to rewrite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from verl_legacy_patch.checkout.base import Checkout, verl_version
from verl_legacy_patch.doctor.findings import Code
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.setting import Site

#: Packages whose requirements count. That for torch is one engine's, that for vLLM is for newer cards.
PINNED = ("transformers", "ray", "tensordict", "numpy", "TransferQueue")
_REQUIREMENT = re.compile(
    rf"""(?:^[ \t]*|["'])({"|".join(PINNED)})(?:\[[\w,]*\])?\s*((?:[<>=!]=?\s*[\w.*]+\s*,?\s*)+)""", re.MULTILINE
)
_PYTHON = re.compile(r"""(?:requires-python|python_requires)\s*=\s*["']([^"']+)["']""")
_VALUE_HEAD = b"from trl import AutoModelForCausalLMWithValueHead"
_SCRIPTS = (".sh", ".bash")


def in_own_code(sites: Iterable[Site]) -> list[Site]:
    """Return the sites in verl's own code and configuration, which every run reads.

    Launch scripts and examples are looked at one by one: the one that is run decides, and apply rewrites them all.
    """
    return [site for site in sites if not site.path.endswith(_SCRIPTS) and not site.path.startswith("examples/")]


def read_code(checkout: Checkout, plan: Plan) -> Code:
    """Return what the checkout says.

    Args:
        checkout: where its files are.
        plan: what verl-patch would do to it. Scripts do not count: each has to be looked at by itself.
    """
    sites = in_own_code(plan.sites)
    left = Counter(site.codemod for site in sites if site.action == "rewrite")
    reported = Counter(site.codemod for site in sites if site.action == "report")
    package = next(iter(checkout.packages()), "verl")
    root = package.removesuffix("verl")
    texts = [_text(checkout, f"{root}{name}") for name in ("setup.py", "pyproject.toml", "requirements.txt")]
    pins: dict[str, str] = {}
    for text in texts:
        for name, specifier in _REQUIREMENT.findall(_without_comments(text)):
            pins.setdefault(name, "".join(specifier.split()).rstrip(","))
    python = next((match[1] for text in texts if (match := _PYTHON.search(text))), "")
    patch = checkout.read_path(f"{package}/models/transformers/monkey_patch.py") or b""
    plain = _VALUE_HEAD in patch and b"from trl.experimental" not in patch
    return Code(verl_version(checkout), left, reported, pins, python, plain)


def _text(checkout: Checkout, path: str) -> str:
    return (checkout.read_path(path) or b"").decode("utf-8", "replace")


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^[ \t]*#.*$", "", text)
