"""``verl-patch status``: what a checkout is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import read_run

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.commands.options import Run


@click.command("status")
@click.argument("checkout", type=click.Path(path_type=Path), default=".")
def command(checkout: Path) -> None:
    """Say what CHECKOUT is: release, commit, by which version it is patched, and what is left."""
    from verl_legacy_patch.checkout import CheckoutError, open_checkout
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.commands.output import emit

    try:
        opened = open_checkout(checkout)
        run = read_run(opened.root, {})
        lines = list(_lines(opened, run))
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    emit(f"{key + ':':9} {show(text)}\n".encode() for key, text in lines)


def _lines(checkout: Checkout, run: Run) -> Iterator[tuple[str, str]]:
    from verl_legacy_patch.branch.former import former
    from verl_legacy_patch.commands.meant import has_git, place
    from verl_legacy_patch.plan import make_plan
    from verl_legacy_patch.summary import places_in

    yield "verl", _release(checkout)
    patched = False
    for key, text in _history(checkout):
        patched = patched or (key == "patched" and text != "no")
        yield key, text
    yield "target", f"{run.target}" + (f" ({run.source.path})" if run.source else "")
    plan = make_plan(checkout, run.codemods, run.target, within=run.scope)
    where = place(checkout, run)
    found = former(checkout, run.target)
    if found and not found.fits:
        yield "left", found.refusal(run.target)
    elif left := plan.rewritten():
        command = f"verl-patch apply{where}{'' if has_git(checkout) else ' --in-place'}"
        yield "left", f"{places_in(left)}: {command} {'adds them to the patch' if patched else 'rewrites them'}"
    else:
        yield "left", "nothing to rewrite"
    if decide := plan.reported():
        yield "decide", f"{places_in(decide)}, by a person: verl-patch check --strict{where} lists them"
    if found and (note := found.fits and found.note(run.target)):
        yield "note", note
    for problem in plan.problems:
        yield "problem", str(problem)
    for submodule in checkout.submodules():
        yield "apart", f"{submodule.path} is a submodule, {'' if submodule.checked_out else 'not '}checked out"


def _release(checkout: Checkout) -> str:
    from verl_legacy_patch.checkout import open_checkout, verl_version

    part = f"; only {checkout.prefix} of it is looked at" if checkout.prefix and checkout.base else ""
    whole = checkout if checkout.packages() or not part else open_checkout(checkout.root)
    if packages := whole.packages():
        return f"{verl_version(whole) or 'unknown release'} in {', '.join(packages)}{part}"
    return f"no verl package here, but code that imports it{part}"


def _history(checkout: Checkout) -> Iterator[tuple[str, str]]:
    from verl_legacy_patch.checkout import GitCheckout
    from verl_legacy_patch.summary import number

    if not isinstance(checkout, GitCheckout):
        yield "git", "no repository"
        return
    from verl_legacy_patch.branch import current_branch
    from verl_legacy_patch.branch.history import standing

    branch = current_branch(checkout)
    dirty = checkout.dirty()
    changed = f", {number(len(dirty), 'changed file')}" if dirty else ""
    yield "commit", f"{checkout.base[:10]} on {branch or 'no branch (detached HEAD)'}{changed}"
    commits = standing(checkout)
    for commit in commits:
        version, target, base = (commit.trailers.get(f"Verl-Patch-{key}", "?") for key in ("Version", "Target", "Base"))
        yield "patched", f"{commit.sha[:10]} by verl-patch {version} for {target}, on {base[:10]}"
    if not commits:
        yield "patched", "no"
