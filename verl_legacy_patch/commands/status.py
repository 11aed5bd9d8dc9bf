"""``verl-patch status``: what a checkout is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import read_run

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout


@click.command("status")
@click.argument("checkout", type=click.Path(path_type=Path), default=".")
def command(checkout: Path) -> None:
    """Say what CHECKOUT is: release, commit, by which version it is patched, and which sites are left."""
    from verl_legacy_patch.checkout import CheckoutError, open_checkout, verl_version
    from verl_legacy_patch.plan import make_plan

    try:
        opened = open_checkout(checkout)
        run = read_run(opened.root, {})
        click.echo(
            f"verl:     {verl_version(opened) or 'unknown release'} in {', '.join(opened.packages()) or 'no package'}"
        )
        for line in _history(opened):
            click.echo(line)
        click.echo(f"target:   {run.target}" + (f" ({run.source.path})" if run.source else ""))
        plan = make_plan(opened, run.codemods, run.target, within=run.scope)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    left = plan.rewritten()
    files = len({site.path for site in left})
    click.echo(f"left:     {len(left)} places in {files} files" if left else "left:     nothing to rewrite")
    for problem in plan.problems:
        click.echo(f"problem:  {problem}")
    for submodule in opened.submodules():
        state = "checked out" if submodule.checked_out else "not checked out"
        click.echo(f"apart:    {submodule.path} is a submodule, {state}")


def _history(checkout: Checkout) -> list[str]:
    from verl_legacy_patch.checkout import GitCheckout

    if not isinstance(checkout, GitCheckout):
        return ["git:      no repository"]
    from verl_legacy_patch.branch import current_branch
    from verl_legacy_patch.branch.history import standing

    branch = current_branch(checkout)
    dirty = checkout.dirty()
    changed = f", {len(dirty)} changed files" if dirty else ""
    lines = [f"commit:   {(checkout.base or '')[:10]} on {branch or 'no branch (detached HEAD)'}{changed}"]
    commits = standing(checkout)
    for commit in commits:
        version, target = (commit.trailers.get(f"Verl-Patch-{key}", "?") for key in ("Version", "Target"))
        lines.append(f"patched:  {commit.sha[:10]} by version {version} for {target}")
    return lines if commits else [*lines, "patched:  no"]
