"""A commit or a switch that cannot be: the reason in one line, and all is as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from branches import CHANGES, MESSAGE, NAME, apply, refusal, untouched
from checkouts import opened
from repos import as_nobody, commit, git, state, write

from verl_legacy_patch.branch import GitError, preflight
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.switching import publish, switch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


def test_dirty_file_in_the_way_of_the_switch(repo: Path, tmp_path: Path) -> None:
    (repo / "verl/workers/actor.py").write_text("mine\n")
    write(repo, {"verl/new/support.py": "mine too\n"})
    before = state(repo)
    message = refusal(lambda: apply(repo))
    assert "would be overwritten" in message and "all is as it was" in message
    untouched(repo, before, tmp_path)


def test_untracked_file_in_the_way(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/new/support.py": "mine\n"})
    before = state(repo)
    assert "verl/new/support.py" in refusal(lambda: apply(repo))
    untouched(repo, before, tmp_path)


def test_locks_of_another_git(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    lock = repo / ".git/index.lock"
    lock.touch()
    assert "index.lock" in refusal(lambda: apply(repo))
    lock.unlink()
    untouched(repo, before, tmp_path)
    (repo / ".git/HEAD.lock").touch()
    assert "HEAD.lock exists: another git" in refusal(lambda: apply(repo))
    (repo / ".git/HEAD.lock").unlink()
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("command", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_unfinished_operation(repo: Path, command: str) -> None:
    write(repo, {"verl/utils.py": "main\n"})
    second = commit(repo)
    write(repo, {"verl/utils.py": "third\n"})
    commit(repo)
    git(repo, "switch", "-qc", "side", "HEAD~2")
    write(repo, {"verl/utils.py": "side\n"})
    commit(repo)
    arguments = {"bisect": ["bisect", "start"], "revert": ["revert", second]}.get(command, [command, "main"])
    os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"cd '{repo}' && git {' '.join(arguments)} >/dev/null 2>&1")
    checkout = opened(repo)
    before = state(repo)
    what = {"revert": "revert|merge"}.get(command, command)
    with pytest.raises(GitError, match=f"a ({what}).* is unfinished"):
        preflight(checkout, NAME)
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    for call in (lambda: publish(checkout, NAME, sha), lambda: switch(checkout, "main")):
        assert "is unfinished" in refusal(call)
    assert state(repo) == before
    preflight(checkout, NAME, switch=False)
    publish(checkout, NAME, sha, switch_to=False)


# --- read-only


def test_read_only_repository(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    (repo / ".git/objects").chmod(0o555)
    for folder in (repo / ".git/objects").iterdir():
        folder.chmod(0o555)
    with as_nobody(repo):
        assert "git hash-object failed" in refusal(lambda: commit_tree(opened(repo), CHANGES, MESSAGE))
    for path in (repo / ".git/objects", *(repo / ".git/objects").iterdir()):
        path.chmod(0o755)
    git(repo, "config", "--global", "safe.directory", "*")
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("folder", ["verl/workers", "scripts", "verl", ".git", ".git/refs/heads"])
@pytest.mark.parametrize("detached", [False, True])
def test_read_only_folder(repo: Path, tmp_path: Path, folder: str, detached: bool) -> None:
    if detached:
        git(repo, "switch", "-q", "--detach")
    before = state(repo)
    (repo / folder).chmod(0o555)
    with as_nobody(repo):
        message = refusal(lambda: apply(repo))
        assert any(word in message for word in ("Permission denied", "unable to create directory")), message
    (repo / folder).chmod(0o755)
    git(repo, "config", "--global", "safe.directory", "*")
    untouched(repo, before, tmp_path)
