"""Config files that repeat other config files, and must go where those go.

verl checks in flattened copies of its Hydra configs (``_generated_*.yaml``, whose header names the command
that made them) and compares the copies with a fresh composition. Its tests do the same with
``tests/trainer/config/legacy_*.yaml`` and the config of the same name. What a value there becomes is not
decided by its own key but by the file that the value comes from.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from verl_legacy_patch.mirror.compose import Read, compose
from verl_legacy_patch.mirror.tree import Origin, Unsupported, leaves
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import is_mirror
from verl_legacy_patch.setting import Setting, Span

__all__ = ["Follow", "Origin", "follow", "origins"]

Find = Callable[[str], "list[str]"]

_QUOTED = lazy(r"'([^'\n]*)'|`([^`\n]*)`|\"([^\"\n]*)\"")


class Follow(NamedTuple):
    """What becomes of a setting in a mirror.

    ``unknown``: no origin was found, the caller has to decide by the setting itself. ``differs``: the origin
    says something else already, which is in ``replacement``.
    """

    setting: Setting
    action: Literal["rewrite", "keep", "unknown", "differs"]
    replacement: str | None
    reason: str


class _Source(NamedTuple):
    folder: str
    name: str
    overrides: list[tuple[str, Origin]]


def origins(path: str, source: bytes, read: Read, find: Find | None = None) -> dict[tuple[str, ...], Origin] | None:
    """Return where every value of the config comes from that ``path`` repeats, by key path.

    Lists are one value. None when ``path`` is no mirror, or its config uses something unsupported: then the
    settings have to be decided as in any other file.

    Args:
        path: the mirror, in the checkout.
        source: its content.
        read: returns the content of a file of the checkout; None when there is none.
        find: returns the paths in the checkout that end in a suffix, for a config folder in an unusual place.
    """
    if not is_mirror(path):
        return None
    try:
        if posixpath.basename(path).startswith("_generated_"):
            primary = _from_header(path, source, read)
        else:
            primary = _legacy(path, read, find)
        if primary is None:
            return None
        found = leaves(compose(primary.folder, primary.name, primary.overrides, read))
    except (Unsupported, RecursionError):
        return None
    return {key: node.origin for key, node in found.items() if node.origin is not None}


def _from_header(path: str, source: bytes, read: Read) -> _Source | None:
    """Return what the comment at the top says that the file was made from."""
    command = config = None
    at = 0
    start = 0
    for line in source.decode("utf-8", "replace").splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            break
        for match in _QUOTED.finditer(line):
            quoted = match[match.lastindex or 0]
            if ".py" in quoted and "--cfg" in quoted.split():
                command, start = quoted, at + match.start(match.lastindex or 0)
            elif quoted.endswith((".yaml", ".yml")) and " " not in quoted:
                config = quoted
        at += len(line)
    if command is None:
        return None
    overrides = []
    words = re.finditer(r"\S+", command[command.index(".py") + 3 :])
    for match in words:
        word = match[0]
        if word in ("--cfg", "-c"):
            next(words, None)
        elif word in ("--config-name", "-cn"):
            config = next(words, match)[0]
        elif word.startswith("--config-name="):
            config = word.partition("=")[2]
        elif word.startswith("-"):
            return None
        else:
            end = start + command.index(".py") + 3 + match.end()
            text = word.partition("=")[2]
            line_number = source.count(b"\n", 0, end) + 1
            overrides.append((word, Origin(path, Span(end - len(text), end), text, line_number)))
    if config is None:
        return None
    name = posixpath.basename(config)
    name = name[: -len(".yaml")] if name.endswith(".yaml") else name
    for folder in (posixpath.dirname(path), posixpath.dirname(config)):
        if read(posixpath.join(folder, f"{name}.yaml")) is not None:
            return _Source(folder, name, overrides)
    return None


def _legacy(path: str, read: Read, find: Find | None) -> _Source | None:
    """Return the config that ``…tests/trainer/config/legacy_NAME.yaml`` is compared with."""
    name = posixpath.basename(path)[len("legacy_") : -len(".yaml")]
    parts = posixpath.dirname(path).split("/")
    tests = parts.index("tests")
    folder = "/".join([*parts[:tests], "verl", *parts[tests + 1 :]])
    if read(f"{folder}/{name}.yaml") is not None:
        return _Source(folder, name, [])
    suffix = "/".join(["", *parts[tests + 1 :], f"{name}.yaml"])
    others = [one for one in find(suffix) if "tests" not in one.split("/")] if find else []
    return _Source(posixpath.dirname(others[0]), name, []) if len(others) == 1 else None


def follow(
    settings: Iterable[Setting],
    origins: Mapping[tuple[str, ...], Origin],
    edits_by_path: Mapping[str, Mapping[Span, str | None]],
) -> Iterator[Follow]:
    """Decide every setting of a mirror by what was decided for its origin.

    Args:
        settings: the settings of the mirror.
        origins: from ``origins``.
        edits_by_path: for the other files, the decided spans and what replaces them (None: it stays).
    """
    for setting in settings:
        origin = _origin(setting.path, origins)
        if origin is None or (setting.names and setting.advice):
            # a value whose exact place is uncertain is never edited
            yield Follow(setting, "unknown", None, setting.names)
            continue
        place = f"{origin.path}:{origin.line}"
        raw = origin.text.encode()
        old_to_new: dict[str, set[str]] = {}
        for span, new in edits_by_path.get(origin.path, {}).items():
            if new is not None and origin.span.start <= span.start and span.end <= origin.span.end:
                old = raw[span.start - origin.span.start : span.end - origin.span.start]
                old_to_new.setdefault(old.decode("utf-8", "replace").casefold(), set()).add(new)
        news = old_to_new.get(setting.value.casefold(), set())
        if len(news) == 1:
            yield Follow(setting, "rewrite", _spelled(news.pop(), setting.value), f"follows {place}")
        elif news:
            yield Follow(setting, "unknown", None, f"{place} becomes several things")
        elif setting.value.casefold() in origin.text.casefold():
            yield Follow(setting, "keep", None, f"follows {place}, which stays")
        else:
            yield Follow(setting, "differs", origin.text, f"differs from {place} already")


def _origin(path: tuple[str, ...], origins: Mapping[tuple[str, ...], Origin]) -> Origin | None:
    """Return the origin of a value, or of the list that holds it."""
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return origins[path[:length]]
    return None


def _spelled(new: str, old: str) -> str:
    """Return ``new`` with the spelling of booleans in this file (``true``, ``True``)."""
    if new.lower() not in ("true", "false"):
        return new
    if old.isupper():
        return new.upper()
    return new.capitalize() if old[:1].isupper() else new.lower()
