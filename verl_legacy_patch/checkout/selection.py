"""Some files of a work tree, by name: what a hook is given."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from verl_legacy_patch.checkout.base import SOURCE_SUFFIXES, Candidate
from verl_legacy_patch.checkout.directory import DirectoryCheckout
from verl_legacy_patch.checkout.gitio import to_bytes


class SelectedFiles(DirectoryCheckout):
    """Only the given files are candidates; others are read when these depend on them."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        super().__init__(root)
        self._paths = sorted(set(paths))

    def candidates(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return the given files that hold a word. See ``Checkout``."""
        selected = DirectoryCheckout(self.root, tracked=[to_bytes(path) for path in self._paths])
        return selected.candidates(words, suffixes=suffixes)

    def packages(self) -> list[str]:
        """Return the folders of ``verl`` packages, at the root or around the given files: no walk of the tree."""
        found = {"verl"} if self.has_file("verl/__init__.py") else set()
        for path in self._paths:
            parts = path.split("/")
            folders = ("/".join(parts[: i + 1]) for i, part in enumerate(parts[:-1]) if part == "verl")
            found.update(folder for folder in folders if self.has_file(f"{folder}/__init__.py"))
        return sorted(found)


def root_of(path: Path) -> Path:
    """Return the top of the work tree around a path, found without git; the path's own folder outside of one."""
    start = path if path.is_dir() else path.parent
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def relative_to(root: Path, path: Path) -> str:
    """Return a path below ``root`` with forward slashes; symlinks in it are not followed."""
    return os.path.relpath(os.path.abspath(path), root).replace(os.sep, "/")  # noqa: PTH100 (resolve follows symlinks)
