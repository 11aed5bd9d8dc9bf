"""The commit: built beside the work tree, by the user's name and signature, found again by its trailers."""

from __future__ import annotations

from pathlib import Path

import pytest
from branches import CHANGES, MESSAGE, NAME, apply, refusal, untouched
from checkouts import opened
from repos import commit, git, make, state, write

from verl_legacy_patch.branch import find_patch_commits, preflight, trailers
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.inplace import Change

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


def test_commit_changes_nothing_that_is_seen(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    sha = commit_tree(opened(repo), CHANGES, MESSAGE)
    untouched(repo, before, tmp_path)
    assert git(repo, "rev-parse", f"{sha}^") == git(repo, "rev-parse", "HEAD")
    assert (
        git(repo, "log", "-1", "--format=%an <%ae> %cn%n%B", sha)
        == f"Ada Tester <ada@example.com> Ada Tester\n{MESSAGE}"
    )
    changed = git(repo, "diff-tree", "-r", "--name-status", "HEAD", sha)
    assert changed.split() == [
        "M",
        "scripts/run.sh",
        "A",
        "verl/new/support.py",
        "M",
        "verl/workers/actor.py",
    ]
    listed = git(repo, "ls-tree", "-r", sha)
    assert "100755 blob" in next(line for line in listed.split("\n") if "run.sh" in line)
    assert git(repo, "cat-file", "blob", f"{sha}:scripts/run.sh") == "#!/bin/sh\necho fp32\r"


def test_row_of_commits(repo: Path) -> None:
    checkout = opened(repo)
    first = commit_tree(checkout, CHANGES[:1], "one")
    second = commit_tree(checkout, CHANGES[2:], "two", parent=first)
    assert git(repo, "log", "--format=%s", second) == "two\none\nfirst"
    assert git(repo, "diff", "--name-only", "main", second).split() == [
        "scripts/run.sh",
        "verl/workers/actor.py",
    ]


def test_odd_names_and_undecodable_bytes(tmp_path: Path) -> None:
    names = ["a b.py", "q\"u'o.py", "new\nline.py", "ünï/模型.py", "-dash.py", ":(top).py", "la\udce9.py"]
    repo = make(tmp_path / "odd é\n[x]", {"verl/__init__.py": ""})
    for name in names:
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_bytes(b"bf16\xff")
    commit(repo)
    sha = apply(repo, [*(Change(name, b"fp32\xff\0") for name in names), Change("x\ny/z.py", b"", added=True)])
    assert git(repo, "status", "--porcelain") == ""
    assert all((repo / name).read_bytes() == b"fp32\xff\0" for name in names)
    assert (repo / "x\ny/z.py").exists()
    assert len(git(repo, "diff-tree", "-r", "-z", "--name-only", "main", sha).split("\0")) == len(names) + 2


def test_symlinks_and_submodules_stay(repo: Path, tmp_path: Path) -> None:
    (repo / "link").symlink_to("verl/workers/actor.py")
    (repo / "loop").symlink_to("loop")
    (repo / "out").symlink_to(tmp_path)
    recipe = make(tmp_path / "recipe", {"r.py": "1\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(recipe), "recipe")
    commit(repo)
    before = git(repo, "ls-tree", "-r", "HEAD").split("\n")
    apply(repo)
    after = git(repo, "ls-tree", "-r", "HEAD").split("\n")
    for kind in ("120000", "160000"):
        assert [each for each in before if kind in each] == [each for each in after if kind in each] != []
    assert git(repo, "status", "--porcelain") == ""
    checkout = opened(repo)
    for path in ("link", "recipe"):
        assert "symlink or submodule" in refusal(lambda path=path: commit_tree(checkout, [Change(path, b"")], "m"))


def test_changes_that_do_not_fit(repo: Path) -> None:
    checkout = opened(repo)
    assert "not in the base" in refusal(lambda: commit_tree(checkout, [Change("nope.py", b"")], "m"))
    assert "exists" in refusal(lambda: commit_tree(checkout, [Change("setup.py", b"", added=True)], "m"))
    assert "mode" in refusal(lambda: commit_tree(checkout, [Change("setup.py", b"", "120000")], "m"))
    for path in ("../x.py", ".git/hooks/x", "/etc/x"):
        refusal(lambda path=path: commit_tree(checkout, [Change(path, b"", added=True)], "m"))


# --- identity and signing


def test_no_name(repo: Path, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("")
    before = state(repo)
    for call in (lambda: preflight(opened(repo), NAME), lambda: commit_tree(opened(repo), CHANGES, "m")):
        assert "git config --global user.name" in refusal(call)
    untouched(repo, before, tmp_path)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Env")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "env@example.com")
    preflight(opened(repo), NAME)
    assert git(repo, "log", "-1", "--format=%an", commit_tree(opened(repo), CHANGES, "m")) == "Env"


def test_signing(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "commit.gpgsign", "yes")
    git(repo, "config", "gpg.program", "/bin/false")
    before = state(repo)
    assert "could not be signed (gpg failed" in refusal(lambda: apply(repo))
    untouched(repo, before, tmp_path)
    write(tmp_path, {"gpg": "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho a-signature\n"})
    (tmp_path / "gpg").chmod(0o755)
    git(repo, "config", "gpg.program", str(tmp_path / "gpg"))
    assert "gpgsig a-signature" in git(repo, "cat-file", "commit", apply(repo))
    git(repo, "config", "commit.gpgsign", "banana")  # git commits nothing either
    assert "banana" in refusal(lambda: commit_tree(opened(repo), [], "x"))


# --- trailers


def test_trailers() -> None:
    assert trailers(MESSAGE) == {"Verl-Patch-Version": "0.1.0", "Verl-Patch-Target": "float32 eager"}
    assert trailers("Subject\r\n\r\nKey: a\r\n b\r\n(cherry picked from commit 1)\r\n") == {"Key": "a b"}
    assert trailers("Key: subject") == trailers("") == trailers("S\n\nText\nKey: x\n") == {}


def test_find_patch_commits(repo: Path, config: Path) -> None:
    config.write_text(config.read_text() + "[log]\n\tshowSignature = true\n[grep]\n\tpatternType = fixed\n")
    sha = apply(repo)
    write(repo, {"a.py": "1\n"})
    commit(repo, "Talk\n\nVerl-Patch-Version: is a trailer\n\nso it is")
    checkout = opened(repo)
    second = commit_tree(checkout, [Change("setup.py", b"")], MESSAGE.replace("0.1.0", "0.2.0"))
    found = find_patch_commits(checkout, second)
    assert [(each.sha, each.trailers["Verl-Patch-Version"]) for each in found] == [
        (second, "0.2.0"),
        (sha, "0.1.0"),
    ]
    assert found[0].subject == "Rewrite für float32"
    assert find_patch_commits(checkout, second, limit=1) == found[:1]
    assert find_patch_commits(checkout, "main") == []
