"""The hooks under the real pre-commit, in real repositories."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forks import LEFT, RIGHT, hooks, install, local_hook, pre_commit, try_git
from minis import PROJECT, TREE, Verl, make_mini
from repos import git, write

pytest.importorskip("pre_commit")

from verl_legacy_patch.cli import run
from verl_legacy_patch.languages import SUFFIXES, language_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the fork is kept that the first test makes."""
    return tmp_path_factory.mktemp("made") / "fork"


@pytest.fixture
def fork(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Path) -> Path:
    """Return a fork that is rewritten on ``main`` and has the rewriting hook."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    if not made.exists():
        root = make_mini(made)
        assert run(["apply", str(root)]) == 0
        git(root, "switch", "-q", "main")
        git(root, "merge", "-q", "--ff-only", "verl-patch/float32-eager")
        git(root, "branch", "-q", "-d", "verl-patch/float32-eager")
        install(root)
    shutil.copytree(made, tmp_path / "fork", symlinks=True)
    return tmp_path / "fork"


def refs(root: Path) -> str:
    return git(root, "for-each-ref") + git(root, "symbolic-ref", "HEAD")


# --- what the hooks are given


@pytest.mark.parametrize(
    "path",
    [
        "verl/a.py", "verl/a.pyi", "a.yaml", "b/a.yml", "a.json", "run.sh", "x/run.bash", "pyproject.toml",
        "requirements.txt", "requirements-npu.txt", "requirements/base.txt", "docker/Requirements.Old.txt",
        "scripts/launch", "launch",
    ],
)  # fmt: skip
def test_every_file_that_apply_reads_is_given_to_the_hooks(path: str) -> None:
    assert language_of(path, b"#!/bin/sh\n") is not None
    for hook in hooks():
        assert re.search(hook["files"], path), hook["id"]


@pytest.mark.parametrize("path", ["README.md", "a.ipynb", "notes.txt", "a.c", ".git/COMMIT_EDITMSG", "logo.svg"])
def test_other_files_are_not(path: str) -> None:
    wanted = path == ".git/COMMIT_EDITMSG"  # has no suffix: kept away by the stages
    assert all(bool(re.search(hook["files"], path)) is wanted for hook in hooks())
    assert all("commit-msg" not in hook["stages"] for hook in hooks())


def test_suffixes_of_all_languages_are_in_the_pattern() -> None:
    names = {suffix: f"requirements{suffix}" for suffix in SUFFIXES}
    assert all(re.search(hook["files"], name) for hook in hooks() for name in names.values())


def test_both_hooks_say_what_pre_commit_needs(config: Path) -> None:
    done = pre_commit(PROJECT, "validate-manifest", ".pre-commit-hooks.yaml")
    assert done.code == 0, done.err
    assert {hook["id"]: hook["entry"] for hook in hooks()} == {
        "verl-patch": "verl-patch check --fix",
        "verl-patch-check": "verl-patch check",
    }
    assert all(hook["language"] == "python" and hook["require_serial"] and hook["types_or"] for hook in hooks())


# --- commits


def test_commit_amend_and_files_out_of_scope(fork: Path) -> None:
    write(fork, {"verl/new.py": LEFT, "tests/test_new.py": LEFT, "docs/new.py": LEFT, "README.md": "bfloat16!\n"})
    git(fork, "add", "-A")
    before = refs(fork), git(fork, "ls-files", "-s")
    refused = try_git(fork, "commit", "-m", "new")
    assert refused.code == 1 and "rewrote verl/new.py" in refused.err
    assert "verl/new.py:3:20 dtype torch.bfloat16 -> torch.float32" in refused.err
    assert (refs(fork), git(fork, "ls-files", "-s")) == before  # neither branches nor the index
    assert (fork / "verl/new.py").read_text() == RIGHT
    assert (fork / "tests/test_new.py").read_text() == (fork / "docs/new.py").read_text() == LEFT
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "-m", "new").code == 0

    write(fork, {"verl/more.py": LEFT})
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "--amend", "--no-edit").code == 1
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "--amend", "--no-edit").code == 0
    assert git(fork, "show", "HEAD:verl/more.py") + "\n" == RIGHT


def test_partially_staged_file(fork: Path) -> None:
    """What is not staged is put away by pre-commit and comes back."""
    write(fork, {"verl/new.py": "import torch\n\n\nA = 1\n" + "\n" * 9})
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "-m", "new").code == 0
    half = LEFT + "\n" * 9
    write(fork, {"verl/new.py": half})
    git(fork, "add", "-A")
    write(fork, {"verl/new.py": half + "B = 2\n"})
    refused = try_git(fork, "commit", "-m", "half")
    assert refused.code == 1 and "rewrote verl/new.py" in refused.err
    assert (fork / "verl/new.py").read_text() == RIGHT + "\n" * 9 + "B = 2\n"
    assert "bfloat16" in git(fork, "show", ":verl/new.py")


def test_deleted_and_renamed_files_and_links(fork: Path) -> None:
    git(fork, "rm", "-q", "verl/utils/windows.py")
    git(fork, "mv", "verl/workers/actor.py", "verl/workers/player.py")
    (fork / "verl/link.py").symlink_to("../outside.py")
    (fork.parent / "outside.py").write_text(LEFT)
    write(fork, {"verl/with space ü.py": LEFT, "verl/-dash.py": RIGHT})
    git(fork, "add", "-A")
    refused = try_git(fork, "commit", "-m", "move")
    assert refused.code == 1
    assert "rewrote verl/with space ü.py" in refused.err
    assert (fork / "verl/with space ü.py").read_text() == RIGHT
    assert (fork.parent / "outside.py").read_text() == LEFT
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "-m", "move").code == 0


def test_the_module_that_rewritten_code_imports_cannot_be_forgotten(fork: Path) -> None:
    git(fork, "rm", "-q", "verl/utils/torch_padding.py")
    assert try_git(fork, "commit", "-q", "-m", "gone", "--no-verify").code == 0
    write(fork, {"verl/new.py": "from flash_attn.bert_padding import pad_input\n"})
    git(fork, "add", "-A")
    refused = try_git(fork, "commit", "-a", "-m", "new")
    assert refused.code == 1 and "git add verl/utils/torch_padding.py" in refused.err
    refused = try_git(fork, "commit", "-a", "-m", "new")  # -a does not add new files
    assert refused.code == 1 and "verl/utils/torch_padding.py is imported but not in git" in refused.err
    git(fork, "add", "verl")
    assert try_git(fork, "commit", "-a", "-m", "new").code == 0


def test_syntax_error_is_one_line_and_nothing_is_written(fork: Path) -> None:
    write(fork, {"verl/bad.py": "def f(dtype=torch.bfloat16:\n", "verl/new.py": LEFT})
    git(fork, "add", "-A")
    refused = try_git(fork, "commit", "-m", "bad")
    assert refused.code == 1 and "verl/bad.py:1: " in refused.err and "Traceback" not in refused.err
    assert (fork / "verl/new.py").read_text() == LEFT


@pytest.mark.real
def test_run_on_all_files(fork: Path) -> None:
    done = pre_commit(fork, "run", "-a")
    assert done.code == 0, done.err
    write(fork, {"verl/new.py": LEFT})
    git(fork, "add", "-A")
    assert pre_commit(fork, "run", "-a").code == 1
    assert pre_commit(fork, "run", "-a").code == 0


# --- merges and rebases


def diverge(fork: Path) -> None:
    """Make a branch ``upstream`` with a new place, and another commit on ``main``; both touch one file."""
    git(fork, "switch", "-q", "-c", "upstream")
    write(fork, {"verl/up.py": LEFT, "verl/both.py": "import torch\n\nA = 1\n"})
    git(fork, "add", "-A")
    git(fork, "commit", "-q", "--no-verify", "-m", "upstream")
    git(fork, "switch", "-q", "main")
    write(fork, {"verl/own.py": RIGHT, "verl/both.py": "import torch\n\nA = 2\n"})
    git(fork, "add", "-A")
    git(fork, "commit", "-q", "--no-verify", "-m", "own")


@pytest.mark.real
def test_conflicted_merge_is_committed_with_the_places_of_both_sides_rewritten(fork: Path) -> None:
    diverge(fork)
    assert try_git(fork, "merge", "--no-edit", "upstream").code == 1
    write(fork, {"verl/both.py": "import torch\n\nA = dict(dtype=torch.bfloat16)\n"})
    git(fork, "add", "-A")
    before = refs(fork), git(fork, "rev-parse", "MERGE_HEAD")
    refused = try_git(fork, "commit", "--no-edit")
    assert refused.code == 1 and "rewrote verl/both.py" in refused.err
    assert (refs(fork), git(fork, "rev-parse", "MERGE_HEAD")) == before
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "--no-edit").code == 0
    assert len(git(fork, "rev-parse", "HEAD^@").split()) == 2
    # files that merged without a conflict are not given to a pre-commit hook: apply finds them
    assert "bfloat16" in git(fork, "show", "HEAD:verl/up.py")


@pytest.mark.real
def test_clean_merge_with_the_merge_hook(fork: Path) -> None:
    diverge(fork)
    git(fork, "rm", "-q", "verl/both.py")
    git(fork, "commit", "-q", "--no-verify", "--amend", "--no-edit")
    pre_commit(fork, "install", "--hook-type=pre-merge-commit")
    refused = try_git(fork, "merge", "--no-edit", "upstream")
    assert refused.code == 1 and "rewrote verl/up.py" in refused.err
    git(fork, "add", "-A")
    assert try_git(fork, "commit", "--no-edit").code == 0
    assert "bfloat16" not in git(fork, "show", "HEAD:verl/up.py")


@pytest.mark.real
def test_rebase_with_a_conflict(fork: Path) -> None:
    diverge(fork)
    assert try_git(fork, "rebase", "upstream").code == 1
    write(fork, {"verl/both.py": "import torch\n\nA = dict(dtype=torch.bfloat16)\n"})
    git(fork, "add", "-A")
    try_git(fork, "rebase", "--continue")
    if (fork / ".git/rebase-merge").exists():  # a git that runs the hook while it rebases
        git(fork, "add", "-A")
        assert try_git(fork, "rebase", "--continue").code == 0
    assert git(fork, "log", "--format=%s", "-2").split("\n") == ["own", "upstream"]
    assert pre_commit(fork, "run", "-a").code == 1


# --- beside others


@pytest.mark.real
def test_beside_hooks_of_its_own_and_a_folder_named_codemods(fork: Path) -> None:
    """verl's own hooks change the same files, and nothing of the fork is imported."""
    trap = "raise SystemExit('imported')\n"
    write(fork, {"codemods/__init__.py": trap, "codemods/dtype.py": trap, "click.py": trap, "libcst.py": trap})
    other = {
        "id": "newline", "name": "newline", "language": "system", "types": ["python"],
        "entry": "sh -c 'for f; do printf \"# checked\\n\" >> \"$f\"; done' --",
    }  # fmt: skip
    install(fork, {"repo": "local", "hooks": [other, local_hook()]})
    write(fork, {"verl/new.py": LEFT})
    git(fork, "add", "verl/new.py")
    refused = try_git(fork, "commit", "-m", "new")
    assert refused.code == 1 and "imported" not in refused.err
    assert (fork / "verl/new.py").read_text() == RIGHT + "# checked\n"


@pytest.mark.real
def test_hook_that_only_checks(fork: Path) -> None:
    install(fork, {"repo": "local", "hooks": [local_hook("verl-patch-check")]})
    write(fork, {"verl/new.py": LEFT})
    git(fork, "add", "-A")
    refused = try_git(fork, "commit", "-m", "new")
    assert refused.code == 1 and "verl/new.py:3:20 dtype" in refused.err
    assert (fork / "verl/new.py").read_text() == LEFT


@pytest.mark.real
def test_configuration_and_linked_work_tree(fork: Path, tmp_path: Path) -> None:
    write(fork, {".verl-patch.toml": 'dtype = "float16"\nexclude = ["verl/kept.py"]\n'})
    git(fork, "add", "-A")
    git(fork, "commit", "-q", "-m", "configure")
    git(fork, "worktree", "add", "-q", str(tmp_path / "linked"))
    for root in (fork, tmp_path / "linked"):
        write(root, {"verl/kept.py": LEFT, "verl/new.py": LEFT})
        git(root, "add", "-A")
        assert try_git(root, "commit", "-m", "new").code == 1
        assert (root / "verl/kept.py").read_text() == LEFT
        assert (root / "verl/new.py").read_text() == LEFT.replace("bfloat16", "float16")


def test_commit_of_some_paths_from_a_subfolder(fork: Path) -> None:
    """``git commit PATH`` gives the hook an index of its own, by GIT_INDEX_FILE."""
    write(fork, {"verl/new.py": RIGHT, "verl/other.py": LEFT})
    git(fork, "add", "-A")
    write(fork, {"verl/new.py": LEFT})
    refused = try_git(fork / "verl", "commit", "new.py", "-m", "new")
    assert refused.code == 1 and (fork / "verl/new.py").read_text() == RIGHT
    assert (fork / "verl/other.py").read_text() == LEFT
    assert try_git(fork / "verl", "commit", "new.py", "-m", "new").code == 0
    assert git(fork, "diff", "--cached", "--name-only") == "verl/other.py"


@pytest.mark.real
def test_installed_from_a_clone_of_this_project(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verl: Verl
) -> None:
    """As docs/fork.md has it: ``repo:`` and ``rev:``, an environment of its own."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    config.write_text(config.read_text() + '[safe]\n\tdirectory = *\n[protocol "file"]\n\tallow = always\n')
    files = git(PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    source = tmp_path / "home/verl-patch"
    write(source, {path: (PROJECT / path).read_bytes() for path in files if path and (PROJECT / path).is_file()})
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "this project")
    hooks_of_verl = "# verl's\nrepos:\n  - repo: meta\n    hooks: []\n"
    root = make_mini(tmp_path / "home/fork", {".pre-commit-config.yaml": hooks_of_verl})
    page = (PROJECT / "docs/fork.md").read_text().partition("\n## Hooks")[2]
    script = page.partition("```bash\n")[2].partition("```")[0]
    script = script.replace("pip install pre-commit\n", "").replace("pre-commit ", f"{sys.executable} -m pre_commit ")
    subprocess.run(["bash", "-euc", script], check=True, timeout=60)
    git(root, "commit", "-q", "--no-verify", "-am", "hooks")
    done = pre_commit(root, "run", "-a")
    assert done.code == 1, done.err
    git(root, "add", "-A")
    assert verl("apply", root, "--base", "HEAD", "--no-switch").code == 0
    assert git(root, "diff", "--cached", "verl-patch/float32-eager") == ""  # what apply makes, file by file
    assert pre_commit(root, "run", "-a").code == 0
    assert set(TREE) < set(git(root, "ls-files").split("\n"))
