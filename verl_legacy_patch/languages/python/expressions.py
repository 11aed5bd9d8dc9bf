"""The walk over Python expressions: which slot each part of an expression stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from verl_legacy_patch.languages import hydra
from verl_legacy_patch.languages.python import nodes, texts
from verl_legacy_patch.languages.python import reasons as why
from verl_legacy_patch.languages.python.calls import arguments, reads_bits
from verl_legacy_patch.languages.python.conditions import for_backend
from verl_legacy_patch.languages.python.slots import Slot
from verl_legacy_patch.setting import Setting, Span

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement


class Expressions:
    """Walks the expressions of a statement and collects the settings that a trigger matched."""

    def __init__(self, statement: Statement) -> None:
        self.on = statement
        self.context = statement.context
        self.found: list[Setting] = []
        self.callees: tuple[str, ...] = ()

    def value(self, node: cst.BaseExpression, slot: Slot) -> None:
        """Walk an expression whose value lands in ``slot``."""
        if not self.on.is_hit(node):
            return
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, slot)
        else:
            self.children(node, slot.at("expression"))

    def children(self, node: cst.CSTNode, slot: Slot) -> None:
        """Walk the expressions inside a node that is no value of its own (a subscript, a comprehension)."""
        for child in nodes.children_of(node):
            if isinstance(child, cst.BaseExpression):
                self.value(child, slot)
            elif not isinstance(child, (cst.Annotation, cst.BaseParenthesizableWhitespace, cst.Comment)):
                self.children(child, slot)

    def leaf(self, node: cst.CSTNode, slot: Slot, text: str | None = None, span: Span | None = None) -> None:
        """Add a setting. Without ``span`` it is an expression of the language, with it (part of) a string."""
        code = span is None
        value = nodes.dotted(node) or self.on.text(node) if text is None else text
        names, advice = slot.names, slot.advice
        if names == why.MESSAGE and slot.spoken and code:
            names, advice = "", False
        if not names:
            names, advice = why.enclosing(self.context, value)
        context = self.context
        around = (*context.classes, *context.functions, *filter(None, map(for_backend, context.tests)), *self.callees)
        where = span or self.on.span_of(node)
        self.found.append(Setting(slot.path, value, where, slot.position, names, advice, code, slot.allowed, around))

    def _attribute(self, node: cst.Attribute, slot: Slot) -> None:
        self.leaf(node, slot)
        if not isinstance(node.value, cst.Name):  # torch.bfloat16.itemsize: the name may be the shorter one
            self.value(node.value, slot.inside())

    def _string(self, node: Any, slot: Slot) -> None:
        pieces = nodes.pieces_of(node)
        self._text(texts.read(pieces, self.on), slot, pieces[0])
        for piece in pieces:
            for expression in nodes.computed(piece):
                self.value(expression, slot.inside())

    def _text(self, text: texts.Text, slot: Slot, first: cst.CSTNode, whole: bool = True) -> None:
        """Look at a string: text that holds Hydra overrides, or else (if it may) a value under a key."""
        names, advice = ("", False) if slot.names in why.BARE_ONLY else (slot.names, slot.advice)
        found = False
        for override in hydra.overrides(text.text):
            inner = Slot(override.path, "Hydra override in a string", names, advice, spoken=slot.spoken)
            if override.position == "item":
                inner = inner.naming(why.SWEEP, advice=True)
            span = text.span(override.start, override.end)
            hole = text.hole(override.start, override.end)
            if hole is not None:
                self.value(hole, inner)
            elif span is not None and self.on.places.overlapping(span):
                self.leaf(first, inner, override.value, span)
            else:
                continue
            found = True
        if not found and whole:
            span = text.span(0, len(text.text))
            if span is not None:
                self.leaf(first, slot, text.text, span)

    def _binary(self, node: cst.BinaryOperation, slot: Slot) -> None:
        template = texts.template(node, self.on)
        if template is not None:
            self._text(template, slot.inside(), node, whole=False)
            self.value(node.right, slot.inside())
            return
        pieces = nodes.added(node)
        if not any(map(nodes.is_text, pieces)):
            self.children(node, slot.inside())
            return
        parts = [part for piece in pieces for part in (nodes.pieces_of(piece) if nodes.is_text(piece) else [piece])]
        self._text(texts.read(parts, self.on), slot.inside(), node)
        for piece in parts:
            for expression in nodes.computed(piece) if nodes.is_text(piece) else [piece]:
                self.value(expression, slot.inside())

    def _conditional(self, node: cst.IfExp, slot: Slot) -> None:
        test = self.on.text(node.test)
        self.value(node.test, Slot().naming(why.TEST))
        outer = self.context
        inner = slot._replace(position="conditional branch")
        for branch, other in ((node.body, node.orelse), (node.orelse, node.body)):
            if branch is node.body:
                self.context = outer._replace(tests=(*outer.tests, test))
            else:
                self.context = outer._replace(otherwise=(*outer.otherwise, test))
            self.value(branch, inner)
            self._fallback(branch, other, inner)
        self.context = outer

    def _boolean(self, node: cst.BooleanOperation, slot: Slot) -> None:
        self.value(node.left, slot)
        if isinstance(node.operator, cst.Or):
            self.value(node.right, slot._replace(position="or fallback"))
            self._fallback(node.right, node.left, slot._replace(position="or fallback"))
        else:
            outer = self.context
            self.context = outer._replace(tests=(*outer.tests, self.on.text(node.left)))
            self.value(node.right, slot)
            self.context = outer

    def _fallback(self, node: cst.BaseExpression, other: cst.BaseExpression, slot: Slot) -> None:
        """Walk a fallback for ``other`` once more, under the key that ``other`` reads: either name may say it."""
        key = _asked_key(other)
        if key and key != slot.path[-1:] and not slot.names and not isinstance(node, cst.Call):
            self.value(node, slot.at(slot.position, *key))

    def _comparison(self, node: cst.Comparison, slot: Slot) -> None:
        inner = Slot(position="comparison", spoken=slot.spoken).naming(why.COMPARISON)
        self.value(node.left, inner)
        for part in node.comparisons:
            self.value(part.comparator, inner)

    def _subscript(self, node: cst.Subscript, slot: Slot) -> None:
        self.value(node.value, slot.inside())
        advice = isinstance(node.value, cst.Name) and node.value.value.isupper()
        inner = Slot(position="subscript", names=slot.names if slot.names == why.REGISTERED else "")
        for element in node.slice:
            self.children(element, inner.naming(why.LOOKUP, advice))

    def _dictionary(self, node: cst.Dict, slot: Slot) -> None:
        entries = [element for element in node.elements if isinstance(element, cst.DictElement)]
        slot = slot.naming(why.TABLE) if any(map(self._names_value, entries)) else slot
        for element in node.elements:
            if not isinstance(element, cst.DictElement):
                self.value(element.value, slot.inside())
                continue
            self.value(element.key, Slot(position="dict key", spoken=slot.spoken).naming(slot.names or why.KEY))
            self.value(element.value, slot.under(nodes.string(element.key), "dict value"))

    def _names_value(self, entry: cst.DictElement) -> bool:
        return why.is_value_name(nodes.bare_name(entry.key))

    def _collection(self, node: Any, slot: Slot) -> None:
        items = [element.value for element in node.elements]
        named = [item for item in items if self._is_value(item)]
        simple = all(isinstance(item, (cst.SimpleString, cst.Attribute, cst.Name)) for item in items)
        if isinstance(node, cst.Tuple) and slot.position == "starred argument":
            rest = slot.at("positional argument", *slot.path)  # the arguments of a call
        elif isinstance(node, cst.Tuple) and len(named) == 1 and len(items) > 1 and slot.position != "item":
            rest = slot.at("value in a tuple")
        elif len(named) == len(items) or (isinstance(node, cst.Tuple) and len(named) > 1):
            rest = slot.naming(why.COLLECTION, isinstance(node, cst.Tuple) and slot.position == "returned value")
        elif isinstance(node, cst.Tuple) and slot.position == "item":  # a row of a table
            rest = slot.naming(why.COLLECTION, advice=any(nodes.string(item) is None for item in named))
        elif simple:
            rest = slot.naming(why.COLLECTION)
        else:
            rest = slot
        flag = ""
        for item in items:
            text = nodes.string(item)
            if flag:
                self.value(item, slot.inside().at("command-line flag", flag))
            elif item in named or isinstance(item, (cst.SimpleString, cst.Attribute, cst.Name)):
                self.value(item, rest)
            else:
                self.value(item, rest.at("item", *rest.path) if not isinstance(node, cst.Tuple) else rest)
            flag = text[2:].replace("-", "_") if text and text.startswith("--") and "=" not in text else ""

    def _is_value(self, item: cst.BaseExpression) -> bool:
        return why.is_value_name(nodes.bare_name(item))

    def _function(self, node: cst.Lambda, slot: Slot) -> None:
        self.parameters(node.params)
        self.value(node.body, slot)

    def _named(self, node: cst.NamedExpr, slot: Slot) -> None:
        self.value(node.value, Slot(nodes.path_of(node.target), "assignment"))
        self.value(node.value, slot)  # it goes both ways, and either name may say what it is

    def _inner(self, node: Any, slot: Slot) -> None:
        self.value(node.expression, slot)

    # calls

    def _call(self, node: cst.Call, slot: Slot) -> None:
        name = nodes.callee(node.func)
        outer, self.callees = self.callees, (*self.callees, name) if name else self.callees
        template = texts.template(node, self.on)
        if template is not None:
            self._text(template, slot.inside(), node, whole=False)
        if isinstance(node.func, cst.Attribute):
            self._method(node, node.func, slot)
        else:
            self.value(node.func, slot if isinstance(node.func, cst.Lambda) else slot.called())
        for value, inner in arguments(node, slot, self.on):
            self.value(value, inner)
        self.callees = outer

    def _method(self, node: cst.Call, func: cst.Attribute, slot: Slot) -> None:
        receiver = slot.called().at("receiver")
        if reads_bits(func.attr.value, [self.on.text(arg) for arg in node.args]):
            receiver = receiver.naming(why.BITS, advice=True)
        self.value(func.value, receiver)
        if not self.on.is_hit(func.attr):
            return
        if nodes.root(func) == "torch" and func.attr.value.endswith("Tensor"):  # torch.cuda.BFloat16Tensor(8)
            self.leaf(func, slot.called().at("constructor"))
            return
        cast = slot.called().at("cast", func.attr.value)
        options = all(arg.keyword is not None and arg.keyword.value == "memory_format" for arg in node.args)
        self.leaf(func.attr, cast if options else cast.naming(why.CALLED))

    def parameters(self, parameters: cst.Parameters) -> None:
        """Walk the defaults of the parameters of a function or lambda."""
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            default, name = parameter.default, parameter.name.value
            if default is not None:
                allowed = nodes.literals(parameter.annotation.annotation if parameter.annotation else None)
                slot = Slot((name,), "parameter default", allowed=allowed)
                self.value(default, slot.naming(*why.alias(name, nodes.bare_name(default))))


def _asked_key(node: cst.BaseExpression) -> tuple[str, ...]:
    """Return the key that an expression reads: of ``cfg.dtype``, ``cfg.get("dtype")`` or ``a.dtype or b.dtype``."""
    if isinstance(node, cst.BooleanOperation):
        return _asked_key(node.right) or _asked_key(node.left)
    if isinstance(node, cst.Call):
        read = nodes.callee(node.func) in ("get", "getenv", "getattr", "pop", "select")
        keys = [key for arg in node.args if (key := nodes.string(arg.value)) is not None] if read else []
        return (keys[0].rpartition(".")[2],) if keys else ()
    return nodes.path_of(node)[-1:]


_HANDLERS: dict[type, Any] = {
    cst.Name: Expressions.leaf,
    cst.Attribute: Expressions._attribute,
    cst.SimpleString: Expressions._string,
    cst.ConcatenatedString: Expressions._string,
    **dict.fromkeys(nodes.FORMATTED, Expressions._string),
    cst.BinaryOperation: Expressions._binary,
    cst.IfExp: Expressions._conditional,
    cst.BooleanOperation: Expressions._boolean,
    cst.Comparison: Expressions._comparison,
    cst.Subscript: Expressions._subscript,
    cst.Dict: Expressions._dictionary,
    cst.List: Expressions._collection,
    cst.Tuple: Expressions._collection,
    cst.Set: Expressions._collection,
    cst.Lambda: Expressions._function,
    cst.NamedExpr: Expressions._named,
    cst.Await: Expressions._inner,
    cst.Call: Expressions._call,
}
