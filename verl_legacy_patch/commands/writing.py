"""What ``apply`` does with a plan: commits on a branch, or files on disk; and what it says about it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch.commands import Refused

if TYPE_CHECKING:
    from verl_legacy_patch.branch.inplace import Change
    from verl_legacy_patch.checkout import Checkout, GitCheckout
    from verl_legacy_patch.plan import Plan
    from verl_legacy_patch.report import About


class Destination(NamedTuple):
    """Where a patch goes.

    Attributes:
        branch: the branch that gets the commit.
        switch: whether the work tree follows.
        goes_on: the branch is checked out and has had a patch before, perhaps undone: the commit is added to it.
    """

    branch: str
    switch: bool = True
    goes_on: bool = False


def destination(
    plan: Plan, checkout: Checkout, asked: str | None, default: str, *, switch: bool, in_place: bool
) -> Destination:
    """Decide where the patch goes, refusing before anything is written what would fail later.

    Args:
        plan: what would be written.
        checkout: what is patched.
        asked: the branch that the user named.
        default: the branch to create otherwise.
        switch: whether to switch to it.
        in_place: files on disk are written instead.
    """
    from verl_legacy_patch.checkout import GitCheckout
    from verl_legacy_patch.checkout.gitio import elsewhere, show

    if not isinstance(checkout, GitCheckout):
        if not in_place:
            where = f"{show(str(checkout.root))} is no git repository{elsewhere()}"
            alone = "use --in-place to rewrite its files (keep a copy: there is no git commit to go back to then)"
            raise Refused(f"{where}: {alone}, or --dry-run to look", 3)
        return Destination("", switch=False)
    from verl_legacy_patch.branch import current_branch, preflight, refuse_dirty, refuse_unfinished
    from verl_legacy_patch.branch.history import find_patch_commits

    current = current_branch(checkout)
    if asked in (None, current) and switch and checkout.is_head and current and find_patch_commits(checkout):
        refuse_unfinished(checkout)
        refuse_dirty(checkout)
        return Destination(current, goes_on=True)
    name = default if asked is None else asked
    preflight(checkout, name, switch=switch, changes=changes_of(plan))
    return Destination(name, switch)


def no_way_back(checkout: Checkout) -> str:
    """Return what to know before files on disk are rewritten: nothing brings them back where git has none of them."""
    if (checkout.root / ".git").exists():
        return ""
    return "There is no git commit to go back to: a copy, or the archive that they came from, is the way back."


def branch_name(checkout: Checkout) -> str | None:
    """Return the branch that is checked out, where an undo leads back to, whatever the base; None without one."""
    from verl_legacy_patch.checkout import GitCheckout

    if not isinstance(checkout, GitCheckout):
        return None
    head = checkout.git_dir / "HEAD"  # read as a file: no process, and no GitPython in a dry run
    text = head.read_text("utf-8", "surrogateescape") if head.is_file() else ""
    return text.removeprefix("ref: refs/heads/").strip() if text.startswith("ref: refs/heads/") else None


def nameless_note(checkout: GitCheckout) -> list[str]:
    """Return what a dry run says where the commit will fail because git does not know whose it is.

    git is asked only where none of the usual files holds an address: that is rare, and a process costs time.
    """
    places = [os.environ[name] for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME", "HOME") if os.environ.get(name)]
    users = [Path(place, name) for place in places for name in ("", ".gitconfig", "git/config", ".config/git/config")]
    if any(map(_has_address, (checkout.git_dir / "config", *users))):
        return []
    from verl_legacy_patch.branch import refuse_nameless
    from verl_legacy_patch.checkout import CheckoutError

    try:
        refuse_nameless(checkout)
    except CheckoutError as error:
        return [f"Note: without --dry-run this would be refused: {error}."]
    return []


def _has_address(file: Path) -> bool:
    try:
        return file.is_file() and b"email" in file.read_bytes().lower()
    except OSError:  # git will say what is wrong with it
        return False


def write(plan: Plan, about: About, checkout: Checkout, where: Destination, *, per_codemod: bool) -> list[str]:
    """Write the patch and return the lines that say where it is and how to undo it."""
    from verl_legacy_patch.branch.backup import stale
    from verl_legacy_patch.branch.inplace import write_in_place
    from verl_legacy_patch.checkout import GitCheckout

    if not isinstance(checkout, GitCheckout):
        write_in_place(checkout.root, changes_of(plan))
        lines = ["", f"The files on disk are rewritten. {no_way_back(checkout)}".rstrip()]
        if (checkout.root / ".git").exists():
            lines.append(f"  look:  {_git(about.path)} diff")
        for left in stale(checkout.root):
            lines.append(
                f"{left} holds files as they were before a run that was killed: remove it when you have looked."
            )
        return lines
    from verl_legacy_patch.branch import current_branch
    from verl_legacy_patch.branch.switching import forward, publish

    branch = current_branch(checkout)
    before = shlex.quote(branch) if branch else f"--detach {checkout.base[:10]}"
    sha = _commit(plan, about, checkout, per_codemod)
    if where.goes_on:
        forward(checkout, sha)
    else:
        publish(checkout, where.branch, sha, switch_to=where.switch)
    return _next_steps(about.path, before, where)


def changes_of(plan: Plan) -> list[Change]:
    """Return what a plan writes."""
    from verl_legacy_patch.branch.inplace import Change

    return [Change(c.path, c.after, c.mode, c.status == "added", c.before) for c in plan.changes]


def _commit(plan: Plan, about: About, checkout: GitCheckout, per_codemod: bool) -> str:
    """Build the commit, or one commit per codemod, and return the name of the last."""
    from verl_legacy_patch.branch.commit import commit_tree
    from verl_legacy_patch.summary import commit_message

    if not per_codemod:
        return commit_tree(checkout, changes_of(plan), commit_message(plan, about))
    parent = checkout.base
    for part in _parts(plan):
        message = commit_message(part, about, part.codemods[0].name)
        parent = commit_tree(checkout, changes_of(part), message, parent=parent)
    assert parent is not None
    return parent


def _parts(plan: Plan) -> Iterator[Plan]:
    """Yield for each codemod a plan of its own changes, on top of those before it."""
    from dataclasses import replace

    from verl_legacy_patch.setting import splice

    done: set[str] = set()
    for codemod in plan.codemods:
        done.add(codemod.name)
        changes = []
        for change in plan.changes:
            if change.before is None:
                if change.codemod == codemod.name:
                    changes.append(change)
            elif any(edit.codemod == codemod.name for edit in change.edits):
                edits = tuple(edit for edit in change.edits if edit.codemod in done)
                changes.append(change._replace(after=splice(change.before, edits), edits=edits))
        if changes:
            sites = [site for site in plan.sites if site.codemod == codemod.name]
            yield replace(plan, codemods=[codemod], changes=changes, sites=sites)


def _git(path: str) -> str:
    return "git" if path == "." else f"git -C {shlex.quote(path)}"


def _next_steps(path: str, before: str, where: Destination) -> list[str]:
    git = _git(path)
    tool = "verl-patch revert" if path == "." else f"verl-patch revert {shlex.quote(path)}"
    name = shlex.quote(where.branch)
    if where.goes_on:
        return ["", f"Added to branch {where.branch}.", f"  look:  {git} show", f"  undo:  {git} revert HEAD"]
    if where.switch:
        lines = ["", f"On branch {where.branch}; the work tree is switched to it.", f"  look:  {git} show"]
        return [*lines, f"  undo:  {tool}   (or: {git} switch {before} && {git} branch -D {name})"]
    lines = ["", f"On branch {where.branch}; the work tree is as it was.", f"  look:  {git} show {name}"]
    return [*lines, f"  use:   {git} switch {name}", f"  undo:  {git} branch -D {name}"]
