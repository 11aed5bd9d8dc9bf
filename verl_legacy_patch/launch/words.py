"""What launch says, in English and in Chinese: texts by key, in ``words.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


class Words:
    """Looks texts up in one language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def __call__(self, key: str, **values: object) -> str:
        """Return the text of a key with its places filled in."""
        return texts()[key][self.language].format_map(values)


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Return all texts: key -> language -> text."""
    from importlib.resources import files

    import yaml

    source = (files("verl_legacy_patch.launch") / "words.yaml").read_text("utf-8")
    found: Mapping[str, Mapping[str, str]] = yaml.safe_load(source)
    return found
