"""apply --interactive on a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from minis import Verl
from repos import git

from verl_legacy_patch.commands import interactive
from verl_legacy_patch.miniature import make_repository
from verl_legacy_patch.plan import Plan, Problem

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "verl"
    make_repository(folder)
    return folder


class Terminal:
    """A program on a terminal of its own; what it shows so far is in ``shown``."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(PYTHONPATH=str(ROOT), TERM="xterm", HOME=str(folder.parent))
            os.execv(sys.executable, [sys.executable, "-m", "verl_legacy_patch", *arguments])

    def wait_for(self, text: str, count: int = 1) -> None:
        end = time.monotonic() + 30
        while self.shown.count(text) < count:
            assert time.monotonic() < end, f"no {text!r} in {self.shown[-2000:]}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                assert data, f"ended without {text!r}: {self.shown[-2000:]}"
                self.shown += data.decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.shown += data.decode("utf-8", "replace")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


PROMPT = "Accept?"


def test_accept_and_skip_one_by_one(checkout: Path) -> None:
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press("y")
    terminal.wait_for(PROMPT, 2)
    terminal.press("n")
    terminal.wait_for(PROMPT, 3)
    terminal.press("w")
    terminal.wait_for("[y/n]")
    terminal.press("n")
    assert terminal.end() == 0
    assert "Accepted 1 of " in terminal.shown
    assert git(checkout, "rev-parse", "--abbrev-ref", "HEAD").strip() == "verl-patch/float32-eager"
    assert git(checkout, "diff", "--diff-filter=M", "main", "HEAD").count("\n@@ ") == 1
    assert git(checkout, "status", "--porcelain").strip() == ""


def test_keys_typed_ahead_are_not_lost(checkout: Path) -> None:
    terminal = Terminal(checkout, "apply", "--interactive")
    terminal.wait_for(PROMPT)
    terminal.press("yyyuuA")
    assert terminal.end() == 0
    total = terminal.shown.partition("(1/")[2].partition(")")[0]
    assert f"Accepted {total} of {total} changes" in terminal.shown
    assert "[y/n]" not in terminal.shown


def test_quit_writes_nothing(checkout: Path) -> None:
    before = git(checkout, "for-each-ref") + git(checkout, "rev-parse", "HEAD")
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press("yyq")
    assert terminal.end() == 130
    assert "Nothing is written." in terminal.shown and "Error" not in terminal.shown
    assert git(checkout, "for-each-ref") + git(checkout, "rev-parse", "HEAD") == before
    assert git(checkout, "status", "--porcelain").strip() == ""


def test_control_c_writes_nothing(checkout: Path) -> None:
    before = git(checkout, "for-each-ref")
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert git(checkout, "for-each-ref") == before


def test_skipped_places_become_suppressions(checkout: Path) -> None:
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press("w")
    terminal.wait_for("[y/n]")
    terminal.press("y")
    assert terminal.end() == 0
    assert "verl-patch: keep[dtype]" in git(checkout, "show", "HEAD")
    again = Terminal(checkout, "check")
    assert "torch.bfloat16" not in (again.end() and again.shown)


def test_help_and_undo(checkout: Path) -> None:
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press("?")
    terminal.wait_for("accept everything that is left")
    terminal.press("u")
    terminal.wait_for("nothing to undo")
    terminal.press("nk")
    terminal.wait_for("skipped before")
    terminal.press("yk")
    terminal.wait_for("accepted before")
    terminal.press("q")
    assert terminal.end() == 130


@pytest.mark.parametrize("enter", ["\r", "\n", "\n\r\n"])
def test_enter_behind_an_answer_is_no_answer(enter: str, checkout: Path) -> None:
    terminal = Terminal(checkout, "apply", "-i")
    terminal.wait_for(PROMPT)
    terminal.press(f"{enter}y{enter}n{enter}")
    terminal.wait_for("(3/")
    terminal.press(f"w{enter}")
    terminal.wait_for("[y/n]")
    terminal.press(f"{enter}y{enter}")
    assert terminal.end() == 0
    assert "Accepted 1 of " in terminal.shown and "this list" not in terminal.shown
    assert terminal.shown.count(PROMPT) == 3
    assert "verl-patch: keep" in git(checkout, "show", "HEAD")


def test_without_a_terminal_it_is_refused(checkout: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "verl_legacy_patch", "apply", "-i"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=checkout, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --interactive asks on a terminal")


def test_a_part_that_fails_its_check_is_refused(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of a partial acceptance are in ``test_review``: here is what follows when one fails."""

    def review(plan: Plan) -> Plan:
        bad, *good = plan.changes
        return replace(plan, changes=good, problems=[*plan.problems, Problem(bad.path, 3, "would not parse")])

    monkeypatch.setattr(interactive, "review_plan", review)
    verl("apply", mini, "-i").refused(4, "would not parse", "nothing is written", "--keep-going")
    assert git(mini, "branch") == "* main"
    kept = verl("apply", mini, "-i", "--keep-going")
    assert kept.code == 0 and "Skipped: " in kept.err
    assert git(mini, "branch", "--show-current") == "verl-patch/float32-eager"
    assert "Skipped, these could not be rewritten" in git(mini, "show", "--no-patch")
