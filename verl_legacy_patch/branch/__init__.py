"""The only module that writes with git: build a commit, name it by a branch, switch to it.

GitPython runs the user's own git (``repo.git``), so configuration, signing, filters and hooks hold. Its
``index.add`` and ``index.commit`` do not honour them and are not used. The import costs more than a dry run
may take, so it happens inside the functions.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from verl_legacy_patch.branch.history import PatchCommit, find_patch_commits, trailers
from verl_legacy_patch.branch.inplace import Change
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import FOREIGN_VARIABLES, GitError, one_line, show, to_bytes
from verl_legacy_patch.checkout.revision import GitCheckout

if TYPE_CHECKING:
    from git import Repo

__all__ = [
    "Change",
    "GitError",
    "PatchCommit",
    "commit_tree",
    "create_branch",
    "current_branch",
    "find_patch_commits",
    "preflight",
    "remove_branch",
    "trailers",
]

# The private index is an ordinary full one, whatever the user's index is made of.
_PLAIN_INDEX = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "index.sparse=false",
)
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or git am",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@contextmanager
def opened(checkout: GitCheckout) -> Iterator[Repo]:
    """Open the repository with GitPython, without the variables that point git elsewhere.

    GitPython passes the process's environment on and can only add to it, hence the variables are taken away
    for a while.
    """
    held = {name: os.environ.pop(name) for name in FOREIGN_VARIABLES if name in os.environ}
    try:
        from git import Repo

        repo = Repo(checkout.root)
        try:
            yield repo
        finally:
            repo.close()
    finally:
        os.environ.update(held)


def call(repo: Repo, *arguments: str, config: Sequence[str] = (), stdin: BinaryIO | None = None) -> bytes:
    """Run one git command and return its output.

    Raises:
        GitError: git's own reason, on one line.
    """
    code, out, err = attempt(repo, *arguments, config=config, stdin=stdin)
    if code:
        raise GitError(f"git {arguments[0]} failed in {show(str(repo.working_dir))}: {one_line(err)}")
    return out


def attempt(
    repo: Repo, *arguments: str, config: Sequence[str] = (), stdin: BinaryIO | None = None
) -> tuple[int, bytes, str]:
    """Run one git command; return exit code, output and error text."""
    options = [word for each in config for word in ("-c", each)]
    code, out, err = repo.git.execute(
        ["git", *options, *arguments],
        istream=stdin,
        with_extended_output=True,
        with_exceptions=False,
        stdout_as_string=False,
        strip_newline_in_stdout=False,
    )
    assert isinstance(out, bytes)
    return int(code), out, err


def commit_tree(checkout: GitCheckout, changes: Sequence[Change], message: str, *, parent: str | None = None) -> str:
    """Build a commit on top of the base (or of ``parent``, for a row of commits) and return its name.

    Only objects are added to the repository: no ref, index or file that the user sees. What is interrupted
    leaves unreachable objects, which git removes in time.

    Raises:
        GitError: no identity, failing signature, or nowhere to write. Nothing has changed.
    """
    parent = parent or checkout.base
    _check(checkout, changes)
    # Removing the folder may meet a git that is just dying and still writes there.
    with (
        tempfile.TemporaryDirectory(prefix="verl-patch-", ignore_cleanup_errors=True) as name,
        opened(checkout) as repo,
    ):
        folder = Path(name)
        with repo.git.custom_environment(GIT_INDEX_FILE=str(folder / "index")):
            call(repo, "read-tree", parent, config=_PLAIN_INDEX)
            lines = [
                b"%s %s 0\t%s\0" % (change.mode.encode(), sha, to_bytes(change.path))
                for change, sha in zip(changes, _store(repo, changes, folder), strict=True)
            ]
            with _stream(folder, b"".join(lines)) as stream:
                index = ("update-index", "-z", "--index-info")
                code, _, err = attempt(repo, *index, config=_PLAIN_INDEX, stdin=stream)
            if code or "gnoring path" in err:  # a path that git forbids is skipped with exit code 0
                raise GitError(f"git update-index failed in {show(str(checkout.root))}: {one_line(err)}")
            tree = call(repo, "write-tree", config=_PLAIN_INDEX).decode().strip()
        with _stream(folder, message.encode("utf-8", "surrogateescape")) as stream:
            return _commit(repo, tree, parent, stream)


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
    with _stream(folder, b"".join(paths)) as stream:
        return call(repo, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=stream).split()


@contextmanager
def _stream(folder: Path, content: bytes) -> Iterator[BinaryIO]:
    # A real file and not a pipe: git reads it at its own pace, so nothing can block.
    path = folder / "stdin"
    path.write_bytes(content)
    with path.open("rb") as stream:
        yield stream


def _commit(repo: Repo, tree: str, parent: str, message: BinaryIO) -> str:
    # Plain commit-tree does not look at commit.gpgsign.
    signs = attempt(repo, "config", "--type=bool", "--get", "commit.gpgsign")[1].strip() == b"true"
    options = ["-S"] if signs else []
    # A guessed name such as root@localhost is no author.
    config = ("user.useConfigOnly=true", "i18n.commitEncoding=UTF-8")
    code, out, err = attempt(repo, "commit-tree", *options, "-p", parent, "-F", "-", tree, config=config, stdin=message)
    if code and _nameless(err):
        raise GitError(_NAMELESS)
    if code and signs:
        raise GitError(
            f"the commit could not be signed ({one_line(err)}): repair signing, or turn it off with "
            "git config commit.gpgsign false"
        )
    if code:
        raise GitError(f"git commit-tree failed in {show(str(repo.working_dir))}: {one_line(err)}")
    return out.decode().strip()


_NAMELESS = (
    "git does not know who you are: git config --global user.name 'Your Name' "
    "and git config --global user.email you@example.com"
)


def _nameless(err: str) -> bool:
    return "tell me who you are" in err or "auto-detection is disabled" in err or "empty ident" in err


def preflight(
    checkout: GitCheckout, name: str, *, switch: bool = True, changes: Sequence[Change] | None = None
) -> None:
    """Refuse early what would fail late: before the files are rewritten, with the same messages.

    Raises:
        GitError: the branch exists or cannot be, the author is unknown; with ``switch``, tracked files have
            changes or an operation is unfinished.
    """
    if switch:
        refuse_unfinished(checkout)
        refuse_dirty(checkout)
    _free(checkout, name, changes)
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        code, _, err = gitio.run(["-c", "user.useConfigOnly=true", "var", who], checkout.root)
        if code:
            raise GitError(_NAMELESS if _nameless(err) else f"git has no identity for you: {one_line(err)}")


def refuse_dirty(checkout: GitCheckout) -> None:
    """Refuse a work tree with uncommitted changes in tracked files."""
    if dirty := checkout.dirty():
        some = ", ".join(show(path) for path in dirty[:3]) + (", …" if len(dirty) > 3 else "")
        files = "1 tracked file has" if len(dirty) == 1 else f"{len(dirty)} tracked files have"
        raise GitError(
            f"{files} uncommitted changes in {show(str(checkout.root))} ({some}): commit or stash them, "
            "or use --no-switch to leave the work tree alone"
        )


def refuse_unfinished(checkout: GitCheckout) -> None:
    """Refuse to leave a commit on which a merge, rebase or the like waits to be finished."""
    for mark, what in _UNFINISHED.items():
        if (checkout.git_dir / mark).exists():
            raise GitError(f"a {what} is unfinished in {show(str(checkout.root))}: end it first, or use --no-switch")


def _free(checkout: GitCheckout, name: str, changes: Sequence[Change] | None = None) -> None:
    """Refuse a branch name that is invalid, taken, or blocked by another branch."""
    code, out, _ = gitio.run(["check-ref-format", "--branch", name], checkout.root)
    # "@{-1}" is turned into the name of another branch, which is not what was asked for.
    if code or name == "HEAD" or out.rstrip(b"\n") != to_bytes(name):
        raise GitError(f"{show(name)} is not a valid branch name: give another with --branch")
    # A branch is a file below refs/heads: "a" and "a/b" cannot both be.
    parts = name.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts))]
    wanted = ["refs/heads/" + each for each in (*above, name)]
    listed = gitio.read(["for-each-ref", "--format=%(refname)", *wanted], checkout.root)
    names = listed.decode("utf-8", "surrogateescape").split("\n")
    branches = {each.removeprefix("refs/heads/") for each in names if each}
    if name in branches:
        from verl_legacy_patch.branch.existing import taken

        raise taken(checkout, name, changes)
    for other in sorted(branches):
        if other in above or other.startswith(name + "/"):
            raise GitError(
                f"branch {show(name)} cannot be created beside branch {show(other)}: give another name with --branch"
            )


def create_branch(checkout: GitCheckout, name: str, sha: str) -> None:
    """Create a branch at a commit; never move one that exists.

    Raises:
        GitError: the name is invalid or taken, or the ref cannot be written.
    """
    _free(checkout, name)
    note = "branch: Created by verl-patch"
    with opened(checkout) as repo:
        code, _, err = attempt(
            repo, "update-ref", "--create-reflog", "-m", note, f"refs/heads/{name}", sha, "0" * len(sha)
        )
    if code:
        raise GitError(f"branch {show(name)} could not be created: {one_line(err)}")


def remove_branch(checkout: GitCheckout, name: str, sha: str) -> None:
    """Remove a branch that still is at ``sha``: undoes ``create_branch``."""
    with opened(checkout) as repo:
        call(repo, "update-ref", "-d", f"refs/heads/{name}", sha)


def current_branch(checkout: GitCheckout) -> str | None:
    """Return the branch that is checked out; None for a detached HEAD."""
    code, out, _ = gitio.run(["symbolic-ref", "--short", "-q", "HEAD"], checkout.root)
    return out.decode("utf-8", "surrogateescape").rstrip("\n") if code == 0 else None
