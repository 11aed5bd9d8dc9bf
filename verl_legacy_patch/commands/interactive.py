"""``apply --interactive``: ask about each hunk, with single keys, on any terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.output import coloured, say, wants_colour

if TYPE_CHECKING:
    from verl_legacy_patch.plan import Plan
    from verl_legacy_patch.review import Item, Review

KEYS = {
    "y": "accept this change",
    "n": "skip it",
    "a": "accept it and every other change of this codemod",
    "s": "skip it and every other change of this codemod",
    "f": "accept it and the rest of this file",
    "d": "skip it and the rest of this file",
    "A": "accept everything that is left",
    "u": "undo the last answer",
    "k": "go back to the change before",
    "w": "write what is accepted so far, skip the rest",
    "q": "quit and write nothing",
    "?": "this list",
}
#: What the question names; the rest is behind the question mark.
_SHORT = "y/n, a all of this codemod, u undo, w write, q quit, ? more"


def review_plan(plan: Plan) -> Plan:
    """Ask about every hunk and return the plan of what was accepted.

    Raises:
        Refused: there is no terminal to ask on, or the person quits.
    """
    from verl_legacy_patch.review import Review, suppressions

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused("--interactive asks on a terminal, and there is none", 2)
    review = Review(plan)
    colour = bool(wants_colour(sys.stderr))
    with _single_keys():
        while (item := review.current) is not None:
            _show(item, review, colour)
            if not _answer(review):
                break
        result = review.result()
        accepted = len(review.items) - len(review.skipped())
        say([f"Accepted {accepted} of {len(review.items)} changes."])
        if review.skipped() and _yes("Mark skipped places with a comment, so that later runs keep them? [y/n] "):
            result = suppressions(result, review)
    if not result.changes and result.problems == plan.problems:
        say(["Nothing is written."])
        raise click.exceptions.Exit(0)
    return result


def _show(item: Item, review: Review, colour: bool) -> None:
    from verl_legacy_patch.checkout.gitio import show
    from verl_legacy_patch.roles import role_of
    from verl_legacy_patch.view import reasons

    assert item.hunk is not None
    summaries = {codemod.name: codemod.summary_for(review.plan.target) for codemod in review.plan.codemods}
    parts = [*reasons(item.hunk, summaries), item.hunk.header, *item.hunk.lines]
    patch = b"\n" + b"".join(parts)
    text = b"".join(coloured([patch])) if colour else patch
    path = show(item.change.path)
    decided = {True: ", accepted before", False: ", skipped before", None: ""}[review.decided.get(review.at)]
    say(["", click.style(f"{path} ({role_of(item.change.path)}{decided})", bold=colour)])
    say(text.decode("utf-8", "replace").strip("\n").split("\n"))


def _answer(review: Review) -> bool:
    """Read keys until one of them decides; False when the walk is over."""
    while True:
        key = _key(f"({review.at + 1}/{len(review.items)}) Accept? [{_SHORT}] ")
        if key in ("y", "n"):
            review.decide(key == "y")
        elif key in ("a", "s"):
            review.decide_codemod(key == "a")
        elif key in ("f", "d"):
            review.decide_file(key == "f")
        elif key == "A":
            review.decide_rest(True)
        elif key == "u":
            if not review.undo():
                say(["There is nothing to undo."])
                continue
        elif key == "k":
            review.back()
        elif key == "w":
            review.decide_rest(False)
            return False
        elif key == "q":
            say(["Nothing is written."])
            raise click.exceptions.Exit(130)
        else:
            say([f"  {name}  {text}" for name, text in KEYS.items()])
            continue
        return True


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let keys through without Enter for the whole walk: what is typed ahead is not lost between two questions."""
    if sys.platform == "win32":  # click reads single keys by itself there
        yield
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_key() -> str:
    if sys.platform == "win32":
        return click.getchar()
    return os.read(sys.stdin.fileno(), 1).decode("latin-1") or "\x04"


def _yes(question: str) -> bool:
    return _key(question).lower() == "y"


def _key(prompt: str) -> str:
    """Return one key that the person presses; Ctrl-C and Ctrl-D interrupt.

    Enter is none: ``git add -p`` wants it behind each answer, and hands that are used to it press it here.
    """
    click.echo(prompt, nl=False, err=True)
    while (key := _read_key()) in ("\r", "\n"):
        pass
    click.echo(key if key.isprintable() else "", err=True)
    if key in ("\x03", "\x04"):
        raise KeyboardInterrupt
    return key
