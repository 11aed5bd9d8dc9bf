"""What ``apply`` shows to a person at a terminal: a bar, colours, the patch, or a report in its place."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest
from minis import PROJECT, Verl

from verl_legacy_patch.commands import apply


def on_a_terminal(arguments: list[str], cwd: Path, **env: str) -> tuple[bytes, int]:
    """Run the command with a terminal for all three streams; return all that it shows."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover
        os.chdir(cwd)
        os.environ.update(PYTHONPATH=str(PROJECT), TERM="xterm", GIT_PAGER="cat", **env)
        code = "from verl_legacy_patch.commands import apply; apply.BAR_AFTER = float({!r})\n".format(
            env.get("BAR", "9")
        )
        code += "from verl_legacy_patch.__main__ import main; main()"
        os.execv(
            sys.executable, [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-c", code, *arguments]
        )
    shown = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_progress_bar_and_colours_on_a_terminal(mini: Path) -> None:
    shown, code = on_a_terminal(["apply", "--dry-run"], mini, BAR="0", NO_COLOR="1")
    assert code == 0 and b"Reading" in shown and b"100%" in shown and b"9 places in 5 files" in shown, shown
    assert b"\x1b[32m" not in shown and b"torch.float32" in shown
    shown, code = on_a_terminal(["apply", "--dry-run"], mini)
    assert code == 0 and b"Reading" not in shown and b"\x1b[32m+" in shown, shown


def test_no_progress_bar_elsewhere(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "BAR_AFTER", 0.0)
    assert "Reading" not in verl("apply", mini, "-n").err


@pytest.mark.parametrize(
    ("options", "patch"),
    [
        (["-n"], True),
        (["-n", "--report", "a.html"], False),
        (["-n", "--report", "a.patch"], False),
        (["-n", "--report", "a.html", "-U", "1"], True),
    ],
)
def test_a_report_takes_the_place_of_the_patch(options: list[str], patch: bool, mini: Path) -> None:
    shown, code = on_a_terminal(["apply", *options], mini, NO_COLOR="1")
    assert code == 0 and b"9 places in 5 files" in shown and (b"@@ -" in shown) == patch, shown
    assert (b"Wrote a." in shown) == ("--report" in options), shown


def test_a_report_leaves_a_pipe_as_it_is(mini: Path, tmp_path: Path, verl: Verl) -> None:
    plain = verl("apply", mini, "-n").out
    assert b"@@ -" in plain and verl("apply", mini, "-n", "--report", tmp_path / "a.html").out == plain
