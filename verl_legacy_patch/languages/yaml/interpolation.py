"""OmegaConf interpolations: the defaults in ``${oc.select:a.b,x}``, ``${oc.env:X,x}``, ``${oc.decode:x}``."""

from __future__ import annotations

from typing import NamedTuple

#: resolver -> the argument that is a value
_CHOSEN = {"oc.select": 1, "oc.env": 1, "oc.decode": 0}

#: Deeper nesting than this is left alone.
MAX_DEPTH = 20


class Default(NamedTuple):
    """An argument that may become the value: ``start`` to ``end`` of the text, inside its quotes."""

    start: int
    end: int
    position: str
    names: str


class _Call(NamedTuple):
    name: str
    arguments: list[tuple[int, int]]
    end: int


def defaults(text: str, start: int, end: int) -> tuple[list[Default], bool]:
    """Return the defaults inside ``text[start:end]``, and whether that is nothing but one interpolation."""
    found: list[Default] = []
    whole = False
    waiting = [(start, end, 0)]
    while waiting:
        low, high, depth = waiting.pop()
        at = text.find("${", low, high)
        while at != -1:
            call = None
            if not _escaped(text, at):
                call = _call(text, at, high)
            if call is None:
                at = text.find("${", at + 2, high)
                continue
            if (at, call.end, depth) == (start, end, 0):
                whole = True
            for number, (first, last) in enumerate(call.arguments):
                if text.find("${", first, last) != -1:
                    if depth < MAX_DEPTH:
                        waiting.append((first, last, depth + 1))
                elif first < last:
                    chosen = _CHOSEN.get(call.name)
                    if chosen == number or chosen is None:
                        found.append(_default(text, first, last, call.name))
            at = text.find("${", call.end, high)
    return sorted(found), whole


def _escaped(text: str, at: int) -> bool:
    backslashes = at - len(text[:at].rstrip("\\"))
    return backslashes % 2 == 1


def _default(text: str, start: int, end: int, name: str) -> Default:
    names = "" if name in _CHOSEN else f"an argument of the resolver {name}"
    if text[start] in "[{":
        names = names or ("a collection of names" if text[start] == "[" else "a mapping in an interpolation")
    elif end - start > 1 and text[start] in "'\"" and text[end - 1] == text[start]:
        start, end = start + 1, end - 1
    return Default(start, end, f"default of {name}", names)


def _call(text: str, at: int, limit: int) -> _Call | None:
    """Return the resolver call (or the plain interpolation) at ``at``; None when it does not end."""
    name: str | None = None
    arguments: list[tuple[int, int]] = []
    first = here = at + 2
    closers: list[str] = []
    quote = ""
    while here < limit:
        char = text[here]
        if char == "\\":
            here += 1
        elif quote:
            if char == quote:
                quote = ""
        elif char in "'\"" and name is not None:
            quote = char
        elif char in "{[(":
            closers.append({"{": "}", "[": "]", "(": ")"}[char])
        elif closers:
            if char == closers[-1]:
                closers.pop()
        elif char == ":" and name is None:
            name, first = text[first:here].strip(), here + 1
        elif char in ",}" and name is not None:
            arguments.append(_stripped(text, first, here))
            first = here + 1
            if char == "}":
                return _Call(name, arguments, here + 1)
        elif char == "}":
            return _Call("", [], here + 1)
        here += 1
    return None


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
