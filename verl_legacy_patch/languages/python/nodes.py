"""Small questions that codemods and the settings walk ask about LibCST nodes.

``libcst.matchers`` answers them too, but its import alone takes longer than a whole dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

Node = TypeVar("Node", bound=cst.CSTNode)

#: A string of any kind. T-strings are as new as LibCST 1.8.
FORMATTED: tuple[type, ...] = tuple(
    getattr(cst, name) for name in ("FormattedString", "TemplatedString") if hasattr(cst, name)
)


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
    stack: list[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]] = [(statement.node, ())]
    while stack:
        node, parents = stack.pop()
        if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite)) and parents:
            continue  # the body of a compound statement is visited as statements of its own
        hit = statement.is_hit(node)
        if hit and isinstance(node, kind):
            yield node, parents
        if not hit and not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            continue  # all below is inside of it, but for decorators
        inside = (*parents, node)
        stack += [(child, inside) for child in reversed(list(children_of(node)))]


def children_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes right below one. LibCST's own ``children`` copies each of them first, at ten times the cost."""
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (each for each in value if isinstance(each, cst.CSTNode))


def string(node: cst.CSTNode | None) -> str | None:
    """Return the text of a plain string literal as it is written, else None."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix.lower():
        return node.raw_value
    return None


def bare_name(node: cst.CSTNode | None) -> str:
    """Return ``bfloat16`` for ``torch.bfloat16`` as code or as a string; empty for other code."""
    text = string(node)
    return dotted(node).rpartition(".")[2] if text is None else text.removeprefix("torch.")


def strings(node: cst.BaseExpression) -> tuple[str, ...]:
    """Return the texts of a literal collection of strings; empty when it holds anything else."""
    if not isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return ()
    texts = [string(element.value) for element in node.elements]
    return tuple(text for text in texts if text is not None) if None not in texts else ()


def keyword(call: cst.Call, name: str) -> cst.BaseExpression | None:
    """Return the value of a keyword argument of a call."""
    return next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)


def callee(func: cst.BaseExpression) -> str:
    """Return the last name of what a call calls: ``to`` of ``model.to(…)``."""
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def root(node: cst.BaseExpression) -> str:
    """Return the first name of a chain of calls and attributes: ``torch`` of ``torch.ones(1).cuda()``."""
    while isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


def path_of(target: Any) -> tuple[str, ...]:
    """Return the names in ``cfg.model["dtype"]``, outermost first; subscripts that are no strings are left out."""
    parts: list[str] = []
    while True:
        if isinstance(target, cst.Attribute):
            parts.append(target.attr.value)
        elif isinstance(target, cst.Subscript):
            index = target.slice[0].slice if len(target.slice) == 1 else None
            key = string(index.value) if isinstance(index, cst.Index) else None
            parts += [] if key is None else [key]
        else:
            parts += [target.value] if isinstance(target, cst.Name) else []
            return tuple(reversed(parts))
        target = target.value


def literals(annotation: cst.BaseExpression | None) -> tuple[str, ...]:
    """Return the strings of the ``Literal[...]`` in an annotation, wherever it stands in it, quoted or not."""
    text = string(annotation)
    if text is not None and "Literal" in text:
        try:
            return literals(cst.parse_expression(text))
        except cst.ParserSyntaxError:
            return ()
    if isinstance(annotation, cst.BinaryOperation):
        return literals(annotation.left) or literals(annotation.right)
    if not isinstance(annotation, cst.Subscript):
        return ()
    inside = [element.slice.value for element in annotation.slice if isinstance(element.slice, cst.Index)]
    if callee(annotation.value) == "Literal":
        return tuple(text for text in map(string, inside) if text is not None)
    return next((found for found in map(literals, inside) if found), ())


def added(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the operands of a chain of ``+``, in order; empty for other operators."""
    operands: list[cst.BaseExpression] = []
    while isinstance(node, cst.BinaryOperation):
        if not isinstance(node.operator, cst.Add):
            return []
        operands.append(node.right)
        node = node.left
    return [node, *reversed(operands)]


def joined(node: cst.ConcatenatedString) -> list[Any]:
    """Return the pieces of implicitly concatenated strings, in order."""
    pieces: list[Any] = []
    rest: Any = node
    while isinstance(rest, cst.ConcatenatedString):
        pieces.append(rest.left)
        rest = rest.right
    return [*pieces, rest]


def is_text(node: cst.CSTNode) -> bool:
    """Return whether a node is a string literal of any kind."""
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, *FORMATTED))


def computed(piece: Any) -> list[cst.BaseExpression]:
    """Return the expressions between the braces of an f-string; none for other strings."""
    return [part.expression for part in getattr(piece, "parts", ()) if hasattr(part, "expression")]


def pieces_of(node: cst.BaseExpression) -> Sequence[Any]:
    """Return the string literals that a string expression is made of."""
    return joined(node) if isinstance(node, cst.ConcatenatedString) else [node]
