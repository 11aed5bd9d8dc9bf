"""Undo a patch: go back to the branch it was made from, or revert its commits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch import __version__
from verl_legacy_patch.branch import (
    current_branch,
    refuse_dirty,
    refuse_unfinished,
)
from verl_legacy_patch.branch.commit import PLAIN_INDEX, as_file, scratch, write_commit
from verl_legacy_patch.branch.history import REVERTS, PatchCommit, standing
from verl_legacy_patch.branch.repo import attempt, call, opened
from verl_legacy_patch.branch.switching import forward, switch
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import GitError, one_line, show
from verl_legacy_patch.checkout.revision import GitCheckout

if TYPE_CHECKING:
    from git import Repo

_DIFF = ("diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


class Undone(NamedTuple):
    """How a patch was undone: by a switch to ``branch`` or to the commit ``base``, or by the revert commit ``sha``."""

    commits: list[PatchCommit]
    branch: str | None = None
    base: str | None = None
    sha: str | None = None


def undo(checkout: GitCheckout) -> Undone:
    """Undo the patch of the branch that is checked out.

    When nothing came after the patch, that is a switch back to the branch that it was made from, or to the commit
    when none was checked out (the patch branch stays, for ``git branch -D``). Otherwise, and when that branch has gone
    or is checked out in another work tree, one commit reverts the patch commits.

    Raises:
        GitError: there is no patch, the tree is not clean, or reverting conflicts. Nothing has changed.
    """
    commits = standing(checkout)
    if not commits:
        raise GitError("there is no patch to undo: no commit in HEAD's history was made by verl-patch and still stands")
    refuse_unfinished(checkout, instead="")
    refuse_dirty(checkout, instead="")
    name, base = (commits[-1].trailers.get(f"Verl-Patch-{key}") for key in ("From", "Base"))
    if name and _is_home(checkout, commits, name, base):  # what came later was added on the branch of the patch
        switch(checkout, name)
        return Undone(commits, branch=name)
    if not name and base and _is_all(checkout, commits, base):
        switch(checkout, base, detach=True)
        return Undone(commits, base=base)
    sha = _reverse(checkout, commits)
    forward(checkout, sha)
    return Undone(commits, sha=sha)


def _is_home(checkout: GitCheckout, commits: Sequence[PatchCommit], name: str, base: str | None) -> bool:
    """Return whether to switch back to a branch: the patch is all that was added to it, or to the patch's base.

    git lets no branch be checked out twice: one that another work tree holds is no way back.
    """
    ref = f"refs/heads/{name}"
    if name == current_branch(checkout) or gitio.run(["rev-parse", "--verify", "-q", ref], checkout.root)[0]:
        return False
    elsewhere = ["for-each-ref", "--format=%(worktreepath)", ref]
    if gitio.read(elsewhere, checkout.root).strip():
        return False
    return _is_all(checkout, commits, ref) or bool(base and _is_all(checkout, commits, base))


def _is_all(checkout: GitCheckout, commits: Sequence[PatchCommit], start: str) -> bool:
    """Return whether the patch is all that the current branch adds to a branch or commit."""
    own = ["rev-list", "--max-count", str(len(commits) + 1), "HEAD", f"^{start}", "--"]
    code, out, _ = gitio.run(own, checkout.root)
    return code == 0 and set(out.decode().split()) == {commit.sha for commit in commits}


def _reverse(checkout: GitCheckout, commits: Sequence[PatchCommit]) -> str:
    """Build the commit that takes the changes of the commits back, newest first. Only objects are written."""
    lines = [
        "Undo the rewrite for GPUs without bfloat16",
        "",
        *(f"This reverts commit {commit.sha}." for commit in commits),
        "",
        f"Verl-Patch-Version: {__version__}",
        f"{REVERTS}: {' '.join(commit.sha for commit in commits)}",
        "",
    ]
    with scratch() as folder, opened(checkout) as repo:
        with repo.git.custom_environment(GIT_INDEX_FILE=str(folder / "index")):
            call(repo, "read-tree", checkout.base, config=PLAIN_INDEX)
            for commit in commits:
                _take_back(repo, commit, folder, commits)
            tree = call(repo, "write-tree", config=PLAIN_INDEX).decode().strip()
        with as_file(folder, "\n".join(lines).encode()) as message:
            return write_commit(repo, tree, checkout.base, message)


def _take_back(repo: Repo, commit: PatchCommit, folder: Path, commits: Sequence[PatchCommit]) -> None:
    """Take the changes of one commit back in the private index, by a three-way merge of each file."""
    config = (*PLAIN_INDEX, "apply.whitespace=nowarn", "apply.ignoreWhitespace=no", "core.quotePath=true")
    patch = call(repo, *_DIFF, f"{commit.sha}^", commit.sha, "--", config=config)
    if not patch:
        return
    with as_file(folder, patch) as stdin:
        code, _, err = attempt(repo, "apply", "--cached", "--3way", "--reverse", config=config, stdin=stdin)
    if code and "cannot be used together" in err.replace("incompatible", "cannot be used together"):  # before git 2.32
        with as_file(folder, patch) as stdin:
            code, _, err = attempt(repo, "apply", "--cached", "--reverse", config=config, stdin=stdin)
    if code:
        raise GitError(_conflict(repo, err, commits))


def _conflict(repo: Repo, err: str, commits: Sequence[PatchCommit]) -> str:
    unmerged = call(repo, "ls-files", "-u", "-z", config=PLAIN_INDEX).split(b"\0")[:-1]
    paths = sorted({os.fsdecode(entry.partition(b"\t")[2]) for entry in unmerged})
    paths = paths or sorted(set(re.findall(r"^error: (.*): patch does not apply$", err, re.MULTILINE)))
    by_hand = f"nothing is changed. By hand: git revert {' '.join(commit.sha[:10] for commit in commits)}"
    gone = sorted(set(re.findall(r"^error: (.*): does not exist in index$", err, re.MULTILINE)))
    if gone and not paths:
        some = f"{', '.join(map(show, gone[:3]))}{', …' if len(gone) > 3 else ''}"
        return f"later commits removed or renamed {some}, which the patch has changed; {by_hand}"
    where = f"conflicts in {', '.join(map(show, paths[:3]))}{', …' if len(paths) > 3 else ''}"
    return f"later commits changed the same lines, {where if paths else one_line(err)}; {by_hand}"
