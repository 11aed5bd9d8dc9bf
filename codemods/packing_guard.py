"""Stop with a clear error before attention leaks from one packed sample into the next.

What it does: the one function that every role calls before it packs (apply_monkey_patch, in verl 0.2 also
check_model_support_rmpad, in EasyR1 apply_ulysses_patch) first calls a check that verl-patch adds to the checkout. It
raises when the model is not on flash attention and packing, or sequence parallelism, would mix samples, and names the
override that cures it.

Why: with eager or sdpa, transformers before 4.53.1 (or torch before 2.6) lets packed samples attend to each other,
and sequence parallelism exists only inside the flash forward. Nothing fails: losses stay finite and wrong.

What it leaves alone: runs that are right (padded ones, packed ones on versions that keep samples apart), and
functions of these names with other parameters, which are reported.

Source: https://github.com/huggingface/transformers/pull/39228
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Edit, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    import libcst as cst

    from verl_legacy_patch.languages.python import Statement

#: The functions, and the sequence-parallel size that a call of them means when no parameter says it: older releases
#: call apply_monkey_patch for sequence parallelism only.
FUNCTIONS = {"apply_monkey_patch": "2", "check_model_support_rmpad": "", "apply_ulysses_patch": ""}
#: What the functions are given in some release; anything else is a function that we do not know.
KNOWN = frozenset(("model", "config", "model_type"))
GUARD = "from verl.utils.packing_guard import check_packing"


class PackingGuard(Codemod):
    """See the module's docstring."""

    name = "packing-guard"
    grade = "review"
    words = tuple(FUNCTIONS)
    reach = 1
    trigger = rf"def\s+(?:{'|'.join(FUNCTIONS)})\b"
    support = ("packing_guard",)
    when = "with attention that is not flash"

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Insert the check as the first statement of the function, after its docstring."""
        import libcst as cst

        node = statement.node
        if not isinstance(node, cst.FunctionDef) or node.name.value not in FUNCTIONS:
            return
        if statement.context.classes or statement.context.functions:
            return
        span = statement.span_of(node.name)
        body = statement.body()
        if body is not None and "check_packing(" in body.text:
            yield Edit(span, self.name, "keep", None, "calls the check already", self.grade)
        elif body is not None and (call := _call(node, target)):
            code = f"{GUARD}{body.newline}{body.newline}{body.indent}{call}{body.newline}{body.indent}"
            where = Span(body.first, body.first)
            yield Edit(where, self.name, "rewrite", code, "refuses packing that would leak", self.grade)
        else:
            yield Edit(span, self.name, "report", None, "unknown parameters: add a check by hand", self.grade)


def _call(node: "cst.FunctionDef", target: Target) -> str:
    """Return the call that fits the parameters of a release's function; empty when they are unknown."""
    params = node.params
    names = [param.name.value for param in (*params.posonly_params, *params.params, *params.kwonly_params)]
    if not names or names[0] not in KNOWN:
        return ""
    # a configuration does not say yet which attention will be asked for: the name of the target does
    subject = "model" if names[0] == "model" else f'"{target.attn}"'
    packing = "use_remove_padding" if "use_remove_padding" in names else "True"
    size = "ulysses_sp_size" if "ulysses_sp_size" in names else FUNCTIONS[node.name.value]
    parallel = f", ulysses_sp_size={size}" if size else ""
    return f"check_packing({subject}, packed={packing}{parallel})"
