"""``revert`` by a commit when something came after, and what counts as undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import BRANCH, TREE, Verl, same_as_before, stands
from repos import commit, git, leftovers, write

pytestmark = pytest.mark.slow


def test_reverts_by_a_commit_when_something_came_after(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": RIGHT, "verl/__init__.py": '"""Mine."""\n'})
    mine = commit(patched)
    ran = verl("revert", patched)
    assert ran.code == 0 and "Reverted by commit" in ran.err
    assert git(patched, "rev-parse", "HEAD^") == mine and git(patched, "branch", "--show-current") == BRANCH
    same_as_before(patched, but=("verl/own.py", "verl/__init__.py"))
    message = git(patched, "log", "-1", "--format=%B")
    assert "This reverts commit" in message and "Verl-Patch-Reverts: " in message
    assert stands(patched) == []
    verl("revert", patched).refused(3, "there is no patch to undo")


def test_apply_again_after_revert_goes_on_with_the_branch(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": LEFT})
    commit(patched)
    assert verl("revert", patched).code == 0
    assert "Added to branch" in verl("apply", patched).done().err
    assert git(patched, "show", "HEAD:verl/own.py") + "\n" == RIGHT
    assert git(patched, "diff", "--name-only", BRANCH, "HEAD") == "" and len(stands(patched)) == 1
    assert verl("revert", patched).code == 0
    same_as_before(patched, but=("verl/own.py",))


def test_follow_up_commit_has_just_the_new_sites(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": LEFT, "verl/pad.py": "from flash_attn.bert_padding import pad_input\n"})
    commit(patched)
    verl("apply", patched).done("Added to branch")
    assert git(patched, "diff", "--name-only", "HEAD^", "HEAD").split() == ["verl/own.py", "verl/pad.py"]
    assert git(patched, "status", "--porcelain") == "" and leftovers(patched / ".git") == []
    assert "Nothing to rewrite" in verl("apply", patched).done().err
    assert git(patched, "branch", "--list").split() == ["main", "*", BRANCH]
    assert verl("revert", patched).code == 0
    same_as_before(patched, but=("verl/own.py", "verl/pad.py"))


def test_merged_rebased_and_cherry_picked_patches_are_found(patched: Path, verl: Verl) -> None:
    git(patched, "switch", "-q", "main")
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    git(patched, "tag", "unpatched")
    git(patched, "switch", "-q", "-c", "merged")
    git(patched, "merge", "-q", "--no-edit", BRANCH)
    git(patched, "switch", "-q", "-c", "rebased", BRANCH)
    git(patched, "rebase", "-q", "main")
    git(patched, "switch", "-q", "-c", "picked", "main")
    git(patched, "cherry-pick", "-x", BRANCH)
    for name in ("merged", "rebased", "picked"):
        git(patched, "switch", "-q", name)
        write(patched, {"verl/more.py": RIGHT})
        commit(patched)
        assert len(stands(patched)) == 1, name
        assert verl("revert", patched).code == 0, name
        assert git(patched, "diff", "--name-only", "unpatched", "HEAD") == "verl/more.py", name


def test_signed_off_or_with_more_trailers(patched: Path, verl: Verl) -> None:
    git(patched, "commit", "-q", "--amend", "--no-edit", "-s", "--trailer", "Change-Id: I123")
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    assert verl("revert", patched).code == 0
    same_as_before(patched, but=("verl/own.py",))


def test_settings_of_git_that_could_change_the_result(patched: Path, config: Path, verl: Verl) -> None:
    git(patched, "config", "branch." + BRANCH + ".mergeOptions", "--no-ff")
    for key, value in (
        ("merge.ff", "false"), ("merge.verifySignatures", "true"), ("diff.noprefix", "true"),
        ("diff.external", "false"),
        ("diff.renames", "copies"), ("diff.mnemonicPrefix", "true"), ("apply.whitespace", "fix"),
        ("core.whitespace", "cr-at-eol"), ("rerere.enabled", "true"), ("core.autocrlf", "input"),
    ):  # fmt: skip
        git(patched, "config", key, value)
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    assert verl("revert", patched).code == 0
    same_as_before(patched, but=("verl/own.py",))
    assert len(git(patched, "rev-parse", "HEAD^@").split()) == 1


def test_untracked_file_in_the_way(patched: Path, verl: Verl) -> None:
    git(patched, "rm", "-q", "verl/utils/windows.py")
    commit(patched)
    git(patched, "revert", "--no-edit", "HEAD")
    git(patched, "rm", "-q", "--cached", "README.md")
    git(patched, "commit", "-q", "-m", "no readme")
    assert verl("revert", patched).code == 0
    assert (patched / "README.md").read_text() == TREE["README.md"]


# --- what counts as undone


def test_reverts_of_git_count_and_can_be_undone_in_turn(patched: Path) -> None:
    [sha] = stands(patched)
    git(patched, "revert", "--no-edit", "HEAD")
    assert stands(patched) == []
    git(patched, "revert", "--no-edit", "HEAD")
    assert stands(patched) == [sha]


def test_undone_stays_undone_after_a_rebase(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    assert verl("revert", patched).code == 0
    git(patched, "switch", "-q", "-c", "by-git", "HEAD^")
    git(patched, "revert", "--no-edit", f"{BRANCH}~2")
    git(patched, "switch", "-q", "main")
    write(patched, {"verl/up.py": RIGHT})
    commit(patched)
    for name in (BRANCH, "by-git"):
        git(patched, "switch", "-q", name)
        git(patched, "rebase", "-q", "main")
        assert stands(patched) == [], name
        assert verl("apply", patched).code == 0
        assert len(stands(patched)) == 1, name


def test_one_commit_of_several_stays_undone_after_a_rebase(mini: Path, verl: Verl) -> None:
    """git quotes the subject of what it reverts: those of one patch's commits differ."""
    verl("apply", mini, "--commit-per-codemod").done()
    subjects = git(mini, "log", "--format=%s", "main..").split("\n")
    assert len(subjects) == len(set(subjects)) == 4 and subjects[1].endswith(": flash-attn-import")
    git(mini, "revert", "--no-edit", "HEAD^")
    git(mini, "switch", "-q", "main")
    write(mini, {"verl/up.py": RIGHT})
    commit(mini)
    git(mini, "switch", "-q", BRANCH)
    git(mini, "rebase", "-q", "main")
    assert stands(mini) == [git(mini, "rev-parse", f"HEAD~{back}") for back in (1, 3, 4)]


def test_a_message_that_only_quotes_trailers_is_no_patch(mini: Path, verl: Verl) -> None:
    git(mini, "commit", "-q", "--allow-empty", "-m", "Talk\n\n    Verl-Patch-Version: 0.1.0\n\nabout it")
    git(mini, "commit", "-q", "--allow-empty", "-m", "Squash\n\nVerl-Patch-Version: 0.1.0\n\n* more")
    assert stands(mini) == []
