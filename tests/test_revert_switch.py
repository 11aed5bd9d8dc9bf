"""``revert`` by a switch: back to where ``apply`` was run, when nothing came after."""

from __future__ import annotations

from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import BRANCH, Verl, new_process, same_as_before, stands
from repos import commit, git, leftovers, state, write

pytestmark = pytest.mark.slow


def test_switches_back_when_nothing_came_after(patched: Path, verl: Verl) -> None:
    ran = verl("revert", patched)
    assert ran.code == 0 and ran.out == b""
    assert "Switched to branch main." in ran.err and f"git branch -D {BRANCH}" in ran.err
    assert git(patched, "branch", "--show-current") == "main"
    same_as_before(patched)
    verl("revert", patched).refused(3, "there is no patch to undo")


def test_what_was_amended_to_the_patch_is_not_advised_away(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/mine.py": LEFT})
    git(patched, "add", "verl/mine.py")
    git(patched, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--amend", "--no-edit", "--date=@1")
    ran = verl("revert", patched).done()
    assert "git branch -D" not in ran.err and f"Branch {BRANCH} keeps the patch, which was amended since" in ran.err
    assert git(patched, "show", f"{BRANCH}:verl/mine.py")


def test_switches_back_after_several_patch_commits_and_when_home_has_moved(patched: Path, verl: Verl) -> None:
    git(patched, "switch", "-q", "main")
    write(patched, {"verl/new.py": LEFT})
    commit(patched)
    git(patched, "switch", "-q", BRANCH)
    git(patched, "merge", "-q", "--no-edit", "main")
    verl("apply", patched).done()
    assert len(stands(patched)) == 2
    assert verl("revert", patched).code == 0
    # the merge is a commit of the user, so the branch is kept, without the patch
    assert git(patched, "branch", "--show-current") == BRANCH
    same_as_before(patched)


@pytest.mark.parametrize("name", ["feature/ü", "deleted"])
def test_home_branch_with_an_odd_name_or_gone(name: str, mini: Path, verl: Verl) -> None:
    git(mini, "switch", "-q", "-c", name)
    assert verl("apply", mini).code == 0
    if name == "deleted":
        git(mini, "branch", "-q", "-D", name)
    assert verl("revert", mini).code == 0
    assert git(mini, "branch", "--show-current") == (BRANCH if name == "deleted" else name)
    same_as_before(mini)


def test_done_is_done_when_nobody_can_be_told(patched: Path) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        assert new_process("revert", patched, stderr=full, stdout=full, capture_output=False).returncode == 0
    assert git(patched, "symbolic-ref", "--short", "HEAD") == "main"


# --- without a branch to go back to, or from another base


@pytest.mark.parametrize("options", [(), ("--commit-per-codemod",), ("--branch", "mine")])
def test_made_on_a_detached_head(options: tuple[str, ...], mini: Path, verl: Verl) -> None:
    base = git(mini, "rev-parse", "HEAD")
    git(mini, "switch", "-q", "--detach")
    before = state(mini)
    said = verl("apply", mini, *options).done(f"switch --detach {base[:10]} && git").err
    patch = git(mini, "branch", "--show-current")
    ran = verl("revert", mini).done(f"Switched to {base[:10]} (no branch, as before).", f"git branch -D {patch}")
    assert f"git -C {mini} branch -D {patch}" in said and ran.out == b""
    git(mini, "branch", "-q", "-D", patch)
    assert state(mini) == before and leftovers(mini / ".git") == []


def test_made_on_a_detached_head_and_gone_on(mini: Path, verl: Verl) -> None:
    git(mini, "switch", "-q", "--detach")
    verl("apply", mini).done()
    write(mini, {"verl/own.py": RIGHT})
    commit(mini)
    verl("revert", mini).done("Reverted by commit")
    same_as_before(mini, but=("verl/own.py",))


@pytest.mark.parametrize("home", ["main", "feature", None])
def test_made_from_another_base(home: str | None, mini: Path, verl: Verl) -> None:
    """The recipe for a new release: back to where one was, which apply announced."""
    git(mini, "tag", "v0.9.0")
    write(mini, {"verl/own.py": RIGHT})
    commit(mini)
    if home == "feature":  # no ancestor of the other
        git(mini, "switch", "-q", "--orphan", "feature")
        write(mini, {"verl/__init__.py": ""})
        commit(mini)
    elif home is None:
        git(mini, "switch", "-q", "--detach")
    ran = verl("apply", mini, "--base", "v0.9.0", "--branch", "p40-v0.9.0").done()
    base = git(mini, "rev-parse", "v0.9.0")[:10]
    assert f"switch {home or f'--detach {base}'} && git" in ran.err
    assert git(mini, "branch", "--show-current") == "p40-v0.9.0"
    verl("revert", mini).done(f"Switched to {f'branch {home}.' if home else base}", "git branch -D p40-v0.9.0")
    assert git(mini, "branch", "--show-current") == (home or "")
    assert git(mini, "rev-parse", "HEAD") == git(mini, "rev-parse", home or "v0.9.0")
    assert git(mini, "status", "--porcelain") == ""


def test_made_from_another_base_and_gone_on(mini: Path, verl: Verl) -> None:
    git(mini, "tag", "v0.9.0")
    verl("apply", mini, "--base", "v0.9.0", "--branch", "p40-v0.9.0").done()
    write(mini, {"verl/own.py": LEFT})
    commit(mini)
    verl("apply", mini).done("Added to branch p40-v0.9.0")
    verl("revert", mini).done("Reverted by commit")
    same_as_before(mini, but=("verl/own.py",))


# --- other work trees


def test_home_branch_checked_out_in_another_work_tree(patched: Path, tmp_path: Path, verl: Verl) -> None:
    """git lets no branch be checked out twice: where there is no way back, a commit undoes the patch."""
    git(patched, "worktree", "add", "-q", str(tmp_path / "other"), "main")
    before = state(tmp_path / "other")[0]
    verl("revert", patched).done("Reverted by commit")
    same_as_before(patched)
    assert stands(patched) == [] and state(tmp_path / "other")[0] == before
    git(patched, "reset", "-q", "--hard", "HEAD^")
    git(patched, "switch", "-q", "--detach")
    git(tmp_path / "other", "switch", "-q", BRANCH)  # the other way round: the patch in a linked work tree
    git(patched, "switch", "-q", "main")
    verl("revert", tmp_path / "other").done("Reverted by commit")
    same_as_before(tmp_path / "other")
    assert git(patched, "rev-parse", "HEAD") == git(patched, "rev-parse", f"{BRANCH}~2")


def test_home_branch_of_a_linked_work_tree_is_switched_to(patched: Path, tmp_path: Path, verl: Verl) -> None:
    git(patched, "switch", "-q", "-c", "own", "main")
    git(patched, "worktree", "add", "-q", str(tmp_path / "other"), BRANCH)
    verl("revert", tmp_path / "other").done("Switched to branch main")
    assert git(tmp_path / "other", "symbolic-ref", "--short", "HEAD") == "main"
