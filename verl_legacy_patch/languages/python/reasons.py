"""Why a Python value only names a dtype or an attention implementation, in words that the reports show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from verl_legacy_patch.languages.python.conditions import FLAG as ASKS_FLAG
from verl_legacy_patch.languages.python.conditions import MAYBE, asked, family_of
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
EITHER = "a translation and a default in one: chosen under a test for the same value or another one"
FLAG = "chosen by a flag of its own: turn the flag off"
FLASH = "runs with flash attention only"
GATED = "already gated on hardware: on this card the other branch is taken"
KEY = "a dictionary key"
LOOKUP = "a lookup: the subscript names an entry"
MESSAGE = "a message or a description"
NAMED_AFTER = "its name says what the value is"
PROBE = "a probe: the code around it is the test"
REGISTERED = "the name of an entry in a registry"
SWEEP = "one of several values of a list or a sweep"
TABLE = "a table keyed by such names"
TEST = "a test of the value"
TEXT = "a piece of text"
TRANSLATION = "a translation: chosen under a test for the same value"

#: Reasons that hold for everything below, calls and their arguments included.
STICKY = frozenset((PROBE, MESSAGE, BITS, TABLE))
#: Reasons that hold for bare values only: text that holds a whole override (``dtype=bf16``) chooses there.
BARE_ONLY = frozenset((COLLECTION, TEXT))
#: Calls that exist for flash attention only: their arguments never reach an old GPU.
FLASH_ONLY = frozenset(("fa_peft_integration_check",))

_GATE = re.compile(
    r"get_device_capability|get_device_properties|is_bf16_supported|bf16_gpu_available|compute_cap|capability"
    r"|(?<![\w.])(?:major|cap|cc|sm)\b|\w*(?:prop\w*|cap\w*|device\w*|gpu\w*)\.major\b|\bsm_?\d\d|is_ampere|cuda_arch",
    re.IGNORECASE,
)
_FLASH_NAME = re.compile(r"flash_?attn|flash_?attention|\bfa[23]?\b", re.IGNORECASE)
_PROBE_NAME = re.compile(r"(?:^|_)(?:supports?|has|have|can|is|check|test|probe|detect)(?:_|$)|support|available")
_CPU = re.compile(r"^(?:device_type\s*=\s*)?[rRuUbB]?[\"']cpu(?::\d+)?[\"']$")
_DTYPE = re.compile(r"^(?:dtype\s*=|torch\.(?:u?int\d|float\d|bfloat|half|short|int|long|float8))")
_WORDS = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*(?![a-z])")

_VALUE_NAMES = frozenset((
    "bfloat16", "bf16", "float16", "fp16", "half", "float32", "fp32", "float64", "fp64", "flash_attention_2",
    "flash_attention_3", "flash_attention_4", "sdpa", "eager", "flex_attention",
))  # fmt: skip
_ALIASES = frozenset(("bfloat16", "bf16", "bfloat", "bf"))


def is_value_name(text: str) -> bool:
    """Return whether ``text`` is itself the bare name of a dtype or an attention implementation."""
    return text.lower() in _VALUE_NAMES


def alias(name: str, value: str) -> tuple[str, bool]:
    """Return (reason, advice) when a name says its (bare) value: ``BF16 = torch.bfloat16``, ``bf16_dtype = "bf16"``."""
    bare = value.lower()
    if bare not in _VALUE_NAMES:
        return "", False
    if name.lower() == bare or (bare in _ALIASES and name.lower() in _ALIASES):
        return ALIAS, False
    words = {word.lower() for word in _WORDS.findall(name)}
    return (NAMED_AFTER, "dtype" in words) if bare in _ALIASES and words & _ALIASES else ("", False)


def gate(test: str) -> bool:
    """Return whether a test asks for the hardware."""
    return _GATE.search(test) is not None


def cpu_autocast(callee: str, args: Iterable[str]) -> bool:
    """Return whether a call is an autocast that names the CPU."""
    last = callee.rpartition(".")[2]
    return last == "autocast" and ("cpu.amp" in callee or any(_CPU.match(arg) for arg in args))


def is_dtype_argument(text: str) -> bool:
    """Return whether an argument of ``view`` is a dtype and no shape."""
    return _DTYPE.match(text) is not None


def translation(tests: Sequence[str], otherwise: Sequence[str], value: str) -> tuple[str, bool]:
    """Return (reason, advice) when ``value`` is chosen because a test around it asks for that same value.

    Args:
        tests: the tests that hold where the value stands.
        otherwise: the tests that do not hold there.
        value: the value as written.
    """
    family = family_of(value)
    if not family:
        return "", False
    answers = [asked(test, family).yes for test in tests] + [asked(test, family).no for test in otherwise]
    for answer in filter(None, answers):
        if answer == ASKS_FLAG:
            return FLAG, True
        return (EITHER, True) if answer == MAYBE else (TRANSLATION, False)
    return "", False


def enclosing(context: Context, value: str) -> tuple[str, bool]:
    """Return (reason, advice) when what encloses a statement makes its values names; else ('', False)."""
    if any(gate(test) for test in (*context.tests, *context.otherwise)):
        return GATED, True
    family = family_of(value)
    if any(_FLASH_NAME.search(name) for name in context.functions):
        return FLASH, family == "flash attention"
    if family and any(family_of(name) == family and _PROBE_NAME.search(name) for name in context.functions):
        return PROBE, False
    return translation(context.tests, context.otherwise, value)
