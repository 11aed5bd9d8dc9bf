"""Do not pick up flash-attn's Triton cross-entropy.

What it does: the import of flash_attn.ops.triton.cross_entropy, which stands in a try block with a fallback, is
replaced by the error that a missing flash-attn raises, so that the fallback is taken on every machine. A line that
is never reached keeps the imported name known to linters: ruff is one of verl's own hooks.

Why: the kernel is chosen whenever flash-attn happens to be installed, even where none of its kernels can run.
Triton needs compute capability 7.0, and flash-attn 8.0.

What it leaves alone: an import that is not guarded is reported: there is no fallback to take.

Source: https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/ops/triton/cross_entropy.py
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    import libcst as cst

    from verl_legacy_patch.languages.python import Statement

MODULE = "flash_attn.ops.triton.cross_entropy"
FALLBACK = 'raise ModuleNotFoundError("the Triton cross-entropy of flash-attn needs compute capability 8.0")'
NOTE = "# never reached: linters look for the name"


class FlashAttnCrossEntropy(Codemod):
    """See the module's docstring."""

    name = "flash-attn-cross-entropy"
    words = (MODULE,)
    reach = 1
    trigger = r"from\s+flash_attn\.ops\.triton\.cross_entropy\s+import|import\s+flash_attn\.ops\.triton\.cross_entropy"
    when = "with compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """flash-attn needs 8.0."""
        return target.capability < Capability(8, 0)

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Replace a guarded import by the error that its handler waits for."""
        import libcst as cst

        from verl_legacy_patch.languages.python.nodes import dotted, find

        for node, _ in find(statement, cst.ImportFrom):
            if dotted(node.module) != MODULE:
                continue
            span = statement.span_of(node)
            if statement.context.fallback:
                indent = statement.source.raw[: span.start].rpartition(b"\n")[2].decode("ascii", "replace")
                named = "" if indent.strip() else _named(node, indent)
                newline = "\r\n" if b"\r\n" in statement.source.raw else "\n"
                yield Edit(span, self.name, "rewrite", FALLBACK + named.replace("\n", newline), "", self.grade)
            else:
                yield Edit(span, self.name, "report", None, "unguarded: there is no fallback to take", self.grade)


def _named(node: "cst.ImportFrom", indent: str) -> str:
    """Return lines, each after a line ending, that bind what was imported and are never reached."""
    names = node.names if isinstance(node.names, Sequence) else ()  # a star
    return "".join(f"\n{indent}{name} = None  {NOTE}" for name in map(_bound, names))


def _bound(alias: "cst.ImportAlias") -> str:
    return alias.evaluated_alias or alias.evaluated_name
