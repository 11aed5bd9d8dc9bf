"""What verl-patch leaves alone whatever it says there, and the reason shown for each.

A backend that cannot run below compute capability 8.0 is out of scope wherever its name shows: in a path, in a
key (``actor.megatron.dtype``), in a class, function or test around a Python value (``VeOmniEngineConfig``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Setting

#: Folders of a checkout that no training run reads, wherever they stand.
FOLDERS = {
    "tests": "tests keep what they test",
    "docs": "documentation",
    ".github": "continuous integration",
    "third_party": "vendored code",
}

#: Backends: what shows their name, inside a word or as a whole word (``AutoModel`` is two), and why they stay.
BACKENDS = {
    "Megatron": (r"megatron|mcore|mbridge", ""),
    "VeOmni": (r"veomni", ""),
    "TorchTitan": (r"torch_?titan", ""),
    "Automodel": ("", r"automodel"),
    "MindSpeed or Ascend NPU": (r"mindspeed|hccl", r"ascend|npu"),
    "TensorRT-LLM": (r"trt_?llm|tensorrt", ""),
    "quantised training and rollout (QAT, fp8, fp4)": (r"nvfp4|mxfp[48]", r"qat|w?[48]?a?fp8|fp4"),
    "FSDP-Turbo": (r"fsdp_?turbo|turbo_config", ""),
    "vision-language-action policies": ("", r"vla"),
}


def _any_of(column: int) -> str:
    """Return a pattern with one numbered group per backend that has names in a column of the table."""
    return "|".join(f"(?P<b{i}>{names[column]})" for i, names in enumerate(BACKENDS.values()) if names[column])


_INSIDE = lazy(_any_of(0))
_WHOLE = lazy(rf"(?<![a-z])(?:{_any_of(1)})(?![a-z])")
_QUANTISED_FILE = lazy(r"(?<![a-z])quant(?:izer|ization|ize)?(?![a-z])[^/]*\.py$")
_CAMEL = lazy(r"(?<=[a-z0-9])(?=[A-Z])")
_TEST_FILE = lazy(r"(?:^|/)(?:tests?|test_[^/]*|[^/]*_test|conftest)\.py$")
_TEST_CODE = lazy(rb"^(?:import pytest|from pytest import|import unittest|(?:async )?def test_|class Test)", re.M)


@lru_cache(maxsize=4096)
def backend(text: str) -> str:
    """Return the reason to leave a place alone whose path, key or name is ``text``; empty for none."""
    match = _INSIDE.search(text.lower()) or _WHOLE.search(_CAMEL.sub("_", text).lower())
    if match is None:
        return ""
    name = list(BACKENDS)[int(match.lastgroup[1:])]  # type: ignore[index]
    return f"{name} cannot run below compute capability 8.0"


def file_reason(path: str, source: bytes = b"") -> str:
    """Return why a file is left alone whatever it holds; empty for a file in scope."""
    reason, is_test = _path_reason(path)
    return FOLDERS["tests"] if is_test and _TEST_CODE.search(source) else reason


@lru_cache(maxsize=4096)
def _path_reason(path: str) -> tuple[str, bool]:
    """Return why a file of this name is left alone, and whether it is left alone as a test if it holds tests."""
    if is_mirror(path):
        return "", False
    folders = path.split("/")[:-1]
    for number, part in enumerate(folders):
        # a verl that was copied or linked to third_party/verl is what runs
        if part in FOLDERS and not (part == "third_party" and "verl" in folders[number:]):
            return FOLDERS[part], False
    is_test = _TEST_FILE.search(path) is not None
    return backend("fp8" if _QUANTISED_FILE.search(path.lower()) else path), is_test


class Scope(NamedTuple):
    """What is out of scope in one checkout: the rules of this module, and what its configuration adds.

    Attributes:
        exclude: patterns of files and folders that are left alone too, written as in ``.gitignore``.
        include: patterns of those that are rewritten although a rule leaves them alone. They win over all else.
    """

    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()

    def file_reason(self, path: str, source: bytes = b"") -> str:
        """Return why a file is left alone; empty for a file in scope."""
        if any(_matches(path, pattern) for pattern in self.include):
            return ""
        for pattern in self.exclude:
            if _matches(path, pattern):
                return f"excluded by the configuration ({pattern})"
        return file_reason(path, source)


#: The rules of this module and nothing else.
EVERYTHING = Scope()


def _matches(path: str, pattern: str) -> bool:
    """Return whether a pattern means a file or a folder around it, in the manner of ``.gitignore``.

    A name means it at any depth, a path (with a slash before its end) starts at the root, ``*`` and ``?`` stay
    within a folder, ``**`` goes through any number.
    """
    wanted = pattern.strip("/").split("/")
    return _fits(path.split("/"), wanted if "/" in pattern.rstrip("/") else ["**", *wanted])


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    from fnmatch import fnmatchcase

    fitted = {0}  # how many parts may have been fitted so far: trying each way in turn takes for ever with many **
    for part in wanted:
        if part == "**":
            fitted = set(range(min(fitted, default=len(parts)), len(parts)))
        else:
            fitted = {count + 1 for count in fitted if count < len(parts) and fnmatchcase(parts[count], part)}
    return bool(fitted)  # what is below the folder that is meant is meant too


def is_mirror(path: str) -> bool:
    """Return whether a file has the shape of one that repeats other configuration: it follows its sources.

    verl checks in flattened copies of its Hydra configs, and its tests keep copies named ``legacy_*``.
    """
    folder, _, name = path.rpartition("/")
    if not name.endswith(".yaml"):
        return False
    return name.startswith("_generated_") or (name.startswith("legacy_") and "tests" in folder.split("/"))


def setting_reason(setting: Setting) -> str:
    """Return why a setting in a file in scope is left alone; empty for one in scope."""
    for text in (".".join(setting.path), *setting.around):
        if text and (reason := backend(text)):
            return reason
    return ""
