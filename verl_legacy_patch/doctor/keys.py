"""Overrides in a script that Hydra would refuse for a checkout's configuration."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.doctor.findings import Finding
from verl_legacy_patch.languages.shell.commands import Word, commands
from verl_legacy_patch.mirror.keys import FOLDER, composed_keys
from verl_legacy_patch.mirror.tree import Leaf, Map, Node
from verl_legacy_patch.setting import Lines

_NAMED = re.compile(rb"config_name\s*=\s*[\"']([\w./-]+)[\"']")
_OVERRIDE = re.compile(r"(\+\+|\+|~)?([A-Za-z_][\w.-]*)(?:=|$)")
_CHOICE = re.compile(r"\+?([A-Za-z_][\w/]*(?:@[\w.]*)?)=([\w.-]+)$")

#: How alike two parts of a key have to be.
_SLIP = 0.8


class Started(NamedTuple):
    """A command that runs a trainer: the composition that it gets, and the words after the module."""

    primary: str
    choices: list[str]
    words: Sequence[Word]


def unknown_keys(source: bytes, checkout: Checkout) -> Iterator[Finding]:
    """Yield a finding for each override that Hydra refuses; a note when no command could be checked.

    Raises:
        SourceError: the script cannot be parsed.
    """
    lines, checked = Lines(source), 0
    for run, keys in runs(source, checkout):
        checked += 1
        # what the command adds itself may be set by a later word
        added = {key.removesuffix("=").lstrip("+") for key in map(_added, run.words) if key}
        for word in run.words:
            for finding in _refused(word.text, keys, added, run.primary):
                line = str(lines.locate(word.span.start)[0])
                yield replace(finding, values={**finding.values, "line": line, "word": word.text})
    if not checked:
        yield Finding("script-unread", "note", "script-unread")


def runs(source: bytes, checkout: Checkout) -> Iterator[tuple[Started, Mapping[tuple[str, ...], Node]]]:
    """Yield the commands of a script that run a trainer, each with the keys of its configuration.

    Raises:
        SourceError: the script cannot be parsed.
    """
    for command in commands(source):
        run = _run(command.words, checkout)
        keys = composed_keys(checkout, run.primary, run.choices) if run else None
        if run is not None and keys is not None:
            yield run, keys


def _run(words: Sequence[Word], checkout: Checkout) -> Started | None:
    """Return what a command runs; None for anything but a trainer of verl with a configuration of its own."""
    texts = [word.text for word in words]
    at, path = next(((at, path) for at, text in enumerate(texts) if (path := _module(text, texts[at - 1]))), (0, ""))
    if not path:
        return None
    rest = words[at + 1 :]
    primary = ""
    for text, following in zip_longest(texts[at + 1 :], texts[at + 2 :], fillvalue=""):
        flag, equals, value = text.partition("=")
        if flag in ("--config-path", "-cp", "--config-dir", "-cd"):
            return None
        if flag in ("--config-name", "-cn"):
            primary = value if equals else following
    if not primary:
        package = next(iter(checkout.packages()), "verl")
        match = _NAMED.search(checkout.read_path(path.replace("verl/", f"{package}/", 1)) or b"")
        primary = match[1].decode() if match else ""
    primary = primary.removesuffix(".yaml")
    return Started(primary, [word.text for word in rest if _is_choice(word.text, checkout)], rest) if primary else None


def _module(text: str, before: str) -> str:
    """Return the file of verl's that a word runs: ``-m verl.trainer.main_ppo`` or a path to it."""
    if before == "-m" and re.fullmatch(r"verl(?:\.\w+)+", text):
        return text.replace(".", "/") + ".py"
    match = re.search(r"(?:^|/)(verl/trainer/\w+\.py)$", text)
    return match[1] if match else ""


def _is_choice(text: str, checkout: Checkout) -> bool:
    """Return whether a word chooses a config of a group: ``model_engine=megatron``."""
    match = _CHOICE.match(text)
    group = match[1].partition("@")[0] if match else ""
    found = match and [f"{package}/{FOLDER}/{group}/{match[2]}.yaml" for package in checkout.packages()]
    return bool(found) and any(map(checkout.has_file, found or ()))


def _added(word: Word) -> str:
    match = _OVERRIDE.match(word.text)
    return match[2] if match and match[1] in ("+", "++") else ""


def _refused(text: str, keys: Mapping[tuple[str, ...], Node], added: set[str], primary: str) -> Iterator[Finding]:
    match = _OVERRIDE.match(text)
    if match is None or text.startswith("-") or (match[1] != "~" and "=" not in text):
        return
    prefix, key = match[1] or "", match[2]
    if "." not in key or key.startswith("hydra."):
        return
    path = tuple(key.split("."))
    known, open_ended = _known(path, keys)
    values = {"key": key, "config": f"{primary}.yaml"}
    if open_ended or any(key == one or key.startswith(f"{one}.") for one in added if prefix == ""):
        return
    if prefix == "" and not known:
        close = _close(path, keys)
        said = "unknown-key-close" if close else "unknown-key"
        cure = "close-key" if close else "add-key"
        yield Finding("unknown-key", "fails", said, {**values, "close": close}, cure)
    elif prefix == "+" and _holds(known) and not text.partition("=")[2].startswith(("[", "{")):
        yield Finding("unknown-key", "fails", "key-exists", values, "set-key")
    elif prefix == "~" and not known:
        yield Finding("unknown-key", "fails", "nothing-to-delete", values, "drop-word")


def _close(path: tuple[str, ...], keys: Mapping[tuple[str, ...], Node]) -> str:
    """Return the key that a path is a slip of: each of its parts is the same or nearly so; empty for none.

    Long paths with the same beginning are alike as a whole, whatever they end in.
    """
    best, found = 0.0, ""
    for each in keys:
        if len(each) != len(path):
            continue
        ratios = [difflib.SequenceMatcher(None, *pair).ratio() for pair in zip(path, each, strict=True)]
        if min(ratios) >= _SLIP and sum(ratios) > best:
            best, found = sum(ratios), ".".join(each)
    return found


def _holds(known: Node | bool) -> bool:
    """Return whether there is a value that + would have to replace: null is none, and lists and mappings are merged."""
    return known is True or not (
        known is False or isinstance(known, Map) or (isinstance(known, Leaf) and known.is_null)
    )


def _known(path: tuple[str, ...], keys: Mapping[tuple[str, ...], Node]) -> tuple[Node | bool, bool]:
    """Return the node at a path (True for one that has keys below), and whether only Hydra knows what is there."""
    if path in keys:
        return keys[path], False
    for end in range(len(path)):
        above = keys.get(path[:end])
        if isinstance(above, Leaf) and "${" in above.value:
            return False, True  # what it refers to may have the key
    return any(each[: len(path)] == path for each in keys), False
