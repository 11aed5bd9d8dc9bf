"""Add a commit to the branch that is checked out, or leave everything exactly as it was."""

from __future__ import annotations

from verl_legacy_patch.branch import call, current_branch, opened
from verl_legacy_patch.branch.switching import publish
from verl_legacy_patch.checkout.gitio import GitError
from verl_legacy_patch.checkout.revision import GitCheckout


def advance(checkout: GitCheckout, sha: str) -> None:
    """Move the checked-out branch and the work tree from the base to ``sha``, a commit on top of it.

    The work tree goes there on a branch for the moment, with all the care that a switch takes. What remains are
    refs, and each of these steps leaves a state in which nothing is missing.

    Raises:
        GitError: it was not possible; the branch is where it was.
    """
    name = current_branch(checkout)
    if name is None or checkout.base is None:
        raise GitError("no branch is checked out that could be advanced: give a new one with --branch")
    passing = f"{name}.verl-patch"
    publish(checkout, passing, sha)
    with opened(checkout) as repo:
        call(repo, "update-ref", "-m", "verl-patch: add to the patch", f"refs/heads/{name}", sha, checkout.base)
        call(repo, "symbolic-ref", "HEAD", f"refs/heads/{name}")
        call(repo, "update-ref", "-d", f"refs/heads/{passing}", sha)
