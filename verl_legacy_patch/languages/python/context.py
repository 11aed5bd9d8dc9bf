"""Where the interesting Python statements are, and what encloses them.

The file goes through ``ast`` (parsed in C, cheap), without the functions that hold no trigger. It is only asked for
positions: the statements that overlap a trigger, and the classes, functions, tests and ``try`` blocks around them.
Rules look at those statements as LibCST nodes, one small parse each, because parsing whole files with LibCST costs
twenty times as much. A file that the running interpreter's grammar cannot read is handed to LibCST whole.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.python.skeleton import skeleton
from verl_legacy_patch.languages.python.source import Source
from verl_legacy_patch.setting import Places, Span

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


class Context(NamedTuple):
    """What encloses a statement, outermost first.

    Attributes:
        classes: names of the enclosing classes.
        functions: names of the enclosing functions.
        tests: source of the tests (``if``, ``elif``, ``case`` patterns) under which the statement runs.
        otherwise: source of the tests whose ``else`` branch holds the statement.
        guarded: whether a ``try`` is around it with a handler that does something.
        fallback: whether such a handler goes on without the statement: it binds names or returns. One that only
            passes, raises or prints leaves the names unbound.
    """

    classes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    guarded: bool = False
    fallback: bool = False


class Located(NamedTuple):
    """A statement (of a compound one the header only) as a span of the decoded file, with its context."""

    span: Span
    kind: str
    context: Context
    indent: str


class Body(NamedTuple):
    """The body of a function or class.

    Attributes:
        first: offset (bytes on disk) of the first statement that is no docstring.
        indent: the white space before it.
        newline: the line ending in use there.
        text: the source of the whole body.
    """

    first: int
    indent: str
    newline: str
    text: str


def parse(source: Source) -> ast.Module:
    """Parse a file with the interpreter's own grammar.

    Raises:
        SourceError: it is not Python to this interpreter.
    """
    return _parse(source.text)


def parse_around(source: Source, places: Sequence[Span]) -> ast.Module:
    """Parse a file of which only the statements that touch ``places`` (spans of ``source.utf8``) matter.

    Other functions and classes may be missing, so errors in them may be overlooked. See ``parse`` for those raised.
    """
    text = skeleton(source.utf8, places)
    if text is not None:
        try:
            return _parse(text.decode())
        except SourceError:
            pass  # the whole file tells whether it is broken or was cut in a wrong place
    return parse(source)


def check(source: Source) -> None:
    """Read a whole file without building its tree, at half the cost of ``parse``, which see for the errors."""
    try:
        symtable.symtable(source.text, "<file>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parse(source)  # what is no error of the grammar (a nonlocal at the top) is none of ours


@lru_cache(maxsize=4)
def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(error.msg, error.lineno or 0) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(str(error) or type(error).__name__) from None


def locate(source: Source, tree: ast.Module, hits: Sequence[Span]) -> Iterator[Located]:
    """Yield the statements that overlap ``hits`` (spans of ``source.utf8``), each once, in file order."""
    finder = _Finder(source, Places(hits))
    try:
        finder.block(tree.body, Context())
    except RecursionError:
        raise SourceError("nested too deeply") from None
    return iter(finder.found)


def walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases of a file, outer ones first. Not expressions, unlike ``ast.walk``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        yield node
        for block in _BLOCKS:
            waiting += getattr(node, block, ())


def find_body(source: Source, start: int) -> Body | None:
    """Return the body of the function or class whose definition starts at ``start`` (in ``source.utf8``).

    None when there is nothing behind a docstring, or the body stands on the line of the header.
    """
    finder = _Finder(source, Places(()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree = parse_around(source, [Span(start, len(source.utf8))])
    found = (node for node in walk(tree) if isinstance(node, kinds) and finder.span(node).start == start)
    node: Any = next(found, None)
    if node is None:
        return None
    return body_of(source, [finder.span(part) for part in node.body], ast.get_docstring(node, clean=False) is not None)


def body_of(source: Source, inside: Sequence[Span], docstring: bool) -> Body | None:
    """Return the body that the statements ``inside`` make, the first of them a docstring or not."""
    if docstring and len(inside) == 1:
        return None
    first = inside[1 if docstring else 0].start
    line = source.line_start(first)
    indent = source.utf8[line:first].decode()
    if indent.strip() or not indent:
        return None
    newline = "\r\n" if source.utf8[:line].endswith(b"\r\n") else "\n"
    text = source.utf8[inside[0].start : inside[-1].end].decode()
    return Body(source.raw_span(Span(first, first)).start, indent, newline, text)


class _Finder:
    """Descends only into the blocks that hold a hit."""

    def __init__(self, source: Source, hits: Places) -> None:
        self._source = source
        self._hits = hits
        self.found: list[Located] = []

    def block(self, nodes: Sequence[Any], context: Context) -> None:
        """Visit the nodes of a block (statements, handlers or cases) that hold a hit."""
        for node in nodes:
            span = self.span(node)
            if self._hits.overlapping(span):
                self._node(node, span, context)

    def span(self, node: Any) -> Span:
        """Return the span of a statement, handler or case, decorators included."""
        text, offset = self._source.utf8, self._source.offset
        if isinstance(node, ast.match_case):  # the only node without a position of its own
            start = text.rfind(b"case", 0, offset(node.pattern.lineno, node.pattern.col_offset))
            last: Any = node.body[-1]
        else:
            start, last = offset(node.lineno, node.col_offset), node
        if getattr(node, "decorator_list", None):
            first = node.decorator_list[0]
            start = text.rfind(b"@", 0, offset(first.lineno, first.col_offset))
        return Span(start, offset(last.end_lineno, last.end_col_offset))

    def _node(self, node: Any, span: Span, context: Context) -> None:
        children = getattr(node, "body", None) or getattr(node, "cases", None)
        if not children:
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a docstring sets nothing
                self._emit(node, span, context)
            return
        first = self.span(children[0]).start
        header = Span(span.start, first)
        if "Try" not in type(node).__name__ and self._hits.overlapping(header):
            self._emit(node, header, context)
        for name in _BLOCKS:
            if block := getattr(node, name, None):
                self.block(block, self._inner(node, name, context))

    def _inner(self, node: Any, block: str, context: Context) -> Context:
        """Return the context of the statements in one block of a compound statement."""
        if isinstance(node, ast.ClassDef):
            return context._replace(classes=(*context.classes, node.name))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return context._replace(functions=(*context.functions, node.name), guarded=False, fallback=False)
        if isinstance(node, (ast.If, ast.While)):
            test = self._text(node.test)
            if block == "body":
                return context._replace(tests=(*context.tests, test))
            return context._replace(otherwise=(*context.otherwise, test))
        if isinstance(node, ast.match_case):
            return context._replace(tests=(*context.tests, self._text(node.pattern)))
        if type(node).__name__ in ("Try", "TryStar") and block == "body" and any(map(_handles, node.handlers)):
            fallback = context.fallback or any(map(_goes_on, node.handlers))
            return context._replace(guarded=True, fallback=fallback)
        return context

    def _text(self, node: Any) -> str:
        start = self._source.offset(node.lineno, node.col_offset)
        end = self._source.offset(node.end_lineno, node.end_col_offset)
        return self._source.utf8[start:end].decode()

    def _emit(self, node: Any, span: Span, context: Context) -> None:
        before = self._source.utf8[self._source.line_start(span.start) : span.start]
        indent = before.decode() if not before.strip() else ""
        self.found.append(Located(span, type(node).__name__, context, indent))


def _handles(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler does something; ``except ImportError: pass`` leaves the names unbound."""
    return not all(isinstance(node, ast.Pass) for node in handler.body)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    return not all(isinstance(node, (ast.Pass, ast.Raise, ast.Expr)) for node in handler.body)
