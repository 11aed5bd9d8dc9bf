"""``verl-patch revert``: undo a patch."""

from __future__ import annotations

from pathlib import Path

import click

from verl_legacy_patch.commands import Refused


@click.command("revert")
@click.argument("checkout", type=click.Path(path_type=Path), default=".")
def command(checkout: Path) -> None:
    """Undo the patch of the branch that is checked out in CHECKOUT.

    When nothing came after it, the work tree is switched back to the branch that it was made from. Otherwise one
    commit reverts it. The patch is found by the trailers of its commits, whatever its branch is called.
    """
    from verl_legacy_patch.checkout import CheckoutError, GitCheckout, open_checkout

    try:
        opened = open_checkout(checkout)
        if not isinstance(opened, GitCheckout):
            raise Refused(f"{opened.root} is no git repository: there is no commit to go back to", 3)
        from verl_legacy_patch.branch import current_branch
        from verl_legacy_patch.branch.undo import undo

        before = current_branch(opened)
        undone = undo(opened)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    for commit in undone.commits:
        click.echo(f"Undone: {commit.sha[:10]} {commit.subject}", err=True)
    if undone.branch is not None:
        click.echo(f"Switched to branch {undone.branch}.", err=True)
        if before is not None:
            click.echo(f"The patch is still on branch {before}; delete it with: git branch -D {before}", err=True)
    else:
        click.echo(f"Reverted by commit {(undone.sha or '')[:10]}.", err=True)
