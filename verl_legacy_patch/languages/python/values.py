"""From one Python statement to its settings: the position of a value decides whether it chooses or names.

The walk goes down from the statement with a ``Slot``: the key under which a value would stand at that point,
the position in words, and, where the place only names values, the reason. A leaf that a trigger matched
becomes a setting with the slot it was reached through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.python import nodes
from verl_legacy_patch.languages.python import reasons as why
from verl_legacy_patch.languages.python.expressions import Expressions
from verl_legacy_patch.languages.python.slots import Slot
from verl_legacy_patch.setting import Setting

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement


def statement_settings(statement: Statement) -> list[Setting]:
    """Return the settings of one statement that overlap its hits.

    Raises:
        SourceError: it is nested too deeply to be walked.
    """
    walk = _Statements(statement)
    try:
        walk.statement()
    except RecursionError:
        line = statement.source.raw.count(b"\n", 0, statement.span.start) + 1
        raise SourceError("nested too deeply", line) from None
    return walk.found


class _Statements(Expressions):
    def statement(self) -> None:
        node: Any = self.on.node
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            for small in node.body:
                self.small(small)
        elif isinstance(node, cst.FunctionDef):
            for decorator in node.decorators:
                self.value(decorator.decorator, Slot(position="decorator"))
            self.context = self.context._replace(functions=(*self.context.functions, node.name.value))
            self.parameters(node.params)
        elif isinstance(node, cst.ClassDef):
            for decorator in node.decorators:
                self.value(decorator.decorator, Slot(position="decorator"))
            self.context = self.context._replace(classes=(*self.context.classes, node.name.value))
            for part in (*node.bases, *node.keywords):
                path = (part.keyword.value,) if part.keyword is not None else ()
                self.value(part.value, Slot(path, "keyword argument"))
        elif isinstance(node, cst.With):
            for item in node.items:
                self.value(item.item, Slot(position="with"))
        elif isinstance(node, (cst.If, cst.While)):
            self.value(node.test, Slot().naming(why.TEST))
        elif isinstance(node, cst.For):
            self.value(node.iter, Slot().naming(why.COLLECTION))
        elif isinstance(node, cst.Match):
            self.value(node.subject, Slot().naming(why.TEST))
        elif isinstance(node, cst.MatchCase):
            self.children(node.pattern, Slot().naming(why.CASE))
            if node.guard is not None:
                self.value(node.guard, Slot().naming(why.TEST))

    def small(self, node: Any) -> None:
        if isinstance(node, cst.Assign):
            for target in node.targets:  # a = b = value: the first name that a codemod knows decides
                self.assign(target.target, node.value)
        elif isinstance(node, (cst.AnnAssign, cst.AugAssign)):
            if node.value is not None:
                literal = node.annotation.annotation if isinstance(node, cst.AnnAssign) else None
                self.assign(node.target, node.value, nodes.literals(literal))
        elif isinstance(node, cst.Return):
            if node.value is not None:
                self.value(node.value, Slot(self.context.functions[-1:], "returned value"))
        elif isinstance(node, cst.Assert):
            self.value(node.test, Slot().naming(why.ASSERTION))
            if node.msg is not None:
                self.value(node.msg, Slot().naming(why.MESSAGE))
        elif isinstance(node, cst.Raise):
            self.children(node, Slot().naming(why.MESSAGE))
        elif isinstance(node, cst.Expr):
            if not nodes.is_text(node.value):  # a docstring
                probe = self.context.guarded and nodes.root(node.value) == "torch"
                self.value(node.value, Slot(names=why.PROBE if probe else ""))
        elif not isinstance(node, (cst.Import, cst.ImportFrom)):
            self.children(node, Slot())

    def assign(self, target: Any, value: Any, allowed: tuple[str, ...] = ()) -> None:
        collections = (cst.Tuple, cst.List)
        paired = isinstance(target, collections) and isinstance(value, collections)
        if paired and len(target.elements) == len(value.elements):
            for left, right in zip(target.elements, value.elements, strict=True):
                self.assign(left.value, right.value)
            return
        path = nodes.path_of(target)
        slot = Slot(path, "assignment", allowed=allowed)
        if path:
            slot = slot.naming(*why.alias(path[-1], nodes.bare_name(value)))
        if path == ("_",) and self.context.guarded:
            slot = slot.naming(why.PROBE)
        if path and path[-1] == "__doc__":
            slot = slot.naming(why.MESSAGE)
        if isinstance(target, cst.Subscript):
            self.value(target, Slot(names=why.REGISTERED))
            if _names_value(target):
                slot = slot.naming(why.TABLE)
        self.value(value, slot)


def _names_value(target: cst.Subscript) -> bool:
    """Return whether an assignment fills a table: ``NAMES[torch.bfloat16] = …``, ``KERNELS["bf16", 90] = …``."""
    indexes = [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]
    return any(why.is_value_name(nodes.bare_name(index)) for index in indexes)
