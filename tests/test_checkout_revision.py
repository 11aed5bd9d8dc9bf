"""What is read is the base revision, not the work tree, whatever git does with its files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from checkouts import opened, paths, refusal
from repos import FILES, HITS, WORDS, commit, git, write

from verl_legacy_patch.checkout import gitio

pytestmark = pytest.mark.usefixtures("config")


def test_changed_files_do_not_count(repo: Path) -> None:
    (repo / "verl/utils.py").write_text("bf16\n")
    (repo / "verl/workers/actor.py").write_text("nothing\n")
    (repo / "scripts/run.sh").unlink()
    write(repo, {"verl/staged.py": "bf16"})
    git(repo, "add", "verl/staged.py", "verl/utils.py")
    checkout = opened(repo)
    assert checkout.dirty() == ["scripts/run.sh", "verl/staged.py", "verl/utils.py", "verl/workers/actor.py"]
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert checkout.read_path("verl/utils.py") == FILES["verl/utils.py"].encode()  # type: ignore[union-attr]
    assert not checkout.has_file("verl/staged.py")


def test_untracked_and_touched_files_are_not_dirty(repo: Path) -> None:
    write(repo, {"new.py": "bf16"})
    os.utime(repo / "verl/utils.py", (1, 1))
    before = (repo / ".git/index").read_bytes()
    assert opened(repo).dirty() == []
    assert paths(repo) == HITS
    assert (repo / ".git/index").read_bytes() == before  # reading writes nothing


def test_unmerged_files_are_dirty(repo: Path) -> None:
    git(repo, "switch", "-qc", "side")
    write(repo, {"verl/utils.py": "side\n"})
    commit(repo)
    git(repo, "switch", "-q", "main")
    write(repo, {"verl/utils.py": "main\n"})
    commit(repo)
    subprocess.run(["git", "merge", "-q", "side"], cwd=repo, capture_output=True)
    assert opened(repo).dirty() == ["verl/utils.py"]
    assert paths(repo) == HITS


def test_other_base(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-am", "note", "v1")
    write(repo, {"verl/later.py": "bf16\n", "scripts/run.sh": "true\n"})
    second = commit(repo, "Later: words")
    assert opened(repo).base == second
    for base in (first, "v1", "HEAD~1", first[:10], "main^", ":/first", "HEAD@{1}"):
        assert opened(repo, base).base == first, base
        assert paths(repo, base) == HITS
    assert opened(repo, "v1").tree == git(repo, "rev-parse", "v1^{tree}")
    assert paths(repo, "main") == ["verl/later.py", *HITS[1:]]
    assert opened(repo, "HEAD").is_head and not opened(repo, "v1").is_head


def test_detached_head(repo: Path) -> None:
    git(repo, "switch", "-q", "--detach")
    assert paths(repo) == HITS


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_files_that_git_does_not_look_at(repo: Path, flag: str) -> None:
    git(repo, "update-index", flag, "verl/workers/actor.py")
    (repo / "verl/workers/actor.py").write_text("hidden change\n")
    assert paths(repo) == HITS


def test_sparse_checkout(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "scripts")
    assert not (repo / "verl/workers").exists()
    assert paths(repo) == HITS
    assert opened(repo).packages() == ["verl"]
    git(repo, "config", "index.sparse", "true")
    git(repo, "sparse-checkout", "reapply")
    assert paths(repo) == HITS


def test_shallow_clone_and_linked_worktree(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/more.py": "x\n"})
    commit(repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    assert paths(tmp_path / "shallow") == HITS
    assert "no revision HEAD~1" in refusal(tmp_path / "shallow", "HEAD~1")
    git(repo, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked\nfolder")
    linked = opened(tmp_path / "linked\nfolder")
    assert linked.root == tmp_path / "linked\nfolder"
    assert (linked.git_dir / "index").exists()
    assert [each.path for each in linked.candidates(WORDS)] == HITS


def test_line_endings_and_filters(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "config", "filter.hide.smudge", "tr b x")
    git(repo, "config", "filter.hide.clean", "tr x b")
    write(repo, {".gitattributes": "actor.py filter=hide\n*.yaml working-tree-encoding=UTF-16\n"})
    write(repo, {"verl/workers/config.yaml": "dtype: bf16\n".encode("utf-16")})
    commit(repo)
    (repo / "verl/workers/actor.py").unlink()
    (repo / "verl/workers/config.yaml").unlink()
    git(repo, "checkout", "-q", "--", ".")
    assert b"xfloat16" in (repo / "verl/workers/actor.py").read_bytes()
    assert opened(repo).dirty() == []
    checkout = opened(repo)
    found = dict(checkout.read(checkout.candidates(WORDS)))
    assert [each.path for each in found] == HITS
    assert all(b"\r" not in content for content in found.values())


def test_filter_on_other_files_keeps_the_fast_way(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, {".gitattributes": "*.bin filter=lfs\n", "model.bin": "bf16"})
    commit(repo)
    calls: list[list[str | bytes]] = []
    run = gitio.run

    def counted(arguments: list[str | bytes], cwd: Path) -> tuple[int, bytes, str]:
        calls.append(list(arguments))
        return run(arguments, cwd)

    monkeypatch.setattr(gitio, "run", counted)
    checkout = opened(repo)
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert not any(checkout.base in call for call in calls if call[0] == "grep")
    assert len(calls) <= 5  # rev-parse, status, ls-files, attributes, grep
