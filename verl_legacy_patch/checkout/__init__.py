"""Find and recognise a checkout: which repository and revision, or which folder, a path means."""

from __future__ import annotations

import os
from pathlib import Path

from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.base import SOURCE_SUFFIXES, Candidate, Checkout, Submodule, verl_version
from verl_legacy_patch.checkout.directory import DirectoryCheckout
from verl_legacy_patch.checkout.gitio import CheckoutError, GitMissing, show, to_bytes, to_text
from verl_legacy_patch.checkout.revision import GitCheckout
from verl_legacy_patch.patterns import lazy

__all__ = [
    "SOURCE_SUFFIXES",
    "Candidate",
    "Checkout",
    "CheckoutError",
    "DirectoryCheckout",
    "GitCheckout",
    "Submodule",
    "open_checkout",
    "verl_version",
]

_FULL_SHA = lazy(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\n?")


def open_checkout(path: Path, base: str | None = None, *, in_place: bool = False) -> Checkout:
    """Return the checkout at ``path``: the commit ``base`` (HEAD by default) of its repository, or its files.

    A subfolder of a repository (verl vendored into a bigger one) means the files under it; their paths stay
    relative to the top of the repository, where a commit is made and ``git apply`` is run. A folder inside
    a repository that tracks none of its files is a plain folder. With ``in_place`` the files on disk are
    read, in a work tree those that git tracks.

    Raises:
        CheckoutError: there is no verl checkout, or it cannot be read.
    """
    try:
        folder = path.expanduser().resolve(strict=True)
        if not folder.is_dir():
            raise CheckoutError(f"{show(str(path))} is not a directory: give the folder of a verl clone")
    except FileNotFoundError:
        raise CheckoutError(f"{show(str(path))} does not exist: give the folder of a verl clone") from None
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CheckoutError(f"cannot open {show(str(path))}: {show(why)}") from None
    if not os.access(folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise CheckoutError(f"cannot read {show(str(folder))}: Permission denied; make it readable")
    checkout: Checkout | None
    try:
        checkout = _open_git(folder, base)
    except GitMissing:
        if any((above / ".git").exists() for above in (folder, *folder.parents)):
            raise
        checkout = None
    if checkout is not None and in_place:
        if base is not None:
            raise CheckoutError("files on disk have no base revision: leave out --base or --in-place")
        tracked = (to_bytes(each) for each in checkout.list_folder(""))
        checkout = DirectoryCheckout(checkout.root, checkout.prefix, list(tracked))
    elif checkout is None:
        if base is not None:
            raise CheckoutError(f"{show(str(folder))} is no git repository: it has no revision {show(base)}")
        checkout = _open_directory(folder)
    checkout.recognise()
    return checkout


def _open_directory(folder: Path) -> DirectoryCheckout:
    if (folder / "__init__.py").is_file() and folder.name == "verl":
        return DirectoryCheckout(folder.parent, "verl/")  # the package itself: paths start with verl/
    installed = folder.name in ("site-packages", "dist-packages") or len(list(folder.glob("*.dist-info"))) > 1
    if installed and (folder / "verl" / "__init__.py").is_file():
        return DirectoryCheckout(folder, "verl/")  # the packages beside it are not ours to touch
    return DirectoryCheckout(folder)


def _open_git(folder: Path, base: str | None) -> GitCheckout | None:
    revision = "HEAD" if base is None else _resolve(folder, base)
    # One process. --show-cdup is only dots and slashes, and the one line that may hold newlines is last.
    where = ["--is-bare-repository", "--is-inside-git-dir", "--show-cdup"]
    what = [f"{revision}^{{commit}}", f"{revision}^{{tree}}", "--absolute-git-dir"] if revision else []
    code, out, err = gitio.run(["rev-parse", *where, *what], folder)
    if "not a git repository" in err:
        if os.path.lexists(folder / ".git"):
            raise CheckoutError(f"the git repository of {show(str(folder))} is broken: {gitio.one_line(err)}")
        return None
    bare, inside, *rest = (*out.split(b"\n", 5), b"", b"")
    if bare == b"true":
        raise CheckoutError(f"{show(str(folder))} is a bare repository: give a clone of it that has files")
    if inside == b"true":
        raise CheckoutError(f"{show(str(folder))} is inside a .git folder: give the folder above it")
    if code:
        raise _no_revision(folder, err, code)
    cdup, commit, tree, git_dir = rest[:4]
    root = Path(os.path.normpath(folder / os.fsdecode(cdup)))
    if root != folder and os.path.lexists(folder / ".git"):
        # git passed over it and found the repository around it.
        raise CheckoutError(f"the git repository of {show(str(folder))} is broken: look at its .git")
    prefix = "" if root == folder else to_text(os.fsencode(folder.relative_to(root))) + "/"
    is_head = base is None or commit == _head(folder)
    private = Path(os.fsdecode(git_dir.removesuffix(b"\n")))
    checkout = GitCheckout(root, prefix, private, commit.decode(), tree.decode(), is_head)
    if prefix and base is None and not checkout.list_folder(""):
        return None
    return checkout


def _resolve(folder: Path, base: str) -> str:
    """Return the full name of the commit that the user calls ``base``; empty outside of a repository."""
    # Resolved on its own first: "<base>^{commit}" would mean something else for a base such as ":/words".
    unknown = CheckoutError(
        f"there is no revision {show(base)} in {show(str(folder))}: see git branch -a, git tag and git log"
    )
    if not base or base.startswith(("-", "^")):
        raise unknown
    code, out, err = gitio.run(["rev-parse", "--verify", base], folder)
    if "not a git repository" in err:
        return ""
    if "dubious ownership" in err or "unsafe repository" in err:
        raise gitio.failure(err, folder, code)
    if code or not _FULL_SHA.fullmatch(out):
        raise unknown
    name = out.decode().strip()
    if gitio.run(["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], folder)[0]:
        kind = gitio.run(["cat-file", "-t", name], folder)[1].decode().strip() or "missing object"
        raise CheckoutError(f"{show(base)} is a {kind}, not a commit: give a branch, tag or commit as --base")
    return name


def _head(folder: Path) -> bytes:
    return gitio.run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], folder)[1].strip()


def _no_revision(folder: Path, err: str, code: int) -> CheckoutError:
    if "ambiguous argument 'HEAD" in err or "bad revision 'HEAD" in err:
        target = gitio.run(["symbolic-ref", "-q", "HEAD"], folder)[1].decode("utf-8", "replace").strip()
        # show-ref would say no, too, when the commit is missing: an alternate that has gone, a broken disk
        exists = bool(target) and gitio.run(["rev-parse", "--verify", "-q", target], folder)[0] == 0
        if target and not exists:
            return CheckoutError(f"{show(str(folder))} has no commit yet: commit first, or give --base")
        return CheckoutError(f"HEAD of {show(str(folder))} cannot be read: see git fsck")
    return gitio.failure(err, folder, code)
