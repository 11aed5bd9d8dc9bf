"""Where the nodes of a LibCST tree stand in the text that it was parsed from.

This is LibCST's own ``ByteSpanPositionProvider`` without the metadata machinery, which costs three times as much as
the trees of single statements themselves.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from verl_legacy_patch.setting import Span

#: id of a node -> its bytes, without the whitespace that it owns.
Spans = dict[int, Span]


def spans_of(module: cst.Module) -> Spans:
    """Return the byte span of every node of a module, in UTF-8."""
    state = _Recorder(module.default_indent, module.default_newline)
    module._codegen(state)
    return state.spans


class _Recorder(CodegenState):
    """Counts what the code generator writes instead of keeping it."""

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.spans: Spans = {}
        self.position = 0
        self._starts: list[int] = []

    def add_token(self, value: str) -> None:
        self.position += len(value) if value.isascii() else len(value.encode())

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.position)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if id(node) not in self.spans:
            self.spans[id(node)] = Span(start, self.position)

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Any:
        return _Syntactic(self, node, start_node, end_node)


class _Syntactic:
    """Records where a node begins and ends without its whitespace: around what is written inside."""

    __slots__ = ("_end", "_node", "_position", "_recorder", "_start")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start: cst.CSTNode | None, end: cst.CSTNode | None
    ) -> None:
        self._recorder, self._node, self._start, self._end = recorder, node, start, end

    def __enter__(self) -> None:
        self._position = self._recorder.position

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return  # of what was not written to its end nothing is known
        spans = self._recorder.spans
        start = self._position if self._start is None else spans[id(self._start)].start
        end = self._recorder.position if self._end is None else spans[id(self._end)].end
        spans[id(self._node)] = Span(start, end)
