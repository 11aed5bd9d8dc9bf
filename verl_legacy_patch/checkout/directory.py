"""A folder of files as a checkout: an unpacked wheel, or a work tree that is to be edited in place."""

from __future__ import annotations

import os
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
from verl_legacy_patch.checkout.shallow import IMPORTS, SKIPPED_FOLDERS, Shallow

#: What a killed run of ours leaves: copies of originals, and files that were not renamed yet.
OURS = b".verl-patch-"

#: Somebody's home or a disk was given instead of a checkout: stop before it takes minutes.
MOST_FILES = 50_000


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
                text = (self._read(path) or b"").lower()  # three times faster than a pattern that ignores case
                if any(word in text for word in lowered) and (mode := _mode(self._full(path))):
                    found.append(Candidate(to_text(path), "100755" if mode & stat.S_IXUSR else "100644", ""))
        return found

    def named(self, paths: Iterable[str]) -> list[Candidate]:
        """Return the regular files among ``paths``. See ``Checkout``."""
        return [Candidate(path, "100644", "") for path in paths if self.has_file(path)]

    def read(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, bytes]]:
        """Yield each candidate with its content. See ``Checkout``."""
        for candidate in candidates:
            if (content := self._read(to_bytes(candidate.path))) is not None:
                yield candidate, content

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
        return any(path.endswith(b".py") and IMPORTS.search(self._read(path) or b"") for path in self._files)

    def recognise(self) -> None:
        """Refuse what is not a verl checkout. Without git it has to show near the top. See ``Checkout``."""
        if self._tracked is None and not (seen := Shallow(self.root, self.prefix)).is_verl:
            raise CheckoutError(
                f"{show(str(self.root / self.prefix))} is not a verl checkout: no git repository, and no "
                "verl/__init__.py and no .py file that imports verl in it or the folders near its top"
                f"{show(seen.hint()) or '; give the folder of a verl clone'}"
            )
        super().recognise()

    def _full(self, path: bytes) -> bytes:
        return self._root + b"/" + path

    def _read(self, path: bytes) -> bytes | None:
        """Return the content of a file; None for one that has gone since it was listed."""
        try:
            with FileIO(self._full(path)) as file:
                return file.readall()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self._full(path), error) from None

    @cached_property
    def _files(self) -> list[bytes]:
        """Paths of the regular files, ordered. Symlinks are left out: their target has its own path."""
        if self._tracked is not None:
            return [path for path in self._tracked if _is_regular(self._full(path))]
        files: list[bytes] = []
        folders = [top := to_bytes(self.prefix)]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self._full(folder)) as scan:
                    entries = list(scan)
                if folder != top and any(entry.name in (b"pyvenv.cfg", b".git") for entry in entries):
                    continue  # a virtual environment under any name; another repository
                for entry in entries:
                    if entry.name.startswith(OURS):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED_FOLDERS:
                            folders.append(folder + entry.name + b"/")
                    elif entry.is_file(follow_symlinks=False):
                        files.append(folder + entry.name)
            except FileNotFoundError:
                continue  # it has gone since it was listed
            except OSError as error:
                raise _unreadable(self._full(folder), error) from None
            if len(files) > MOST_FILES:
                raise CheckoutError(
                    f"{show(str(self.root))} holds more than {MOST_FILES:,} files, so it is no verl "
                    "checkout; give the folder of a verl clone"
                )
        return sorted(files)


def _mode(path: bytes) -> int:
    """Return the mode of what is at a path; 0 where nothing is."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _is_regular(path: bytes) -> bool:
    return stat.S_ISREG(_mode(path))


def _unreadable(path: bytes, error: OSError) -> CheckoutError:
    where = show(os.fsdecode(path))
    return CheckoutError(f"cannot read {where}: {error.strerror}; make it readable or remove it")
