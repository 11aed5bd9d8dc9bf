"""For which target a checkout is patched already: what was float16 and sdpa once cannot be found again as bfloat16.

A second run finds only what still chooses bfloat16 or flash attention. So a checkout that is patched for one target
has nothing left for any other, and would count as done for a target that it is not patched for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from verl_legacy_patch.branch.history import PatchCommit, standing
from verl_legacy_patch.capability import Capability
from verl_legacy_patch.checkout import Checkout, CheckoutError, GitCheckout, gitio, open_checkout
from verl_legacy_patch.checkout.gitio import to_bytes
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.target import ATTENTIONS, DTYPES, Target

_CAPABILITY = re.compile(r"\d+\.\d+")


class Former(NamedTuple):
    """What a standing patch means for a target.

    Attributes:
        patched: the target that it was made for.
        codemods: those that ran for it and would not run for the one that is asked for.
        fits: whether what it has rewritten is what the other target asks for, apart from those.
    """

    patched: Target
    codemods: tuple[str, ...] = ()
    fits: bool = True

    def refusal(self, asked: Target, path: str = "") -> str:
        """Return why the target cannot be had, and what to do, in one line."""
        old = self.patched
        words = "verl-patch revert" + (f" {path}" if path not in ("", ".") else "")
        go_on = f"--gpu {old.capability} --dtype {old.dtype} --attn {old.attn}"
        return f"patched for {short(old)}, asked for {short(asked)}: {words} first, then apply (to go on: {go_on})"

    def note(self, asked: Target) -> str:
        """Return what to know about a patch that does more than the target needs; empty when it does not."""
        if not self.codemods:
            return ""
        names = ", ".join(self.codemods)
        return (
            f"patched for compute capability {self.patched.capability}: what {names} rewrote stays so, though "
            f"{asked.capability} does not need it"
        )


def short(target: Target) -> str:
    """Return a target as the trailer of a patch commit spells it."""
    return f"{target.dtype} {target.attn} {target.capability}"


def former(checkout: Checkout, asked: Target) -> Former | None:
    """Return the standing patch that matters most for a target: one that does not fit, else one that does more.

    Args:
        checkout: files on disk are looked up in the repository around them, if there is one.
        asked: the target that is asked for.
    """
    repository = _repository(checkout)
    if repository is None:
        return None
    found = [
        _compared(target, asked)
        for commit in standing(repository, repository.base)
        if (target := _target_of(commit)) is not None and short(target) != short(asked) and _touches(repository, commit)
    ]
    found.sort(key=lambda each: (each.fits, not each.codemods))
    return found[0] if found else None


def _compared(patched: Target, asked: Target) -> Former:
    """Compare two targets: another dtype or attention never fits, another card does when it needs more, or less."""
    every = discover().values()  # chosen or not
    before, now = ({codemod.name for codemod in every if codemod.applies(each)} for each in (patched, asked))
    same = (patched.dtype, patched.attn) == (asked.dtype, asked.attn)
    return Former(patched, tuple(sorted(before - now)), same and (before <= now or now <= before))


def _repository(checkout: Checkout) -> GitCheckout | None:
    if isinstance(checkout, GitCheckout):
        return checkout
    if not (checkout.root / ".git").exists():
        return None
    try:
        around = open_checkout(checkout.root)
    except CheckoutError:  # no commit yet, say: then there is no patch commit either
        return None
    return around if isinstance(around, GitCheckout) else None


def _target_of(commit: PatchCommit) -> Target | None:
    """Return the target that a patch commit names; None for one that cannot be read."""
    words = commit.trailers.get("Verl-Patch-Target", "").split()
    if len(words) != 3 or words[0] not in DTYPES or words[1] not in ATTENTIONS or not _CAPABILITY.fullmatch(words[2]):
        return None
    major, minor = words[2].split(".")
    return Target(words[0], words[1], None, Capability(int(major), int(minor)))


def _touches(checkout: GitCheckout, commit: PatchCommit) -> bool:
    """Return whether a patch is about the folder that was asked for: a repository may hold verl several times."""
    if not checkout.prefix:
        return True
    where: tuple[str | bytes, ...] = ("--", b":(top,literal)" + to_bytes(checkout.prefix))
    names = ["diff-tree", "-r", "--name-only", "--no-commit-id", "--root", commit.sha, *where]
    return bool(gitio.read(names, checkout.root).strip())
