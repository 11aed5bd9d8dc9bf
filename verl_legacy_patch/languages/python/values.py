"""From one Python statement to its settings: the position of a value decides whether it chooses or names.

The walk goes down from the statement with a ``Slot``: the key under which a value would stand at that point,
the position in words, and, where the place only names values, the reason. A leaf that a trigger matched
becomes a setting with the slot it was reached through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from verl_legacy_patch.languages import hydra
from verl_legacy_patch.languages.python import reasons as why
from verl_legacy_patch.setting import Setting, Span

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

#: Calls whose second argument is the value of a key that is not set: (callee, index of the key argument).
_FALLBACKS = {"get": 0, "setdefault": 0, "pop": 0, "getenv": 0, "getattr": 1, "select": 0}
#: Calls that only describe: what they are given changes nothing.
_MESSAGES = frozenset(
    [
        "print",
        "warn",
        "warning",
        "info",
        "debug",
        "error",
        "exception",
        "critical",
        "log",
        "log_once",
        "warning_once",
        "info_once",
        "format",
        "join",
        "startswith",
        "endswith",
        "replace",
        "split",
        "removeprefix",
        "removesuffix",
        "hasattr",
        "isinstance",
        "issubclass",
        "delattr",
        "finfo",
        "iinfo",
    ]
)
#: Keyword arguments and calls that declare a default: the value stays under the name that is declared.
_DEFAULT_KEYWORDS = frozenset(("default", "default_factory", "value"))
_DECLARERS = frozenset(("field", "Field", "ib", "attrib", "Option", "Argument", "option", "argument", "Parameter"))
_NAMING_KEYWORDS = frozenset(("choices", "help", "metadata", "description", "doc", "msg", "message", "examples"))
#: Methods that give bits another meaning: the width must stay.
_BIT_VIEWS = frozenset(("view", "frombuffer", "from_buffer", "view_as"))


@dataclass(frozen=True, slots=True)
class Slot:
    """The place that the walk has reached."""

    path: tuple[str, ...] = ()
    position: str = "expression"
    names: str = ""
    advice: bool = False
    allowed: tuple[str, ...] = ()

    def under(self, key: str, position: str) -> Slot:
        """Return the slot of a value that stands under ``key`` inside this one, and may choose again."""
        return Slot((*self.path, key), position, self.names if self.names in why.STICKY else "", self.advice)

    def naming(self, reason: str, advice: bool = False) -> Slot:
        """Return this slot as one that only names; the first reason wins."""
        return self if self.names else replace(self, names=reason, advice=advice)


def statement_settings(statement: Statement) -> list[Setting]:
    """Return the settings of one statement that overlap its hits."""
    walk = _Walk(statement)
    walk.statement()
    return walk.found


class _Walk:
    def __init__(self, statement: Statement) -> None:
        self.on = statement
        self.found: list[Setting] = []
        self.callees: tuple[str, ...] = ()

    # statements

    def statement(self) -> None:
        node: Any = self.on.node
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            for small in node.body:
                self.small(small)
        elif isinstance(node, cst.FunctionDef):
            for decorator in node.decorators:
                self.value(decorator.decorator, Slot(position="decorator"))
            self.parameters(node.params)
        elif isinstance(node, cst.ClassDef):
            for part in (*node.decorators, *node.bases, *node.keywords):
                self.children(part, Slot())
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
            if len(node.targets) == 1:
                self.assign(node.targets[0].target, node.value)
            else:  # a = b = value: the first name that a codemod knows decides, so offer each
                for target in node.targets:
                    self.assign(target.target, node.value)
        elif isinstance(node, (cst.AnnAssign, cst.AugAssign)):
            if node.value is not None:
                literal = node.annotation.annotation if isinstance(node, cst.AnnAssign) else None
                self.assign(node.target, node.value, _literals(literal))
        elif isinstance(node, cst.Return):
            functions = self.on.context.functions
            if node.value is not None:
                self.value(node.value, Slot(functions[-1:], "returned value"))
        elif isinstance(node, cst.Assert):
            self.value(node.test, Slot().naming(why.ASSERTION))
            if node.msg is not None:
                self.value(node.msg, Slot().naming(why.MESSAGE))
        elif isinstance(node, cst.Raise):
            self.children(node, Slot().naming(why.MESSAGE))
        elif isinstance(node, cst.Expr):
            self.expression(node.value)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            return
        else:
            self.children(node, Slot())

    def expression(self, node: cst.BaseExpression) -> None:
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)):
            return  # a docstring
        slot = Slot()
        if self.on.context.guarded and _root(node) == "torch":
            slot = slot.naming(why.PROBE)
        self.value(node, slot)

    def assign(self, target: cst.CSTNode, value: cst.BaseExpression, allowed: tuple[str, ...] = ()) -> None:
        if (
            isinstance(target, (cst.Tuple, cst.List))
            and isinstance(value, (cst.Tuple, cst.List))
            and len(target.elements) == len(value.elements)
        ):
            for left, right in zip(target.elements, value.elements, strict=True):
                self.assign(left.value, right.value)
            return
        path = _target_path(target)
        slot = Slot(path, "assignment", allowed=allowed)
        if (
            isinstance(value, (cst.Attribute, cst.SimpleString))
            and path
            and why.is_alias(path[-1], self.on.text(value))
        ):
            slot = slot.naming(why.ALIAS)
        self.value(value, slot)

    def parameters(self, parameters: cst.Parameters) -> None:
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            if parameter.default is not None:
                allowed = _literals(parameter.annotation.annotation if parameter.annotation else None)
                slot = Slot((parameter.name.value,), "parameter default", allowed=allowed)
                self.value(parameter.default, slot)

    # expressions

    def value(self, node: cst.BaseExpression, slot: Slot) -> None:
        """Walk an expression whose value lands in ``slot``."""
        if not self.on.is_hit(node):
            return
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node, slot)
        else:
            self.children(node, replace(slot, path=(), position="expression"))

    def children(self, node: cst.CSTNode, slot: Slot) -> None:
        """Walk the expressions inside a node that is no value of its own (a subscript, a comprehension)."""
        for child in node.children:
            if isinstance(child, cst.BaseExpression):
                self.value(child, slot)
            elif not isinstance(child, (cst.Annotation, cst.BaseParenthesizableWhitespace, cst.Comment)):
                self.children(child, slot)

    def leaf(self, node: cst.CSTNode, slot: Slot, text: str | None = None, span: Span | None = None) -> None:
        text = self.on.text(node) if text is None else text
        names, advice = slot.names, slot.advice
        if not names:
            names, advice = why.enclosing(self.on.context, text)
        context = self.on.context
        around = (*context.classes, *context.functions, *map(why.asked, context.tests), *self.callees)
        where, code = span or self.on.span_of(node), span is None
        self.found.append(Setting(slot.path, text, where, slot.position, names, advice, code, slot.allowed, around))

    def name(self, node: cst.Name, slot: Slot) -> None:
        self.leaf(node, slot)

    def attribute(self, node: cst.Attribute, slot: Slot) -> None:
        if isinstance(node.value, cst.Name):
            self.leaf(node, slot)
        elif self.on.is_hit(node.value):
            self.value(node.value, Slot(names=slot.names))
        else:
            self.leaf(node, slot)

    def string(self, node: cst.SimpleString, slot: Slot) -> None:
        self.text([node], slot)

    def text(self, pieces: Sequence[Any], slot: Slot) -> None:
        """Look at a string, whole or in pieces: a value under a key, or text that holds Hydra overrides."""
        joined, where = "", []  # where[i]: byte offset in the file of character i; -1 inside f-string braces
        for piece in pieces:
            for text, start in self._texts(piece):
                where += [start] * len(text) if start < 0 else _byte_offsets(text, start, self.on.source.encoding)
                joined += text
        single = len(pieces) == 1 and isinstance(pieces[0], cst.SimpleString)
        found = False
        for override in hydra.overrides(joined):
            span = _contiguous(where, override.start, override.end)
            if span is None or not any(hit.start < span.end and hit.end > span.start for hit in self.on.hits):
                continue
            found = True
            inner = Slot(override.path, "Hydra override in a string", slot.names if slot.names == why.MESSAGE else "")
            if override.position == "item":
                inner = inner.naming(why.SWEEP, advice=True)
            self.leaf(pieces[0], inner, override.value, span)
        if found:
            return
        span = _contiguous(where, 0, len(joined))
        if span is not None and (single or slot.path):
            self.leaf(pieces[0], slot, joined, span)

    def _texts(self, piece: Any) -> Iterator[tuple[str, int]]:
        """Yield the raw text of a string piece with its byte offset, -1 for what is computed."""
        if isinstance(piece, cst.SimpleString):
            prefix = len(piece.prefix) + len(piece.quote)
            yield piece.raw_value, self.on.span_of(piece).start + prefix
        elif isinstance(piece, cst.FormattedString):
            for part in piece.parts:
                if isinstance(part, cst.FormattedStringText):
                    yield part.value, self.on.span_of(part).start
                else:
                    yield "\x00", -1
        else:
            yield "\x00", -1

    def formatted(self, node: cst.FormattedString, slot: Slot) -> None:
        self.text([node], slot)
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                self.value(part.expression, Slot(names=slot.names))

    def concatenated(self, node: cst.ConcatenatedString, slot: Slot) -> None:
        pieces: list[Any] = [node.left]
        right: Any = node.right
        while isinstance(right, cst.ConcatenatedString):
            pieces.append(right.left)
            right = right.right
        pieces.append(right)
        self.text(pieces, slot)
        for piece in pieces:
            if isinstance(piece, cst.FormattedString):
                for part in piece.parts:
                    if isinstance(part, cst.FormattedStringExpression):
                        self.value(part.expression, Slot(names=slot.names))

    def binary(self, node: cst.BinaryOperation, slot: Slot) -> None:
        pieces = _added(node)
        if pieces and any(isinstance(p, (cst.SimpleString, cst.FormattedString)) for p in pieces):
            self.text(pieces, Slot(names=slot.names))
            for piece in pieces:
                if not isinstance(piece, (cst.SimpleString, cst.FormattedString)):
                    self.value(piece, Slot(names=slot.names))
        else:
            self.children(node, Slot(names=slot.names))

    def conditional(self, node: cst.IfExp, slot: Slot) -> None:
        test = self.on.text(node.test)
        self.value(node.test, Slot().naming(why.TEST))
        for branch, taken in ((node.body, True), (node.orelse, False)):
            inner = replace(slot, position="conditional branch")
            if why.gate(test):
                inner = inner.naming(why.GATED, advice=True)
            elif taken and isinstance(branch, (cst.Attribute, cst.SimpleString)):
                reason, advice = why.translation((test,), self.on.text(branch))
                if reason:
                    inner = inner.naming(reason, advice)
            self.value(branch, inner)

    def boolean(self, node: cst.BooleanOperation, slot: Slot) -> None:
        self.value(node.left, slot)
        if not isinstance(node.operator, cst.Or):
            self.value(node.right, slot)
            return
        self.value(node.right, replace(slot, position="or fallback"))
        asked = _asked_key(node.left)
        if asked and asked != slot.path[-1:] and not slot.names:  # both names may say what it is
            self.value(node.right, Slot(asked, "or fallback"))

    def comparison(self, node: cst.Comparison, slot: Slot) -> None:
        inner = Slot(position="comparison").naming(why.COMPARISON)
        self.value(node.left, inner)
        for part in node.comparisons:
            self.value(part.comparator, inner)

    def subscript(self, node: cst.Subscript, slot: Slot) -> None:
        self.value(node.value, Slot(names=slot.names))
        advice = isinstance(node.value, cst.Name) and node.value.value.isupper()
        for element in node.slice:
            self.children(element, Slot(position="subscript").naming(why.LOOKUP, advice))

    def dictionary(self, node: cst.Dict, slot: Slot) -> None:
        keys = [_string(e.key) for e in node.elements if isinstance(e, cst.DictElement)]
        table = any(key is not None and why.is_value_name(key) for key in keys) or any(
            isinstance(e, cst.DictElement) and why.is_value_name(self.on.text(e.key).rpartition(".")[2])
            for e in node.elements
            if isinstance(e, cst.DictElement) and not isinstance(e.key, cst.SimpleString) and self.on.is_hit(e.key)
        )
        for element in node.elements:
            if not isinstance(element, cst.DictElement):
                self.value(element.value, Slot(names=slot.names))
                continue
            self.value(element.key, Slot(position="dict key").naming(why.TABLE if table else why.KEY))
            key = _string(element.key)
            inner = slot.under(key, "dict value") if key is not None else replace(slot, path=(), position="dict value")
            self.value(element.value, inner.naming(why.TABLE) if table else inner)

    def collection(self, node: Any, slot: Slot) -> None:
        items = [element.value for element in node.elements]
        texts = [_string(item) for item in items]
        mixed = isinstance(node, cst.Tuple) and not all(
            isinstance(item, (cst.SimpleString, cst.Attribute, cst.Name)) for item in items
        )
        flag = ""
        for item, text in zip(items, texts, strict=True):
            if flag:
                inner = Slot((flag,), "command-line flag")
            elif text is not None and "=" in text:
                inner = Slot(names=slot.names)
            elif isinstance(item, (cst.SimpleString, cst.Attribute, cst.Name)) and not mixed:
                inner = slot.naming(why.COLLECTION)
            else:
                inner = replace(slot, path=(), position="item") if mixed else slot
            self.value(item, inner)
            flag = text[2:].replace("-", "_") if text and text.startswith("--") and "=" not in text else ""

    def function(self, node: cst.Lambda, slot: Slot) -> None:
        self.parameters(node.params)
        self.value(node.body, slot)

    def named(self, node: cst.NamedExpr, slot: Slot) -> None:
        self.value(node.value, Slot(_target_path(node.target), "assignment"))

    def inner(self, node: Any, slot: Slot) -> None:
        self.value(node.value if hasattr(node, "value") else node.expression, slot)

    # calls

    def call(self, node: cst.Call, slot: Slot) -> None:
        name = _callee(node.func)
        outer, self.callees = self.callees, (*self.callees, name) if name else self.callees
        try:
            self._call(node, name, slot)
        finally:
            self.callees = outer

    def _call(self, node: cst.Call, name: str, slot: Slot) -> None:
        func = node.func
        method = isinstance(func, cst.Attribute)
        slot = replace(slot, names=slot.names if slot.names in why.STICKY else "")
        if isinstance(func, cst.Attribute):
            bits = name in _BIT_VIEWS and any(why.is_dtype_argument(self.on.text(arg)) for arg in node.args)
            receiver = replace(slot, path=(), position="receiver")
            self.value(func.value, receiver.naming(why.BITS, advice=True) if bits else receiver)
            if self.on.is_hit(func.attr):
                cast = replace(slot, path=(name,), position="cast")
                self.leaf(func.attr, cast if not node.args else cast.naming(why.CALLED))
        elif self.on.is_hit(func):
            self.value(func, slot)
        self._arguments(node, name, method, slot)

    def _arguments(self, node: cst.Call, name: str, method: bool, slot: Slot) -> None:
        args = node.args
        key: str | None = None
        index = _FALLBACKS.get(name, -1)
        if index < 0:  # some_getter(data, key="use_remove_padding", default=True)
            key = next((_string(a.value) for a in args if a.keyword is not None and a.keyword.value == "key"), None)
        elif index < len(args) and (method or name in ("getattr", "getenv")):
            key = _string(args[index].value)
            if key is None:  # a constant or a variable: its name says as much
                key = next(iter(_target_path(args[index].value)[-1:]), None)
        declared = self._declared(args, name, slot)
        base = Slot(names=slot.names if slot.names in why.STICKY else "", advice=slot.advice)
        if why.cpu_autocast(name, [self.on.text(a) for a in args]):
            base = base.naming(why.CPU)
        if name in _BIT_VIEWS and any(why.is_dtype_argument(self.on.text(arg)) for arg in args):
            base = base.naming(why.BITS, advice=True)
        if name in why.FLASH_ONLY:
            base = base.naming(why.FLASH)
        for position, arg in enumerate(args):
            keyword = arg.keyword.value if arg.keyword is not None else ""
            if key is not None and (keyword == "default" or (index >= 0 and position == index + 1)):
                inner = replace(base, path=(key,), position=f"default of {name}()")
            elif keyword in _NAMING_KEYWORDS:
                inner = base.naming(why.CHOICES if keyword == "choices" else why.MESSAGE)
            elif keyword in _DEFAULT_KEYWORDS and declared is not None:
                inner = replace(
                    base, path=declared, position="declared default", allowed=_choices(args) or slot.allowed
                )
            elif keyword:
                inner = replace(base, path=(keyword,), position="keyword argument")
            elif name in _MESSAGES:
                inner = base.naming(why.MESSAGE)
            elif position == 0 and declared is not None and not _option(args):
                inner = replace(base, path=declared, position="declared default", allowed=slot.allowed)
            else:
                inner = replace(base, path=(name,) if name else (), position="positional argument")
            self.value(arg.value, inner)

    def _declared(self, args: Sequence[cst.Arg], name: str, slot: Slot) -> tuple[str, ...] | None:
        """Return the path of what a call declares: an option by its flag, a field by what it is assigned to."""
        option = _option(args)
        if option:
            return (option,)
        return slot.path if name in _DECLARERS else None


def _option(args: Sequence[cst.Arg]) -> str:
    """Return the name of a command-line option that a call declares (``--rollout-dtype``: rollout_dtype)."""
    for arg in args:
        text = _string(arg.value) if arg.keyword is None else None
        if text and text.startswith("--"):
            return text.lstrip("-").replace("-", "_")
    return ""


def _choices(args: Sequence[cst.Arg]) -> tuple[str, ...]:
    """Return the strings of ``choices=[...]``; empty when there is none or it is computed."""
    for arg in args:
        if arg.keyword is not None and arg.keyword.value == "choices":
            return _strings(arg.value)
    return ()


def _strings(node: cst.BaseExpression) -> tuple[str, ...]:
    if not isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return ()
    texts = [_string(element.value) for element in node.elements]
    return tuple(text for text in texts if text is not None) if None not in texts else ()


def _literals(annotation: cst.BaseExpression | None) -> tuple[str, ...]:
    """Return the strings of the ``Literal[...]`` in an annotation, wherever it stands in it."""
    if not isinstance(annotation, cst.Subscript):
        return ()
    inside = [element.slice.value for element in annotation.slice if isinstance(element.slice, cst.Index)]
    if _callee(annotation.value) == "Literal":
        return tuple(text for text in map(_string, inside) if text is not None)
    return next((found for found in map(_literals, inside) if found), ())


def _callee(func: cst.BaseExpression) -> str:
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def _root(node: cst.BaseExpression) -> str:
    """Return the first name of a chain of calls and attributes: ``torch`` of ``torch.ones(1).cuda()``."""
    while isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""


def _string(node: cst.BaseExpression) -> str | None:
    """Return the text of a plain string literal without escapes, else None."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix.lower():
        return node.raw_value
    return None


def _target_path(target: Any) -> tuple[str, ...]:
    if isinstance(target, cst.Name):
        return (target.value,)
    if isinstance(target, cst.Attribute):
        return (*_target_path(target.value), target.attr.value)
    if isinstance(target, cst.Subscript) and len(target.slice) == 1:
        index = target.slice[0].slice
        key = _string(index.value) if isinstance(index, cst.Index) else None
        return (*_target_path(target.value), key) if key is not None else _target_path(target.value)
    return ()


def _asked_key(node: cst.BaseExpression) -> tuple[str, ...]:
    """Return the key that the left side of an ``or`` asks for: of ``cfg.dtype`` or ``cfg.get("dtype")``."""
    if isinstance(node, cst.Call):
        index = _FALLBACKS.get(_callee(node.func), -1)
        key = _string(node.args[index].value) if 0 <= index < len(node.args) else None
        return (key,) if key is not None else ()
    return _target_path(node)[-1:]


def _added(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the operands of a chain of ``+``, in order; empty for other operators."""
    if not isinstance(node, cst.BinaryOperation):
        return [node]
    if not isinstance(node.operator, cst.Add):
        return []
    left = _added(node.left)
    return [*left, node.right] if left else []


def _byte_offsets(text: str, start: int, encoding: str) -> list[int]:
    if text.isascii():
        return list(range(start, start + len(text)))
    offsets = []
    for character in text:
        offsets.append(start)
        start += len(character.encode(encoding))
    return offsets


def _contiguous(where: list[int], start: int, end: int) -> Span | None:
    """Return the bytes of characters ``start`` to ``end`` when they stand in one piece of the source."""
    part = where[start:end]
    if not part or part[0] < 0 or part[-1] - part[0] != len(part) - 1 or -1 in part:
        return None
    return Span(part[0], part[-1] + 1)


_HANDLERS: dict[type, Any] = {
    cst.Name: _Walk.name,
    cst.Attribute: _Walk.attribute,
    cst.SimpleString: _Walk.string,
    cst.FormattedString: _Walk.formatted,
    cst.ConcatenatedString: _Walk.concatenated,
    cst.BinaryOperation: _Walk.binary,
    cst.IfExp: _Walk.conditional,
    cst.BooleanOperation: _Walk.boolean,
    cst.Comparison: _Walk.comparison,
    cst.Subscript: _Walk.subscript,
    cst.Dict: _Walk.dictionary,
    cst.List: _Walk.collection,
    cst.Tuple: _Walk.collection,
    cst.Set: _Walk.collection,
    cst.Lambda: _Walk.function,
    cst.NamedExpr: _Walk.named,
    cst.Await: _Walk.inner,
    cst.Call: _Walk.call,
}
