"""Move the work tree to another commit, on a new branch or on its own, or leave it exactly as it was.

git checks a lot before it starts, but a filter that fails, a full disk or Ctrl-C half-way leaves a mixture:
git has then removed files and keeps the old index. So what differs is backed up first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from verl_legacy_patch.branch import (
    call,
    create_branch,
    current_branch,
    opened,
    refuse_unfinished,
    remove_branch,
)
from verl_legacy_patch.branch.backup import Backup, Interrupts, alone, blocked_signals, held_signals
from verl_legacy_patch.branch.killed import clear
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import GitError, one_line, show, why
from verl_legacy_patch.checkout.revision import GitCheckout

__all__ = ["forward", "publish", "switch"]

_TICK, _PATIENCE = 0.05, 1.0  # seconds: between looks, and for git to end by itself after a signal
_LOCKED = "index.lock': File exists"


def publish(checkout: GitCheckout, name: str, sha: str, *, switch_to: bool = True) -> None:
    """Create the branch at the commit and switch to it; without the switch there is no branch either.

    Raises:
        GitError: nothing has changed.
        KeyboardInterrupt: nothing has changed.
    """
    if not switch_to:
        create_branch(checkout, name, sha)
        return
    refuse_unfinished(checkout)
    with alone(checkout.git_dir), held_signals() as interrupts:
        if not checkout.dirty():
            clear(checkout)
        _switch(checkout, name, sha, interrupts)


def switch(checkout: GitCheckout, name: str, *, detach: bool = False) -> None:
    """Switch the work tree to an existing branch, or with ``detach`` to a commit, keeping untracked files.

    Raises:
        GitError: it was not possible; work tree, index and HEAD are as they were.
        KeyboardInterrupt: likewise.
    """
    refuse_unfinished(checkout)
    with alone(checkout.git_dir), held_signals() as interrupts:
        _switch(checkout, name, None, interrupts, detach=detach)


def forward(checkout: GitCheckout, sha: str) -> None:
    """Move the branch that is checked out, and the work tree, forward to a commit on top of it.

    Raises:
        GitError: it was not possible; work tree, index and branch are as they were.
        KeyboardInterrupt: likewise.
    """
    refuse_unfinished(checkout)
    branch = current_branch(checkout)
    if branch is None:
        raise GitError("no branch is checked out that could get the commit: switch to one, or name a new one")
    # The user's own settings of git merge must not make a merge commit of it, or stop it.
    options = ("--ff-only", "--quiet", "--no-stat", "--no-autostash", "--no-verify-signatures")

    def arrived() -> bool:
        return _head(checkout) == sha

    def undo(head: str) -> None:
        if arrived():
            with opened(checkout) as repo:
                call(repo, "update-ref", "-m", "verl-patch: undone", f"refs/heads/{branch}", head, sha)

    with alone(checkout.git_dir), held_signals() as interrupts:
        _move(checkout, _Move(branch, sha, ("merge", *options, sha), arrived, lambda: None, undo), interrupts)


class _Move(NamedTuple):
    """One git command that changes the work tree, and how to go back.

    Attributes:
        name: of the branch that it leads to, for messages.
        target: the commit that it leads to.
        command: what git is asked to do.
        arrived: returns whether HEAD is there.
        prepare: done before it.
        undo: takes HEAD back to a commit. The files are back already.
    """

    name: str
    target: str
    command: tuple[str, ...]
    arrived: Callable[[], bool]
    prepare: Callable[[], None]
    undo: Callable[[str], None]


def _switch(
    checkout: GitCheckout, name: str, create_at: str | None, interrupts: Interrupts, *, detach: bool = False
) -> None:
    branch = current_branch(checkout)
    created = False

    def prepare() -> None:
        nonlocal created
        if create_at is not None:
            create_branch(checkout, name, create_at)
            created = True

    def arrived() -> bool:
        return current_branch(checkout) == (None if detach else name) and (not detach or _head(checkout) == name)

    def undo(head: str) -> None:
        with opened(checkout) as repo:
            if arrived():
                note = ("-m", "verl-patch: switch undone")
                if branch is None:
                    call(repo, "update-ref", *note, "--no-deref", "HEAD", head)
                else:
                    call(repo, "symbolic-ref", *note, "HEAD", f"refs/heads/{branch}")
        if created and create_at is not None:
            remove_branch(checkout, name, create_at)

    target = create_at or (name if detach else f"refs/heads/{name}")
    command = ("switch", "--quiet", "--detach" if detach else "--no-guess", name)
    _move(checkout, _Move(name, target, command, arrived, prepare, undo), interrupts)


def _move(checkout: GitCheckout, move: _Move, interrupts: Interrupts) -> None:
    options = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"]
    code, out, err = gitio.run([*options, "HEAD", move.target, "--"], checkout.root)
    if code:
        raise _refused(move.name, one_line(err))
    differing = out.split(b"\0")[:-1]
    head = _head(checkout)
    try:
        backup = Backup(checkout.git_dir)
    except OSError as error:
        raise _refused(move.name, f"cannot write in {show(str(checkout.git_dir))}: {error.strerror}") from None
    started = False
    try:
        for path in (os.fsencode(checkout.git_dir / "index"), *(_full(checkout, path) for path in differing)):
            backup.save(path)
        interrupts.check()
        move.prepare()
        started = True
        locks = _locks(checkout)
        code, err = _run_git(checkout, move.command, interrupts)
        if code < 0:
            _unlock(checkout, locks)
        if code and _LOCKED in err:
            started = False  # another git is at work: what has changed is not from us
        # A failing post-checkout hook is the user's own matter: git has switched by then.
        if code and not move.arrived():
            interrupts.check()
            raise _refused(move.name, why(code, err))
        if "error:" in err:
            interrupts.check()  # Ctrl-C reaches filters too, and git goes on without one that has failed
        _check_written(checkout, move.name, differing, err)
    except BaseException as error:
        interrupts.refuse()
        if started:
            backup.restore()
        move.undo(head)
        interrupts.check()  # what failed may have failed because of it
        if isinstance(error, OSError):
            raise _refused(move.name, error.strerror or str(error)) from None
        raise
    finally:
        backup.discard()


def _locks(checkout: GitCheckout) -> dict[Path, int]:
    """Return the locks of index and refs that there are, and which file each is."""
    found: dict[Path, int] = {}
    folder = (checkout.git_dir / "commondir").read_text().strip() if (checkout.git_dir / "commondir").is_file() else ""
    heads = checkout.git_dir / folder / "refs/heads"
    for lock in (*checkout.git_dir.glob("*.lock"), *heads.glob("**/*.lock")):
        with suppress(OSError):
            found[lock] = lock.stat().st_ino
    return found


def _unlock(checkout: GitCheckout, former: Mapping[Path, int]) -> None:
    """Remove locks that a git leaves which a signal ends just while it makes them.

    Another git holds such a lock for a moment only: what is still the same file later belongs to nobody.
    """
    left = {lock: file for lock, file in _locks(checkout).items() if former.get(lock) != file}
    if left:
        time.sleep(1)
        now = _locks(checkout)
        for lock, file in left.items():
            if now.get(lock) == file:
                with suppress(OSError):
                    lock.unlink()


def _head(checkout: GitCheckout) -> str:
    return gitio.read(["rev-parse", "--verify", "HEAD"], checkout.root).decode().strip()


def _check_written(checkout: GitCheckout, name: str, differing: Sequence[bytes], err: str) -> None:
    """Refuse a half-done switch: git goes on, and ends well, when it cannot write or remove a file."""
    if "error:" in err:
        options = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"]
        stale = set(gitio.read(options, checkout.root).split(b"\0"))
        if stale.intersection(differing):
            raise _refused(name, one_line(err))


def _run_git(checkout: GitCheckout, command: Sequence[str], interrupts: Interrupts) -> tuple[int, str]:
    """Run a git that a signal does not stop at once.

    It mostly takes less than a second, and being done is better than being undone. And git can leave a lock
    when a signal comes just as it makes one. Only a git that takes long (a slow filter, a network) is stopped: by
    SIGTERM, at which it removes its locks.
    """
    with opened(checkout) as repo:
        with blocked_signals():
            running = repo.git.execute(["git", *command], as_process=True, with_stdout=False)  # killed when collected
        process = running.proc
        assert process is not None and process.stderr is not None
        said: list[bytes] = []
        # What git has started (a filter, a daemon of a hook) may outlive it and hold the pipe: the end of
        # git counts, not the end of its output.
        reader = threading.Thread(target=_drain, args=(process.stderr.fileno(), said), daemon=True)
        reader.start()
        patience = _PATIENCE
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK)
            if interrupts.caught is not None:
                patience -= _TICK
                if patience <= 0:
                    process.send_signal(signal.SIGTERM)
        reader.join(0.5)
        return process.returncode, b"".join(said).decode("utf-8", "replace")


def _drain(descriptor: int, said: list[bytes]) -> None:
    with suppress(OSError):
        while text := os.read(descriptor, 65536):
            said.append(text)


def _full(checkout: GitCheckout, path: bytes) -> bytes:
    return os.fsencode(checkout.root) + b"/" + path


def _refused(name: str, why: str) -> GitError:
    return GitError(f"could not switch to {show(name)}, all is as it was: {why}")
