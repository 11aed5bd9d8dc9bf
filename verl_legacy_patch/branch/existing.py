"""What a branch that is in the way holds, and how to go on: often it is the very patch that was asked for."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence

from verl_legacy_patch.branch.history import TRAILERS, find_patch_commits
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import GitError, show, to_bytes
from verl_legacy_patch.checkout.revision import GitCheckout


def taken(checkout: GitCheckout, name: str, changes: Sequence[Change] | None = None) -> GitError:
    """Return the refusal to create a branch that exists.

    Args:
        checkout: where it exists.
        name: of the branch.
        changes: what the branch would hold on top of the base.
    """
    quoted = shlex.quote(show(name))
    remove = f"delete it with git branch -D {quoted}"
    other = "give another name with --branch"
    exists = f"branch {show(name)} exists already"
    ref = f"refs/heads/{name}"
    try:
        if changes and _differences(checkout, ref) == _wanted(checkout, changes):
            return GitError(f"{exists} and holds exactly this patch: git switch {quoted} (or {other}, or {remove})")
        commits = find_patch_commits(checkout, ref)
    except gitio.CheckoutError:
        commits = []
    for commit in commits:
        if TRAILERS[1] in commit.trailers:  # a revert of a patch names no target
            base = commit.trailers.get(TRAILERS[2], "")
            what = (
                "an earlier patch of this base" if base == checkout.base else f"a patch of {base[:10] or 'plain files'}"
            )
            exists += f", {what} ({show(commit.trailers[TRAILERS[1]])})"
            break
    return GitError(f"{exists}: {other}, or {remove}")


def _differences(checkout: GitCheckout, ref: str) -> dict[bytes, tuple[bytes, bytes]]:
    """Return path -> (mode, blob) of what a branch has and the base has not."""
    options = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"]
    fields = gitio.read([*options, checkout.base, ref, "--"], checkout.root).split(b"\0")
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for entry, path in zip(fields[:-1:2], fields[1::2], strict=True):
        _, mode, _, sha, _ = entry.split(b" ")
        found[path] = (mode, sha)
    return found


def _wanted(checkout: GitCheckout, changes: Sequence[Change]) -> dict[bytes, tuple[bytes, bytes]]:
    algorithm = "sha256" if len(checkout.base) == 64 else "sha1"
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for change in changes:
        sha = hashlib.new(algorithm, b"blob %d\0" % len(change.content) + change.content, usedforsecurity=False)
        found[to_bytes(change.path)] = (change.mode.encode(), sha.hexdigest().encode())
    return found
