"""What stops ``revert``: conflicts, uncommitted changes, permissions, interrupts; nothing is changed then."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import BRANCH, TREE, Verl, same_as_before, stands
from repos import as_nobody, commit, git, leftovers, python, state, write

from verl_legacy_patch.branch import switching

pytestmark = pytest.mark.slow


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


# --- interrupted


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
