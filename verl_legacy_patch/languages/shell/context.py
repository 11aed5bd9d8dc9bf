"""What the rest of a script says about a value: tests around it, and uses of its variable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from verl_legacy_patch.patterns import lazy

if TYPE_CHECKING:
    from tree_sitter import Node

TRANSLATION = "a translation: chosen under a test for the same value"
GATED = "already gated on hardware"

_VARIABLE = lazy(rb"=[\"']?\$(?:(\w+)\b|\{(\w+)(?::?-[^{}\n]*)?\})[\"']?(?=[\s)\"'\\;]|$)")
_KEY = lazy(rb"(?<![\w.$-])(?:\+\+?|--)?([A-Za-z_][\w.-]*)\Z")
_TEST = lazy(rb"(==|=~|!=|(?<![!<>=])=)[ \t]*[\"']?([\w.*^$-]+)")
_NOT = lazy(rb"(?:^|[\s(])!\s")
_HARDWARE = lazy(rb"compute_cap|capability|bf16_supported|\bsm_?\d\d\b", re.I)
#: Equal switches say nothing: a test for True of one key and a True of another are not a translation.
_SWITCHES = frozenset({b"true", b"false", b"0", b"1", b"yes", b"no", b"on", b"off", b"null", b"none", b""})
_BRANCHES = frozenset({"if_statement", "case_item", "list"})
#: What ``asked_for`` looks at.
BRANCHES = _BRANCHES | {"elif_clause"}


def _same(left: bytes, right: bytes) -> bool:
    return _spelling(left) == _spelling(right) and _spelling(right) not in _SWITCHES


def _spelling(text: bytes) -> bytes:
    """Return one spelling of all those of a value: ``torch.bfloat16`` and ``BF16`` are ``bf16``."""
    return text.lower().strip(b"^$*\"'").removeprefix(b"torch.").replace(b"float", b"f")


def chosen_under(path: Sequence[Node], value: str, source: bytes) -> str:
    """Return why ``value``, at the end of ``path``, is only named there; empty when it is chosen freely."""
    wanted = value.encode("utf-8", "replace")
    for index in range(len(path) - 2, -1, -1):
        node = path[index]
        if node.type not in _BRANCHES:
            continue
        reason = _READERS[node.type](node, path[index + 1], wanted, source)
        if reason:
            return reason
    return ""


def asked_for(path: Sequence[Node], source: bytes) -> tuple[str, ...]:
    """Return the values under whose tests the end of ``path`` runs: ``npu)``, ``if [ "$DEVICE" = npu ]``."""
    values: list[bytes] = []
    for node, child in pairwise(path):
        if node.type == "case_item":
            closing = next((index for index, part in enumerate(node.children) if part.type == ")"), 0)
            patterns = [part for part in node.children[:closing] if part.is_named]
            if len(patterns) == 1 and child.start_byte != patterns[0].start_byte:
                values.append(source[patterns[0].start_byte : patterns[0].end_byte])
            continue
        condition = b""
        if node.type in ("if_statement", "elif_clause") and child.type not in ("elif_clause", "else_clause"):
            condition = _condition(node, source)
            if child.start_byte < node.start_byte + len(condition):
                condition = b""
        elif node.type == "list" and node.children[1].type == "&&" and child.start_byte != node.children[0].start_byte:
            condition = source[node.children[0].start_byte : node.children[0].end_byte]
        if b"||" not in condition and not _NOT.search(condition):
            values += (value for operator, value in _TEST.findall(condition) if operator != b"!=")
    return tuple(value.decode("utf-8", "replace").strip("\"'") for value in values)


def used_as(variable: str, source: bytes) -> list[tuple[str, ...]]:
    """Return the keys of other names that are given the variable and nothing else (``a.dtype=$PREC``)."""
    keys = dict.fromkeys(key for key, given in _given(source) if given == variable)
    paths = [tuple(part for part in key.split(".") if part) for key in keys]
    return [path for path in paths if path[-1].lower() != variable.lower()]


@lru_cache(maxsize=4)
def _given(source: bytes) -> list[tuple[str, str]]:
    """Return each key that is given one variable, with that variable."""
    found = []
    for match in _VARIABLE.finditer(source):
        key = _KEY.search(source, source.rfind(b"\n", 0, match.start()) + 1, match.start())
        if key is not None:
            found.append((key[1].decode().replace("-", "_"), (match[1] or match[2]).decode()))
    return found


def _condition(node: Node, source: bytes) -> bytes:
    """Return the text between ``if`` and ``then``."""
    for child in node.children:
        if child.type == "then":
            return source[node.start_byte : child.start_byte]
    return b""


def _tested(condition: bytes, wanted: bytes, negated: bool) -> str:
    for operator, value in _TEST.findall(condition):
        if (operator == b"!=") == negated and _same(value, wanted):
            return TRANSLATION
    return GATED if _HARDWARE.search(condition) else ""


def _if(node: Node, child: Node, wanted: bytes, source: bytes) -> str:
    condition = _condition(node, source)
    if child.start_byte < node.start_byte + len(condition):
        return ""
    if child.type == "elif_clause":
        own = _condition(child, source)
        return _tested(own, wanted, False) or _tested(condition, wanted, True)
    return _tested(condition, wanted, child.type == "else_clause")


def _case(node: Node, child: Node, wanted: bytes, source: bytes) -> str:
    for part in node.children:
        if part.type == ")":
            break
        if part.start_byte == child.start_byte:
            return ""
        if part.is_named and _same(source[part.start_byte : part.end_byte], wanted):
            return TRANSLATION
    return ""


def _list(node: Node, child: Node, wanted: bytes, source: bytes) -> str:
    left, operator = node.children[0], node.children[1]
    if child.start_byte == left.start_byte:
        return ""
    condition = source[left.start_byte : left.end_byte]
    if left.type not in ("test_command", "command", "list"):
        return ""
    return _tested(condition, wanted, operator.type == "||") if left.type == "test_command" else ""


_READERS = {"if_statement": _if, "case_item": _case, "list": _list}
