"""The only module that writes with git: build a commit, name it by a branch, switch to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from verl_legacy_patch.branch.history import PatchCommit, find_patch_commits, trailers
from verl_legacy_patch.branch.repo import attempt, call, opened
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import GitError, one_line, show, to_bytes
from verl_legacy_patch.checkout.revision import GitCheckout

if TYPE_CHECKING:
    from verl_legacy_patch.branch.inplace import Change

__all__ = [
    "GitError",
    "PatchCommit",
    "attempt",
    "call",
    "create_branch",
    "current_branch",
    "find_patch_commits",
    "opened",
    "preflight",
    "remove_branch",
    "trailers",
]

_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or git am",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


def preflight(
    checkout: GitCheckout, name: str, *, switch: bool = True, changes: Sequence[Change] | None = None
) -> None:
    """Refuse early what would fail late: before the files are rewritten, with the same messages.

    Raises:
        GitError: the branch exists or cannot be, the author is unknown; with ``switch``, tracked files have
            changes or an operation is unfinished.
    """
    if switch:
        refuse_unfinished(checkout)
        refuse_dirty(checkout)
    _free(checkout, name, changes)
    refuse_nameless(checkout)


def refuse_nameless(checkout: GitCheckout) -> None:
    """Refuse to go on where git does not know whose commit it would be."""
    from verl_legacy_patch.branch.commit import NAMELESS, nameless

    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        code, _, err = gitio.run(["-c", "user.useConfigOnly=true", "var", who], checkout.root)
        if code:
            raise GitError(NAMELESS if nameless(err) else f"git has no identity for you: {one_line(err)}")


def refuse_dirty(checkout: GitCheckout, instead: str = ", or use --no-switch to leave the work tree alone") -> None:
    """Refuse a work tree with uncommitted changes in tracked files; ``instead`` is what else could be done.

    A clean one is freed from what a killed run has left.
    """
    from verl_legacy_patch.branch.backup import alone, stale
    from verl_legacy_patch.branch.killed import clear, way_out

    dirty = checkout.dirty()
    if stale(checkout.git_dir):
        with alone(checkout.git_dir):  # another run may be in the middle of a switch
            if stale(checkout.git_dir):
                if dirty:
                    raise GitError(way_out(checkout))
                clear(checkout)
    if dirty:
        where = show(str(checkout.root))
        some = ", ".join(show(path) for path in dirty[:3]) + (", ..." if len(dirty) > 3 else "")
        files = "1 tracked file has" if len(dirty) == 1 else f"{len(dirty)} tracked files have"
        raise GitError(f"{files} uncommitted changes in {where} ({some}): commit or stash them{instead}")


def refuse_unfinished(checkout: GitCheckout, instead: str = ", or use --no-switch") -> None:
    """Refuse to leave a commit on which a merge, rebase or the like waits to be finished."""
    for mark, what in _UNFINISHED.items():
        if (checkout.git_dir / mark).exists():
            raise GitError(f"a {what} is unfinished in {show(str(checkout.root))}: end it first{instead}")


def _free(checkout: GitCheckout, name: str, changes: Sequence[Change] | None = None) -> None:
    """Refuse a branch name that is invalid, taken, or blocked by another branch."""
    code, out, _ = gitio.run(["check-ref-format", "--branch", name], checkout.root)
    # "@{-1}" is turned into the name of another branch, which is not what was asked for.
    if code or name == "HEAD" or out.rstrip(b"\n") != to_bytes(name):
        raise GitError(f"{show(name)} is not a valid branch name: give another with --branch")
    # A branch is a file below refs/heads: "a" and "a/b" cannot both be.
    parts = name.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts))]
    wanted = ["refs/heads/" + each for each in (*above, name)]
    listed = gitio.read(["for-each-ref", "--format=%(refname)", *wanted], checkout.root)
    names = listed.decode("utf-8", "surrogateescape").split("\n")
    branches = {each.removeprefix("refs/heads/") for each in names if each}
    if name in branches:
        from verl_legacy_patch.branch.existing import taken

        raise taken(checkout, name, changes)
    for other in sorted(branches):
        if other in above or other.startswith(name + "/"):
            raise GitError(
                f"branch {show(name)} cannot be created beside branch {show(other)}: give another name with --branch"
            )


def create_branch(checkout: GitCheckout, name: str, sha: str) -> None:
    """Create a branch at a commit; never move one that exists.

    Raises:
        GitError: the name is invalid or taken, or the ref cannot be written.
    """
    _free(checkout, name)
    note = "branch: Created by verl-patch"
    with opened(checkout) as repo:
        code, _, err = attempt(
            repo, "update-ref", "--create-reflog", "-m", note, f"refs/heads/{name}", sha, "0" * len(sha)
        )
    if code:
        raise GitError(f"branch {show(name)} could not be created: {one_line(err)}")


def remove_branch(checkout: GitCheckout, name: str, sha: str) -> None:
    """Remove a branch that still is at ``sha``: undoes ``create_branch``."""
    with opened(checkout) as repo:
        call(repo, "update-ref", "-d", f"refs/heads/{name}", sha)


def current_branch(checkout: GitCheckout) -> str | None:
    """Return the branch that is checked out; None for a detached HEAD."""
    code, out, _ = gitio.run(["symbolic-ref", "--short", "-q", "HEAD"], checkout.root)
    return out.decode("utf-8", "surrogateescape").rstrip("\n") if code == 0 else None
