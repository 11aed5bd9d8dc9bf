"""Write files on disk, all or none: for trees without git, and for ``--in-place``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from verl_legacy_patch.branch.backup import Backup, alone, held_signals
from verl_legacy_patch.checkout.base import relative
from verl_legacy_patch.checkout.gitio import CheckoutError, show

_STAGE = b".verl-patch-new-"


class Change(NamedTuple):
    """The new content of one file.

    Attributes:
        path: path in the checkout.
        content: the new bytes.
        mode: git's: 100644 or 100755.
        added: whether the file is new.
        before: the bytes that the new ones were made from; on disk, a file that holds others by now is not written.
    """

    path: str
    content: bytes
    mode: str = "100644"
    added: bool = False
    before: bytes | None = None


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
    with alone(root), held_signals() as interrupts:
        _clear(target for target, _ in targets)
        try:
            backup = Backup(root)
        except OSError as error:
            raise _cannot_write(os.fsencode(root), error) from None
        staged: list[tuple[bytes, bytes]] = []
        replaced: set[bytes] = set()
        now = top
        try:
            for target, _ in targets:
                now = target
                backup.save(target)
            for target, change in targets:
                now = target
                interrupts.check()
                _stage(target, change, staged)
            for (stage, target), (_, change) in zip(staged, targets, strict=True):
                now = target
                interrupts.check()
                _check_unchanged(target, change)
                replaced.add(target)
                os.replace(stage, target)  # noqa: PTH105 (bytes)
            interrupts.check()
        except BaseException as error:
            interrupts.refuse()
            for stage, _ in staged:
                with suppress(OSError):
                    os.unlink(stage)  # noqa: PTH108
            backup.restore(replaced)  # and no other: somebody else may have written there meanwhile
            if isinstance(error, OSError):
                raise _cannot_write(now, error) from None
            raise
        finally:
            backup.discard()


def _clear(targets: Iterable[bytes]) -> None:
    """Remove what a killed run had written beside its targets and not renamed yet. Its backup stays."""
    for folder in {os.path.dirname(target) for target in targets}:  # noqa: PTH120
        with suppress(OSError):  # mostly: a folder that is new
            for entry in os.scandir(folder):
                if entry.name.startswith(_STAGE) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108


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


def _check_unchanged(target: bytes, change: Change) -> None:
    """Refuse to replace what somebody has saved since it was read."""
    if change.before is not None:
        with open(target, "rb") as file:  # noqa: PTH123 (bytes)
            same = file.read() == change.before
    else:
        same = not (change.added and os.path.lexists(target))
    if not same:
        raise CheckoutError(f"{show(os.fsdecode(target))} has changed since it was read: nothing was written")


def _stage(target: bytes, change: Change, staged: list[tuple[bytes, bytes]]) -> None:
    """Write the new content beside its target, so that a rename is enough."""
    import tempfile

    folder = os.path.dirname(target)  # noqa: PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    descriptor, stage = tempfile.mkstemp(prefix=_STAGE, dir=folder)
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
