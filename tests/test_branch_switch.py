"""The branch: its names, never moved; and the switch to it, with the hooks and filters of the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from branches import CHANGES, MESSAGE, NAME, apply, refusal, untouched
from checkouts import opened
from repos import FILES, commit, git, leftovers, state, write

from verl_legacy_patch.branch import create_branch, current_branch, preflight, remove_branch
from verl_legacy_patch.branch.commit import commit_tree
from verl_legacy_patch.branch.switching import publish, switch
from verl_legacy_patch.checkout import CheckoutError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


def test_publish_switches_and_stays_clean(repo: Path, tmp_path: Path) -> None:
    write(repo, {"untracked.txt": "mine"})
    sha = apply(repo)
    assert current_branch(opened(repo)) == NAME
    assert git(repo, "rev-parse", "HEAD", "main^0").split() == [sha, git(repo, "rev-parse", f"{sha}^")]
    assert git(repo, "status", "--porcelain") == "?? untracked.txt"
    assert (repo / "verl/new/support.py").read_bytes() == b"x = 1\n"
    assert (repo / "scripts/run.sh").stat().st_mode & 0o111
    assert leftovers(repo / ".git") == [] and list((tmp_path / "scratch").iterdir()) == []
    git(repo, "switch", "-q", "main")
    assert (repo / "verl/workers/actor.py").read_text() == FILES["verl/workers/actor.py"]


def test_other_base_and_dirty_tree(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    write(repo, {"verl/later.py": "1\n"})
    commit(repo)
    (repo / "setup.py").write_text("dirty")
    before = state(repo)
    checkout = opened(repo, first)
    preflight(checkout, NAME, switch=False)
    message = refusal(lambda: preflight(checkout, NAME))
    assert "1 tracked file has uncommitted changes" in message and "(setup.py)" in message
    assert "--no-switch" in message
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    publish(checkout, NAME, sha, switch_to=False)
    assert state(repo)[:3] == before[:3] and state(repo)[4:] == before[4:]
    assert git(repo, "rev-parse", NAME, f"{NAME}^").split() == [sha, first]
    (repo / "setup.py").write_text(str(FILES["setup.py"]))
    switch(opened(repo), NAME)
    assert not (repo / "verl/later.py").exists() and git(repo, "status", "--porcelain") == ""


# --- names


def test_branch_names(repo: Path) -> None:
    checkout = opened(repo)
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    create_branch(checkout, NAME, sha)
    message = refusal(lambda: create_branch(checkout, NAME, checkout.base))
    assert "exists already" in message and "--branch" in message
    assert git(repo, "rev-parse", NAME) == sha
    assert f"beside branch {NAME}" in refusal(lambda: create_branch(checkout, "verl-patch", sha))
    assert f"beside branch {NAME}" in refusal(lambda: create_branch(checkout, f"{NAME}/x", sha))
    create_branch(checkout, "verl-patch/other", sha)
    for name in ("", "-x", "a..b", "a b", "HEAD", "@{-1}", "x.lock", "a\nb", "ends/", "~", "a\udce9\0"):
        refusal(lambda name=name: create_branch(checkout, name, sha), CheckoutError)
    create_branch(checkout, "modèle/é", sha)
    switch(checkout, "modèle/é")
    assert current_branch(checkout) == "modèle/é"
    assert "could not switch" in refusal(lambda: switch(checkout, "nope"))
    remove_branch(checkout, NAME, sha)
    refusal(lambda: remove_branch(checkout, "main", sha))
    assert git(repo, "rev-parse", "main") == checkout.base


def test_a_tag_of_the_same_name(repo: Path) -> None:
    git(repo, "tag", NAME)
    sha = apply(repo)
    assert git(repo, "rev-parse", "HEAD") == sha
    assert git(repo, "symbolic-ref", "HEAD") == f"refs/heads/{NAME}"


# --- hooks and filters


def test_hooks_of_the_user(repo: Path, tmp_path: Path) -> None:
    hook = repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    apply(repo)  # a failing post-checkout hook undoes nothing: git has switched
    assert (tmp_path / "ran").exists() and current_branch(opened(repo)) == NAME
    git(repo, "-c", "core.hooksPath=/dev/null", "switch", "-q", "main")
    git(repo, "branch", "-qD", NAME)
    hook.unlink()
    before = state(repo)
    veto = repo / ".git/hooks/reference-transaction"
    veto.touch(0o755)
    veto.write_text("#!/bin/sh\nexit 1\n")
    assert "could not be created" in refusal(lambda: apply(repo))
    veto.unlink()
    untouched(repo, before, tmp_path)


def test_line_endings(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    for path in FILES:
        (repo / path).unlink()
    git(repo, "checkout", "-q", "--", ".")
    apply(repo)
    assert (repo / "verl/workers/actor.py").read_bytes() == b"import torch\r\n\r\ndtype = torch.float32\r\n"
    assert git(repo, "cat-file", "blob", "HEAD:verl/workers/actor.py") == "import torch\n\ndtype = torch.float32"
    assert git(repo, "status", "--porcelain") == ""


def test_filters(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "filter.up.smudge", "tr a-z A-Z")
    git(repo, "config", "filter.up.clean", "tr A-Z a-z")
    git(repo, "config", "filter.up.required", "true")
    write(repo, {".gitattributes": "verl/workers/actor.py filter=up\n"})
    commit(repo)
    apply(repo)
    assert (repo / "verl/workers/actor.py").read_bytes() == b"IMPORT TORCH\n\nDTYPE = TORCH.FLOAT32\n"
    assert git(repo, "cat-file", "blob", "HEAD:verl/workers/actor.py") == "import torch\n\ndtype = torch.float32"
    assert git(repo, "status", "--porcelain") == ""


def test_failing_filter(repo: Path, tmp_path: Path) -> None:
    write(repo, {".gitattributes": "verl/workers/actor.py filter=bad\n"})
    commit(repo)
    git(repo, "config", "filter.bad.clean", "cat")
    git(repo, "config", "filter.bad.smudge", "false")
    git(repo, "config", "filter.bad.required", "true")
    before = state(repo)
    assert "smudge filter bad failed" in refusal(lambda: apply(repo))
    untouched(repo, before, tmp_path)
