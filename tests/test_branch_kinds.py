"""Commits and switches in repositories of every kind: sparse, shallow, linked work trees, sha256."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from branches import CHANGES, MESSAGE, NAME, apply, refusal
from checkouts import opened
from repos import FILES, HITS, commit, git, make, state, write

from verl_legacy_patch.branch import current_branch, preflight
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.branch.switching import publish, switch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


def test_detached_head(repo: Path) -> None:
    git(repo, "switch", "-q", "--detach")
    assert current_branch(opened(repo)) is None
    apply(repo)
    assert current_branch(opened(repo)) == NAME


@pytest.mark.parametrize("sparse_index", ["true", "false"])
def test_sparse_checkout(repo: Path, sparse_index: str) -> None:
    git(repo, "config", "index.sparse", sparse_index)
    git(repo, "sparse-checkout", "set", "scripts")
    sha = apply(repo)
    assert not (repo / "verl/workers").exists()
    assert (repo / "scripts/run.sh").read_bytes() == CHANGES[0].content
    assert git(repo, "cat-file", "blob", f"{sha}:verl/utils.py") == str(FILES["verl/utils.py"]).strip()
    assert git(repo, "status", "--porcelain") == ""
    git(repo, "sparse-checkout", "disable")
    assert (repo / "verl/workers/actor.py").read_bytes() == CHANGES[2].content


def test_split_index_and_shallow_clone(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/more.py": "1\n"})
    commit(repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "config", "core.splitIndex", "true")
    git(tmp_path / "shallow", "update-index", "--split-index")
    apply(tmp_path / "shallow")
    assert git(tmp_path / "shallow", "status", "--porcelain") == ""
    assert git(tmp_path / "shallow", "rev-parse", "HEAD^") == git(repo, "rev-parse", "HEAD")


def test_linked_worktree(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    before = state(repo)
    apply(tmp_path / "linked")
    assert git(tmp_path / "linked", "status", "--porcelain", "--branch").startswith(f"## {NAME}")
    assert state(repo)[:3] == before[:3]
    checkout = opened(repo)
    assert "already checked out" in refusal(lambda: switch(checkout, NAME))
    assert "exists already" in refusal(lambda: preflight(checkout, NAME))
    assert state(repo)[:3] == before[:3]


def test_sha256_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    repo = make(tmp_path / "r")
    monkeypatch.delenv("GIT_DEFAULT_HASH")
    assert len(apply(repo)) == 64
    assert git(repo, "status", "--porcelain") == ""


def test_subfolder_commits_in_the_repository_around(tmp_path: Path) -> None:
    repo = make(tmp_path / "prime", {**{f"training/{path}": text for path, text in FILES.items()}, "x.txt": "1"})
    checkout = opened(repo / "training")
    publish(checkout, NAME, commit_tree(checkout, [Change(f"training/{HITS[1]}", b"new\n")], MESSAGE))
    assert git(repo, "diff", "--name-only", "main").split() == [f"training/{HITS[1]}"]


def test_environment_of_a_hook_is_not_ours(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make(tmp_path / "other")
    before = state(other)
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        patch.setenv("GIT_WORK_TREE", str(other))
        apply(repo)
        assert os.environ["GIT_DIR"] == str(other / ".git")
    assert state(other) == before
    assert git(repo, "status", "--porcelain", "--branch") == f"## {NAME}"
