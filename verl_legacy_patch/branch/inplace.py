"""Write files on disk, all or none: for trees without git, and for ``--in-place``."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from verl_legacy_patch.branch.backup import Backup, held_signals
from verl_legacy_patch.checkout.base import relative
from verl_legacy_patch.checkout.gitio import CheckoutError, show


@dataclass(frozen=True, slots=True)
class Change:
    """The new content of one file. ``mode`` is git's: 100644 or 100755."""

    path: str
    content: bytes
    mode: str = "100644"
    added: bool = False


def write_in_place(root: Path, changes: Sequence[Change]) -> None:
    """Replace (or add) files under ``root``.

    Every new content is first written beside its target: a full disk, a read-only folder or a name that is
    too long shows before anything has changed. Only then are the files renamed over the old ones. A failure
    or Ctrl-C brings back all old files. Files are replaced and not written into, so a hard link elsewhere
    (a package manager's cache) keeps the old content.

    Raises:
        CheckoutError: a file cannot be written. Nothing has changed.
    """
    top = os.path.realpath(os.fsencode(root))
    targets = [(_target(top, change), change) for change in changes]
    with held_signals() as interrupts:
        try:
            backup = Backup(root)
        except OSError as error:
            raise _cannot_write(os.fsencode(root), error) from None
        staged: list[tuple[bytes, bytes]] = []
        now = top
        try:
            for target, _ in targets:
                now = target
                backup.save(target)
            for target, change in targets:
                now = target
                interrupts.check()
                _stage(target, change, staged)
            for stage, target in staged:
                now = target
                interrupts.check()
                os.replace(stage, target)  # noqa: PTH105 (bytes)
            interrupts.check()
        except BaseException as error:
            for stage, _ in staged:
                with suppress(OSError):
                    os.unlink(stage)  # noqa: PTH108
            backup.restore()
            if isinstance(error, OSError):
                raise _cannot_write(now, error) from None
            raise
        finally:
            backup.discard()


def _target(top: bytes, change: Change) -> bytes:
    """Return where a change goes, after checking that it may go there."""
    raw = relative(change.path)
    if raw is None or not raw:
        raise CheckoutError(f"{show(change.path)} is no path inside of the checkout: nothing was written")
    target = top + b"/" + raw
    where = show(os.fsdecode(target))
    folder = os.path.dirname(target)  # noqa: PTH120
    real = os.path.realpath(folder)
    if real != top and not real.startswith(top.rstrip(b"/") + b"/"):
        raise CheckoutError(f"{where} lies behind a symlink that leaves the checkout: nothing was written")
    if os.path.lexists(target):
        status = os.lstat(target)
        if not stat.S_ISREG(status.st_mode):
            raise CheckoutError(f"{where} is not a regular file: nothing was written")
        if change.added:
            raise CheckoutError(f"{where} exists already and would be overwritten: move it away")
        # A rename would replace a read-only file without asking; its owner did not want that.
        if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise CheckoutError(f"{where} is read-only: make it writable; nothing was written")
    elif not change.added:
        raise CheckoutError(f"{where} has gone since it was read: nothing was written")
    return target


def _stage(target: bytes, change: Change, staged: list[tuple[bytes, bytes]]) -> None:
    """Write the new content beside its target, so that a rename is enough."""
    folder = os.path.dirname(target)  # noqa: PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    descriptor, stage = tempfile.mkstemp(prefix=b".verl-patch-", dir=folder)
    staged.append((stage, target))
    with os.fdopen(descriptor, "wb") as file:
        file.write(change.content)
        if change.added:
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(descriptor, (0o777 if change.mode == "100755" else 0o666) & ~umask)
        else:
            status = os.lstat(target)
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):  # only root may give a file away
                    os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))  # after chown, which clears set-id bits
        file.flush()
        os.fsync(descriptor)


def _cannot_write(path: bytes, error: OSError) -> CheckoutError:
    return CheckoutError(f"cannot write {show(os.fsdecode(path))}: {error.strerror}; nothing has changed")
