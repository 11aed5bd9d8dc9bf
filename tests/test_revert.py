"""``revert`` both ways, what it takes for undone, and what stops it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import BRANCH, TREE, Verl, new_process
from repos import as_nobody, commit, git, leftovers, python, state, write

from verl_legacy_patch.branch import switching
from verl_legacy_patch.branch.history import standing
from verl_legacy_patch.checkout import GitCheckout, open_checkout

pytestmark = pytest.mark.slow


@pytest.fixture
def patched(mini: Path, verl: Verl) -> Path:
    """Return a repository on its patch branch."""
    verl("apply", mini).done()
    return mini


def stands(root: Path) -> list[str]:
    checkout = open_checkout(root)
    assert isinstance(checkout, GitCheckout)
    return [each.sha for each in standing(checkout)]


def same_as_before(root: Path, *, but: tuple[str, ...] = ()) -> None:
    """Check that HEAD has the files of ``main``, apart from those of the user."""
    assert set(git(root, "diff", "--name-only", "main", "HEAD").split()) == set(but)
    assert git(root, "status", "--porcelain") == ""


# --- by a switch


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


# --- by a switch, without a branch to go back to, or from another base


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("detached", [True, False])
def test_a_switch_to_a_commit_is_undone_when_it_fails(number: int, detached: bool, mini: Path, verl: Verl) -> None:
    git(mini, "switch", "-q", "--detach")
    verl("apply", mini).done()
    if detached:
        git(mini, "switch", "-q", "--detach")
    before = state(mini)
    moment = {"before": "pass", "after": f"os.kill(os.getpid(), {int(number)}); result = (1, 'error: a filter failed')"}
    with python(INTERRUPTED.format(command="revert", root=str(mini), **moment), stderr=subprocess.PIPE) as process:
        assert b"Traceback" not in process.communicate()[1]
    assert process.returncode == 128 + number
    assert state(mini) == before and leftovers(mini / ".git") == []
    verl("revert", mini).done("Switched to")


# --- by a commit


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


def test_done_is_done_when_nobody_can_be_told(patched: Path) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        assert new_process("revert", patched, stderr=full, stdout=full, capture_output=False).returncode == 0
    assert git(patched, "symbolic-ref", "--short", "HEAD") == "main"


# --- what stops it


def test_conflict_changes_nothing_and_says_the_way_out(patched: Path, verl: Verl) -> None:
    actor = (patched / "verl/workers/actor.py").read_text()
    write(patched, {"verl/workers/actor.py": actor.replace("torch.float32", "torch.float16")})
    commit(patched)
    before = state(patched)
    sha = stands(patched)[0]
    verl("revert", patched).refused(3, "verl/workers/actor.py", "nothing is changed", f"git revert {sha[:10]}")
    assert state(patched) == before and leftovers(patched / ".git") == []
    assert not (patched / ".git/REVERT_HEAD").exists()
    # the way out
    subprocess.run(["git", "revert", sha[:10]], cwd=patched, capture_output=True, check=False)
    write(patched, {"verl/workers/actor.py": TREE["verl/workers/actor.py"]})
    git(patched, "add", "-A")
    git(patched, "-c", "core.editor=true", "revert", "--continue")
    assert stands(patched) == []
    same_as_before(patched)


@pytest.mark.parametrize("how", ["rm", "mv"])
def test_file_that_later_commits_removed_or_renamed(how: str, patched: Path, verl: Verl) -> None:
    git(patched, how, "verl/workers/actor.py", *(["verl/workers/act.py"] if how == "mv" else []))
    commit(patched)
    before = state(patched)
    sha = stands(patched)[0][:10]
    verl("revert", patched).refused(3, "removed or renamed verl/workers/actor.py", "nothing is", f"git revert {sha}")
    assert state(patched) == before and leftovers(patched / ".git") == []


def test_dirty_or_unfinished_is_refused(patched: Path, verl: Verl) -> None:
    write(patched, {"README.md": "changed\n"})
    before = state(patched)
    ran = verl("revert", patched)
    ran.refused(3, "uncommitted changes", "README.md")
    assert "--no-switch" not in ran.err and state(patched) == before
    git(patched, "checkout", "-q", "README.md")
    (patched / ".git/MERGE_HEAD").write_text(git(patched, "rev-parse", "main") + "\n")
    verl("revert", patched).refused(3, "a merge is unfinished")


def test_untracked_file_in_the_way(patched: Path, verl: Verl) -> None:
    git(patched, "rm", "-q", "verl/utils/windows.py")
    commit(patched)
    git(patched, "revert", "--no-edit", "HEAD")
    git(patched, "rm", "-q", "--cached", "README.md")
    git(patched, "commit", "-q", "-m", "no readme")
    assert verl("revert", patched).code == 0
    assert (patched / "README.md").read_text() == TREE["README.md"]


def test_detached_and_without_git(patched: Path, tmp_path: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    git(patched, "switch", "-q", "--detach")
    before = state(patched)
    verl("revert", patched).refused(3, "no branch is checked out")
    assert state(patched) == before
    write(tmp_path / "plain", {"verl/__init__.py": ""})
    verl("revert", tmp_path / "plain").refused(3, "is no git repository")
    verl("revert", tmp_path / "none").refused(3, "does not exist")


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


def test_read_only_repository(patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    before = state(patched)
    with as_nobody(patched):
        (patched / "verl/workers").chmod(0o555)
        ran = verl("revert", patched)
        assert ran.code == 3 and ran.err.count("\n") == 1, ran
        (patched / "verl/workers").chmod(0o755)
    git(patched, "config", "--global", "safe.directory", "*")
    assert state(patched) == before and leftovers(patched / ".git") == []


INTERRUPTED = """
import os, sys
import verl_legacy_patch.branch.switching as switching
real = switching._run_git
def stop(*arguments):
    {before}
    result = real(*arguments)
    {after}
    return result
switching._run_git = stop
from verl_legacy_patch.cli import run
sys.exit(run(["{command}", {root!r}]))
"""


@pytest.mark.parametrize(
    ("command", "number", "when"),
    [
        ("revert", signal.SIGINT, "before"),
        ("revert", signal.SIGTERM, "after"),
        ("apply", signal.SIGTERM, "before"),
        ("apply", signal.SIGINT, "after"),
    ],
)
def test_interrupted_while_the_branch_moves(command: str, number: int, when: str, patched: Path, verl: Verl) -> None:
    write(patched, {"verl/own.py": LEFT})
    commit(patched)
    before = state(patched)
    moment = {"before": "pass", "after": "pass", when: f"os.kill(os.getpid(), {int(number)})"}
    code = INTERRUPTED.format(command=command, root=str(patched), **moment)
    with python(code, stderr=subprocess.PIPE) as process:
        assert b"Traceback" not in process.communicate()[1]
    if state(patched) != before:  # it came too late: all is done
        assert git(patched, "status", "--porcelain") == ""
        assert git(patched, "rev-parse", "HEAD^") == before[3].split(f"refs/heads/{BRANCH} ")[1].split()[0]  # type: ignore[attr-defined]
    assert leftovers(patched / ".git") == []
    git(patched, "fsck", "--strict")


def test_locks_of_a_git_that_a_signal_ended_are_removed_and_those_of_others_stay(
    patched: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(patched, {"verl/own.py": LEFT})
    commit(patched)
    before = state(patched)
    left, others = patched / ".git/HEAD.lock", patched / ".git/refs/heads/other.lock"
    others.write_text("")

    def ended(*_: object) -> tuple[int, str]:
        left.write_text("")
        return -15, ""

    monkeypatch.setattr(switching, "_run_git", ended)
    verl("revert", patched).refused(3, "could not switch")
    assert not left.exists() and others.exists()
    others.unlink()
    assert state(patched) == before and leftovers(patched / ".git") == []
