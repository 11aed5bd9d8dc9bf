"""Keep what is about to be replaced, so that a failure or an interrupt can put everything back."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Backup:
    """The former state of some paths, in a folder of its own.

    A file is kept as a hard link where that is possible: free, and going back restores the very same file
    with its times, so that git sees no change. This works because git and we replace files, never write
    into them. After a SIGKILL or a power cut the folder is still there, and holds the originals by number.
    """

    def __init__(self, parent: Path) -> None:
        """Make the folder in ``parent``, which should be on the file system of the paths."""
        self._folder = os.fsencode(tempfile.mkdtemp(prefix=".verl-patch-backup-", dir=parent))
        self._kept: list[tuple[bytes, bytes]] = []
        self._absent: list[bytes] = []
        self._new_folders: list[bytes] = []

    def save(self, path: bytes) -> None:
        """Remember what is at ``path`` now: a file, a symlink, or nothing."""
        if not os.path.lexists(path):
            self._absent.append(path)
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

    def restore(self) -> None:
        """Put everything back as it was when it was saved."""
        for path in self._absent:
            with suppress(OSError):  # mostly: it was never made
                os.unlink(path)  # noqa: PTH108
        for folder in sorted(set(self._new_folders), key=len, reverse=True):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106
        for path, keep in self._kept:
            if _same(path, keep):
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


def _same(path: bytes, other: bytes) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


class Interrupts:
    """What ``held_signals`` caught. ``check`` raises it where it is safe to stop."""

    def __init__(self) -> None:
        self.caught: int | None = None
        #: Called in the signal handler, to stop a child that would go on.
        self.forward: Callable[[int], object] | None = None

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.caught is not None:
            raise KeyboardInterrupt


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
        if interrupts.forward is not None:
            interrupts.forward(number)

    ignored = [each for each in _SIGNALS if signal.getsignal(each) in (signal.SIG_IGN, None)]  # as under nohup
    former = {each: signal.signal(each, note) for each in _SIGNALS if each not in ignored}
    try:
        yield interrupts
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        if interrupts.caught not in (None, signal.SIGINT):
            os.kill(os.getpid(), interrupts.caught)  # asked to end: do so, now that all is in order
