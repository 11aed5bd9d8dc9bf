"""A dry run says when git knows nobody to commit as, and asks git only where no usual file holds an address."""

from __future__ import annotations

from pathlib import Path

import pytest
from minis import Verl
from repos import git, write

from verl_legacy_patch import branch

NOTE = "Note: without --dry-run this would be refused: git does not know who you are: git config --global user.name"


def test_where_nobody_is_known(config: Path, mini: Path, verl: Verl) -> None:
    config.write_text("[user]\n\tname = Ada\n")
    verl("apply", mini).refused(3, "git does not know who you are")
    verl("apply", mini, "-n").done(NOTE)
    assert NOTE not in verl("apply", mini, "-n", "--in-place").done().err
    git(mini, "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x")
    write(mini, {"verl/workers/actor.py": "x = 1\n"})
    git(mini, "config", "user.email", "a@b.c")
    assert NOTE not in verl("apply", mini, "-n").done().err


@pytest.mark.parametrize("place", ["GIT_CONFIG_GLOBAL", ".git/config", ".gitconfig", ".config/git/config", "xdg"])
def test_git_is_not_asked_where_an_address_is(
    place: str, config: Path, mini: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, home = config.read_text(), tmp_path / "another home"
    if place != "GIT_CONFIG_GLOBAL":
        config.write_text("")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    if place == ".git/config":
        write(mini, {place: (mini / place).read_text() + text})
    elif place == "xdg":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        write(tmp_path, {"xdg/git/config": text})
    else:
        write(home, {place: text})
    monkeypatch.setattr(branch, "refuse_nameless", lambda checkout: pytest.fail("git was asked"))
    verl("apply", mini, "-n").done()


@pytest.mark.parametrize("how", ["environment", "included", "no home"])
def test_git_is_asked_where_it_may_know_more(
    how: str, config: Path, mini: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = config.read_text()
    config.write_text("[include]\n\tpath = more\n" if how == "included" else "")
    if how == "included":
        (config.parent / "more").write_text(text)
    else:
        for name in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
            monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
    if how == "no home":
        monkeypatch.delenv("HOME")
        monkeypatch.delenv("GIT_CONFIG_GLOBAL")
        monkeypatch.chdir(tmp_path)
    assert NOTE not in verl("apply", mini, "-n").done().err
