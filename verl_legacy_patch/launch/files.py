"""Write a script beside what is there, never over it unasked, and whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.launch import LaunchError

MODE = 0o755


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse a target that cannot be written, before any work is done.

    Raises:
        LaunchError: it is there already, or no regular file.
    """
    if path.is_dir():
        raise LaunchError(f"-o {show(str(path))} is a folder: give a file")
    if os.path.lexists(path):
        if path.exists() and not path.is_file():
            raise LaunchError(f"-o {show(str(path))} is no regular file; - writes to standard output")
        if not force:
            raise LaunchError(f"{show(str(path))} exists: --force writes over it, -o names another file")


def kept(path: Path) -> bool:
    """Return whether a file is there that is not written over unasked."""
    return path.exists() and path.is_file()


def write(path: Path, text: str, force: bool) -> None:
    """Write a script with mode 0755; it appears with its whole content.

    Raises:
        LaunchError: it has appeared meanwhile, or its folder cannot be written.
    """
    target = Path(os.path.realpath(path)) if force else path
    try:
        descriptor, name = tempfile.mkstemp(prefix=".verl-patch-", dir=target.parent or Path())
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text.encode("utf-8", "surrogateescape"))
            os.chmod(name, MODE)  # noqa: PTH101
            if force:
                os.replace(name, target)  # noqa: PTH105
            else:
                _link(name, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108
    except FileExistsError:
        raise LaunchError(f"{show(str(path))} exists: --force writes over it, -o names another file") from None
    except OSError as error:
        raise LaunchError(f"cannot write {show(str(path))}: {error.strerror or error}") from None


def _link(name: str, target: Path) -> None:
    """Give a file its name, if nothing has that name: a rename would replace it."""
    try:
        os.link(name, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with target.open("xb") as stream:
            stream.write(Path(name).read_bytes())
        target.chmod(MODE)
