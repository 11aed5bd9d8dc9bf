"""Find this tool's own commits again, by the trailers of their messages."""

from __future__ import annotations

import re
from typing import NamedTuple

from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.revision import GitCheckout

#: The first of them marks a commit as this tool's.
TRAILERS = ("Verl-Patch-Version", "Verl-Patch-Target", "Verl-Patch-Base")

_TRAILER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:[ \t]*(.*)")


class PatchCommit(NamedTuple):
    """A commit that this tool made."""

    sha: str
    subject: str
    trailers: dict[str, str]


def find_patch_commits(checkout: GitCheckout, revision: str = "HEAD", *, limit: int = 0) -> list[PatchCommit]:
    """Return the commits of this tool that ``revision`` contains, newest first (all for a limit of 0)."""
    found: list[PatchCommit] = []
    options = ["log", "-z", "--no-show-signature", "--no-color", "--encoding=UTF-8", "--format=%H%n%B"]
    pattern = ["--basic-regexp", f"--grep=^{TRAILERS[0]}: "]
    out = gitio.read([*options, *pattern, revision, "--"], checkout.root)
    for record in out.split(b"\0"):
        sha, _, message = record.decode("utf-8", "replace").partition("\n")
        values = trailers(message)
        if TRAILERS[0] in values:  # and not just quoted in the text
            found.append(PatchCommit(sha, message.strip().partition("\n")[0], values))
    return found[:limit] if limit else found


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
