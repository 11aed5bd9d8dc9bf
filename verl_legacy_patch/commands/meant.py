"""Is the current folder meant where nobody typed one, and which folder does a hint have to name?

A repository that only imports verl (recipes, or one of tools for verl) is rewritten when that is asked for: by its
path, or by a configuration in it. A forgotten path does not ask for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verl_legacy_patch.commands import Refused

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.commands.options import Run

#: Paths that a hint repeats.
MOST_NAMED = 3


def shows(checkout: Checkout, run: Run) -> bool:
    """Return whether a checkout shows by itself that it is meant: it holds verl, or a configuration for this."""
    return run.source is not None or bool(checkout.packages())


def refuse_forgotten(checkout: Checkout, run: Run) -> None:
    """Refuse to rewrite the current folder, which nobody typed, when nothing in it shows that it is meant."""
    from verl_legacy_patch.checkout import open_checkout
    from verl_legacy_patch.checkout.gitio import show

    if shows(checkout, run):
        return
    whole = checkout.prefix and open_checkout(checkout.root).packages()
    clone = f" (is {show(shlex.quote(str(checkout.root)))} meant?)" if whole else ""
    raise Refused(
        f"no folder was given, and the current one ({show(str(checkout.root / checkout.prefix).rstrip('/'))}) has no "
        f'verl package, only code that imports verl: give the folder of a verl clone{clone}, or "." for this one',
        3,
    )


def not_typed(checkout: Checkout, run: Run, *, fix: bool) -> str:
    """Return what ``check`` says where no path was typed; with ``fix`` refuse what does not show that it is meant."""
    if shows(checkout, run):
        return ""
    if fix:
        refuse_forgotten(checkout, run)
    from verl_legacy_patch.notes import NO_PACKAGE

    return f"Note: {NO_PACKAGE}."


def place(checkout: Checkout, run: Run) -> str:
    """Return what to type behind a command for this checkout, with a blank before it; nothing in its own folder."""
    from verl_legacy_patch.checkout.gitio import show

    folder = checkout.root / checkout.prefix
    if folder == Path.cwd():
        return "" if shows(checkout, run) else " ."
    return f" {show(shlex.quote(str(folder)))}"


def has_git(checkout: Checkout) -> bool:
    """Return whether there can be a commit."""
    return checkout.base is not None or (checkout.root / ".git").exists()


def cure(checkout: Checkout, run: Run, paths: Sequence[Path]) -> str:
    """Return the commands that rewrite what ``check`` found in ``paths``, to stand behind its total."""
    from verl_legacy_patch.checkout.gitio import show

    where = place(checkout, run)
    given = " FILES" if len(paths) > MOST_NAMED else "".join(f" {shlex.quote(str(path))}" for path in paths)
    commit = f", with a commit: verl-patch apply{where}" if has_git(checkout) else ""
    return f"; rewrite on disk: verl-patch check --fix{show(given) or where}{commit}"
