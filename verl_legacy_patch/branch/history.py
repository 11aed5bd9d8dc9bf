"""Find this tool's own commits again, by the trailers of their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.revision import GitCheckout

#: The first of them marks a commit as this tool's.
TRAILERS = ("Verl-Patch-Version", "Verl-Patch-Target", "Verl-Patch-Base")

#: In the commit that undoes others: their names.
REVERTS = "Verl-Patch-Reverts"

_TRAILER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:[ \t]*(.*)")


class PatchCommit(NamedTuple):
    """A commit that this tool made."""

    sha: str
    subject: str
    trailers: dict[str, str]


def find_patch_commits(checkout: GitCheckout, revision: str = "HEAD", *, limit: int = 0) -> list[PatchCommit]:
    """Return the commits of this tool that ``revision`` contains, newest first (all for a limit of 0)."""
    found = [commit for commit, _ in _log(checkout, revision, f"^{TRAILERS[0]}: ") if TRAILERS[0] in commit.trailers]
    return found[:limit] if limit else found


def standing(checkout: GitCheckout, revision: str = "HEAD") -> list[PatchCommit]:
    """Return the patch commits in a revision's history that are not undone, newest first.

    They may be undone by ``revert``, or by ``git revert``, which may be undone in turn. After a rebase the names
    that messages mention are those of former commits: then a revert of ours undoes what comes before it, and
    one of git's the newest commit before it with the subject that it quotes.
    """
    found: list[PatchCommit] = []
    undone: set[str] = set()
    subjects: list[str] = []
    rows = list(_log(checkout, revision, f"^{TRAILERS[0]}: ", "^This reverts commit "))
    known = {commit.sha for commit, _ in rows}
    for commit, message in rows:
        if commit.sha in undone:
            continue
        if commit.subject in subjects:
            subjects.remove(commit.subject)
        elif REVERTS in commit.trailers:
            undone.update(each.sha for each in find_patch_commits(checkout, f"{commit.sha}^"))
        elif names := _REVERTED.findall(message):
            undone.update(names)
            if not known.issuperset(names) and (quoted := _QUOTED.match(commit.subject)):
                subjects.append(quoted[1])
        elif TRAILERS[0] in commit.trailers:
            found.append(commit)
    return found


def amended(checkout: GitCheckout, commits: Iterable[PatchCommit]) -> bool:
    """Return whether a patch commit was made anew later, by ``git commit --amend`` for example: it may hold more."""
    dates = ["log", "--no-walk", "--format=%at %ct", *(commit.sha for commit in commits), "--"]
    rows = gitio.read(dates, checkout.root).split(b"\n")
    return any(len(set(row.split())) > 1 for row in rows)


_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)
_QUOTED = re.compile(r'Revert "(.*)"$')


def _log(checkout: GitCheckout, revision: str, *patterns: str) -> Iterator[tuple[PatchCommit, str]]:
    """Yield the commits with a line that matches, each with its message, children before parents."""
    options = ["log", "-z", "--topo-order", "--no-show-signature", "--no-color", "--encoding=UTF-8", "--format=%H%n%B"]
    greps = ["--basic-regexp", *(f"--grep={pattern}" for pattern in patterns)]
    out = gitio.read([*options, *greps, revision, "--"], checkout.root)
    for record in filter(None, out.split(b"\0")):
        sha, _, message = record.decode("utf-8", "replace").partition("\n")
        yield PatchCommit(sha, message.strip().partition("\n")[0], trailers(message)), message


def trailers(message: str) -> dict[str, str]:
    """Return the ``Key: value`` lines at the end of a commit message; empty if its end is something else."""
    body, blank, last = message.replace("\r\n", "\n").strip("\n").rpartition("\n\n")
    values: dict[str, str] = {}
    key = ""
    for line in last.split("\n") if blank and body else ():  # a subject alone has no trailers
        match = _TRAILER.fullmatch(line)
        if match:
            key = match[1]
            values[key] = match[2].rstrip()
        elif key and line[:1] in (" ", "\t"):  # a long value goes on
            values[key] += " " + line.strip()
        elif not line.startswith("(cherry picked from"):
            return {}
    return values
