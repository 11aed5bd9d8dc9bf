"""Why a Python value only names a dtype or an attention implementation, in words that the reports show."""

from __future__ import annotations

import re
from collections.abc import Sequence

from verl_legacy_patch.languages.python.context import Context

ALIAS = "a constant named after its own value"
ASSERTION = "an assertion: it tests the value"
BITS = "the bits are read as another type: their width must stay"
CALLED = "the name of a call"
CASE = "a case pattern: it tests the value"
CHOICES = "a list of accepted values"
COLLECTION = "a collection of names"
COMPARISON = "a comparison: it tests the value"
CPU = "autocast on the CPU: the GPU has no part in it"
FLAG = "chosen by a flag of its own: turn the flag off"
FLASH = "runs with flash attention only"
GATED = "already gated on hardware: on this card the other branch is taken"
KEY = "a dictionary key"
LOOKUP = "a lookup: the subscript names an entry"
MESSAGE = "a message or a description"
PROBE = "a probe: the try block around it is the test"
SWEEP = "one of several values of a list or a sweep"
TABLE = "a table keyed by such names"
TEST = "a test of the value"
TRANSLATION = "a translation: chosen under a test for the same value"

#: Reasons that hold for everything below, calls and their arguments included.
STICKY = frozenset((PROBE, MESSAGE, BITS))
#: Calls that exist for flash attention only: their arguments never reach an old GPU.
FLASH_ONLY = frozenset(("fa_peft_integration_check",))

_GATE = re.compile(
    r"get_device_capability|get_device_properties|is_bf16_supported|compute_cap|capability|\bmajor\b|\bsm_?\d\d|is_ampere|cuda_arch",
    re.IGNORECASE,
)
_BF16 = re.compile(r"bf_?16|bfloat", re.IGNORECASE)
_FLASH = re.compile(r"flash_?attn|flash_?attention|\bfa[23]?\b", re.IGNORECASE)
_TESTS_EQUAL = re.compile(r"==|\bin\b|\bis\b|startswith|endswith|[\"']")
_TESTS_OTHER = re.compile(r"!=|\bnot\b")
_CPU = re.compile(r"^(?:device_type\s*=\s*)?[rRuUbB]?[\"']cpu(?::\d+)?[\"']$")
_DTYPE = re.compile(r"^(?:dtype\s*=|torch\.(?:u?int\d|float\d|bfloat|half|short|int|long|float8))")

_VALUE_NAMES = frozenset(
    [
        "bfloat16",
        "bf16",
        "torch.bfloat16",
        "float16",
        "fp16",
        "torch.float16",
        "half",
        "float32",
        "fp32",
        "torch.float32",
        "float64",
        "fp64",
        "flash_attention_2",
        "flash_attention_3",
        "flash_attention_4",
        "sdpa",
        "eager",
        "flex_attention",
    ]
)
_ALIASES = frozenset(("bfloat16", "bf16", "bfloat", "bf"))


def is_value_name(text: str) -> bool:
    """Return whether ``text`` is itself the name of a dtype or an attention implementation."""
    return text.lower() in _VALUE_NAMES


def is_alias(name: str, value: str) -> bool:
    """Return whether an assignment just gives a value its own name (``BF16 = torch.bfloat16``)."""
    bare = value.strip("rRbBuU'\"").rpartition(".")[2].lower()
    return bare in _VALUE_NAMES and (name.lower() == bare or (bare in _ALIASES and name.lower() in _ALIASES))


def gate(test: str) -> bool:
    """Return whether a test asks for the hardware."""
    return _GATE.search(test) is not None


def cpu_autocast(callee: str, args: Sequence[str]) -> bool:
    """Return whether a call is an autocast that names the CPU."""
    return callee == "autocast" and any(_CPU.match(arg) for arg in args)


def is_dtype_argument(text: str) -> bool:
    """Return whether an argument of ``view`` is a dtype and no shape."""
    return _DTYPE.match(text) is not None


def translation(tests: Sequence[str], value: str) -> tuple[str, bool]:
    """Return (reason, advice) when ``value`` is chosen because a test around it asks for that same value."""
    family = _BF16 if _BF16.search(value) else _FLASH if _FLASH.search(value) else None
    if family is None:
        return "", False
    for test in tests:
        if family.search(test) and not _TESTS_OTHER.search(test):
            return (TRANSLATION, False) if _TESTS_EQUAL.search(test) or test.isupper() else (FLAG, True)
    return "", False


def asked(test: str) -> str:
    """Return a test when it asks for what it names; empty for one that asks for anything else."""
    return "" if _TESTS_OTHER.search(test) else test


def enclosing(context: Context, value: str) -> tuple[str, bool]:
    """Return (reason, advice) when what encloses a statement makes its values names; else ('', False)."""
    if any(gate(test) for test in (*context.tests, *context.otherwise)):
        return GATED, True
    if any(_FLASH.search(name) for name in context.functions):
        return FLASH, False
    return translation(context.tests, value)
