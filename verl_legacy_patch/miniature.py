"""The miniature verl checkout of the demo, laid out as a git repository of its own.

Its files lie in ``sample/`` with ``.txt`` behind their names, so that no linter, type checker or test runner takes
them for code of this project. The user's git configuration is neither read nor needed, and the first commit has the
same name everywhere: pictures and documentation made from it stay the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from verl_legacy_patch.checkout import gitio

BRANCH = "main"
SUFFIX = ".txt"

_DATE = "2025-01-01T00:00:00+0000"
# A demo must neither sign nor convert anything, whatever the machine is set to.
_CONFIG = {
    "user.name": "verl-patch demo",
    "user.email": "demo@example.com",
    "commit.gpgSign": "false",
    "core.autocrlf": "false",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
}


def sample() -> Iterator[tuple[str, bytes]]:
    """Yield (path in the checkout, content) of every file, in order."""
    folder = Path(__file__).resolve().parent / "sample"
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        yield file.relative_to(folder).as_posix().removesuffix(SUFFIX), file.read_bytes()


def make_repository(folder: Path) -> str:
    """Write the checkout into a new or empty folder, commit it and return the name of the commit.

    Raises:
        CheckoutError: git refused, or there is none.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in sample():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755 if path.endswith(".sh") else 0o644)
    gitio.read(["init", "--quiet", "--template="], folder)
    gitio.read(["symbolic-ref", "HEAD", f"refs/heads/{BRANCH}"], folder)
    for name, value in _CONFIG.items():
        gitio.read(["config", name, value], folder)
    gitio.read(["add", "--all"], folder)
    with _environment(GIT_AUTHOR_DATE=_DATE, GIT_COMMITTER_DATE=_DATE):
        gitio.read(["commit", "--quiet", "--message", "A miniature verl checkout"], folder)
    return gitio.read(["rev-parse", "HEAD"], folder).decode().strip()


@contextmanager
def own_git(home: Path) -> Iterator[None]:
    """Hide the user's git configuration, identity and pager from every git that runs inside.

    ``home`` is a folder that holds no configuration: git before 2.32 has no other way to be told.
    """
    ours = ("GIT_EXEC_PATH", "GIT_SSL_NO_VERIFY")
    hidden: dict[str, str | None] = {name: None for name in os.environ if name.startswith("GIT_") and name not in ours}
    hidden |= {"EMAIL": None, "XDG_CONFIG_HOME": str(home), "HOME": str(home), "PAGER": "cat"}
    hidden |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_PAGER": "cat"}
    with _environment(**hidden):
        yield


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Set variables, or take them away (None), for a while."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
