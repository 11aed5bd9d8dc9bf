"""What a test asks for: whether code under it (or its ``else``) translates a value or chooses it, and on what it runs.

``if name == "bf16": return torch.bfloat16`` chooses nothing: it says what the name means. The tests are small and
few, so each is parsed; one that is no expression (some ``case`` patterns) is judged by its words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from verl_legacy_patch.scope import backend

FAMILIES = {
    "bfloat16": re.compile(r"bf_?16|bfloat|^bf$", re.IGNORECASE),
    "flash attention": re.compile(r"flash_?attn|flash_?attention|\bfa[23]?\b", re.IGNORECASE),
}
#: What a test may ask of a family: nothing, ``equal`` (is it this value?), ``maybe`` (this value, or something else
#: such as None), ``flag`` (a switch that is named after the value).
NOTHING, EQUAL, MAYBE, FLAG = "", "equal", "maybe", "flag"

_VALUE_NAME = re.compile(
    r"(?:torch\.)?(?:bf(?:loat)?16|(?:float|fp)(?:16|32|64)|flash_attention_[234])$", re.IGNORECASE
)
_READERS = frozenset(("get", "getattr", "hasattr", "getenv", "find_spec", "pop"))
_NEGATED = re.compile(r"!=|\bnot\b")
_WORDS_OF_EQUAL = re.compile(r"==|\bin\b|\bis\b|startswith|endswith|[\"']")


class Asked(NamedTuple):
    """What a test asks of a family when it holds (``yes``) and when it does not (``no``)."""

    yes: str = NOTHING
    no: str = NOTHING


def family_of(value: str) -> str:
    """Return the family that a value belongs to; empty for none."""
    return next((name for name, pattern in FAMILIES.items() if pattern.search(value)), "")


@lru_cache(maxsize=1024)
def asked(test: str, family: str) -> Asked:
    """Return what ``test`` (source text) asks of a family."""
    pattern = FAMILIES[family]
    if not pattern.search(test) and "bf" not in test:
        return Asked()
    tree = _parsed(test)
    return _by_words(test, pattern) if tree is None else _ask(tree, pattern)


@lru_cache(maxsize=1024)
def for_backend(test: str) -> str:
    """Return a test that holds on a backend out of scope and nowhere else; empty for any other.

    ``device in ("cuda", "npu")`` is one of those others: the code under it runs on this card too.
    """
    if not backend(test):
        return ""
    tree = _parsed(test)
    if tree is None:
        return "" if _NEGATED.search(test) else test
    return test if _on_backend(tree) else ""


def _on_backend(node: Any) -> bool:
    if isinstance(node, ast.BoolOp):
        return (any if isinstance(node.op, ast.And) else all)(map(_on_backend, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):  # alternatives of a case pattern
        return _on_backend(node.left) and _on_backend(node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return False
    if isinstance(node, ast.Compare):
        last = node.comparators[-1]
        if any(isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot)) for op in node.ops):
            return False
        if isinstance(last, ast.Constant) and last.value in (None, False):
            return False
        if isinstance(node.ops[-1], ast.In) and isinstance(last, (ast.List, ast.Tuple, ast.Set)):
            return bool(last.elts) and all(map(_on_backend, last.elts))
    return bool(backend(ast.unparse(node)))


def _parsed(test: str) -> ast.expr | None:
    try:
        return ast.parse(f"({test}\n)", mode="eval").body  # it may go over several lines
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_words(test: str, family: re.Pattern[str]) -> Asked:
    if not family.search(test) or _NEGATED.search(test):
        return Asked()
    return Asked(yes=EQUAL if _WORDS_OF_EQUAL.search(test) else FLAG)


def _ask(node: Any, family: re.Pattern[str]) -> Asked:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _ask(node.operand, family)
        return Asked(inner.no, inner.yes)
    if isinstance(node, ast.BoolOp):
        parts = [_ask(value, family) for value in node.values]
        about = {_subject(value) for value, part in zip(node.values, parts, strict=True) if part != Asked()} - {""}
        # in x == "bf16" or x == "brain" both sides ask the same
        same = [part != Asked() or _subject(value) in about for value, part in zip(node.values, parts, strict=True)]
        parts = [part for part in parts if part != Asked()] + [Asked()] * (not all(same))
        yes, no = [part.yes for part in parts], [part.no for part in parts]
        if isinstance(node.op, ast.And):
            return Asked(_any(yes), _all(no))
        return Asked(_all(yes), _any(no))
    if isinstance(node, ast.Compare):
        return _compare(node, family)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):  # alternatives of a case pattern
        sides = [_ask(side, family).yes for side in (node.left, node.right)]
        others = [side for side, yes in zip((node.left, node.right), sides, strict=True) if not yes]
        return Asked(yes=_any(sides) if all(map(_is_value_name, others)) else _all(sides))
    if isinstance(node, ast.Constant):
        return Asked(yes=EQUAL if _mentions(node, family) else NOTHING)
    if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
        return _ask(node.value, family)
    if isinstance(node, (ast.Name, ast.Attribute)):
        if not _mentions(node, family):
            return Asked()
        name = ast.unparse(node)
        return Asked(yes=EQUAL if name.isupper() or _VALUE_NAME.match(name) else FLAG)
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name not in _READERS and any(_mentions(arg, family) for arg in given):
            return Asked(yes=EQUAL)
    return Asked(yes=_mentioned(node, family))


def _subject(node: ast.AST) -> str:
    """Return what a test for one of several values asks about (``x`` in ``x == "half"``); empty for other tests."""
    if not isinstance(node, ast.Compare) or len(node.ops) > 1:
        return ""
    absent = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
    return "" if absent else ast.unparse(node.left)


def _mentioned(node: ast.AST, family: re.Pattern[str]) -> str:
    if not _mentions(node, family):
        return NOTHING
    return EQUAL if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set)) else FLAG


def _compare(node: ast.Compare, family: re.Pattern[str]) -> Asked:
    sides = [node.left, *node.comparators]
    if not any(_mentions(side, family) for side in sides):
        return Asked()
    for side in sides:
        if isinstance(side, ast.Constant) and isinstance(side.value, bool) and len(sides) == 2:
            other = _ask(sides[1 - sides.index(side)], family)
            straight = side.value == isinstance(node.ops[0], (ast.Eq, ast.Is))
            return other if straight else Asked(other.no, other.yes)
        if isinstance(side, ast.Constant) and side.value is None:
            return Asked()
    if all(isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot)) for op in node.ops):
        return Asked(no=EQUAL)
    return Asked(yes=EQUAL)


def _all(answers: list[str]) -> str:
    """Return what a choice between alternatives asks: with one that asks nothing, the value is but a possibility."""
    found = [answer for answer in answers if answer]
    if not found:
        return NOTHING
    return MAYBE if len(found) < len(answers) and FLAG not in found else _any(answers)


def _any(answers: list[str]) -> str:
    return next((kind for kind in (EQUAL, MAYBE, FLAG) if kind in answers), NOTHING)


def _mentions(node: ast.AST, family: re.Pattern[str]) -> bool:
    return any(family.search(text) for text in _words(node))


def _is_value_name(node: ast.AST) -> bool:
    return any(_VALUE_NAME.match(text) for text in _words(node))


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
