"""Commits are built beside the work tree, branches are never moved, a switch is whole or undone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from repos import FILES, HITS, as_nobody, commit, git, isolate, leftovers, make, python, state, which, write

from verl_legacy_patch.branch import (
    Change,
    GitError,
    commit_tree,
    create_branch,
    current_branch,
    find_patch_commits,
    inplace,
    preflight,
    remove_branch,
    switching,
    trailers,
)
from verl_legacy_patch.branch import commit as commit_module
from verl_legacy_patch.branch.inplace import write_in_place
from verl_legacy_patch.branch.switching import publish, switch
from verl_legacy_patch.checkout import CheckoutError, GitCheckout, open_checkout

pytestmark = pytest.mark.slow

NAME = "verl-patch/float32-eager"
MESSAGE = "Rewrite für float32\n\nText.\n\nVerl-Patch-Version: 0.1.0\nVerl-Patch-Target: float32 eager\n"
CHANGES = [
    Change("scripts/run.sh", b"#!/bin/sh\necho fp32\r\n", "100755"),
    Change("verl/new/support.py", b"x = 1\n", added=True),
    Change("verl/workers/actor.py", b"import torch\n\ndtype = torch.float32\n"),
]


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "verl-clone")


def opened(root: Path, base: str | None = None) -> GitCheckout:
    checkout = open_checkout(root, base)
    assert isinstance(checkout, GitCheckout)
    return checkout


def refusal(call: Callable[[], object], kind: type[CheckoutError] = GitError) -> str:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


def apply(root: Path, changes: list[Change] = CHANGES, base: str | None = None) -> str:
    checkout = opened(root, base)
    sha = commit_tree(checkout, changes, MESSAGE)
    publish(checkout, NAME, sha)
    return sha


def untouched(root: Path, before: tuple[object, ...], tmp_path: Path) -> None:
    assert state(root) == before
    assert leftovers(root / ".git") == []
    assert list((tmp_path / "scratch").iterdir()) == []
    git(root, "fsck", "--strict")


# --- the commit


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


def test_dirty_file_in_the_way_of_the_switch(repo: Path, tmp_path: Path) -> None:
    (repo / "verl/workers/actor.py").write_text("mine\n")
    write(repo, {"verl/new/support.py": "mine too\n"})
    before = state(repo)
    message = refusal(lambda: apply(repo))
    assert "would be overwritten" in message and "all is as it was" in message
    untouched(repo, before, tmp_path)


def test_untracked_file_in_the_way(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/new/support.py": "mine\n"})
    before = state(repo)
    assert "verl/new/support.py" in refusal(lambda: apply(repo))
    untouched(repo, before, tmp_path)


# --- identity, signing, hooks, filters


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


@pytest.mark.parametrize("command", ["read-tree", "commit-tree", "switch"])
def test_a_git_that_is_killed_is_named_so(
    command: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the system, when memory is short or a file grows too big: it says nothing itself."""
    checkout, before = opened(repo), state(repo)
    kill = f'case " $* " in *" {command} "*) kill -KILL $$;; esac'
    write(tmp_path, {"bin/git": f'#!/bin/sh\n{kill}\nexec {which("git")} "$@"\n'})
    (tmp_path / "bin/git").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
        message = refusal(lambda: publish(checkout, NAME, commit_tree(checkout, CHANGES, "x")))
    assert "killed by signal 9" in message and state(repo) == before and leftovers(repo / ".git") == []


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


# --- kinds of checkouts


def test_detached_head(repo: Path) -> None:
    git(repo, "switch", "-q", "--detach")
    assert current_branch(opened(repo)) is None
    apply(repo)
    assert current_branch(opened(repo)) == NAME


@pytest.mark.parametrize("sparse_index", ["true", "false"])
def test_sparse_checkout(repo: Path, sparse_index: str) -> None:
    git(repo, "config", "index.sparse", sparse_index)
    git(repo, "sparse-checkout", "set", "scripts")
    sha = apply(repo)
    assert not (repo / "verl/workers").exists()
    assert (repo / "scripts/run.sh").read_bytes() == CHANGES[0].content
    assert git(repo, "cat-file", "blob", f"{sha}:verl/utils.py") == str(FILES["verl/utils.py"]).strip()
    assert git(repo, "status", "--porcelain") == ""
    git(repo, "sparse-checkout", "disable")
    assert (repo / "verl/workers/actor.py").read_bytes() == CHANGES[2].content


def test_split_index_and_shallow_clone(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/more.py": "1\n"})
    commit(repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "config", "core.splitIndex", "true")
    git(tmp_path / "shallow", "update-index", "--split-index")
    apply(tmp_path / "shallow")
    assert git(tmp_path / "shallow", "status", "--porcelain") == ""
    assert git(tmp_path / "shallow", "rev-parse", "HEAD^") == git(repo, "rev-parse", "HEAD")


def test_linked_worktree(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", tmp_path / "linked")
    before = state(repo)
    apply(tmp_path / "linked")
    assert git(tmp_path / "linked", "status", "--porcelain", "--branch").startswith(f"## {NAME}")
    assert state(repo)[:3] == before[:3]
    checkout = opened(repo)
    assert "already checked out" in refusal(lambda: switch(checkout, NAME))
    assert "exists already" in refusal(lambda: preflight(checkout, NAME))
    assert state(repo)[:3] == before[:3]


def test_sha256_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    repo = make(tmp_path / "r")
    monkeypatch.delenv("GIT_DEFAULT_HASH")
    assert len(apply(repo)) == 64
    assert git(repo, "status", "--porcelain") == ""


def test_subfolder_commits_in_the_repository_around(tmp_path: Path) -> None:
    repo = make(tmp_path / "prime", {**{f"training/{path}": text for path, text in FILES.items()}, "x.txt": "1"})
    checkout = opened(repo / "training")
    publish(checkout, NAME, commit_tree(checkout, [Change(f"training/{HITS[1]}", b"new\n")], MESSAGE))
    assert git(repo, "diff", "--name-only", "main").split() == [f"training/{HITS[1]}"]


def test_environment_of_a_hook_is_not_ours(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make(tmp_path / "other")
    before = state(other)
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        patch.setenv("GIT_WORK_TREE", str(other))
        apply(repo)
        assert os.environ["GIT_DIR"] == str(other / ".git")
    assert state(other) == before
    assert git(repo, "status", "--porcelain", "--branch") == f"## {NAME}"


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


def test_locks_of_another_git(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    lock = repo / ".git/index.lock"
    lock.touch()
    assert "index.lock" in refusal(lambda: apply(repo))
    lock.unlink()
    untouched(repo, before, tmp_path)
    (repo / ".git/HEAD.lock").touch()
    assert "HEAD.lock exists: another git" in refusal(lambda: apply(repo))
    (repo / ".git/HEAD.lock").unlink()
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("command", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_unfinished_operation(repo: Path, command: str) -> None:
    write(repo, {"verl/utils.py": "main\n"})
    second = commit(repo)
    write(repo, {"verl/utils.py": "third\n"})
    commit(repo)
    git(repo, "switch", "-qc", "side", "HEAD~2")
    write(repo, {"verl/utils.py": "side\n"})
    commit(repo)
    arguments = {"bisect": ["bisect", "start"], "revert": ["revert", second]}.get(command, [command, "main"])
    os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"cd '{repo}' && git {' '.join(arguments)} >/dev/null 2>&1")
    checkout = opened(repo)
    before = state(repo)
    what = {"revert": "revert|merge"}.get(command, command)
    with pytest.raises(GitError, match=f"a ({what}).* is unfinished"):
        preflight(checkout, NAME)
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    for call in (lambda: publish(checkout, NAME, sha), lambda: switch(checkout, "main")):
        assert "is unfinished" in refusal(call)
    assert state(repo) == before
    preflight(checkout, NAME, switch=False)
    publish(checkout, NAME, sha, switch_to=False)


# --- read-only


def test_read_only_repository(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    (repo / ".git/objects").chmod(0o555)
    for folder in (repo / ".git/objects").iterdir():
        folder.chmod(0o555)
    with as_nobody(repo):
        assert "git hash-object failed" in refusal(lambda: commit_tree(opened(repo), CHANGES, MESSAGE))
    for path in (repo / ".git/objects", *(repo / ".git/objects").iterdir()):
        path.chmod(0o755)
    git(repo, "config", "--global", "safe.directory", "*")
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("folder", ["verl/workers", "scripts", "verl", ".git", ".git/refs/heads"])
@pytest.mark.parametrize("detached", [False, True])
def test_read_only_folder(repo: Path, tmp_path: Path, folder: str, detached: bool) -> None:
    if detached:
        git(repo, "switch", "-q", "--detach")
    before = state(repo)
    (repo / folder).chmod(0o555)
    with as_nobody(repo):
        message = refusal(lambda: apply(repo))
        assert any(word in message for word in ("Permission denied", "unable to create directory")), message
    (repo / folder).chmod(0o755)
    git(repo, "config", "--global", "safe.directory", "*")
    untouched(repo, before, tmp_path)


# --- interrupted

DRIVER = """
import sys
from pathlib import Path
from verl_legacy_patch.branch import Change, commit_tree
from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.branch.inplace import write_in_place
from verl_legacy_patch.branch.switching import publish
checkout = open_checkout(Path(sys.argv[1]))
changes = [Change("scripts/run.sh", b"new", "100755"), Change("verl/workers/actor.py", b"new"),
           Change("verl/new.py", b"new", added=True)]
try:
    publish(checkout, "x/y", commit_tree(checkout, changes, "m"))
except KeyboardInterrupt:
    sys.exit(130)
"""


def slow_program(tmp_path: Path, seconds: float) -> tuple[str, Path]:
    """Return a program that shows that it has started and then takes its time, and the sign of its start."""
    mark = tmp_path / "started"
    write(tmp_path, {"slow": f"#!/bin/sh\ntouch '{mark}'\nsleep {seconds} >/dev/null 2>&1\ncat\n"})
    (tmp_path / "slow").chmod(0o755)
    return str(tmp_path / "slow"), mark


def interrupt(repo: Path, mark: Path, number: int, *, group: bool) -> int:
    process = python(DRIVER, str(repo))
    deadline = time.monotonic() + 10
    while not mark.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    (os.killpg if group else os.kill)(process.pid, number)
    return process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_while_committing(repo: Path, tmp_path: Path, number: int) -> None:
    program, mark = slow_program(tmp_path, 5)
    git(repo, "config", "commit.gpgsign", "true")
    git(repo, "config", "gpg.program", program)
    before = state(repo)
    code = interrupt(repo, mark, number, group=True)
    assert code == (130 if number == signal.SIGINT else -number)
    if number != signal.SIGINT:  # killed: a folder in the system's temporary one is all that stays
        for left in (tmp_path / "scratch").iterdir():
            left.rename(tmp_path / left.name)
    untouched(repo, before, tmp_path)


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_while_switching(repo: Path, tmp_path: Path, number: int, group: bool) -> None:
    write(repo, {".gitattributes": "verl/workers/actor.py filter=slow\n"})
    commit(repo)
    program, mark = slow_program(tmp_path, 5)
    git(repo, "config", "filter.slow.smudge", program)
    before = state(repo)
    code = interrupt(repo, mark, number, group=group)
    assert code == (130 if number == signal.SIGINT else -number)
    untouched(repo, before, tmp_path)


def test_killed_while_switching(repo: Path, tmp_path: Path) -> None:
    write(repo, {".gitattributes": "verl/workers/actor.py filter=slow\n"})
    base = commit(repo)
    program, mark = slow_program(tmp_path, 0.5)
    git(repo, "config", "filter.slow.smudge", program)
    interrupt(repo, mark, signal.SIGKILL, group=False)
    deadline = time.monotonic() + 5
    while git(repo, "symbolic-ref", "HEAD") == "refs/heads/main":  # git goes on alone, and finishes
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-parse", "main", "x/y^").split() == [base, base]
    git(repo, "fsck", "--strict")


def test_python_stops_in_the_middle(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = state(repo)
    checkout = opened(repo)
    sha = commit_tree(checkout, CHANGES, MESSAGE)
    for module, name in (
        (commit_module, "write_commit"),
        (commit_module, "_store"),
        (switching, "_run_git"),
        (switching, "current_branch"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, stop)
            if name == "current_branch":
                patch.setattr(switching, "_run_git", lambda *_: (1, "no"))
            with pytest.raises(KeyboardInterrupt):
                publish(checkout, NAME, commit_tree(checkout, CHANGES, MESSAGE) if module is commit_module else sha)
        untouched(repo, before, tmp_path)


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


# --- in place


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    write(tmp_path / "plain", FILES)
    (tmp_path / "plain/scripts/run.sh").chmod(0o751)
    return tmp_path / "plain"


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    } | {str(path.relative_to(root)): (b"", path.stat().st_mode, 0) for path in root.rglob("*") if path.is_dir()}


def test_in_place(plain: Path) -> None:
    cache = plain.parent / "cache.py"
    cache.hardlink_to(plain / "verl/workers/actor.py")
    write_in_place(plain, CHANGES)
    assert all((plain / each.path).read_bytes() == each.content for each in CHANGES)
    assert (plain / "scripts/run.sh").stat().st_mode & 0o777 == 0o751
    assert (plain / "verl/new/support.py").stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert cache.read_text() == FILES["verl/workers/actor.py"]  # a package manager's copy keeps its content
    assert not [path for path in plain.rglob("*") if "verl-patch" in path.name]
    write_in_place(plain, [])


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_in_place_keeps_the_owner(plain: Path) -> None:
    os.chown(plain / "setup.py", 1234, 2345)
    (plain / "setup.py").chmod(0o640)
    write_in_place(plain, [Change("setup.py", b"new")])
    status = (plain / "setup.py").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 2345, 0o640)


def test_in_place_refuses(plain: Path, tmp_path: Path) -> None:
    (plain / "link.py").symlink_to("setup.py")
    (plain / "inside").symlink_to("verl")
    write(tmp_path, {"outside/x.py": "mine"})
    (plain / "outside").symlink_to(tmp_path / "outside")
    before = snapshot(plain)
    first = Change("setup.py", b"new")
    for bad in ("link.py", "outside/x.py", "../outside/x.py", "/etc/passwd", "", "gone.py", "verl", "a\0b"):
        refusal(lambda bad=bad: write_in_place(plain, [first, Change(bad, b"new")]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("verl/utils.py", b"", added=True)]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("setup.py/x", b"", added=True)]), CheckoutError)
    refusal(lambda: write_in_place(plain, [first, Change("n" * 300, b"", added=True)]), CheckoutError)
    assert snapshot(plain) == before
    assert (tmp_path / "outside/x.py").read_text() == "mine"
    write_in_place(plain, [Change("inside/utils.py", b"new")])  # a symlink that stays inside is harmless
    assert (plain / "verl/utils.py").read_bytes() == b"new"


@pytest.mark.parametrize("readonly", ["verl/workers/actor.py", "verl/workers", "verl", "."])
def test_in_place_read_only(plain: Path, readonly: str) -> None:
    mode = (plain / readonly).stat().st_mode
    before = snapshot(plain)
    (plain / readonly).chmod(mode & ~0o222)
    with as_nobody(plain):
        message = refusal(lambda: write_in_place(plain, CHANGES), CheckoutError)
        assert "read-only" in message or "Permission denied" in message
    (plain / readonly).chmod(mode)
    assert snapshot(plain) == before


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("links", [True, False])
def test_in_place_rolls_back(
    plain: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, call: str, links: bool
) -> None:
    before = snapshot(plain)
    real = getattr(os, call)
    count = 0

    def fail(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 3:
            raise failure
        return real(*arguments)

    def no_links(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(inplace.os, call, fail)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    expected = CheckoutError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_in_place(plain, CHANGES)
    if expected is CheckoutError:
        assert "No space left on device; nothing has changed" in str(caught.value)
    assert snapshot(plain) == before


IN_PLACE = """
import os, signal, sys
from pathlib import Path
from verl_legacy_patch.branch import inplace
real, count = os.replace, 0
def replace(*arguments):
    global count
    count += 1
    real(*arguments)
    if count == 2:
        os.kill(os.getpid(), int(sys.argv[2]))
os.replace = replace
try:
    inplace.write_in_place(Path(sys.argv[1]), [inplace.Change(path, b"new") for path in sys.argv[3:]])
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_in_place_interrupted(plain: Path, number: int) -> None:
    before = snapshot(plain)
    code = python(IN_PLACE, str(plain), str(int(number)), *HITS).wait(10)
    assert code == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGKILL:  # every file is either old or new, and the originals are kept
        assert {(plain / path).read_bytes() in (b"new", str(FILES[path]).encode()) for path in HITS} == {True}
        (kept,) = plain.glob(".verl-patch-backup-*")
        names = dict(line.split(" ", 1) for line in (kept / "paths").read_text().splitlines())
        assert {(kept / number).read_text(): path for number, path in names.items()} == {
            str(FILES[path]): str(plain / path) for path in HITS
        }
    else:
        assert snapshot(plain) == before
