"""A first look at a folder without git: is it a checkout at all? It ends soon, however big the folder is.

Somebody's home, or the folder for temporary files, holds checkouts beside much else. All of it would be walked, and
with ``--in-place`` rewritten: so a plain folder has to show near its top that it is about verl.
"""

from __future__ import annotations

import os
import re
from collections import deque
from io import FileIO
from pathlib import Path

from verl_legacy_patch.checkout.gitio import to_text
from verl_legacy_patch.patterns import lazy

#: Never part of verl's own source.
SKIPPED_FOLDERS = frozenset(
    b".git .hg .svn __pycache__ node_modules .venv venv site-packages dist-packages .tox .nox .eggs "
    b".mypy_cache .ruff_cache .pytest_cache".split()
)

#: How far below a folder its ``verl`` package may lie: ``a/b/verl``, as in a bigger project or an unpacked archive.
DEPTH = 2
#: Folders and Python files that are looked at.
MOST_FOLDERS = MOST_SCRIPTS = 1_000

IMPORTS = lazy(rb"^[ \t]*(?:from|import)[ \t]+verl(?:[.,;\s]|\Z)", re.MULTILINE)


class Shallow:
    """What a look near the top of a folder found.

    Attributes:
        is_verl: whether the folder is about verl.
        below: folders in it that are checkouts of their own, and that may be meant.
    """

    def __init__(self, root: Path, prefix: str = "") -> None:
        self.is_verl = False
        self.below: list[Path] = []
        self._scripts: list[bytes] = []
        top = os.fsencode(root / prefix)
        depth = 0 if _holds_everything(root / prefix) else DEPTH
        folders = deque([(top, 0)])
        if (root / prefix).name == "verl" and (root / prefix / "__init__.py").is_file():
            self.is_verl = True
        for _ in range(MOST_FOLDERS):
            if self.is_verl or not folders:
                break
            folder, level = folders.popleft()
            folders += [(inner, level + 1) for inner in self._look(folder, level, depth) if level < DEPTH]
        self.is_verl = self.is_verl or any(map(_imports_verl, self._scripts[:MOST_SCRIPTS]))

    def _look(self, folder: bytes, level: int, depth: int) -> list[bytes]:
        """Look into one folder and return those in it."""
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except OSError:  # it has gone, or is somebody else's
            return []
        package = os.path.isfile(folder + b"/verl/__init__.py")  # noqa: PTH113 (bytes)
        if level and any(entry.name == b".git" for entry in entries):
            self.below += [Path(os.fsdecode(folder))] if package else []
            return []
        if package and level > depth:
            self.below.append(Path(os.fsdecode(folder)))
        self.is_verl = self.is_verl or (package and level <= depth)
        if level <= depth:
            self._scripts += [entry.path for entry in entries if entry.name.endswith(b".py")]
        names = (entry for entry in entries if entry.name[:1] != b"." and entry.name not in SKIPPED_FOLDERS)
        return [entry.path for entry in names if _is_folder(entry)]

    def hint(self) -> str:
        """Return which folder may be meant; empty where none was seen."""
        return f"; is {to_text(os.fsencode(self.below[0]))} meant?" if self.below else ""


def _holds_everything(folder: Path) -> bool:
    """Return whether a folder is a home, that for temporary files, or one around them."""
    import tempfile

    try:
        places = [Path.home().resolve(), Path(tempfile.gettempdir()).resolve()]
    except (OSError, RuntimeError):
        return False
    return any(place.is_relative_to(folder) for place in places)


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _imports_verl(path: bytes) -> bool:
    try:
        with FileIO(path) as file:
            return IMPORTS.search(file.readall()) is not None
    except OSError:
        return False
