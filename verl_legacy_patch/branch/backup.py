"""Keep what is about to be replaced, so that a failure or an interrupt can put everything back.

One run at a time writes to a checkout: going back must not take away what another run has just written.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from verl_legacy_patch.checkout.gitio import CheckoutError, show

PREFIX = ".verl-patch-backup-"

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Backup:
    """The former state of some paths, in a folder of its own.

    A file is kept as a hard link where that is possible: free, and going back restores the very same file
    with its times, so that git sees no change. This works because git and we replace files, never write
    into them. After a SIGKILL or a power cut the folder is still there: it holds the originals by number, and
    ``paths`` says which file each was, and which paths were free.
    """

    def __init__(self, parent: Path) -> None:
        """Make the folder in ``parent``, which should be on the file system of the paths."""
        import tempfile

        self._folder = os.fsencode(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._kept: list[tuple[bytes, bytes]] = []
        self._absent: list[bytes] = []
        self._new_folders: list[bytes] = []

    def save(self, path: bytes) -> None:
        """Remember what is at ``path`` now: a file, a symlink, or nothing."""
        if not os.path.lexists(path):
            self._absent.append(path)
            self._note(b"new", path)
            folder = os.path.dirname(path)  # noqa: PTH120 (bytes)
            while not os.path.lexists(folder):
                self._new_folders.append(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120
        elif os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
            keep = self._folder + b"/%d" % len(self._kept)
            try:
                os.link(path, keep, follow_symlinks=False)
            except (OSError, NotImplementedError):
                shutil.copy2(path, keep, follow_symlinks=False)
            self._kept.append((path, keep))
            self._note(b"%d" % (len(self._kept) - 1), path)

    def _note(self, word: bytes, path: bytes) -> None:
        with open(self._folder + b"/paths", "ab") as names:  # noqa: PTH123 (bytes)
            names.write(b"%s %s\n" % (word, path))

    def restore(self, only: Collection[bytes] | None = None) -> None:
        """Put everything (or ``only`` these paths) back as it was when it was saved."""
        for path in self._absent:
            if only is None or path in only:
                with suppress(OSError):  # mostly: it was never made
                    os.unlink(path)  # noqa: PTH108
        for folder in sorted(set(self._new_folders), key=len, reverse=True):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106
        for path, keep in self._kept:
            if (only is not None and path not in only) or _same(path, keep):
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            try:
                os.replace(keep, path)  # noqa: PTH105
            except OSError:  # another file system
                with suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108
                shutil.copy2(keep, path, follow_symlinks=False)

    def discard(self) -> None:
        """Remove the backup: it is no longer needed."""
        shutil.rmtree(self._folder, ignore_errors=True)


def stale(parent: Path) -> list[Path]:
    """Return the backups of runs that were killed. To be asked under the lock: there is no other run then."""
    return sorted(parent.glob(PREFIX + "*"))


def new_paths(backup: Path) -> list[bytes]:
    """Return the paths that were free when a run began that was killed."""
    try:
        rows = (backup / "paths").read_bytes().split(b"\n")
    except OSError:
        return []
    return [row.removeprefix(b"new ") for row in rows if row.startswith(b"new ")]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the system takes back from a process that is killed.

    Raises:
        CheckoutError: another run holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise CheckoutError(f"cannot open {show(str(folder))}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckoutError(
                f"another verl-patch is writing in {show(str(folder))}: wait until it has ended; nothing was written"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def _same(path: bytes, other: bytes) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


class Interrupts:
    """What ``held_signals`` caught. ``check`` raises it where it is safe to stop."""

    def __init__(self) -> None:
        self.caught: int | None = None

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.caught is not None:
            raise KeyboardInterrupt

    def refuse(self) -> None:
        """Let no further signal reach us or what we start: going back must not be interrupted."""
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_IGN)


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Let what is started in the block never see Ctrl-C or a hang-up; ours wait until the block is over."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextmanager
def held_signals() -> Iterator[Interrupts]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP, so that a group of writes is done whole or undone whole.

    The block asks ``check`` where it can still go back. A signal that comes after the last check comes too
    late to stop anything: the work is complete, and saying "interrupted" would be wrong.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # only the main thread gets signals
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.caught = number

    ignored = [each for each in _SIGNALS if signal.getsignal(each) in (signal.SIG_IGN, None)]  # as under nohup
    former = {each: signal.signal(each, note) for each in _SIGNALS if each not in ignored}
    try:
        yield interrupts
    except Exception:
        interrupts.check()  # what failed may have failed because of the signal, which reaches git too
        raise
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        if interrupts.caught not in (None, signal.SIGINT):
            os.kill(os.getpid(), interrupts.caught)  # asked to end: do so, now that all is in order
