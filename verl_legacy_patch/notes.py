"""What a person should know about a plan for this very checkout, beyond what the target says by itself."""

from __future__ import annotations

from collections.abc import Container, Iterator

from verl_legacy_patch.capability import TURING
from verl_legacy_patch.checkout import Checkout
from verl_legacy_patch.config import Config, Source
from verl_legacy_patch.plan import Plan, make_plan
from verl_legacy_patch.target import FLOAT16

#: Either of them keeps packed samples apart: the first by not packing, the second by refusing to.
_AGAINST_LEAKS = ("remove-padding", "packing-guard")

#: What a verl generates through that is too new for a card (a key of launch's words), and which releases can.
_ENGINES = {
    "refuse-pascal": ("vLLM's V1 engine only, which needs 7.0", "v0.2 to v0.6.1"),
    "refuse-volta": ("a vLLM that no longer runs on Volta", "v0.2 to v0.8.0"),
}

NO_PACKAGE = "no verl package here, only code that imports verl: give the folder of a verl clone, if that was meant"


def notes(checkout: Checkout, plan: Plan, config: Config, said: Container[str], file: Source | None) -> tuple[str, ...]:
    """Return the notes of a plan: those of its target, made fit for the checkout, and what the selection leaves.

    Args:
        checkout: what the plan is about.
        plan: the plan.
        config: what chose its codemods.
        said: what of that the command line said, by name.
        file: where the rest stands.
    """
    found = [_float16(checkout) or note if note == FLOAT16 else note for note in plan.target.notes]
    return (
        *_no_package(checkout),
        *_generation(checkout, plan),
        *found,
        *_packing(checkout, plan, _cure(config, said, file)),
    )


def _no_package(checkout: Checkout) -> Iterator[str]:
    if not checkout.packages():
        yield NO_PACKAGE


def _generation(checkout: Checkout, plan: Plan) -> Iterator[str]:
    """Say where rewriting is not enough: PPO and GRPO also have to generate, and the engine for it may need more."""
    from verl_legacy_patch.launch.rollout import refusal
    from verl_legacy_patch.launch.shape import Shape

    capability = plan.target.capability
    if capability >= TURING or not checkout.packages():
        return
    shape = Shape(checkout)
    if (refused := refusal(shape, capability)) in _ENGINES and not shape.has_hf:
        needs, older = _ENGINES[refused]
        yield (
            f"PPO and GRPO cannot run on compute capability {capability} with this verl, it generates through {needs}: "
            f"{older} can (git switch --detach {older.split()[-1]}); SFT works here"
        )


def _packing(checkout: Checkout, plan: Plan, cure: str) -> Iterator[str]:
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
            f"without an error: {cure}, or train with use_remove_padding=False"
        )


def _cure(config: Config, said: Container[str], file: Source | None) -> str:
    """Return what of the choice keeps packing on, as what to do about it; each part of it is needed."""

    def place(key: str) -> str:
        option = f"--{key.replace('_', '-')}"
        return option if key in said or file is None else f"{option[2:]} in {file.path.name}"

    ways = []
    chosen = [name for name in _AGAINST_LEAKS if config.select is None or name in config.select]
    if not chosen:
        chosen = [*_AGAINST_LEAKS]
        ways.append(f"add {','.join(chosen)} to {place('select')}")
    if all(name in config.ignore for name in chosen):
        ways.append(f"take {','.join(chosen)} out of {place('ignore')}")
    if config.safe_only:
        ways.append(f"leave out {place('safe_only')}")
    return " and ".join(ways)


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
