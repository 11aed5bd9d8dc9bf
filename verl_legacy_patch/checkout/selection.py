"""Some files of a work tree, by name: what ``check`` and the hooks are given."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from verl_legacy_patch.checkout.base import SOURCE_SUFFIXES, Candidate
from verl_legacy_patch.checkout.directory import OURS, DirectoryCheckout
from verl_legacy_patch.checkout.gitio import CheckoutError, show, to_bytes, to_text
from verl_legacy_patch.checkout.shallow import SKIPPED_FOLDERS, Shallow

#: What the root of a checkout holds, the surest sign first.
_SIGNS = (".git", ".verl-patch.toml", "verl/__init__.py")


class SelectedFiles(DirectoryCheckout):
    """Files on disk, of which only the given ones are rewritten; others are read when these depend on them."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        super().__init__(root)
        self._paths = sorted({to_bytes(path) for path in paths})

    @property
    def given(self) -> int:
        """How many files were given."""
        return len(self._paths)

    def selected(
        self, words: Sequence[bytes], *, suffixes: Collection[str] | None = SOURCE_SUFFIXES
    ) -> list[Candidate]:
        """Return those of the given files that hold a word. See ``Checkout``."""
        return DirectoryCheckout(self.root, tracked=self._paths).candidates(words, suffixes=suffixes)

    def packages(self) -> list[str]:
        """Return the folders of ``verl`` packages, at the root or around the given files: no walk of the tree."""
        found = {"verl"} if self.has_file("verl/__init__.py") else set()
        for path in self._paths:
            parts = to_text(path).split("/")
            folders = ("/".join(parts[: i + 1]) for i, part in enumerate(parts[:-1]) if part == "verl")
            found.update(folder for folder in folders if self.has_file(f"{folder}/__init__.py"))
        return sorted(found, key=lambda folder: (folder.count("/"), folder))

    @cached_property
    def _files(self) -> list[bytes]:
        """Return what else there is: in a work tree what git knows, whatever lies about beside it."""
        if not (self.root / ".git").exists():
            about_verl = _has_sign(self.root) or Shallow(self.root).is_verl
            return DirectoryCheckout(self.root, tracked=None if about_verl else self._paths)._files
        return DirectoryCheckout(self.root, tracked=_tracked(self.root))._files


def select(paths: Sequence[Path]) -> dict[Path, list[str]]:
    """Return the files that paths mean, by the root of their checkout.

    A folder means what git tracks in it and what it could: whoever names a folder means new files, too.

    Raises:
        CheckoutError: a path does not exist, or a folder cannot be read or is no part of a checkout.
    """
    found: dict[Path, list[str]] = {}
    for path in paths:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            raise CheckoutError(f"{show(str(path))} does not exist") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise CheckoutError(f"{show(str(path))} is no regular file: give files and folders of a checkout")
        if stat.S_ISDIR(mode):
            refuse_bare(path)
        root, name = locate(path)
        found.setdefault(root, []).extend(files_in(root, name, new=True) if _is_folder(path) else [name])
    return found


def refuse_bare(folder: Path) -> None:
    """Refuse the inside of a repository, where no file is that could be looked at: nothing found is no answer."""
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
        raise CheckoutError(f"{show(str(folder))} is a bare repository or a .git folder: give a folder with its files")


def files_in(root: Path, folder: str = "", *, new: bool = False) -> list[str]:
    """Return the files of a checkout in a folder of it: those that git tracks, all where there is no git.

    With ``new`` also those that git neither tracks nor ignores.
    """
    prefix = "" if folder in ("", ".") else folder + "/"
    if not _has_sign(root):
        DirectoryCheckout(root, prefix).recognise()  # before somebody's home is walked
    if (root / ".git").exists():
        found = [to_text(path) for path in _tracked(root, to_bytes(prefix))]
        return found + untracked(root, prefix) if new else found
    return [to_text(path) for path in DirectoryCheckout(root, prefix)._files]


def untracked(root: Path, prefix: str = "") -> list[str]:
    """Return the files below a folder that git neither tracks nor ignores.

    What is never looked into without git is not here, either: other repositories, virtual environments, caches.
    """
    names = (path for path in _listed(root, to_bytes(prefix), "--others", "--exclude-standard") if path[-1:] != b"/")
    return [to_text(name) for name in names if not any(map(_aside, name.split(b"/")))]


def locate(path: Path) -> tuple[Path, str]:
    """Return the root of the checkout around a path, and the path in it. A final symlink is not followed."""
    if _is_folder(path):
        real = path.resolve()
        root = root_of(real)
        return root, relative_to(root, real)
    real = path.parent.resolve() / path.name
    root = root_of(real)
    return root, relative_to(root, real)


def root_of(path: Path) -> Path:
    """Return the root of the checkout around a path, found without git.

    Without any sign of one (a repository whose ``.git`` is elsewhere) it is the current folder, where hooks run,
    or else the path's own.
    """
    start = path if path.is_dir() else path.parent
    folders = (start, *start.parents)
    for sign in _SIGNS:
        for folder in folders:
            if os.path.lexists(folder / sign):
                return folder
    here = Path.cwd()
    return here if here in folders else start


def relative_to(root: Path, path: Path) -> str:
    """Return a path below ``root`` with forward slashes; symlinks in it are not followed."""
    return to_text(os.fsencode(os.path.relpath(os.path.abspath(path), root).replace(os.sep, "/")))  # noqa: PTH100


def _has_sign(root: Path) -> bool:
    return any(os.path.lexists(root / sign) for sign in _SIGNS)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _aside(part: bytes) -> bool:
    return part in SKIPPED_FOLDERS or part.startswith(OURS)


def _tracked(root: Path, prefix: bytes = b"") -> list[bytes]:
    """Return the paths that git tracks below a folder, new ones that are only staged included."""
    return _listed(root, prefix)


def _listed(root: Path, prefix: bytes, *options: str) -> list[bytes]:
    from verl_legacy_patch.checkout import gitio

    where: list[str | bytes] = [b":(top,literal)" + prefix] if prefix else []
    listed = gitio.read(["ls-files", "-z", *options, "--", *where], root)
    return sorted(set(listed.split(b"\0")[:-1]))
