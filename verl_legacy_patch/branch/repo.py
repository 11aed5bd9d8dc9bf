"""Run git through GitPython, which the rest of this room does to write.

GitPython runs the user's own git (``repo.git``), so configuration, signing, filters and hooks hold. Its
``index.add`` and ``index.commit`` do not honour them and are not used. The import costs more than a dry run
may take, so it happens inside the functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import FOREIGN_VARIABLES, GitError, show, why
from verl_legacy_patch.checkout.revision import GitCheckout

if TYPE_CHECKING:
    from git import Repo


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
        raise GitError(f"git {arguments[0]} failed in {show(str(repo.working_dir))}: {why(code, err)}")
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
    gitio.wait_for_signal(int(code))
    return int(code), out, err
