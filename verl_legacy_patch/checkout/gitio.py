"""Reading with git's plumbing: one clean environment, few processes, no GitPython.

A dry run spends most of its time outside Python, so every call here is one process that answers for all
files at once. Output is NUL-separated bytes: a path may hold spaces, quotes, newlines or no valid UTF-8.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

from verl_legacy_patch.patterns import lazy

#: ``git switch`` is the newest command in use.
OLDEST_GIT = (2, 23)

#: Variables that point git at another repository, index or object store than the one we were given by path,
#: or that change what a pathspec means. A hook sets them: ``git commit -a`` runs pre-commit with
#: ``GIT_INDEX_FILE`` set to a half-made index, and a hook of one repository may run us on another.
#: Configuration (``GIT_CONFIG_*``) and identity (``GIT_AUTHOR_*``) stay: those are the user's wishes.
FOREIGN_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REDIRECT_STDERR",
    "GIT_REDIRECT_STDIN",
    "GIT_REDIRECT_STDOUT",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

_LOCK = lazy(r"Unable to create '(.*\.lock)': File exists")

# A file-system monitor is a program of the checkout: reading must not start one.
_GIT = ("git", "--no-pager", "-c", "core.quotepath=off", "-c", "core.fsmonitor=false")

# Requests sent to cat-file before its answers are read. They must fit the smallest pipe (16 KiB on macOS),
# else both sides would wait for each other for ever.
_REQUESTS = 200


class CheckoutError(Exception):
    """A checkout cannot be used. The message is one line: what is wrong, where, what to do. Exit code 3."""


class GitError(CheckoutError):
    """git refused to write. Nothing the user sees has changed."""


class GitMissing(CheckoutError):
    """There is no ``git`` to run."""


def elsewhere() -> str:
    """Return what to say, where no repository is found, to somebody who tells git by a variable where it is."""
    if "GIT_DIR" not in os.environ:
        return ""
    return " (GIT_DIR is not looked at: the repository has to be found from the folder)"


def environment() -> dict[str, str]:
    """Return the environment for reading: this repository only, no locks, untranslated messages."""
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    # C also makes git match bytes: no slow multibyte matching, no surprise with undecodable text.
    env.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", LC_ALL="C", LANGUAGE="C")
    return env


def run(arguments: Sequence[str | bytes], cwd: str | os.PathLike[str]) -> tuple[int, bytes, str]:
    """Run git in ``cwd``; return exit code, output and error text."""
    import subprocess  # a hook mostly ends without a process

    try:
        done = subprocess.run(
            [*_GIT, *arguments], cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, capture_output=True
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise _cannot_start(error, cwd) from None
    except ValueError:  # an argument with a NUL byte
        raise CheckoutError("a revision or path holds a NUL byte") from None
    wait_for_signal(done.returncode)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def wait_for_signal(code: int) -> None:
    """Give a signal time to reach us that has ended git with ``code``: Ctrl-C goes to both, and git may be faster."""
    if code < 0:
        time.sleep(0.1)


def read(arguments: Sequence[str | bytes], cwd: str | os.PathLike[str], none: int = 0) -> bytes:
    """Run git and return its output; ``none`` is a second exit code that is no error (grep: nothing found).

    Raises:
        CheckoutError: git failed.
    """
    code, out, err = run(arguments, cwd)
    if code not in (0, none):
        raise failure(err, cwd, code)
    return out


def _cannot_start(error: OSError, cwd: str | os.PathLike[str]) -> CheckoutError:
    # Popen reports a bad working directory with the same exception as a missing program.
    if not Path(cwd).is_dir() or not os.access(cwd, os.X_OK):
        return CheckoutError(f"cannot enter {show(os.fspath(cwd))}: {error.strerror}")
    return GitMissing("git is not installed (or not on PATH): install it, 2.23 or newer")


def failure(err: str, cwd: str | os.PathLike[str], code: int = 128) -> CheckoutError:
    """Turn git's error text into one line that says what to do."""
    where = show(os.fspath(cwd))
    if "dubious ownership" in err or "unsafe repository" in err:
        return CheckoutError(
            f"{where} belongs to another user, so git refuses to read it; if you trust it: "
            f"git config --global --add safe.directory {where}"
        )
    if code == 129 or "unknown option" in err or "is not a git command" in err:
        version = git_version(cwd)
        if version and version < OLDEST_GIT:
            found, needed = (".".join(map(str, each)) for each in (version, OLDEST_GIT))
            return CheckoutError(f"git {found} is too old: verl-patch needs {needed} or newer")
    if code < 0:
        return CheckoutError(f"git was killed by signal {-code} in {where}")
    return CheckoutError(f"git cannot read {where}: {one_line(err)}")


def git_version(cwd: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return major and minor version of git, None when it does not say."""
    match = re.search(rb"version (\d+)\.(\d+)", run(["version"], cwd)[1])
    return (int(match[1]), int(match[2])) if match else None


def one_line(text: str) -> str:
    """Return what matters of git's error text as one line: errors first, hints and advice dropped."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("hint:", "warning:", "Aborting"))] or lines
    for line in lines:
        if match := _LOCK.search(line):  # git sums it up as "unable to update HEAD"
            return show(f"{match[1]} exists: another git is at work, or one was killed; then remove that file")
    for label in ("fatal: ", "error: "):
        for number, line in enumerate(lines):
            if line.startswith(label):
                rest = line.removeprefix(label)
                if rest.endswith(":"):  # "… would be overwritten by checkout:" and the paths, one a line
                    rest += " " + ", ".join(lines[number + 1 : number + 4])
                return show(rest)
    return show(lines[0]) if lines else "git gave no reason"


def why(code: int, err: str) -> str:
    """Return why git failed: what it said, or the signal that ended it, as that for a full memory or a file too big."""
    return f"git was killed by signal {-code}" if code < 0 and not err.strip() else one_line(err)


def show(path: str) -> str:
    """Return a path or message for people: on one line, without control or undecodable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in path)


def to_bytes(path: str) -> bytes:
    """Return the bytes of a path as git has it, whatever the locale."""
    return path.encode("utf-8", "surrogateescape")


def to_text(path: bytes) -> str:
    """Return the path as text; undecodable bytes survive the way back through ``to_bytes``."""
    return path.decode("utf-8", "surrogateescape")


def blobs(shas: Iterable[str], cwd: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the content of each blob, in order, from one ``git cat-file --batch``.

    Requests go out in small groups and each group is read before the next: neither pipe can fill up, without
    a thread. Only one blob is held in memory.
    """
    import subprocess

    try:
        process = subprocess.Popen(
            [*_GIT, "cat-file", "--batch"],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise _cannot_start(error, cwd) from None
    assert process.stdin and process.stdout and process.stderr
    remaining = iter(shas)
    try:
        while group := list(islice(remaining, _REQUESTS)):
            process.stdin.write("".join(f"{sha}\n" for sha in group).encode())
            process.stdin.flush()
            for sha in group:
                header = process.stdout.readline().split()
                if len(header) != 3:
                    wait_for_signal(0 if header else -1)
                    raise _corrupt(cwd, sha, "missing" if header else _said(process))
                content = process.stdout.read(int(header[2]) + 1)
                if len(content) != int(header[2]) + 1:
                    wait_for_signal(-1)
                    raise _corrupt(cwd, sha, _said(process))
                yield content[:-1]
    except BrokenPipeError:
        wait_for_signal(-1)
        raise CheckoutError(f"git cannot read {show(os.fspath(cwd))}: {_said(process)}") from None
    finally:
        process.stdout.close()
        with suppress(OSError):  # closing flushes, and the other side may be gone
            process.stdin.close()
        process.stderr.close()
        # Worker processes that were forked meanwhile hold copies of our end of its input: it would not see the end.
        process.kill()
        process.wait()


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr
    return one_line(process.stderr.read().decode("utf-8", "replace"))


def _corrupt(cwd: str | os.PathLike[str], sha: str, why: str) -> CheckoutError:
    return CheckoutError(f"object {sha} of {show(os.fspath(cwd))} cannot be read ({why}): look with git fsck")
