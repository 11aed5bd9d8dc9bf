"""A checkout that is patched for one target does not count as done for another: nothing would be found in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import BRANCH, Verl, everything, without_traces
from repos import commit, git, make, write

T4 = ("--gpu", "t4", "--dtype", "float16", "--attn", "sdpa")
REASON = "patched for float32 eager 6.1, asked for float16 sdpa 7.5: verl-patch revert"


def asks(root: Path, options: Sequence[str]) -> None:
    """Put options of the command line into a configuration file: status takes none."""
    values = dict(zip((each.removeprefix("--") for each in options[::2]), options[1::2], strict=True))
    lines = (f'{key} = "{value}"\n' for key, value in values.items())
    write(root, {".verl-patch.toml": "".join(lines), ".git/info/exclude": ".verl-patch.toml\n"})


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (T4, "float16 sdpa 7.5"),
        (("--dtype", "float16"), "float16 eager 6.1"),
        (("--attn", "sdpa"), "float32 sdpa 6.1"),
        (("--gpu", "v100", "--attn", "sdpa"), "float32 sdpa 7.0"),
    ],
)
def test_every_command_says_so(
    options: tuple[str, ...], asked: str, patched: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"patched for float32 eager 6.1, asked for {asked}: verl-patch revert"
    before = without_traces(everything(patched))
    for more in ((), ("-n",), ("--in-place",), ("--branch", "other"), ("--no-switch", "--branch", "other")):
        verl("apply", patched, *options, *more).refused(3, said, f"revert {patched} first, then apply")
    assert without_traces(everything(patched)) == before
    monkeypatch.chdir(patched)
    for arguments in (("check", *options), ("check", *options, ".")):
        ran = verl(*arguments)
        assert ran.code == 1 and ran.out == b"" and ran.err.splitlines()[-1].startswith(said), ran
    verl("check", "--fix", *options).refused(3, said)
    assert without_traces(everything(patched)) == before
    asks(patched, options)
    ran = verl("status")
    assert f"left:     {said} first, then apply" in ran.out.decode()
    assert verl("check").code == 1


def test_the_way_that_it_names_works(patched: Path, verl: Verl) -> None:
    verl("revert", patched).done()
    verl("apply", patched, *T4).done("On branch verl-patch/float16-sdpa")
    assert verl("apply", patched, *T4).done("Nothing to rewrite").code == 0
    words = verl("apply", patched).err
    assert "patched for float16 sdpa 7.5, asked for float32 eager 6.1" in words
    go_on = words.split("(to go on: ")[1].split(")")[0].split()
    verl("apply", patched, *go_on).done("Nothing to rewrite")


def test_the_base_counts_and_not_what_is_checked_out(patched: Path, verl: Verl) -> None:
    verl("apply", patched, *T4, "--base", "main").done("On branch verl-patch/float16-sdpa")
    assert git(patched, "rev-parse", "HEAD^") == git(patched, "rev-parse", "main")
    verl("apply", patched, *T4, "--base", BRANCH, "--branch", "third").refused(3, REASON)
    git(patched, "switch", "-q", "main")
    verl("apply", patched, "-n").done("9 places")


def test_one_that_was_undone_does_not_count(patched: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    write(patched, {"verl/own.py": RIGHT})
    commit(patched)
    verl("apply", patched, *T4).refused(3, REASON)
    verl("revert", patched).done("Reverted by commit")
    monkeypatch.chdir(patched)
    assert "place" in verl("check", *T4).err
    verl("apply", *T4).done("Added to branch")
    assert verl("check", *T4).code == 0


def test_merged_with_new_places(patched: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places that are left are still listed; none becomes float16 beside what is float32."""
    write(patched, {"verl/own.py": LEFT})
    commit(patched)
    verl("apply", patched, *T4).refused(3, REASON)
    monkeypatch.chdir(patched)
    ran = verl("check", *T4)
    assert ran.code == 1 and b"verl/own.py:3" in ran.out and ran.err.splitlines()[-1].startswith(REASON)


def test_a_hook_does_not_look(patched: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given files, and has no time for the history."""
    monkeypatch.chdir(patched)
    monkeypatch.setattr("verl_legacy_patch.branch.former.former", lambda *_: pytest.fail("looked"))
    asks(patched, T4)
    assert verl("check", "verl/workers/actor.py", "verl/utils/packing.py").code == 0


@pytest.mark.parametrize(("first", "second"), [("p40", "t4"), ("t4", "p40"), ("p100", "p40"), ("8.6", "6.1")])
def test_another_card_is_fine(first: str, second: str, mini: Path, verl: Verl) -> None:
    """What an older card needs on top is added; what only an older one needs is on top of what a newer one needs."""
    git(mini, "switch", "-q", "-c", "work")
    verl("apply", mini, "--gpu", "6.1").done()
    oldest = git(mini, "rev-parse", "HEAD^{tree}")
    git(mini, "switch", "-q", "work")
    git(mini, "branch", "-q", "-D", BRANCH)
    verl("apply", mini, "--gpu", first).done()
    ran = verl("apply", mini, "--gpu", second).done()
    assert git(mini, "rev-parse", "HEAD^{tree}") == oldest
    noted = (first, second) == ("p40", "t4")
    note = "patched for compute capability 6.1: what torch-compile, vllm-enforce-eager rewrote stays so"
    assert (note in ran.err) == noted
    asks(mini, ("--gpu", second))
    said = verl("status", mini).out.decode()
    assert "nothing to rewrite" in said and (note in said) == noted


def test_another_folder_of_the_repository_does_not_count(config: Path, tmp_path: Path, verl: Verl) -> None:
    one = {"verl/__init__.py": "", "verl/own.py": LEFT}
    root = make(
        tmp_path / "two", {f"{folder}/{path}": text for folder in ("first", "second") for path, text in one.items()}
    )
    verl("apply", root / "first").done()
    verl("apply", root / "second", *T4).done("Added to branch")
    verl("apply", root / "first", *T4).refused(3, REASON)


@pytest.mark.parametrize("trailer", ["", "float32", "float32 eager six", "int8 eager 6.1", "float32 eager 6.1 more"])
def test_a_trailer_that_cannot_be_read_is_none(trailer: str, patched: Path, verl: Verl) -> None:
    message = git(patched, "log", "-1", "--format=%B").replace("Target: float32 eager 6.1", f"Target: {trailer}")
    git(patched, "commit", "-q", "--amend", "-m", message)
    verl("apply", patched, *T4).done("Nothing to rewrite")
