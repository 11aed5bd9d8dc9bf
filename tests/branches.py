"""The patch that tests commit and switch to, and what must hold after one that was refused or interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import opened
from repos import git, leftovers, state

from verl_legacy_patch.branch import GitError
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.branch.switching import publish
from verl_legacy_patch.checkout import CheckoutError

NAME = "verl-patch/float32-eager"
MESSAGE = "Rewrite für float32\n\nText.\n\nVerl-Patch-Version: 0.1.0\nVerl-Patch-Target: float32 eager\n"
CHANGES = [
    Change("scripts/run.sh", b"#!/bin/sh\necho fp32\r\n", "100755"),
    Change("verl/new/support.py", b"x = 1\n", added=True),
    Change("verl/workers/actor.py", b"import torch\n\ndtype = torch.float32\n"),
]


def refusal(call: Callable[[], object], kind: type[CheckoutError] = GitError) -> str:
    """Return the one line that a call is refused with."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


def apply(root: Path, changes: list[Change] = CHANGES, base: str | None = None) -> str:
    """Commit the changes and switch to them."""
    checkout = opened(root, base)
    sha = commit_tree(checkout, changes, MESSAGE)
    publish(checkout, NAME, sha)
    return sha


def untouched(root: Path, before: tuple[object, ...], tmp_path: Path) -> None:
    """Check that all is as it was, and nothing is left anywhere."""
    assert state(root) == before
    assert leftovers(root / ".git") == []
    assert list((tmp_path / "scratch").iterdir()) == []
    git(root, "fsck", "--strict")
