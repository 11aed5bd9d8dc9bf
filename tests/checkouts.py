"""Checkouts that are opened, searched and refused: what tests of reading and of writing ask for alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from repos import WORDS

from verl_legacy_patch.checkout import CheckoutError, GitCheckout, open_checkout


def opened(root: Path, base: str | None = None) -> GitCheckout:
    """Open a checkout that is in git."""
    checkout = open_checkout(root, base)
    assert isinstance(checkout, GitCheckout)
    return checkout


def paths(root: Path, base: str | None = None, words: list[bytes] = WORDS) -> list[str]:
    """Return the files with one of the words."""
    return [each.path for each in open_checkout(root, base).candidates(words)]


def refusal(path: Path, base: str | None = None, **options: bool) -> str:
    """Return the one line that refuses to open it."""
    with pytest.raises(CheckoutError) as caught:
        open_checkout(path, base, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message
