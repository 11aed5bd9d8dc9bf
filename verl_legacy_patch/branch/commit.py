"""Build a commit beside the work tree: blobs, a private index, a tree, the commit object. Nothing else is touched."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from verl_legacy_patch.branch.backup import held_signals
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.branch.repo import attempt, call, opened
from verl_legacy_patch.checkout.gitio import GitError, one_line, show, to_bytes, why
from verl_legacy_patch.checkout.revision import GitCheckout

if TYPE_CHECKING:
    from git import Repo

# The private index is an ordinary full one, whatever the user's index is made of.
PLAIN_INDEX = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "index.sparse=false",
)

#: Seconds before each attempt to remove a folder.
_PAUSES = (0, 0.02, 0.1, 0.5, 1)


def commit_tree(checkout: GitCheckout, changes: Sequence[Change], message: str, *, parent: str | None = None) -> str:
    """Build a commit on top of the base (or of ``parent``, for a row of commits) and return its name.

    Only objects are added to the repository: no ref, index or file that the user sees. What is interrupted
    leaves unreachable objects, which git removes in time.

    Raises:
        GitError: no identity, failing signature, or nowhere to write. Nothing has changed.
    """
    parent = parent or checkout.base
    _check(checkout, changes)
    with scratch() as folder, opened(checkout) as repo:
        with repo.git.custom_environment(GIT_INDEX_FILE=str(folder / "index")):
            call(repo, "read-tree", parent, config=PLAIN_INDEX)
            lines = [
                b"%s %s 0\t%s\0" % (change.mode.encode(), sha, to_bytes(change.path))
                for change, sha in zip(changes, _store(repo, changes, folder), strict=True)
            ]
            with as_file(folder, b"".join(lines)) as stream:
                index = ("update-index", "-z", "--index-info")
                code, _, err = attempt(repo, *index, config=PLAIN_INDEX, stdin=stream)
            if code or "gnoring path" in err:  # a path that git forbids is skipped with exit code 0
                raise GitError(f"git update-index failed in {show(str(checkout.root))}: {one_line(err)}")
            tree = call(repo, "write-tree", config=PLAIN_INDEX).decode().strip()
        with as_file(folder, message.encode("utf-8", "surrogateescape")) as stream:
            return write_commit(repo, tree, parent, stream)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for temporary files, which goes whatever happens."""
    import tempfile

    folder: Path | None = None
    try:
        try:
            with held_signals() as interrupts:  # none comes between the folder and its name
                folder = Path(tempfile.mkdtemp(prefix="verl-patch-"))
        except OSError as error:
            raise GitError(f"cannot make a temporary folder: {error.strerror or error}") from None
        interrupts.check()
        try:
            yield folder
        except OSError as error:
            where = show(str(folder.parent))
            raise GitError(f"cannot write temporary files in {where}: {error.strerror or error}") from None
    finally:
        if folder is not None:
            try:
                _remove(folder)
            except BaseException:  # a signal in the middle of it
                _remove(folder)
                raise


def _remove(folder: Path) -> None:
    """Remove a folder into which a git that is just dying may still write."""
    for pause in _PAUSES:
        time.sleep(pause)
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return


def _check(checkout: GitCheckout, changes: Sequence[Change]) -> None:
    for change in changes:
        entry = checkout.entry(change.path)
        if change.added == (entry is not None):
            what = "exists in the base already" if change.added else "is not in the base"
            raise GitError(f"{show(change.path)} {what}: nothing was committed")
        if entry and not entry[0].startswith("100"):
            raise GitError(f"{show(change.path)} is a symlink or submodule in the base: nothing was committed")
        above = change.path.split("/")[:-1] if change.added else []
        for depth in range(1, len(above) + 1):
            if checkout.entry(folder := "/".join(above[:depth])) is not None:  # git would replace it without asking
                raise GitError(
                    f"{show(folder)} is a symlink, file or submodule in the base, {show(change.path)} cannot be "
                    "added: nothing was committed"
                )
        if change.mode not in ("100644", "100755"):
            raise GitError(f"{show(change.path)} cannot have mode {change.mode}: nothing was committed")


def _store(repo: Repo, changes: Sequence[Change], folder: Path) -> list[bytes]:
    """Write the contents as blobs, in one process. Without filters: they come from blobs, not from files."""
    paths = []
    for number, change in enumerate(changes):
        path = folder / str(number)
        path.write_bytes(change.content)
        paths.append(os.fsencode(path) + b"\n")
    with as_file(folder, b"".join(paths)) as stream:
        return call(repo, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=stream).split()


@contextmanager
def as_file(folder: Path, content: bytes) -> Iterator[BinaryIO]:
    """Give the content as a real file and not a pipe: git reads it at its own pace, so nothing can block."""
    path = folder / "stdin"
    path.write_bytes(content)
    with path.open("rb") as stream:
        yield stream


def write_commit(repo: Repo, tree: str, parent: str, message: BinaryIO) -> str:
    """Write a commit to the object database, signed if the user wishes so, and return its name."""
    # Plain commit-tree does not look at commit.gpgsign.
    code, out, err = attempt(repo, "config", "--type=bool", "--get", "commit.gpgsign")
    if code not in (0, 1):  # 1: nothing is said
        raise GitError(f"git config commit.gpgsign cannot be read: {one_line(err)}")
    signs = out.strip() == b"true"
    options = ["-S"] if signs else []
    # A guessed name such as root@localhost is no author.
    config = ("user.useConfigOnly=true", "i18n.commitEncoding=UTF-8")
    code, out, err = attempt(repo, "commit-tree", *options, "-p", parent, "-F", "-", tree, config=config, stdin=message)
    if code and nameless(err):
        raise GitError(NAMELESS)
    if code and signs:
        raise GitError(
            f"the commit could not be signed ({one_line(err)}): repair signing, or turn it off with "
            "git config commit.gpgsign false"
        )
    if code:
        raise GitError(f"git commit-tree failed in {show(str(repo.working_dir))}: {why(code, err)}")
    return out.decode().strip()


NAMELESS = (
    "git does not know who you are: git config --global user.name 'Your Name' "
    "and git config --global user.email you@example.com"
)


def nameless(err: str) -> bool:
    """Return whether git's error text says that it does not know the author."""
    return "tell me who you are" in err or "auto-detection is disabled" in err or "empty ident" in err
