"""What is no checkout, no revision, broken or unreadable is refused in one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from checkouts import opened, paths, refusal
from repos import FILES, HITS, WORDS, as_nobody, git, make, write

from verl_legacy_patch.checkout import CheckoutError, gitio, open_checkout

pytestmark = pytest.mark.usefixtures("config")


def test_no_such_folder(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none\nwhere")
    write(tmp_path, {"file": ""})
    assert "not a directory" in refusal(tmp_path / "file")
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot open" in refusal(tmp_path / "loop")


def test_bare_and_inside_git(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare")
    assert "bare repository" in refusal(tmp_path / "bare")
    assert "bare repository" in refusal(tmp_path / "bare/refs")
    assert "inside a .git folder" in refusal(repo / ".git")
    assert "inside a .git folder" in refusal(repo / ".git/refs")


def test_unborn_head(tmp_path: Path, repo: Path) -> None:
    write(tmp_path / "new", FILES)
    git(tmp_path / "new", "init", "-q")
    assert "no commit yet" in refusal(tmp_path / "new")
    git(repo, "switch", "-q", "--orphan", "empty")
    assert "no commit yet" in refusal(repo)
    assert paths(repo, "main") == HITS


@pytest.mark.parametrize(
    "base", ["nope", "", "-x", "--all", "^main", "main..main", "HEAD~5", "0" * 40, "a b", "x\ny", "HEAD:nope"]
)
def test_unknown_base(repo: Path, base: str) -> None:
    assert "no revision" in refusal(repo, base) or base == "0" * 40


def test_base_that_is_no_commit(repo: Path, tmp_path: Path) -> None:
    assert "is a tree, not a commit" in refusal(repo, "HEAD^{tree}")
    assert "is a blob, not a commit" in refusal(repo, "HEAD:setup.py")
    write(tmp_path / "plain", FILES)
    assert "no git repository" in refusal(tmp_path / "plain", "main")


def test_broken_repository(repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "outer", {f"inner/{path}": content for path, content in FILES.items()})
    make(tmp_path / "outer")
    (tmp_path / "outer/inner/.git").mkdir()
    assert "broken" in refusal(tmp_path / "outer/inner")
    (tmp_path / "outer/inner/.git").rmdir()
    (tmp_path / "outer/inner/.git").write_text("gitdir: /nowhere\n")
    assert "broken" in refusal(tmp_path / "outer/inner")
    (repo / ".git/refs/heads/main").write_text("1" * 40 + "\n")
    assert "\n" not in refusal(repo)
    (repo / ".git/refs/heads/main").write_text("rubbish\n")
    refusal(repo)
    (repo / ".git/HEAD").unlink()
    assert "broken" in refusal(repo)
    (repo / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (repo / ".git/config").write_text("[core\n")
    refusal(repo)


def test_corrupt_index(repo: Path) -> None:
    (repo / ".git/index").write_bytes(b"rubbish")
    with pytest.raises(CheckoutError) as caught:
        open_checkout(repo)
    assert "\n" not in str(caught.value)


def test_old_git(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    fake = tmp_path / "bin/git"
    cases = f'*version) echo git version 1.8.3.1;; *grep*) exit 129;; *) exec {real} "$@";;'
    write(tmp_path, {"bin/git": f'#!/bin/sh\ncase "$*" in {cases} esac\n'})
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    with pytest.raises(CheckoutError, match=r"git 1\.8 is too old: verl-patch needs 2\.23"):
        opened(repo).candidates(WORDS)


def test_messages_are_one_line_with_the_reason_first() -> None:
    text = "warning: x\nerror: The following would be overwritten by checkout:\n\ta.py\n\tb.py\nPlease move\n"
    assert gitio.one_line(text) == "The following would be overwritten by checkout: a.py, b.py, Please move"
    assert gitio.one_line("hint: a\nfatal: bad \x1b[31mthing\n") == "bad \\x1b[31mthing"
    assert gitio.one_line("") == "git gave no reason"
    assert gitio.show("a\nb\udce9") == "a\\nb\\udce9"


# --- permissions


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs two users")
def test_repository_of_another_user(repo: Path) -> None:
    with as_nobody(repo, own=False):
        assert "safe.directory" in refusal(repo)
        assert "safe.directory" in refusal(repo, "main")


def test_unreadable(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, FILES)
    (root / "verl/utils.py").chmod(0)
    with as_nobody(root):
        checkout = open_checkout(root)
        with pytest.raises(CheckoutError, match=r"cannot read .*verl/utils\.py: Permission denied"):
            checkout.candidates(WORDS)
        (root / "verl/workers").chmod(0)
        assert "cannot read" in refusal(root)
        (root / "verl/workers").chmod(0o755)
        root.chmod(0o600)
        assert "cannot" in refusal(root)
        root.chmod(0o755)


def test_unreadable_file_of_a_clean_work_tree(repo: Path) -> None:
    with as_nobody(repo):
        git(repo, "config", "core.fileMode", "false")
        git(repo, "config", "core.trustctime", "false")
        os.utime(repo / "verl/workers/actor.py", (1, 1))  # as new as the index, git would look inside
        git(repo, "update-index", "--refresh")
        (repo / "verl/workers/actor.py").chmod(0)
        assert opened(repo).dirty() == []
        assert paths(repo) == HITS


def test_read_only_is_enough_for_reading(repo: Path) -> None:
    for path in (*repo.rglob("*"), repo):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    with as_nobody(repo):
        checkout = open_checkout(repo)
        assert [content.decode() for _, content in checkout.read(checkout.candidates(WORDS))] == [
            FILES[path] for path in HITS
        ]
    for path in (repo, *repo.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
