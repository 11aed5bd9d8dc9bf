"""The catalogue of what goes wrong: read from its data file, searched by message."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LANGUAGES = ("en", "zh")

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# what loggers, Ray, torchrun and docker put before each line, in whatever order
_PREFIX = re.compile(
    r"""\s*(?:\((?:[\w.: -]*\s)?pid=[^)]*\)
    | \[[\w-]*rank\d+\]:?
    | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*\]?
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d\s\d\d:\d\d:\d\d(?:\s\[?[\w.]+:\d+\]?)?
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL):
    | [\w-]+-\d+\s+\|
    | >+(?=\s) )""",
    re.VERBOSE,
)
_QUOTES = str.maketrans("‘’‛′“”„″", "''''\"\"\"\"")


class Entry(NamedTuple):
    """One thing that goes wrong. Texts are by language; ``message`` is what is printed, in English."""

    id: str
    message: str
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
    text = plain(message)
    return [entry for entry in entries().values() if any(re.search(seen, text, re.IGNORECASE) for seen in entry.seen)]


def plain(message: str) -> str:
    """Return a message as one line, without the colours and prefixes that a log gives it."""
    text = unicodedata.normalize("NFKC", _COLOUR.sub("", message)).translate(_QUOTES)
    lines = []
    for line in text.splitlines():
        start = 0
        while (match := _PREFIX.match(line, start)) and match.end() > start:
            start = match.end()
        lines.append(line[start:])
    # each rank prints the same
    return " ".join(" ".join(dict.fromkeys(lines)).split())


def language(asked: str | None, variables: Mapping[str, str]) -> str:
    """Return the language to speak: as asked for, else as the locale says (LC_ALL, LC_MESSAGES, LANG)."""
    if asked in LANGUAGES:
        return asked
    locale = next((variables[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if variables.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
