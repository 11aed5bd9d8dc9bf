"""Texts with places in braces, and in the language of the user what other rooms say in English (``told.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its ``{names}`` replaced; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def told(text: str, language: str) -> str:
    """Return a text of another room in a language; as it is where there is no template for it."""
    for pattern, texts in _templates():
        if match := pattern.fullmatch(text):
            return text if language == "en" else filled(texts[language], match.groupdict())
    return text


@cache
def _templates() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    import yaml

    rows = yaml.safe_load((files("verl_legacy_patch.doctor") / "told.yaml").read_text("utf-8"))
    return tuple((_pattern(row["en"]), row) for row in rows)


def _pattern(template: str) -> re.Pattern[str]:
    """Return what a template can be filled to, its places as named groups."""
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile("".join(f"(?P<{part}>.+)" if at % 2 else re.escape(part) for at, part in enumerate(parts)), re.S)
