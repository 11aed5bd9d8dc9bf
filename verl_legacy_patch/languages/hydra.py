"""Hydra override text: ``a.b.c=value`` words and ``--flag=value``, with the span of every value in them.

Hydra's own parser needs antlr and a third of a second to import, and it gives no positions: this is a small
scanner for the shapes that occur in commands, YAML lists and Python strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from verl_legacy_patch.patterns import lazy

Position = Literal["value", "item", "default"]


class Override(NamedTuple):
    """One value in override text.

    Attributes:
        path: the dotted key; keys of Hydra dicts extend it. Dashes of flags are underscores.
        value: the value without its quotes.
        start: where the value begins in the text, in characters, inside quotes.
        end: where it ends.
        position: ``value``; ``item`` of a list or of a sweep (``dtype=bf16,fp32``): one of several values;
            ``default`` of an interpolation (``${oc.env:DTYPE,bf16}``).
    """

    path: tuple[str, ...]
    value: str
    start: int
    end: int
    position: Position = "value"


_SPACE = " \t\r\n\f\v"
# a key stands at the start, after white space or after a quote: "(dtype=bf16)" is prose or a call
# (each character in one way only: two ways to read "${x}" would make the match exponential)
_KEY = r"(?:[\w./@\x00-]|\$(?!\{)|\$?\{[^{}\s=\"']*\})+"
_HEAD = lazy(rf"(?P<flag>--?(?=[A-Za-z]){_KEY})(?P<assign>=)?|(?P<prefix>\+\+|\+|~)?(?P<key>{_KEY})=(?!=)", re.ASCII)
_BOUNDARY = lazy(r"[^ \t\r\n\f\v\"'`]*[ \t\r\n\f\v\"'`]+")
_QUOTE = lazy(r"\\*[\"']")
_FREE_END = lazy(r"[ \t\r\n\f\v;&|<>()`\"']|\\[\"'nrt]")
_CHOICE = lazy(r"(?:choice|sort|shuffle)\(")
_DICT_KEY = lazy(r"[ \t\r\n]*(?:\\*[\"'])?([^\"'{}\[\],:=\s\\]+)(?:\\*[\"'])?[ \t\r\n]*:[ \t\r\n]*")
_MAX_DEPTH = 50


def overrides(text: str, word: bool = False) -> Iterator[Override]:
    """Yield the values of the overrides in ``text``.

    Args:
        text: override text.
        word: the text is exactly one override (a command argument, a YAML list item): spaces belong to the
            value. Otherwise it is free text, in which white space and quotes separate overrides.
    """
    if "=" not in text and "--" not in text:
        return
    head = _HEAD.match(text) if word else None
    if head and (head["key"] or head["assign"]):
        path = _path(head)
        if path is not None:
            yield from _Scanner(text, True).whole(head.end(), path)
        return
    position = 0
    size = len(text)
    while position < size:
        head = _HEAD.match(text, position)
        if head is not None and (head["key"] or head["assign"]):
            path = _path(head)
            found, end = _Scanner(text, False).value(head.end(), path or (), 0)
            if path is not None:
                yield from found
            position = max(end, head.end())
        elif head is not None and head["flag"].startswith("--"):
            position = head.end()
            start = _skip(text, position)
            follows = start > position and text[start : start + 1] not in ("-", "")
            if follows and _HEAD.match(text, start) is None:
                found, end = _Scanner(text, False).value(start, _path(head) or (), 0)
                yield from found
                position = max(end, start)
        boundary = _BOUNDARY.match(text, position)
        if boundary is None:
            return
        position = boundary.end()


def leaves(text: str, path: tuple[str, ...], start: int = 0) -> Iterator[Override]:
    """Yield the leaves of a value that is all of ``text`` from ``start``: dict, list, sweep or scalar."""
    yield from _Scanner(text, True).whole(start, path)


def _path(head: re.Match[str]) -> tuple[str, ...] | None:
    """Return the key's parts; None for keys that choose a config group (``optim/adam``, ``x@pkg``)."""
    key = head["key"]
    if key is None:
        key = head["flag"].lstrip("-").replace("-", "_")
    elif "/" in key or "@" in key:
        return None
    if "\0" in key:
        key = re.sub("\0+", "${}", key)
    return tuple(part for part in key.split(".") if part)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


class _Scanner:
    """Reads values; ``spaces`` says whether bare values may hold white space."""

    def __init__(self, text: str, spaces: bool) -> None:
        self.text = text
        self.spaces = spaces

    def whole(self, start: int, path: tuple[str, ...]) -> Iterator[Override]:
        """Yield the leaves of a value that reaches to the end of the text."""
        start = _skip(self.text, start)
        end = len(self.text.rstrip(_SPACE))
        choice = _CHOICE.match(self.text, start)
        if choice and self.text.endswith(")", start, end):
            yield from self._choices(choice.end(), end - 1, path)
            return
        found, stop = self.value(start, path, 0)
        if stop < end and self.text[stop] == ",":
            yield from self._choices(start, end, path)
        elif stop < end:
            yield Override(path, self.text[start:end], start, end)
        else:
            yield from found

    def _choices(self, start: int, end: int, path: tuple[str, ...]) -> Iterator[Override]:
        found: list[Override] = []
        position = start
        while position < end:
            items, stop = self.value(_skip(self.text, position), path, 1, ",)")
            found += items
            stop = _skip(self.text, stop)
            if stop < end and self.text[stop] != ",":
                # not a list of choices after all: the whole is one value
                yield Override(path, self.text[start:end], start, end)
                return
            position = stop + 1
        for item in found:
            yield item._replace(position="item") if item.position == "value" else item

    def value(self, start: int, path: tuple[str, ...], depth: int, closers: str = "") -> tuple[list[Override], int]:
        """Return the leaves of the value at ``start``, and where it ends."""
        text = self.text
        first = text[start : start + 1]
        if depth > _MAX_DEPTH:
            return [], len(text)
        if first in ("{", "["):
            read = self._dict if first == "{" else self._list
            result = read(start, path, depth)
            if result is not None and self._at_end(result[1], closers):
                return result
            end = self._bare_end(start, closers)
            return [Override(path, text[start:end], start, end)], end
        if text.startswith("${", start):
            end = self._balanced(start + 1)
            if end and self._at_end(end, closers):
                return self._interpolation(start, end, path, depth), end
        quote = _QUOTE.match(text, start)
        if quote:
            close = self._closing(quote)
            if close is not None and self._at_end(close + len(quote[0]), closers):
                inner = Override(path, text[quote.end() : close], quote.end(), close)
                nested = inner.value.startswith("${") and inner.value.endswith("}")
                found = self._interpolation(quote.end(), close, path, depth) if nested else [inner]
                return found, close + len(quote[0])
        end = self._bare_end(start, closers)
        if not closers and not self.spaces and "," in text[start:end]:
            return self._free_sweep(start, end, path), end
        return ([Override(path, text[start:end], start, end)] if end > start else []), end

    def _free_sweep(self, start: int, end: int, path: tuple[str, ...]) -> list[Override]:
        """Split ``bf16,fp32``; a trailing comma is punctuation of a sentence, so nothing is split there."""
        raw = self.text[start:end]
        pieces = raw.split(",")
        if "" in pieces:
            return [Override(path, raw, start, end)]
        found = []
        for piece in pieces:
            found.append(Override(path, piece, start, start + len(piece), "item"))
            start += len(piece) + 1
        return found

    def _at_end(self, position: int, closers: str) -> bool:
        """Return whether a value may end here: ``'a'b`` is one bare word."""
        if self.spaces or closers:
            position = _skip(self.text, position)
        if position >= len(self.text) or self.text[position] in closers:
            return True
        if closers:
            return False
        return self.text[position] == "," if self.spaces else bool(_FREE_END.match(self.text, position))

    def _bare_end(self, start: int, closers: str) -> int:
        text = self.text
        if not closers:
            if not self.spaces:
                end = _FREE_END.search(text, start)
                return end.start() if end else len(text)
            closers = ","
        end_at = start
        depth = 0
        while end_at < len(text):
            char = text[end_at]
            if char == "\\":
                end_at += 2
                continue
            if not depth and char in closers:
                break
            depth += (char in "([{") - (char in ")]}")
            end_at += 1
        end_at = min(end_at, len(text))
        return start + len(text[start:end_at].rstrip(_SPACE))

    def _closing(self, quote: re.Match[str]) -> int | None:
        """Return where the closing quote (with as many backslashes as the opening one) begins."""
        mark = quote[0]
        slashes = len(mark) - 1
        for found in _QUOTE.finditer(self.text, quote.end()):
            if found[0][-1] == mark[-1] and len(found[0]) - 1 == slashes:
                return found.start()
            if not slashes and found[0][-1] == mark[-1] and len(found[0]) % 2:
                return found.end() - 1  # an even number of backslashes escapes only itself
        return None

    def _balanced(self, start: int) -> int:
        """Return the end of the braces that open at ``start``; 0 when they never close."""
        depth = 0
        for position in range(start, len(self.text)):
            char = self.text[position]
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return position + 1
        return 0

    def _interpolation(self, start: int, end: int, path: tuple[str, ...], depth: int) -> list[Override]:
        """Return the default of ``${oc.env:NAME,default}``, or the interpolation as a whole."""
        inner = self.text[start + 2 : end - 1]
        resolver, colon, arguments = inner.partition(":")
        if not colon or "${" in resolver or depth > _MAX_DEPTH:
            return [Override(path, self.text[start:end], start, end)]
        comma, level = -1, 0
        for index, char in enumerate(arguments):
            level += (char in "{[(") - (char in "}])")
            if char == "," and level == 0:
                comma = index
        at = start + 2 + len(resolver) + 1 + comma + 1
        at = _skip(self.text, at)
        if comma < 0 and not self.text.startswith("${", at):
            return [Override(path, self.text[start:end], start, end)]
        found, _ = self.value(at, path, depth + 1, "}")
        return [item._replace(position="default") if item.position == "value" else item for item in found]

    def _dict(self, start: int, path: tuple[str, ...], depth: int) -> tuple[list[Override], int] | None:
        found: list[Override] = []
        position = _skip(self.text, start + 1)
        while not self.text.startswith("}", position):
            key = _DICT_KEY.match(self.text, position)
            if key is None:
                return None
            items, position = self.value(key.end(), (*path, key[1]), depth + 1, ",}")
            found += items
            position = _skip(self.text, position)
            if self.text.startswith(",", position):
                position = _skip(self.text, position + 1)
            elif not self.text.startswith("}", position):
                return None
        return found, position + 1

    def _list(self, start: int, path: tuple[str, ...], depth: int) -> tuple[list[Override], int] | None:
        found: list[Override] = []
        position = _skip(self.text, start + 1)
        while not self.text.startswith("]", position):
            items, position = self.value(position, path, depth + 1, ",]")
            found += [item._replace(position="item") if item.path == path else item for item in items]
            position = _skip(self.text, position)
            if self.text.startswith(",", position):
                position = _skip(self.text, position + 1)
            elif not self.text.startswith("]", position):
                return None
        return found, position + 1
