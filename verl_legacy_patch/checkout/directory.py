"""A folder of files as a checkout: an unpacked wheel, or a work tree that is to be edited in place."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from io import FileIO
from pathlib import Path

from verl_legacy_patch.checkout.base import (
    SOURCE_SUFFIXES,
    Candidate,
    Checkout,
    Submodule,
    package_folders,
    relative,
    wanted,
)
from verl_legacy_patch.checkout.gitio import CheckoutError, show, to_bytes, to_text
from verl_legacy_patch.patterns import lazy

#: Never part of verl's own source.
SKIPPED_FOLDERS = frozenset(
    b".git .hg .svn __pycache__ node_modules .venv venv site-packages dist-packages .tox .nox .eggs "
    b".mypy_cache .ruff_cache .pytest_cache".split()
)

#: What a killed run of ours leaves: copies of originals, and files that were not renamed yet.
OURS = b".verl-patch-"

#: Somebody's home or a disk was given instead of a checkout: stop before it takes minutes.
MOST_FILES = 200_000

_IMPORTS = lazy(rb"^[ \t]*(?:from|import)[ \t]+verl(?:[.,;\s]|\Z)", re.MULTILINE)


class DirectoryCheckout(Checkout):
    """Files on disk. With ``tracked`` only those: the files git knows of a work tree."""

    base: None = None

    def __init__(self, root: Path, prefix: str = "", tracked: Sequence[bytes] | None = None) -> None:
        self.root = root
        self.prefix = prefix
        self._root = os.fsencode(root)
        self._tracked = tracked

    def candidates(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return the files that hold a word. See ``Checkout``.

        Raises:
            CheckoutError: a file cannot be read: it may hold a setting, so the result would not be whole.
        """
        lowered = [word.lower() for word in words]
        found: list[Candidate] = []
        for path in self._files if words else ():
            if wanted(path, suffixes):
                text = self._read(path).lower()  # three times faster than a pattern that ignores case
                if any(word in text for word in lowered):
                    executable = os.lstat(self._full(path)).st_mode & stat.S_IXUSR
                    found.append(Candidate(to_text(path), "100755" if executable else "100644", ""))
        return found

    def named(self, paths: Iterable[str]) -> list[Candidate]:
        """Return the regular files among ``paths``. See ``Checkout``."""
        return [Candidate(path, "100644", "") for path in paths if self.has_file(path)]

    def read(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, bytes]]:
        """Yield each candidate with its content. See ``Checkout``."""
        for candidate in candidates:
            yield candidate, self._read(to_bytes(candidate.path))

    def read_path(self, path: str) -> bytes | None:
        """Return the content of one file. See ``Checkout``."""
        return self._read(to_bytes(path)) if self.has_file(path) else None

    def list_folder(self, folder: str) -> list[str]:
        """Return the regular files under ``folder``. See ``Checkout``."""
        start = to_bytes(folder.rstrip("/") + "/") if folder.strip("/") else b""
        return [to_text(path) for path in self._files if path.startswith(start)]

    def has_file(self, path: str) -> bool:
        """Return whether the folder has that regular file. See ``Checkout``."""
        raw = relative(path)
        return raw is not None and _is_regular(self._full(raw))

    def submodules(self) -> list[Submodule]:
        """Return nothing: without git there are none."""
        return []

    def dirty(self) -> list[str]:
        """Return nothing: without git there is nothing to compare with."""
        return []

    def packages(self) -> list[str]:
        """Return the folders of ``verl`` packages. See ``Checkout``."""
        return [to_text(folder) for folder in package_folders(self._files)]

    def imports_verl(self) -> bool:
        """Return whether a Python file imports verl. See ``Checkout``."""
        return any(path.endswith(b".py") and _IMPORTS.search(self._read(path)) for path in self._files)

    def _full(self, path: bytes) -> bytes:
        return self._root + b"/" + path

    def _read(self, path: bytes) -> bytes:
        try:
            with FileIO(self._full(path)) as file:
                return file.readall()
        except OSError as error:
            raise _unreadable(self._full(path), error) from None

    @cached_property
    def _files(self) -> list[bytes]:
        """Paths of the regular files, ordered. Symlinks are left out: their target has its own path."""
        if self._tracked is not None:
            return [path for path in self._tracked if _is_regular(self._full(path))]
        files: list[bytes] = []
        folders = [to_bytes(self.prefix)]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self._full(folder)) as scan:
                    entries = list(scan)
                if folder and any(entry.name == b"pyvenv.cfg" for entry in entries):
                    continue  # a virtual environment under any name
                for entry in entries:
                    if entry.name.startswith(OURS):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED_FOLDERS:
                            folders.append(folder + entry.name + b"/")
                    elif entry.is_file(follow_symlinks=False):
                        files.append(folder + entry.name)
            except OSError as error:
                raise _unreadable(self._full(folder), error) from None
            if len(files) > MOST_FILES:
                raise CheckoutError(
                    f"{show(str(self.root))} holds more than {MOST_FILES:,} files, so it is no verl "
                    "checkout; give the folder of a verl clone"
                )
        return sorted(files)


def _is_regular(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _unreadable(path: bytes, error: OSError) -> CheckoutError:
    where = show(os.fsdecode(path))
    return CheckoutError(f"cannot read {where}: {error.strerror}; make it readable or remove it")
