"""A commit or a switch that is interrupted or killed is whole or undone."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from branches import CHANGES, MESSAGE, NAME, refusal, untouched
from checkouts import opened
from repos import commit, git, leftovers, python, state, which, write

from verl_legacy_patch.branch import commit as commit_module
from verl_legacy_patch.branch import switching
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.switching import publish

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


DRIVER = """
import sys
from pathlib import Path
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.branch.inplace import write_in_place
from verl_legacy_patch.branch.switching import publish
checkout = open_checkout(Path(sys.argv[1]))
changes = [Change("scripts/run.sh", b"new", "100755"), Change("verl/workers/actor.py", b"new"),
           Change("verl/new.py", b"new", added=True)]
try:
    publish(checkout, "x/y", commit_tree(checkout, changes, "m"))
except KeyboardInterrupt:
    sys.exit(130)
"""


def slow_program(tmp_path: Path, seconds: float) -> tuple[str, Path]:
    """Return a program that shows that it has started and then takes its time, and the sign of its start."""
    mark = tmp_path / "started"
    write(tmp_path, {"slow": f"#!/bin/sh\ntouch '{mark}'\nsleep {seconds} >/dev/null 2>&1\ncat\n"})
    (tmp_path / "slow").chmod(0o755)
    return str(tmp_path / "slow"), mark


def interrupt(repo: Path, mark: Path, number: int, *, group: bool) -> int:
    process = python(DRIVER, str(repo))
    deadline = time.monotonic() + 10
    while not mark.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    (os.killpg if group else os.kill)(process.pid, number)
    return process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_while_committing(repo: Path, tmp_path: Path, number: int) -> None:
    program, mark = slow_program(tmp_path, 5)
    git(repo, "config", "commit.gpgsign", "true")
    git(repo, "config", "gpg.program", program)
    before = state(repo)
    code = interrupt(repo, mark, number, group=True)
    assert code == (130 if number == signal.SIGINT else -number)
    if number != signal.SIGINT:  # killed: a folder in the system's temporary one is all that stays
        for left in (tmp_path / "scratch").iterdir():
            left.rename(tmp_path / left.name)
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_while_switching(repo: Path, tmp_path: Path, number: int, group: bool) -> None:
    write(repo, {".gitattributes": "verl/workers/actor.py filter=slow\n"})
    commit(repo)
    program, mark = slow_program(tmp_path, 5)
    git(repo, "config", "filter.slow.smudge", program)
    before = state(repo)
    code = interrupt(repo, mark, number, group=group)
    assert code == (130 if number == signal.SIGINT else -number)
    untouched(repo, before, tmp_path)


def test_killed_while_switching(repo: Path, tmp_path: Path) -> None:
    write(repo, {".gitattributes": "verl/workers/actor.py filter=slow\n"})
    base = commit(repo)
    program, mark = slow_program(tmp_path, 0.5)
    git(repo, "config", "filter.slow.smudge", program)
    interrupt(repo, mark, signal.SIGKILL, group=False)
    deadline = time.monotonic() + 5
    while git(repo, "symbolic-ref", "HEAD") == "refs/heads/main":  # git goes on alone, and finishes
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-parse", "main", "x/y^").split() == [base, base]
    git(repo, "fsck", "--strict")


def test_python_stops_in_the_middle(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = state(repo)
    checkout = opened(repo)
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    for module, name in (
        (commit_module, "write_commit"),
        (commit_module, "_store"),
        (switching, "_run_git"),
        (switching, "current_branch"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, stop)
            if name == "current_branch":
                patch.setattr(switching, "_run_git", lambda *_: (1, "no"))
            with pytest.raises(KeyboardInterrupt):
                publish(checkout, NAME, commit_tree(checkout, CHANGES, MESSAGE) if module is commit_module else sha)
        untouched(repo, before, tmp_path)


@pytest.mark.parametrize("command", ["read-tree", "commit-tree", "switch"])
def test_a_git_that_is_killed_is_named_so(
    command: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the system, when memory is short or a file grows too big: it says nothing itself."""
    checkout, before = opened(repo), state(repo)
    kill = f'case " $* " in *" {command} "*) kill -KILL $$;; esac'
    write(tmp_path, {"bin/git": f'#!/bin/sh\n{kill}\nexec {which("git")} "$@"\n'})
    (tmp_path / "bin/git").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
        message = refusal(lambda: publish(checkout, NAME, commit_tree(checkout, CHANGES, "x")))
    assert "killed by signal 9" in message and state(repo) == before and leftovers(repo / ".git") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_folder_for_temporary_files_is_made(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp

    def interrupted(prefix: str) -> str:
        made = make(prefix=prefix, dir=tmp_path)
        os.kill(os.getpid(), number)
        return made

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    former = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), commit_module.scratch():
            pytest.fail("the work has begun")
    finally:
        signal.signal(number, former)
    assert list(tmp_path.glob("verl-patch-*")) == []


def test_a_git_that_still_writes_does_not_keep_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove, calls = shutil.rmtree, []

    def written_to(folder: Path, ignore_errors: bool) -> None:
        calls.append(folder)
        remove(folder, ignore_errors)
        if len(calls) < 3:
            folder.mkdir()
            (folder / "index.lock").touch()

    monkeypatch.setattr(shutil, "rmtree", written_to)
    with commit_module.scratch() as folder:
        assert folder.is_dir()
    assert len(calls) == 3 and not folder.exists()
