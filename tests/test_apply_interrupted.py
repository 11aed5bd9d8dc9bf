"""Ctrl-C, signals, kill -9, a full disk, two runs at once: everything is as before, or everything is done.

The runs are forked from this process, so that the random moments fall into the work and not into imports.
``VERL_PATCH_ROUNDS`` multiplies how often each is tried.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from minis import ADDED, BRANCH, Verl, everything, make_mini, without_traces
from repos import commit, git, leftovers, python

from verl_legacy_patch.cli import run

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("VERL_PATCH_ROUNDS", "1"))
SOURCES = {f"verl/many/f{number}.py": f"import torch\n\nx{number} = f(dtype=torch.bfloat16)\n" for number in range(10)}
#: Whether this process becomes the parent of what a killed run has started, so that it can wait for it.
ADOPTS = sys.platform == "linux" and ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0


def start(*arguments: str | Path, out: Path) -> int:
    """Fork a run of the command in a process group of its own, as a terminal would have it."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target in (1, 2):
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND), target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        code = run([os.fspath(each) for each in arguments])
    except KeyboardInterrupt:  # just before or after it
        code = 130
    finally:
        os._exit(code)


def end(child: int) -> int:
    """Wait for a run and for what it has started; return its exit code, negative for a signal."""
    _, status = os.waitpid(child, 0)
    try:
        while ADOPTS:
            os.waitpid(-child, 0)
    except ChildProcessError:
        pass
    else:
        time.sleep(0.5)
    return os.waitstatus_to_exitcode(status)


def work_tree(root: Path) -> dict[str, tuple[bytes, int]]:
    return {path: entry for path, entry in everything(root).items() if not path.startswith(".git")}


@pytest.fixture
def many(config: Path, tmp_path: Path, verl: Verl) -> Iterator[Path]:
    """Return a repository with more files, and have every module loaded."""
    root = make_mini(tmp_path / "many", SOURCES)
    verl("apply", root).done()
    git(root, "switch", "-q", "main")
    git(root, "branch", "-qm", BRANCH, "expected")
    yield root


class Rounds:
    """Interrupts runs at random moments and looks at what they leave."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root, self.scratch = root, scratch
        self.out = scratch.parent / "out"
        self.before = work_tree(root)
        git(root, "switch", "-q", "expected")
        self.after = work_tree(root)
        git(root, "switch", "-q", "main")
        started = time.monotonic()
        assert end(start("apply", root, "--branch", "warm", out=self.out)) == 0
        self.seconds = time.monotonic() - started
        self.reset()

    def reset(self) -> None:
        for lock in leftovers(self.root / ".git"):
            shutil.rmtree(lock) if lock.is_dir() else lock.unlink(missing_ok=True)
        git(self.root, "switch", "-q", "-f", "main")
        git(self.root, "clean", "-qfdx")
        for name in git(self.root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split():
            if name not in ("main", "expected"):
                git(self.root, "branch", "-qD", name)
        for left in self.scratch.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def play(self, count: int, number: int, send: Callable[[int, int], None]) -> Iterator[int]:
        """Yield the exit code of each interrupted run."""
        for _ in range(count * ROUNDS):
            self.out.write_bytes(b"")
            child = start("apply", self.root, out=self.out)
            time.sleep(self.seconds * random.random() * 1.2)
            with suppress(ProcessLookupError):
                send(child, number)
            yield end(child)
            self.reset()

    @property
    def said(self) -> str:
        return self.out.read_text()

    def whole(self) -> str:
        """Check that nothing is half done, and return which of the two it is."""
        assert git(self.root, "status", "--porcelain") == "", self.said
        on = git(self.root, "symbolic-ref", "--short", "HEAD")
        assert on in ("main", BRANCH), self.said
        assert work_tree(self.root) == (self.before if on == "main" else self.after), self.said
        exists = subprocess.run(["git", "rev-parse", "-q", "--verify", BRANCH], cwd=self.root, capture_output=True)
        if exists.returncode == 0:
            assert git(self.root, "diff", "expected", BRANCH) == ""
        return on


def test_interrupted(many: Path, tmp_path: Path) -> None:
    rounds = Rounds(many, tmp_path / "scratch")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for send in (os.kill, os.killpg):
            for code in rounds.play(2, number, send):
                assert "Traceback" not in rounds.said and "Error" not in rounds.said, rounds.said
                on = rounds.whole()
                assert leftovers(many / ".git") == [] and list((tmp_path / "scratch").iterdir()) == [], rounds.said
                assert code in (0, 128 + number, -number), (code, rounds.said)
                assert code != 0 or on == BRANCH
    git(many, "fsck")


def test_killed(many: Path, tmp_path: Path, verl: Verl) -> None:
    """kill -9 ends Python, and git, if it is at work, brings its step to an end."""
    rounds = Rounds(many, tmp_path / "scratch")
    for code in rounds.play(4, signal.SIGKILL, os.kill):
        assert code in (0, -9)
        on = rounds.whole()
        ran = verl("apply", many)  # and going on is easy
        if on == BRANCH:
            ran.done("Nothing to rewrite")
        elif ran.code:
            ran.refused(3, "holds exactly this patch: git switch")
        else:
            ran.done(BRANCH)
            assert leftovers(many / ".git") == []
        assert "Traceback" not in ran.err


def test_power_cut(many: Path, tmp_path: Path, verl: Verl) -> None:
    """When git dies in the middle too, no content is lost, and the next run says what to do."""
    rounds = Rounds(many, tmp_path / "scratch")
    for _ in rounds.play(3, signal.SIGKILL, os.killpg):
        git(many, "fsck")
        for path, entry in work_tree(many).items():
            known = (rounds.before.get(path, (None, 0))[0], rounds.after.get(path, (None, 0))[0], b"")
            assert entry[0] in known, path
        if git(many, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"):
            ran = verl("apply", many)
            ran.refused(3)
            assert "was killed while it switched" in ran.err or ".lock exists" in ran.err, ran.err


def test_killed_in_the_middle_of_a_switch(many: Path, verl: Verl, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    (tmp_path / "slow").write_text(f"#!/bin/sh\ntouch '{mark}'\nsleep 5\n")
    (tmp_path / "slow").chmod(0o755)
    (many / ".gitattributes").write_text("verl/workers/actor.py filter=slow\n")
    commit(many)
    git(many, "config", "filter.slow.smudge", str(tmp_path / "slow"))
    child = start("apply", many, out=tmp_path / "out")
    while not mark.exists():
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    assert end(child) == -9
    assert git(many, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no") != ""
    git(many, "config", "filter.slow.smudge", "cat")
    new = many / ADDED[0]
    new.write_text(git(many, "show", f"{BRANCH}:{ADDED[0]}") + "\n")  # git has no record of it yet
    own = many / "verl/utils/own.py"
    own.write_text("mine\n")
    ran = verl("apply", many)
    ran.refused(3, "a verl-patch was killed while it switched", "reset --hard")
    subprocess.run(ran.err.split(": ")[2].split(" brings")[0], shell=True, check=True, capture_output=True)
    verl("apply", many).refused(3, "holds exactly this patch", f"git switch {BRANCH}")
    assert not new.exists() and own.exists()
    own.unlink()
    git(many, "switch", "-q", BRANCH)
    assert leftovers(many / ".git") == [] and git(many, "status", "--porcelain") == ""


def test_killed_in_place(config: Path, tmp_path: Path, verl: Verl) -> None:
    """Every file is as before or as after, the originals are kept, and the next run ends the job."""
    plain, expected = (make_mini(tmp_path / name, SOURCES, git_too=False) for name in ("plain", "expected"))
    before = everything(plain)
    started = time.monotonic()
    verl("apply", expected, "--in-place").done()
    seconds = time.monotonic() - started
    after = everything(expected)
    for _ in range(4 * ROUNDS):
        child = start("apply", plain, "--in-place", out=tmp_path / "out")
        time.sleep(seconds * 1.2 * random.random())
        os.kill(child, signal.SIGKILL)
        assert end(child) in (0, -9)
        for path, entry in everything(plain).items():
            if "/.verl-patch-" not in f"/{path}":
                assert entry in (before.get(path), after.get(path)), path
        kept = list(plain.glob(".verl-patch-backup-*"))
        ran = verl("apply", plain, "--in-place")
        assert ran.code == 0 and ("Nothing to rewrite" in ran.err or all(str(path) in ran.err for path in kept)), ran
        for path in kept:
            shutil.rmtree(path)
        assert {path: entry for path, entry in everything(plain).items() if "/.verl-patch-" not in f"/{path}"} == after
        shutil.rmtree(plain)
        make_mini(plain, SOURCES, git_too=False)


# --- two at once


def test_two_at_once(many: Path, tmp_path: Path) -> None:
    rounds = Rounds(many, tmp_path / "scratch")
    for _ in range(2 * ROUNDS):
        children = [start("apply", many, out=rounds.out) for _ in range(2)]
        codes = sorted(end(child) for child in children)
        assert rounds.whole() == BRANCH, rounds.said
        assert codes[0] == 0 and set(codes) <= {0, 3}, rounds.said
        assert "Traceback" not in rounds.said and leftovers(many / ".git") == []
        assert git(many, "rev-list", "--count", f"main..{BRANCH}") == "1"
        rounds.reset()


def test_two_branches_at_once(many: Path, tmp_path: Path) -> None:
    rounds = Rounds(many, tmp_path / "scratch")
    for _ in range(2 * ROUNDS):
        children = [
            start("apply", many, "--attn", attn, "--branch", attn, out=rounds.out) for attn in ("eager", "sdpa")
        ]
        codes = [end(child) for child in children]
        assert 0 in codes and set(codes) <= {0, 3}, rounds.said
        assert git(many, "status", "--porcelain") == "" and leftovers(many / ".git") == [], rounds.said
        on = git(many, "symbolic-ref", "--short", "HEAD")
        actor = (many / "verl/workers/actor.py").read_text()
        assert f'attn_implementation="{on}"' in actor, rounds.said
        rounds.reset()


# --- no room

NO_ROOM = ("No space left", "Out of diskspace", "unable to", "cannot write")


@pytest.fixture
def small_disk(config: Path, tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path, keep: int) -> Path:
    """Fill a disk until only ``keep`` bytes are free."""
    status = os.statvfs(disk)
    filler = disk / "filler"
    with filler.open("wb") as file:
        file.write(b"x" * max(0, status.f_bavail * status.f_frsize - keep))
    return filler


def test_full_disk(small_disk: Path, verl: Verl, tmp_path: Path) -> None:
    root = make_mini(small_disk / "r", SOURCES)
    before = without_traces(everything(root))
    done = False
    for keep in (0, 8_192, 65_536, 131_072, 196_608, 262_144, 400_000):
        filler = fill(small_disk, keep)
        ran = verl("apply", root)
        filler.unlink()
        if ran.code == 0:
            assert git(root, "status", "--porcelain") == ""
            done = True
            break
        ran.refused(3)
        assert any(words in ran.err for words in NO_ROOM), ran.err
        assert without_traces(everything(root)) == before, (keep, ran)
        assert leftovers(root / ".git") == []
        git(root, "fsck")
        git(root, "gc", "-q", "--prune=now")
        before = without_traces(everything(root))
    assert done or verl("apply", root).done()


def test_full_disk_of_plain_files(small_disk: Path, verl: Verl) -> None:
    root = make_mini(small_disk / "plain", SOURCES, git_too=False)
    before = everything(root)
    for keep in (0, 4_096, 16_384, 65_536):
        filler = fill(small_disk, keep)
        verl("apply", root, "--in-place").refused(3, "No space left on device; nothing has changed")
        filler.unlink()
        assert everything(root) == before
    verl("apply", root, "--in-place").done()


def test_no_room_for_temporary_files(many: Path, small_disk: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    before = without_traces(everything(many))
    fill(small_disk, 0)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(small_disk))
        ran = verl("apply", many)
    ran.refused(3)
    assert any(words in ran.err for words in NO_ROOM), ran.err
    assert without_traces(everything(many)) == before
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_output_that_cannot_be_written(many: Path, tmp_path: Path) -> None:
    """The work is done all the same, when only the summary cannot be written."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    child = start("apply", many, "--dry-run", out=Path("/dev/full"))
    assert end(child) == 3
    child = start("apply", many, out=Path("/dev/full"))
    assert end(child) == 0
    assert git(many, "symbolic-ref", "--short", "HEAD") == BRANCH


def test_the_tests_can_interrupt_their_processes_also_in_the_background() -> None:
    """A shell starts background jobs with SIGINT ignored, and what they start inherits that."""
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = python("import os, signal; os.kill(os.getpid(), signal.SIGINT)", stderr=subprocess.DEVNULL)
        assert process.wait(10) == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, former)
