"""Run without torch.compile.

What it does: use_torch_compile becomes false in Python, YAML and launch scripts; an unconditional
torch.compile(f, ...) becomes f, and a @torch.compile decorator goes.

Why: torch.compile generates Triton code for the GPU, and Triton needs compute capability 7.0: "Found Tesla P40
which is too old to be supported by the triton GPU compiler, which is used as the backend".

What it leaves alone: calls that a switch already guards (a condition around them that asks for compilation or for
the hardware, disable=...).

Source: https://github.com/pytorch/pytorch/blob/main/torch/_inductor/scheduler.py
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import SwitchCodemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Action, Edit, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    import libcst as cst

    from verl_legacy_patch.languages.python import Statement


#: Asks whether torch is new enough, not whether to compile.
_PRESENT = lazy(r"hasattr\(\s*torch\s*,\s*[\"']compile[\"']\s*\)")


class TorchCompile(SwitchCodemod):
    """See the module's docstring."""

    name = "torch-compile"
    keys = ("use_torch_compile",)
    more = ("torch.compile",)
    when = "with compute capability below 7.0"

    def applies(self, target: Target) -> bool:
        """Triton needs 7.0."""
        return target.capability < Capability(7, 0)

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Unwrap unconditional calls and drop decorators."""
        import libcst as cst

        from verl_legacy_patch.languages.python.nodes import dotted, find, keyword

        for node, parents in find(statement, cst.Attribute):
            if dotted(node) != "torch.compile":
                continue
            call = parents[-1] if isinstance(parents[-1], cst.Call) and parents[-1].func is node else None
            outer: cst.CSTNode = call or node
            around = [*parents, node]
            decorator = next((parent for parent in parents if isinstance(parent, cst.Decorator)), None)
            asked = [*statement.context.tests, *statement.context.otherwise]
            asked += [statement.text(parent.test) for parent in around if isinstance(parent, cst.IfExp)]
            asked += [statement.text(parent.left) for parent in around if isinstance(parent, cst.BooleanOperation)]
            if any(map(_asks, asked)) or (call is not None and keyword(call, "disable") is not None):
                yield self._row(statement, outer, "keep", "a switch or the hardware decides")
            elif decorator is not None and decorator.decorator is outer:
                yield Edit(
                    _whole_lines(statement, decorator),
                    self.name,
                    "rewrite",
                    "",
                    "decorator removed",
                    self.grade,
                )
            elif call is not None and call.args and call.args[0].keyword is None and not call.args[0].star:
                function = _on_its_own(statement, call.args[0].value)
                yield Edit(statement.span_of(call), self.name, "rewrite", function, "", self.grade)
            else:
                yield self._row(statement, outer, "report", "torch.compile is used in a way that needs a person")

    def _row(self, statement: "Statement", node: "cst.CSTNode", action: "Action", reason: str) -> Edit:
        return Edit(statement.span_of(node), self.name, action, None, reason, self.grade)


def _asks(test: str) -> bool:
    """Return whether a test decides about compilation: by a switch for it, or by the hardware."""
    from verl_legacy_patch.languages.python.reasons import gate

    return gate(test) or re.search(r"compil", _PRESENT.sub("", test), re.IGNORECASE) is not None


def _on_its_own(statement: "Statement", value: "cst.BaseExpression") -> str:
    """Return an argument as it may stand outside the call: in parentheses when it is more than a name or a call."""
    import libcst as cst

    text = statement.text(value)
    primary = isinstance(value, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) and not value.lpar
    return text if primary and "\n" not in text else f"({text})"


def _whole_lines(statement: "Statement", decorator: "cst.CSTNode") -> Span:
    """Return the bytes of a decorator with its indentation and line ending."""
    raw = statement.source.raw
    start, end = statement.span_of(decorator)
    start = raw.rfind(b"\n", 0, start) + 1
    newline = raw.find(b"\n", end)
    return Span(start, len(raw) if newline < 0 else newline + 1)
