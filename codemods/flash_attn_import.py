"""Import the padding helpers from a pure PyTorch module instead of flash-attn.

What it does: imports from flash_attn.bert_padding become imports from verl.utils.torch_padding, a module that
verl-patch adds to the checkout. Its four functions do the same index arithmetic without any CUDA code.

Why: flash-attn cannot be built or loaded on these cards, but verl imports it when the actor, the critic or the SFT
trainer is imported, also with packing off: "ModuleNotFoundError: No module named 'flash_attn'".

What it leaves alone: imports with a fallback of their own (a handler that binds the names or another flag; one that
only passes, raises or prints is none), the NPU branch, and Megatron. Imports of flash-attn's attention kernels are
reported unless a test for them is around.

Source: https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/bert_padding.py
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.scope import backend
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    import libcst as cst

    from verl_legacy_patch.languages.python import Statement

OLD = "flash_attn.bert_padding"
NEW = "verl.utils.torch_padding"
HELPERS = frozenset(("index_first_axis", "pad_input", "unpad_input", "rearrange"))


class FlashAttnImport(Codemod):
    """See the module's docstring."""

    name = "flash-attn-import"
    words = ("flash_attn",)
    reach = 1
    trigger = r"\b(?:from|import)\s+flash_attn\b"
    support = ("torch_padding",)

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Redirect the padding helpers; report what else would need flash-attn."""
        import libcst as cst

        from verl_legacy_patch.languages.python.conditions import for_backend
        from verl_legacy_patch.languages.python.nodes import dotted, find

        tests = (*statement.context.tests, *statement.context.otherwise)
        found: list[cst.ImportFrom | cst.Import] = [node for node, _ in find(statement, cst.ImportFrom)]
        found += [node for node, _ in find(statement, cst.Import)]
        for node in found:
            module = dotted(node.module) if isinstance(node, cst.ImportFrom) else statement.text(node.names[0])
            reason = next(filter(None, map(backend, map(for_backend, statement.context.tests))), "")
            if statement.context.fallback:
                reason = "guarded: a fallback follows"
            elif any("flash" in test for test in tests):
                reason = "guarded: only imported where flash-attn is there"
            if module.startswith("flash_attn.ops.triton.cross_entropy"):
                continue  # flash-attn-cross-entropy
            span = statement.span_of(node)
            if reason:
                yield Edit(span, self.name, "keep", None, reason, self.grade)
            elif isinstance(node, cst.ImportFrom) and module == OLD and self._only_helpers(node):
                assert node.module is not None
                yield Edit(statement.span_of(node.module), self.name, "rewrite", NEW, "", self.grade)
            else:
                yield Edit(
                    span,
                    self.name,
                    "report",
                    None,
                    "needs flash-attn, which these cards cannot run",
                    self.grade,
                )

    def _only_helpers(self, node: "cst.ImportFrom") -> bool:
        """Return whether every imported name has a pure PyTorch twin."""
        import libcst as cst

        return not isinstance(node.names, cst.ImportStar) and all(
            alias.evaluated_name in HELPERS for alias in node.names
        )
