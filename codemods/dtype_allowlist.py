"""Let configuration classes accept the dtype that their default now has.

What it does: an assertion that a dtype field is in a list of names gains the target at the end of the list; nothing
that was legal becomes illegal.

Why: verl's Megatron and MindSpeed configuration classes inherit their default from the common base class and assert
that it is bfloat16 or float16: with the new default they could not even be built.

What it leaves alone: lists that have the target already, computed lists, and classes whose default did not change.

Source: https://github.com/volcengine/verl/blob/main/verl/workers/config/engine.py
"""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import backend
from verl_legacy_patch.setting import Edit, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.languages.python import Statement

_BF16 = lazy(r"^b(?:float|f)16$", re.IGNORECASE)
#: The target in the spelling of the list's own names.
_TARGETS = {
    "long": {"float32": "float32", "float16": "float16"},
    "short": {"float32": "fp32", "float16": "fp16"},
}


class DtypeAllowlist(Codemod):
    """See the module's docstring."""

    name = "dtype-allowlist"
    grade = "review"
    words = ("bf16", "bfloat16")
    trigger = r"assert[\s(]+[\w.]*dtype\s+in\s*[\[({][^\])}]*bf(?:loat)?16"
    when = "where the class's or its base's default changed"

    def visit(self, statement: "Statement", target: Target) -> Iterator[Edit]:
        """Append the target to the list of an assertion on a field whose default changed."""
        import libcst as cst

        from verl_legacy_patch.languages.python.nodes import dotted, find, string

        for node, parents in find(statement, cst.Comparison):
            if not isinstance(parents[-1], cst.Assert) or len(node.comparisons) != 1:
                continue
            accepted = node.comparisons[0].comparator
            field = dotted(node.left).rpartition(".")[2]
            if not isinstance(accepted, (cst.List, cst.Tuple, cst.Set)) or not field.lower().endswith("dtype"):
                continue
            names = [string(element.value) for element in accepted.elements]
            halves = [name for name in names if name and _BF16.match(name)]
            if not halves or None in names:
                continue
            new = _TARGETS["long" if "float" in halves[0].lower() else "short"][target.dtype]
            if new in names or not _default_changed(statement, field):
                continue
            last = statement.span_of(accepted.elements[-1].value)
            quote = statement.text(accepted.elements[-1].value)[0]
            yield Edit(Span(last.end, last.end), self.name, "rewrite", f", {quote}{new}{quote}", "", self.grade)


def _default_changed(statement: "Statement", field: str) -> bool:
    """Return whether the class, or a base, defaults ``field`` to bfloat16; bases elsewhere count as such."""
    from verl_legacy_patch.languages import SourceError
    from verl_legacy_patch.languages.python.context import parse, walk

    try:
        tree = parse(statement.source)
    except SourceError:
        return True  # only LibCST reads this file: one value more in a list does no harm
    classes = {node.name: node for node in walk(tree) if isinstance(node, ast.ClassDef)}
    queue, seen = [*statement.context.classes[-1:]], set()
    while queue:
        name = queue.pop(0)
        if name in seen or name in ("object", "ABC"):
            continue
        seen.add(name)
        if name not in classes:
            return True
        for node in classes[name].body:
            default = _default(node, field)
            if default is not None:
                return bool(_BF16.match(default)) and not backend(name)  # a backend's own default stays
        queue += [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in classes[name].bases]
    return False


def _default(node: ast.stmt, field: str) -> str | None:
    """Return the default that a class body gives ``field``, also inside ``field(default=…)``; else None."""
    if not isinstance(node, (ast.AnnAssign, ast.Assign)):
        return None
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    value = node.value
    if isinstance(value, ast.Call):
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    named = isinstance(target, ast.Name) and target.id == field
    return str(value.value) if named and isinstance(value, ast.Constant) else None
