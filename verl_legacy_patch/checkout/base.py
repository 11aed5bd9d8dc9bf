"""What every checkout can do, whether its files come from a git revision or from a folder."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from verl_legacy_patch.checkout.gitio import CheckoutError, show, to_bytes
from verl_legacy_patch.languages import SUFFIXES
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import file_reason

#: Files that can hold a setting (in notebooks it is only reported). Others are not even looked at, so a tracked video
#: costs nothing.
SOURCE_SUFFIXES = frozenset((*SUFFIXES, ".ipynb"))
CODE = (".py",)

_INIT = b"verl/__init__.py"
_VERSION = lazy(rb"""^__version__(?:\s*:\s*str)?\s*=\s*["']([^"'\s]+)["']""", re.MULTILINE)


class Candidate(NamedTuple):
    """A regular file that holds one of the words. ``sha`` is empty where there is no git."""

    path: str
    mode: str
    sha: str


class Submodule(NamedTuple):
    """A folder that is another repository; its files are never part of the checkout."""

    path: str
    checked_out: bool


class Checkout(ABC):
    """A verl source tree.

    Attributes:
        root: what every path is relative to: the top of the git work tree, so that a patch passes
            ``git apply`` there, or the folder itself where there is no git.
        prefix: the subfolder that was asked for, with a final slash; empty for all of ``root``.
        base: the full name of the commit that is read; None for plain files.
    """

    root: Path
    prefix: str
    base: str | None

    @abstractmethod
    def candidates(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return the regular files that hold one of the words, whatever its case, sorted by path.

        Files with another suffix than ``suffixes`` are left out (None: nothing is); a file without any suffix
        stays in, it may be a script. Symlinks and submodules are never followed.
        """

    def selected(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return the candidates that are to be rewritten: all, unless only some files were asked for."""
        return self.candidates(words, suffixes=suffixes)

    def code(self, words: Sequence[bytes]) -> list[bytes]:
        """Return the content of the Python files in scope that hold one of the words, whatever its case."""
        found = self.candidates(words, suffixes=CODE)
        return [content for _, content in self.read(each for each in found if not file_reason(each.path))]

    @abstractmethod
    def named(self, paths: Iterable[str]) -> list[Candidate]:
        """Return the regular files among ``paths``, ready to be read in one go."""

    @abstractmethod
    def read(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, bytes]]:
        """Yield each candidate with its content."""

    @abstractmethod
    def read_path(self, path: str) -> bytes | None:
        """Return the content of one regular file; None when there is no such file."""

    @abstractmethod
    def list_folder(self, folder: str) -> list[str]:
        """Return the paths of all regular files under ``folder``, at any depth; all files for ``""``."""

    @abstractmethod
    def has_file(self, path: str) -> bool:
        """Return whether ``path`` is a regular file of the checkout."""

    @abstractmethod
    def submodules(self) -> list[Submodule]:
        """Return the submodules; from v0.7.1 verl's ``recipe`` is one."""

    @abstractmethod
    def dirty(self) -> list[str]:
        """Return the tracked files with changes, staged or not. Untracked files do not count."""

    @abstractmethod
    def packages(self) -> list[str]:
        """Return the folders of ``verl`` packages: ``verl``, ``training/verl``."""

    @abstractmethod
    def imports_verl(self) -> bool:
        """Return whether a Python file imports verl: recipes and forks may hold no ``verl/`` at all."""

    def recognise(self) -> None:
        """Refuse what is not a verl checkout, before anything is rewritten in a wrong place."""
        if not self.packages() and not self.imports_verl():
            raise CheckoutError(
                f"{show(str(self.root / self.prefix))} is not a verl checkout: no verl/__init__.py at any "
                "depth and no .py file that imports verl; give the folder of a verl clone"
            )


def verl_version(checkout: Checkout) -> str | None:
    """Return verl's version as its files say it. They are read as text: no code of a checkout is run."""
    for package in checkout.packages():
        text = checkout.read_path(f"{package}/version/version")
        if text is not None and (words := text.decode("utf-8", "replace").split()):
            return words[0]
        match = _VERSION.search(checkout.read_path(f"{package}/__init__.py") or b"")
        if match:
            return match[1].decode("utf-8", "replace")
    return None


def wanted(path: bytes, suffixes: Collection[str] | None) -> bool:
    """Return whether the suffix of ``path`` is one of ``suffixes``, or it has none."""
    if suffixes is None:
        return True
    name = path[path.rfind(b"/") + 1 :]
    dot = name.rfind(b".")
    return dot <= 0 or name[dot:].decode("ascii", "replace").lower() in suffixes


def package_folders(paths: Iterable[bytes]) -> list[bytes]:
    """Return the folders named ``verl`` among ``paths`` that are packages, shallow ones first."""
    inits = (path for path in paths if path == _INIT or path.endswith(b"/" + _INIT))
    folders = (path[: -len(b"/__init__.py")] for path in inits)
    return sorted(folders, key=lambda folder: (folder.count(b"/"), folder))


def relative(path: str) -> bytes | None:
    """Return a path of a checkout as bytes; None for one that leaves it."""
    raw = to_bytes(path)
    parts = raw.split(b"/")
    return None if raw.startswith(b"/") or b".." in parts or b"\0" in raw else raw
