"""Undo a patch: go back to the branch it was made from, or revert its commits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from verl_legacy_patch import __version__
from verl_legacy_patch.branch import attempt, call, current_branch, opened, refuse_dirty, refuse_unfinished
from verl_legacy_patch.branch.history import PatchCommit, find_patch_commits
from verl_legacy_patch.branch.switching import switch
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import GitError, one_line
from verl_legacy_patch.checkout.revision import GitCheckout

REVERTS = "Verl-Patch-Reverts"


class Undone(NamedTuple):
    """How a patch was undone: by a switch to ``branch``, or by the revert commit ``sha``."""

    commits: list[PatchCommit]
    branch: str | None = None
    sha: str | None = None


def standing(checkout: GitCheckout) -> list[PatchCommit]:
    """Return the patch commits in HEAD's history that are not undone, newest first."""
    commits = find_patch_commits(checkout)
    reverted = {sha for commit in commits for sha in commit.trailers.get(REVERTS, "").split()}
    return [commit for commit in commits if REVERTS not in commit.trailers and commit.sha not in reverted]


def undo(checkout: GitCheckout) -> Undone:
    """Undo the patch of the branch that is checked out.

    When nothing came after the patch, that is a switch back to the branch that it was made from (the patch
    branch stays, for ``git branch -D``). Otherwise one commit reverts the patch commits.

    Raises:
        GitError: there is no patch, the tree is not clean, or reverting conflicts. Nothing has changed.
    """
    refuse_unfinished(checkout)
    refuse_dirty(checkout)
    commits = standing(checkout)
    if not commits:
        raise GitError("there is no patch to undo: no commit in HEAD's history was made by verl-patch and still stands")
    home = _home(checkout, commits)
    if home is not None:
        switch(checkout, home)
        return Undone(commits, branch=home)
    return Undone(commits, sha=_revert(checkout, commits))


def _home(checkout: GitCheckout, commits: list[PatchCommit]) -> str | None:
    """Return the branch to switch back to, when the patch is all that the current branch adds to it."""
    names = {commit.trailers.get("Verl-Patch-From") for commit in commits}
    name = names.pop() if len(names) == 1 else None
    if not name or name == current_branch(checkout):
        return None
    ref = f"refs/heads/{name}"
    code, out, _ = gitio.run(["rev-list", "--max-count", str(len(commits) + 1), "HEAD", f"^{ref}", "--"], checkout.root)
    if code:
        return None
    return name if set(out.decode().split()) == {commit.sha for commit in commits} else None


def _revert(checkout: GitCheckout, commits: list[PatchCommit]) -> str:
    message = "\n".join(
        [
            "Undo the rewrite for GPUs without bfloat16",
            "",
            *(f"This reverts commit {commit.sha}." for commit in commits),
            "",
            f"Verl-Patch-Version: {__version__}",
            f"{REVERTS}: {' '.join(commit.sha for commit in commits)}",
            "",
        ]
    )
    shas = [commit.sha for commit in commits]
    with opened(checkout) as repo, tempfile.TemporaryDirectory(prefix="verl-patch-") as folder:
        file = Path(folder, "message")
        file.write_text(message)
        try:
            code, _, err = attempt(repo, "revert", "--no-commit", *shas)
            if code:
                conflicts = gitio.read(["diff", "--name-only", "--diff-filter=U", "-z"], checkout.root)
                raise GitError(_conflict(conflicts, err, shas))
            code, _, err = attempt(repo, "commit", "--quiet", "--no-edit", "-F", str(file))
            if code:
                raise GitError(f"the revert could not be committed: {one_line(err)}")
        except BaseException:
            attempt(repo, "revert", "--abort")
            attempt(repo, "reset", "--merge", "HEAD")
            raise
        return call(repo, "rev-parse", "HEAD").decode().strip()


def _conflict(conflicts: bytes, err: str, shas: list[str]) -> str:
    names = [gitio.show(gitio.to_text(name)) for name in conflicts.split(b"\0") if name]
    where = f"conflicts in {', '.join(names[:3])}{', …' if len(names) > 3 else ''}" if names else one_line(err)
    return f"later commits changed the same lines, {where}; nothing is changed. By hand: git revert {' '.join(shas)}"
