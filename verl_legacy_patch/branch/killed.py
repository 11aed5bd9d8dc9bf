"""What a run that was killed in the middle of a switch has left, and taking it away once the files are whole again.

``git reset --hard`` brings the files of the commit back, but it knows nothing of files that are new on the branch
that the run was on its way to: git has no record of them yet, and they would stand in the way of every later switch.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from verl_legacy_patch.branch.backup import new_paths, stale
from verl_legacy_patch.checkout import gitio
from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.checkout.revision import GitCheckout


def way_out(checkout: GitCheckout) -> str:
    """Return what happened and the one line that cures it."""
    where, lock = show(str(checkout.root)), checkout.git_dir / "index.lock"
    quoted = shlex.quote(where)
    cure = f"git -C {quoted} reset --hard"
    when = "look first with git status, if you have changed any since"
    if lock.exists():  # the git that was killed with it had begun to write the index
        cure = f"rm -f {shlex.quote(show(str(lock)))} && {cure}"
        when += ", and wait for any git that is still at work"
    return (
        f"a verl-patch was killed while it switched {where} to a branch: {cure} brings the files of the commit back "
        f"({when})"
    )


def clear(checkout: GitCheckout) -> None:
    """Remove the backups of killed runs, and the new files that those had written: the tracked files are whole.

    To be asked under the lock. A file goes only if git does not track it and holds its content: nothing is lost.
    """
    for backup in stale(checkout.git_dir):
        for path in new_paths(backup):
            if _is_ours(checkout, path):
                os.unlink(path)  # noqa: PTH108 (bytes)
        shutil.rmtree(backup, ignore_errors=True)


def _is_ours(checkout: GitCheckout, path: bytes) -> bool:
    where = Path(os.fsdecode(path))
    if where.is_symlink() or not where.is_file() or not where.is_relative_to(checkout.root):
        return False
    name = os.fsencode(where.relative_to(checkout.root))
    if gitio.run(["ls-files", "--error-unmatch", "--", b":(top,literal)" + name], checkout.root)[0] == 0:
        return False
    code, sha, _ = gitio.run(["hash-object", "--", name], checkout.root)
    return code == 0 and gitio.run(["cat-file", "-e", sha.strip()], checkout.root)[0] == 0
