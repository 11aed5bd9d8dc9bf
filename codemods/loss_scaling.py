"""Report training steps without loss scaling, for float16.

What it does: nothing is rewritten. With --dtype float16, each backward pass that no gradient scaler guards is listed.

Why: float16 gradients underflow to zero and overflow to infinity; without a scaler training ends in NaN or stands
still. verl scales the loss of the actor from v0.6.1 and of the critic from v0.8.0.

What it leaves alone: float32, which needs no scaling, and passes under a test for a scaler.

Source: https://pytorch.org/docs/stable/amp.html#gradient-scaling
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.scope import backend
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement


class LossScaling(Codemod):
    """See the module's docstring."""

    name = "loss-scaling"
    grade = "review"
    does = "reports"
    words = (".backward(",)
    trigger = r"\.backward\("
    when = "with target dtype float16"

    def applies(self, target: Target) -> bool:
        """Only float16 needs scaling."""
        return target.dtype == "float16"

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Report ``loss.backward()`` that stands under no test for a scaler."""
        import libcst as cst

        from verl_legacy_patch.languages.python.nodes import dotted, find

        context = statement.context
        if any("scaler" in test for test in (*context.tests, *context.otherwise)):
            return
        for call, _ in find(statement, cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value != "backward":
                continue
            receiver = statement.text(func.value)
            reason = next(filter(None, map(backend, (*context.classes, *context.functions))), "")
            if not reason and "scaler" not in receiver and not dotted(func.value).startswith("torch.autograd"):
                reason = "no loss scaling, so float16 gradients underflow here: choose float32, or add a GradScaler"
                yield Edit(statement.span_of(call), self.name, "report", None, reason, self.grade)
