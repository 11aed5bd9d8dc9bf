"""``verl-patch revert``: undo a patch."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.output import say


@click.command("revert")
@click.argument("checkout", type=click.Path(path_type=Path), default=".")
def command(checkout: Path) -> None:
    """Undo the patch of the branch that is checked out in CHECKOUT.

    When nothing came after it, the work tree is switched back to the branch that it was made from, or to the commit
    where no branch was checked out. Otherwise one commit reverts it. The patch is found by the trailers of its
    commits, whatever its branch is called.
    """
    from verl_legacy_patch.checkout import CheckoutError, GitCheckout, open_checkout
    from verl_legacy_patch.checkout.gitio import elsewhere, show

    try:
        opened = open_checkout(checkout)
        if not isinstance(opened, GitCheckout):
            where = f"{show(str(opened.root))} is no git repository{elsewhere()}"
            raise Refused(f"{where}: there is no commit to go back to", 3)
        from verl_legacy_patch.branch import current_branch
        from verl_legacy_patch.branch.history import amended
        from verl_legacy_patch.branch.undo import undo

        before = current_branch(opened)
        undone = undo(opened)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    lines = [f"Undone: {commit.sha[:10]} {show(commit.subject)}" for commit in undone.commits]
    if undone.sha is not None:
        lines.append(f"Reverted by commit {undone.sha[:10]}.")
    else:
        to = f"branch {show(undone.branch)}" if undone.branch else f"{(undone.base or '')[:10]} (no branch, as before)"
        lines.append(f"Switched to {to}.")
        if before is not None and amended(opened, undone.commits):
            lines.append(
                f"Branch {show(before)} keeps the patch, which was amended since: what you added to it is there."
            )
        elif before is not None:
            delete = f"git branch -D {shlex.quote(before)}"
            lines.append(f"The patch is still on branch {show(before)}; delete it with: {show(delete)}")
    say(lines)  # it is done, whether somebody reads that or not
