"""The catalogue of what goes wrong: read from its data file, searched by message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LANGUAGES = ("en", "zh")


class Entry(NamedTuple):
    """One thing that goes wrong. Texts are by language."""

    id: str
    seen: tuple[str, ...]
    title: Mapping[str, str]
    why: Mapping[str, str]
    cure: Mapping[str, str]
    source: str


@cache
def entries() -> dict[str, Entry]:
    """Return the catalogue by id, in its order."""
    import yaml

    text = (files("verl_legacy_patch.doctor") / "catalogue.yaml").read_text("utf-8")
    return {row["id"]: Entry(**{**row, "seen": tuple(row["seen"])}) for row in yaml.safe_load(text)}


def find(message: str) -> list[Entry]:
    """Return the entries that explain a message, the most particular one first."""
    text = " ".join(message.split())
    return [entry for entry in entries().values() if any(re.search(seen, text, re.I) for seen in entry.seen)]


def language(asked: str | None, variables: Mapping[str, str]) -> str:
    """Return the language to speak: as asked for, else as the locale says (LC_ALL, LC_MESSAGES, LANG)."""
    if asked in LANGUAGES:
        return asked
    locale = next((variables[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if variables.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
