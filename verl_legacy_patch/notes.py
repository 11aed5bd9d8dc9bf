"""What a person should know about a plan for this very checkout, beyond what the target says by itself."""

from __future__ import annotations

from collections.abc import Iterator

from verl_legacy_patch.checkout import Checkout
from verl_legacy_patch.plan import Plan, make_plan
from verl_legacy_patch.target import FLOAT16

#: Either of them keeps packed samples apart: the first by not packing, the second by refusing to.
_AGAINST_LEAKS = ("remove-padding", "packing-guard")


def notes(checkout: Checkout, plan: Plan) -> tuple[str, ...]:
    """Return the notes of a plan: those of its target, made fit for the checkout, and what the selection leaves."""
    found = [_float16(checkout) or note if note == FLOAT16 else note for note in plan.target.notes]
    return (*_no_package(checkout), *found, *_packing(checkout, plan))


def _no_package(checkout: Checkout) -> Iterator[str]:
    if not checkout.packages():
        yield "no verl package here, only code that imports verl: give the folder of a verl clone, if that was meant"


def _packing(checkout: Checkout, plan: Plan) -> Iterator[str]:
    """Say that attention was changed and packing was not: that trains, without an error, on wrong numbers."""
    from verl_legacy_patch.codemod import discover

    names = {codemod.name for codemod in plan.codemods}
    if "attention" not in names or not names.isdisjoint(_AGAINST_LEAKS):
        return
    left = make_plan(checkout, [discover()["remove-padding"]], plan.target, within=plan.within).rewritten()
    if left:
        first = min(left, key=lambda site: (not site.path.startswith("verl/"), site.path, site.line))
        where = f"{first.path}:{first.line}" + (f" and {len(left) - 1} more" if len(left) > 1 else "")
        yield (
            f"packing stays on ({where}): with {plan.target.attn} attention samples of a packed row see each other, "
            "without an error: leave out --safe-only, or add remove-padding,packing-guard to --select, or train with "
            "use_remove_padding=False"
        )


def _float16(checkout: Checkout) -> str:
    """Return what float16 is worth in this checkout, as its training steps are; empty when they are not known."""
    from verl_legacy_patch.launch.precision import scales
    from verl_legacy_patch.launch.shape import Shape

    if not checkout.packages():
        return ""
    shape = Shape(checkout)
    actor, critic = scales("actor", shape), scales("critic", shape)
    if actor is None or critic is None:
        return ""
    if not actor:
        return "float32 it is: this verl scales no loss, which training in float16 needs (v0.6.1 and newer do)"
    whose = "of actor and critic" if critic else "of the actor, not of the critic"
    return f"--dtype float16 --attn sdpa is worth a try on this card: this verl scales the loss {whose}"
