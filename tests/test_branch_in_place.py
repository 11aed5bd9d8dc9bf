"""Files that are written in place: all of them or none, with mode and owner as they were."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from branches import CHANGES, refusal
from repos import FILES, HITS, as_nobody, python, write

from verl_legacy_patch.branch import inplace
from verl_legacy_patch.branch.inplace import Change, write_in_place
from verl_legacy_patch.checkout import CheckoutError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    write(tmp_path / "plain", FILES)
    (tmp_path / "plain/scripts/run.sh").chmod(0o751)
    return tmp_path / "plain"


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    } | {str(path.relative_to(root)): (b"", path.stat().st_mode, 0) for path in root.rglob("*") if path.is_dir()}


def test_in_place(plain: Path) -> None:
    cache = plain.parent / "cache.py"
    cache.hardlink_to(plain / "verl/workers/actor.py")
    write_in_place(plain, CHANGES)
    assert all((plain / each.path).read_bytes() == each.content for each in CHANGES)
    assert (plain / "scripts/run.sh").stat().st_mode & 0o777 == 0o751
    assert (plain / "verl/new/support.py").stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert cache.read_text() == FILES["verl/workers/actor.py"]  # a package manager's copy keeps its content
    assert not [path for path in plain.rglob("*") if "verl-patch" in path.name]
    write_in_place(plain, [])


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_in_place_keeps_the_owner(plain: Path) -> None:
    os.chown(plain / "setup.py", 1234, 2345)
    (plain / "setup.py").chmod(0o640)
    write_in_place(plain, [Change("setup.py", b"new")])
    status = (plain / "setup.py").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 2345, 0o640)


def test_in_place_refuses(plain: Path, tmp_path: Path) -> None:
    (plain / "link.py").symlink_to("setup.py")
    (plain / "inside").symlink_to("verl")
    write(tmp_path, {"outside/x.py": "mine"})
    (plain / "outside").symlink_to(tmp_path / "outside")
    before = snapshot(plain)
    first = Change("setup.py", b"new")
    for bad in ("link.py", "outside/x.py", "../outside/x.py", "/etc/passwd", "", "gone.py", "verl", "a\0b"):
        refusal(lambda bad=bad: write_in_place(plain, [first, Change(bad, b"new")]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("verl/utils.py", b"", added=True)]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("setup.py/x", b"", added=True)]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("n" * 300, b"", added=True)]), CheckoutError)
    assert snapshot(plain) == before
    assert (tmp_path / "outside/x.py").read_text() == "mine"
    write_in_place(plain, [Change("inside/utils.py", b"new")])  # a symlink that stays inside is harmless
    assert (plain / "verl/utils.py").read_bytes() == b"new"


@pytest.mark.parametrize("readonly", ["verl/workers/actor.py", "verl/workers", "verl", "."])
def test_in_place_read_only(plain: Path, readonly: str) -> None:
    mode = (plain / readonly).stat().st_mode
    before = snapshot(plain)
    (plain / readonly).chmod(mode & ~0o222)
    with as_nobody(plain):
        message = refusal(lambda: write_in_place(plain, CHANGES), CheckoutError)
        assert "read-only" in message or "Permission denied" in message
    (plain / readonly).chmod(mode)
    assert snapshot(plain) == before


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("links", [True, False])
def test_in_place_rolls_back(
    plain: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, call: str, links: bool
) -> None:
    before = snapshot(plain)
    real = getattr(os, call)
    count = 0

    def fail(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 3:
            raise failure
        return real(*arguments)

    def no_links(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(inplace.os, call, fail)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    expected = CheckoutError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_in_place(plain, CHANGES)
    if expected is CheckoutError:
        assert "No space left on device; nothing has changed" in str(caught.value)
    assert snapshot(plain) == before


IN_PLACE = """
import os, signal, sys
from pathlib import Path
from verl_legacy_patch.branch import inplace
real, count = os.replace, 0
def replace(*arguments):
    global count
    count += 1
    real(*arguments)
    if count == 2:
        os.kill(os.getpid(), int(sys.argv[2]))
os.replace = replace
try:
    inplace.write_in_place(Path(sys.argv[1]), [inplace.Change(path, b"new") for path in sys.argv[3:]])
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_in_place_interrupted(plain: Path, number: int) -> None:
    before = snapshot(plain)
    code = python(IN_PLACE, str(plain), str(int(number)), *HITS).wait(10)
    assert code == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGKILL:  # every file is either old or new, and the originals are kept
        assert {(plain / path).read_bytes() in (b"new", str(FILES[path]).encode()) for path in HITS} == {True}
        (kept,) = plain.glob(".verl-patch-backup-*")
        names = dict(line.split(" ", 1) for line in (kept / "paths").read_text().splitlines())
        assert {(kept / number).read_text(): path for number, path in names.items()} == {
            str(FILES[path]): str(plain / path) for path in HITS
        }
    else:
        assert snapshot(plain) == before
