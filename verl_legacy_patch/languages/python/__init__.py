"""Python: statements that overlap a trigger, as LibCST nodes with spans and context, and their settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.python.context import (
    Body,
    Context,
    Located,
    body_of,
    find_body,
    locate,
    parse_around,
)
from verl_legacy_patch.languages.python.depth import parse_module
from verl_legacy_patch.languages.python.lean import cst
from verl_legacy_patch.languages.python.source import Source, read
from verl_legacy_patch.languages.python.spans import Spans, spans_of
from verl_legacy_patch.setting import Places, Setting, Span

#: What makes a lone part of a statement a statement.
_PREFIXES = {"match_case": "match _:\n", "ExceptHandler": "try: pass\n"}


@dataclass(frozen=True)
class Statement:
    """One statement of a file as a LibCST node; of a compound statement, only the header counts.

    Attributes:
        node: the statement. Its body, if it has one, is a placeholder or is visited as statements of its own.
        context: the classes, functions, tests and ``try`` blocks around it.
        places: the trigger matches in the file, as spans of the bytes on disk.
    """

    node: cst.BaseStatement
    context: Context
    places: Places
    source: Source
    span: Span
    _spans: Spans = field(repr=False)
    _shift: int = 0

    def span_of(self, node: cst.CSTNode) -> Span:
        """Return the bytes on disk of a node of this statement, without the whitespace around it."""
        start, end = self._spans[id(node)]
        return self.source.raw_span(Span(start + self._shift, end + self._shift))

    @property
    def hits(self) -> list[Span]:
        """Return the trigger matches inside."""
        return self.places.overlapping(self.span)

    def is_hit(self, node: cst.CSTNode) -> bool:
        """Return whether a trigger matched inside ``node``."""
        return bool(self.places.overlapping(self.span_of(node)))

    def body(self) -> Body | None:
        """Return the body of a function or class in the file; None when it stands on the header's line."""
        try:
            return find_body(self.source, self.source.utf8_span(self.span).start)
        except SourceError:
            return self._own_body()

    def _own_body(self) -> Body | None:
        """Return the body of a node that was read with the whole file."""
        block = getattr(self.node, "body", None)
        if not isinstance(block, cst.IndentedBlock) or not block.body:
            return None
        first = block.body[0]
        text = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
        docstring = isinstance(text, cst.Expr) and isinstance(text.value, (cst.SimpleString, cst.ConcatenatedString))
        return body_of(self.source, [_span(part, self._spans) for part in block.body], docstring)

    def text(self, node: cst.CSTNode) -> str:
        """Return the source text of a node."""
        span = self.span_of(node)
        return self.source.raw[span.start : span.end].decode(self.source.encoding)


def statements(raw: bytes, hits: Sequence[Span], only: Sequence[Span] | None = None) -> Iterator[Statement]:
    """Yield the statements of a file that overlap ``hits``, in file order.

    Args:
        raw: the bytes of the file.
        hits: spans of trigger matches in ``raw``.
        only: leave out the statements that touch none of these spans.

    Raises:
        SourceError: neither the interpreter's grammar nor LibCST's can read the file.
    """
    hits = [hit for hit in hits if not _in_comment_line(raw, hit)]
    if not hits:
        return
    source = read(raw)
    places = Places(hits)
    inside = [source.utf8_span(hit) for hit in hits]
    touched = None if only is None else [source.utf8_span(span) for span in only]
    try:
        tree = parse_around(source, inside if touched is None else touched)
    except SourceError as error:
        yield from _whole_file(source, places, error)
        return
    edited = Places(touched or ())
    for place in locate(source, tree, inside):
        if touched is None or edited.touching(place.span):
            yield _statement(source, place, places)


def _in_comment_line(raw: bytes, hit: Span) -> bool:
    """Return whether a hit stands in a line that is all comment: nothing there can be a setting."""
    line = raw[raw.rfind(b"\n", 0, hit.start) + 1 : hit.end].lstrip()
    return line.startswith(b"#") and b"\n" not in line


def settings(raw: bytes, hits: Sequence[Span]) -> Iterator[Setting]:
    """Yield the settings of a file that overlap ``hits``. See ``statements`` for the errors."""
    from verl_legacy_patch.languages.python.values import statement_settings

    for statement in statements(raw, hits):
        yield from statement_settings(statement)


def _statement(source: Source, place: Located, places: Places) -> Statement:
    """Parse one statement on its own; where it needs more to be complete, with a dummy before or after it."""
    text = source.utf8[place.span.start : place.span.end].decode()
    if text.startswith("elif"):
        text = "if  " + text[4:]
    prefix = _PREFIXES.get(place.kind, "")
    if place.kind == "match_case":  # LibCST wants the body's indentation to start with this one
        prefix += place.indent[:1]
    decorated = bool(place.indent) and text.startswith("@")
    if decorated:
        prefix = "if 1:\n" + place.indent
    suffix = _SUFFIXES.get(place.kind, "\n")
    try:
        module = parse_module(prefix + text + suffix)
        spans = spans_of(module)
    except (cst.ParserSyntaxError, RecursionError) as error:
        line = source.line_of(place.span.start)
        raise SourceError(f"LibCST cannot parse this statement: {_first_line(error)}", line) from None
    shift = place.span.start - len(prefix.encode())
    node: Any = module.body[0]
    if decorated:  # the only statement of more lines than one may begin
        node = node.body.body[0]
    if place.kind == "match_case":
        node = node.cases[0]
    if place.kind == "ExceptHandler":
        node = node.handlers[0]
    span = source.raw_span(place.span)
    return Statement(node, place.context, places, source, span, spans, shift)


#: What makes a lone header a complete statement.
_SUFFIXES = {"Match": "case _: pass\n"} | dict.fromkeys(
    [
        "If",
        "While",
        "For",
        "AsyncFor",
        "With",
        "AsyncWith",
        "FunctionDef",
        "AsyncFunctionDef",
        "ClassDef",
        "ExceptHandler",
        "match_case",
    ],
    " pass\n",
)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _whole_file(source: Source, places: Places, reason: SourceError) -> Iterator[Statement]:
    """Yield the statements of a file that only LibCST's grammar can read."""
    try:
        module = parse_module(source.text)
        spans = spans_of(module)
    except (cst.ParserSyntaxError, RecursionError):
        raise reason from None
    yield from _block(source, module.body, Context(), places, spans, module)


def _block(
    source: Source,
    body: Sequence[Any],
    context: Context,
    places: Places,
    spans: Spans,
    module: cst.Module,
) -> Iterator[Statement]:
    for node in body:
        span = source.raw_span(_span(node, spans))
        if not places.overlapping(span):
            continue
        yield Statement(node, context, places, source, span, spans)
        for children, around in _blocks(node, context, module):
            yield from _block(source, children, around, places, spans, module)


def _span(node: Any, spans: Spans) -> Span:
    """Return the span of a statement with its decorators, which LibCST counts as white space before it."""
    decorators = getattr(node, "decorators", ())
    start = spans[id(decorators[0])].start if decorators else spans[id(node)].start
    return Span(start, spans[id(node)].end)


def _blocks(node: Any, context: Context, module: cst.Module) -> Iterator[tuple[Sequence[Any], Context]]:
    """Yield the blocks of a compound statement with the context inside each."""

    def code(part: cst.CSTNode) -> str:
        return module.code_for_node(part).strip()

    inside = context
    if isinstance(node, cst.ClassDef):
        inside = context._replace(classes=(*context.classes, node.name.value))
    elif isinstance(node, cst.FunctionDef):
        inside = context._replace(functions=(*context.functions, node.name.value), guarded=False, fallback=False)
    elif isinstance(node, (cst.If, cst.While)):
        inside = context._replace(tests=(*context.tests, code(node.test)))
    elif isinstance(node, cst.MatchCase):
        inside = context._replace(tests=(*context.tests, code(node.pattern)))
    elif isinstance(node, (cst.Try, cst.TryStar)) and any(code(handler.body) != "pass" for handler in node.handlers):
        fallback = context.fallback or any(map(_goes_on, node.handlers))
        inside = context._replace(guarded=True, fallback=fallback)
    if isinstance(node, cst.Match):
        yield node.cases, context
        return
    body = getattr(node, "body", None)
    if isinstance(body, cst.IndentedBlock):
        yield body.body, inside
    elif isinstance(body, cst.SimpleStatementSuite):
        yield [body], inside
    for name in ("handlers", "orelse", "finalbody"):
        part = getattr(node, name, None)
        around = context
        if name == "orelse" and isinstance(node, (cst.If, cst.While)):
            around = context._replace(otherwise=(*context.otherwise, code(node.test)))
        if part:
            yield part if isinstance(part, (list, tuple)) else [part], around


def _goes_on(handler: Any) -> bool:
    """Return whether a handler does more than pass, raise or print."""
    lines = handler.body.body
    small = [part for line in lines for part in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])]
    return not all(isinstance(part, (cst.Pass, cst.Raise, cst.Expr)) for part in small)
