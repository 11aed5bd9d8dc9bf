"""Small questions that codemods ask about LibCST nodes.

``libcst.matchers`` answers them too, but its import alone takes longer than a whole dry run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

Node = TypeVar("Node", bound=cst.CSTNode)


def dotted(node: cst.CSTNode | None) -> str:
    """Return ``a.b.c`` for a name or a chain of attributes, else an empty string."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr.value}" if left else ""
    return ""


def find(statement: Statement, kind: type[Node]) -> Iterator[tuple[Node, tuple[cst.CSTNode, ...]]]:
    """Yield the nodes of a type that overlap a trigger, each with its ancestors, outermost first."""
    yield from _find(statement, statement.node, kind, ())


def _find(
    statement: Statement, node: cst.CSTNode, kind: type[Node], parents: tuple[cst.CSTNode, ...]
) -> Iterator[tuple[Node, tuple[cst.CSTNode, ...]]]:
    if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite)) and parents:
        return  # the body of a compound statement is visited as statements of its own
    if isinstance(node, kind) and statement.is_hit(node):
        yield node, parents
    for child in node.children:
        yield from _find(statement, child, kind, (*parents, node))


def string(node: cst.CSTNode | None) -> str | None:
    """Return the text of a plain string literal, else None."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix.lower():
        return node.raw_value
    return None


def keyword(call: cst.Call, name: str) -> cst.BaseExpression | None:
    """Return the value of a keyword argument of a call."""
    return next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)
