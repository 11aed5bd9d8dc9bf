"""What ``check --fix`` writes, and what is left when it fails half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forks import LEFT, LINE, RIGHT
from minis import Verl, everything, make_mini
from repos import as_nobody, git, leftovers, python, write


def test_syntax_errors(done: Path, verl: Verl) -> None:
    write(done, {"verl/bad.py": "def f(dtype=torch.bfloat16:\n", "verl/a.py": LEFT, "verl/other.py": "def (:\n"})
    ran = verl("check", "--fix", "verl/bad.py", "verl/a.py")
    assert ran.code == 4 and ran.out.decode() == LINE
    assert ran.err.splitlines()[0].startswith("Error: verl/bad.py:1: ") and "Traceback" not in ran.err
    assert (done / "verl/a.py").read_text() == LEFT
    assert verl("check", "verl/other.py").code == 0  # nothing in it to look at


def test_a_file_that_cannot_be_read_or_written(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    (done / "verl/a.py").chmod(0o000)
    (done / "verl/b.py").chmod(0o444)
    with as_nobody(done):
        verl("check", "verl/a.py").refused(3, "verl/a.py", "Permission denied")
        ran = verl("check", "--fix", "verl/b.py")
        assert ran.code == 3 and "read-only" in ran.err
    assert (done / "verl/b.py").read_text() == LEFT


def test_modes_and_line_endings_stay(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT.replace("\n", "\r\n").rstrip(), "run.sh": "#!/bin/sh\npython t.py dtype=bf16"})
    (done / "run.sh").chmod(0o755)
    assert verl("check", "--fix", "verl/a.py", "run.sh").code == 1
    assert (done / "verl/a.py").read_bytes() == RIGHT.replace("\n", "\r\n").rstrip().encode()
    assert (done / "run.sh").stat().st_mode & 0o777 == 0o755


def test_modules_of_a_former_version_are_replaced_and_others_are_not(done: Path, verl: Verl) -> None:
    module = done / "verl/utils/torch_padding.py"
    now = module.read_text()
    write(done, {"verl/a.py": "from flash_attn.bert_padding import pad_input\n"})
    module.write_text(now.replace("import torch", "import torch as former"))
    ran = verl("check", "--fix", "verl/a.py")
    assert ran.code == 1 and "rewrote verl/utils/torch_padding.py" in ran.err
    assert module.read_text() == now
    module.write_text("# my own\n")
    write(done, {"verl/a.py": "from flash_attn.bert_padding import pad_input\n"})
    ran = verl("check", "--fix", "verl/a.py")
    assert ran.code == 4 and "exists already with other content" in ran.err
    assert module.read_text() == "# my own\n"


# --- two at a time, interrupts, no room


SLOW = """
import sys, time
import verl_legacy_patch.branch.inplace as inplace
real = inplace._stage
def slow(*arguments):
    real(*arguments)
    print("staged", flush=True)
    time.sleep({seconds})
inplace._stage = slow
from verl_legacy_patch.cli import run
sys.exit(run(["check", "--fix", "verl/a.py", "verl/b.py"]))
"""


def start(root: Path, seconds: float = 1) -> subprocess.Popen[bytes]:
    process = python(SLOW.format(seconds=seconds), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    while b"staged" not in (line := process.stdout.readline()):
        assert line, process.stderr and process.stderr.read()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_fix_leaves_the_files(number: int, done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    before = everything(done)
    process = start(done, 30 if number == signal.SIGKILL else 1)
    os.killpg(process.pid, number)
    process.communicate()
    assert process.returncode != 0
    assert {path: entry for path, entry in everything(done).items() if ".verl-patch-" not in path} == before
    if number != signal.SIGKILL:
        assert everything(done) == before and leftovers(done / ".git") == []
    assert verl("check", "--fix", "verl/a.py", "verl/b.py").code == 1
    assert (done / "verl/a.py").read_text() == RIGHT


def test_what_a_killed_run_leaves_is_not_taken_for_sources(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done, 30)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    git(done, "add", "-A")
    names = [line.partition(":")[0] for line in verl("check").out.decode().splitlines()]
    assert names == ["verl/a.py", "verl/b.py"]


def test_two_fixes_at_once(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done)
    second = verl("check", "--fix", "verl/a.py")
    assert second.code == 3 and "another verl-patch is writing" in second.err
    process.communicate()
    assert process.returncode == 1
    assert (done / "verl/a.py").read_text() == (done / "verl/b.py").read_text() == RIGHT


def test_a_file_that_an_editor_saves_meanwhile_is_not_overwritten(done: Path) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done)
    write(done, {"verl/b.py": "mine\n"})
    _, err = process.communicate()
    assert process.returncode == 3 and b"has changed since it was read" in err
    assert ((done / "verl/a.py").read_text(), (done / "verl/b.py").read_text()) == (LEFT, "mine\n")


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_full_disk(config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(small)], check=False).returncode:
        return  # a container may not mount
    try:
        root = make_mini(small / "fork", {"verl/big.py": LEFT + "# x\n" * 100_000}, git_too=False)
        filler = small / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (65536, 4096):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue
        before = everything(root)
        monkeypatch.chdir(root)
        ran = verl("check", "--fix", "verl/big.py", "verl/workers/actor.py")
        assert ran.code == 3 and "No space left" in ran.err
        assert everything(root) == before
        filler.unlink()
        assert verl("check", "--fix", "verl/big.py").code == 1
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", str(small)], check=True)
