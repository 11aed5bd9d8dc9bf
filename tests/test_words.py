"""How many words are put into few patterns, for a git that can do it and for one that cannot."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repos import HITS, WORDS, isolate, make, write

from verl_legacy_patch.checkout import gitio, open_checkout
from verl_legacy_patch.checkout.words import options, shortest, together

LETTERS = st.lists(st.sampled_from(b"ab_.-(|$[\xff"), min_size=1, max_size=5).map(bytes)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(monkeypatch, tmp_path)
    return make(tmp_path / "verl-clone")


@given(st.lists(LETTERS, min_size=1, max_size=8), st.lists(st.sampled_from(b"abAB_.-(|$[\xff"), max_size=30).map(bytes))
def test_the_patterns_match_what_holds_one_of_the_words(words: list[bytes], text: bytes) -> None:
    some = shortest(words)
    holds = any(word.lower() in text.lower() for word in words)
    assert any(word in text.lower() for word in some) == holds
    assert any(re.search(pattern, text, re.IGNORECASE) for pattern in together(some)) == holds


def test_words_that_begin_alike_share_a_pattern() -> None:
    words = [b"use_liger", b"bf16", b"use_remove_padding", b"bfloat16", b"torch.compile"]
    assert together(words) == [rb"bf(?:16|loat16)", rb"torch\.compile", rb"use_(?:liger|remove_padding)"]
    assert options([b"a.b"]) == [[b"-P", b"-e", rb"a\.b"], [b"-F", b"-e", b"a.b"]]


def test_a_git_that_knows_no_perl_is_asked_again(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin/git"
    no_perl = "echo 'fatal: cannot use Perl-compatible regexes when not compiled with USE_LIBPCRE' >&2; exit 128"
    real = shutil.which("git")
    write(tmp_path, {"bin/git": f'#!/bin/sh\ncase " $* " in *" -P "*) {no_perl};; *) exec {real} "$@";; esac\n'})
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    assert gitio.run(["grep", "-P", "-e", "x"], repo)[0] == 128
    assert [each.path for each in open_checkout(repo).candidates(WORDS)] == HITS
    (repo / "verl/utils.py").write_text("changed\n")  # the base is searched as git holds it
    assert [each.path for each in open_checkout(repo).candidates(WORDS)] == HITS
