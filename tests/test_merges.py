"""Months on a fork: upstream moves, the patch stays whole. What docs/fork.md tells to do is done here."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from forks import LEFT, RIGHT, try_git
from minis import BRANCH, TREE, Verl, make_mini
from releases import sdist
from repos import commit, git, write

pytestmark = pytest.mark.slow

FRESH = "fresh"
#: The user's own work: a new file with a place, and a change beside patched lines.
OWN = {"mine/own.py": LEFT, "verl/mine.py": "import torch\n\nKEPT = dict(dtype=torch.bfloat16)  # verl-patch: keep\n"}


@pytest.fixture
def fork(config: Path, tmp_path: Path) -> Path:
    """Return a fork with a branch ``upstream`` that goes on from its ``main``."""
    root = make_mini(tmp_path / "fork")
    git(root, "branch", "upstream")
    return root


def upstream(root: Path, files: Mapping[str, str | bytes], *gone: str) -> None:
    """Add a commit to ``upstream``, without touching the work tree."""
    here = git(root, "symbolic-ref", "--short", "HEAD")
    git(root, "switch", "-q", "upstream")
    if gone:
        git(root, "rm", "-q", *gone)
    write(root, files)
    commit(root, "upstream")
    git(root, "switch", "-q", here)


def months(root: Path) -> Iterator[str]:
    """Yield after each step of upstream: next to patched lines, on them, new ones, files that move and go."""
    actor = str(TREE["verl/workers/actor.py"])
    upstream(root, {"verl/workers/actor.py": actor.replace("torch_dtype=torch.bfloat16,", "torch_dtype=DTYPE,")})
    yield "a patched line has changed"
    upstream(root, {"verl/workers/actor.py": actor.replace("path,", "path,  # local")})
    yield "and back, and the line before it has changed"
    trainer = str(TREE["verl/trainer/config/trainer.yaml"]).replace("rollout:", "rollout:\n  dtype_of_cache: bfloat16")
    upstream(root, {"verl/trainer/config/trainer.yaml": trainer, "verl/new.py": LEFT})
    yield "new places"
    upstream(root, {"verl/engine/actor.py": actor}, "verl/workers/actor.py", "verl/utils/packing.py")
    yield "a file has moved, and the only one that needed the new module has gone"
    upstream(root, {"verl/utils/packing.py": TREE["verl/utils/packing.py"]})
    yield "which comes back"


def equals_a_fresh_one(root: Path, base: str, verl: Verl, but: set[str]) -> None:
    """Check that HEAD is what apply makes of ``base``, apart from files of the user."""
    assert verl("apply", root, "--base", base, "--branch", FRESH, "--no-switch").code == 0
    assert set(git(root, "diff", "--name-only", FRESH, "HEAD").split()) == but
    assert git(root, "status", "--porcelain") == ""
    git(root, "branch", "-q", "-D", FRESH)


def test_revert_merge_apply(fork: Path, verl: Verl) -> None:
    """The way that always works: three commands, no conflict that is not the user's own."""
    assert verl("apply", fork).code == 0
    write(fork, OWN)
    commit(fork, "own")
    for step in months(fork):
        assert verl("revert", fork).code == 0, step
        git(fork, "merge", "-q", "--no-edit", "upstream")
        assert verl("apply", fork).code == 0, step
        equals_a_fresh_one(fork, "upstream", verl, set(OWN))
        assert git(fork, "show", "HEAD:mine/own.py") + "\n" == RIGHT
        assert "bfloat16" in git(fork, "show", "HEAD:verl/mine.py")
        assert git(fork, "branch", "--show-current") == BRANCH
    assert verl("revert", fork).code == 0
    assert set(git(fork, "diff", "--name-only", "upstream", "HEAD").split()) == set(OWN)


def test_merge_without_conflict_then_apply(fork: Path, verl: Verl) -> None:
    """The short way, where upstream did not come near a patched line."""
    assert verl("apply", fork).code == 0
    write(fork, OWN)
    commit(fork, "own")
    assert verl("apply", fork).code == 0
    upstream(fork, {"verl/new.py": LEFT, "verl/__init__.py": '"""A better trainer."""\n'})
    git(fork, "merge", "-q", "--no-edit", "upstream")
    assert "Added to branch" in verl("apply", fork).err
    assert git(fork, "diff", "--name-only", "HEAD^", "HEAD") == "verl/new.py"
    equals_a_fresh_one(fork, "upstream", verl, set(OWN))
    assert verl("revert", fork).code == 0
    assert set(git(fork, "diff", "--name-only", "upstream", "HEAD").split()) == set(OWN)


def test_merge_with_conflicts_can_be_given_up_for_the_other_way(fork: Path, verl: Verl) -> None:
    assert verl("apply", fork).code == 0
    write(fork, OWN)
    commit(fork, "own")
    next(months(fork))
    assert try_git(fork, "merge", "--no-edit", "upstream").code == 1
    verl("apply", fork).refused(3, "a merge is unfinished")
    verl("revert", fork).refused(3, "a merge is unfinished")
    git(fork, "merge", "--abort")
    assert verl("revert", fork).code == 0
    git(fork, "merge", "-q", "--no-edit", "upstream")
    assert verl("apply", fork).code == 0
    equals_a_fresh_one(fork, "upstream", verl, set(OWN))


def test_conflicts_of_the_user_with_upstream_are_git_s_ordinary_ones(fork: Path, verl: Verl) -> None:
    assert verl("apply", fork).code == 0
    write(fork, {"verl/__init__.py": '"""Mine."""\n'})
    commit(fork, "own")
    upstream(fork, {"verl/__init__.py": '"""Theirs."""\n', "verl/new.py": LEFT})
    assert verl("revert", fork).code == 0
    assert try_git(fork, "merge", "--no-edit", "upstream").code == 1
    assert git(fork, "diff", "--name-only", "--diff-filter=U") == "verl/__init__.py"
    write(fork, {"verl/__init__.py": '"""Both."""\n'})
    git(fork, "commit", "-q", "-a", "--no-edit")
    assert verl("apply", fork).code == 0
    equals_a_fresh_one(fork, "upstream", verl, {"verl/__init__.py"})


def test_a_clean_main_and_a_patch_branch_made_anew(fork: Path, verl: Verl) -> None:
    """Own work and merges go to ``main``; the patched branch is thrown away and made again."""
    for step in months(fork):
        write(fork, {"mine/own.py": LEFT + f"# {step}\n"})
        commit(fork, "own")
        git(fork, "merge", "-q", "--no-edit", "upstream")
        assert verl("apply", fork).code == 0
        equals_a_fresh_one(fork, "upstream", verl, {"mine/own.py"})
        assert verl("revert", fork).code == 0 and git(fork, "branch", "--show-current") == "main"
        git(fork, "branch", "-q", "-D", BRANCH)
    assert set(git(fork, "diff", "--name-only", "upstream", "main").split()) == {"mine/own.py"}


def test_to_a_new_release_by_applying_to_it(fork: Path, verl: Verl) -> None:
    """Not by rebasing the patch: own commits are picked, the patch is made for the new base."""
    assert verl("apply", fork).code == 0
    write(fork, OWN)
    own = commit(fork, "own")
    for _ in months(fork):
        pass
    assert verl("apply", fork, "--base", "upstream", "--branch", "next").code == 0
    git(fork, "cherry-pick", own)
    assert verl("apply", fork).code == 0
    equals_a_fresh_one(fork, "upstream", verl, set(OWN))
    assert git(fork, "branch", "--show-current") == "next"


# --- one commit for each codemod


def whole(root: Path, revision: str) -> None:
    """Check that a tree parses, and that what its files import from ``verl.utils`` is there."""
    names = git(root, "ls-tree", "-r", "--name-only", revision).split("\n")
    for name in (each for each in names if each.endswith(".py")):
        tree = ast.parse(git(root, "show", f"{revision}:{name}"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in (
                "verl.utils.torch_padding",
                "verl.utils.packing_guard",
            ):
                assert node.module.replace(".", "/") + ".py" in names, (revision, name)


def test_commit_per_codemod(fork: Path, verl: Verl) -> None:
    assert verl("apply", fork).code == 0
    git(fork, "switch", "-q", "main")
    assert verl("apply", fork, "--commit-per-codemod", "--branch", "parts").code == 0
    assert git(fork, "diff", BRANCH, "parts") == ""
    commits = git(fork, "rev-list", "--reverse", "main..parts").split()
    assert len(commits) >= 4
    for sha in commits:
        whole(fork, sha)
        assert git(fork, "diff", "--name-only", f"{sha}^", sha)
        assert "Verl-Patch-Version: " in git(fork, "log", "-1", "--format=%B", sha)
    write(fork, {"mine/own.py": LEFT, "verl/pad.py": "from flash_attn.bert_padding import pad_input\n"})
    commit(fork, "own")
    assert verl("apply", fork, "--commit-per-codemod").code == 0  # on a branch with a patch too
    assert len(git(fork, "rev-list", "main..parts").split()) == len(commits) + 3
    whole(fork, "parts")
    assert verl("revert", fork).code == 0
    assert set(git(fork, "diff", "--name-only", "main", "HEAD").split()) == {"mine/own.py", "verl/pad.py"}


# --- real releases

RELEASES = ("0.5.0", "0.6.1", "0.7.1", "0.9.0")


@pytest.fixture
def releases(config: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """Return a repository and the revisions of real releases in it, the first of which is checked out as ``main``.

    ``VERL_PATCH_HISTORY`` names a clone of verl: then the steps are the commits of its main branch that the releases
    were cut from, with all the history in between. Otherwise they are the releases from PyPI, one commit each.
    """
    root = tmp_path / "verl"
    if source := os.environ.get("VERL_PATCH_HISTORY"):
        git(tmp_path, "clone", "-q", "--shared", "--no-checkout", source, str(root))
        steps = [git(root, "merge-base", "origin/HEAD", f"v{version}") for version in RELEASES]
        git(root, "switch", "-q", "-c", "main-of-mine", steps[0])
        git(root, "config", "merge.renameLimit", "9999")
        return root, steps
    root.mkdir()
    git(root, "init", "-q")
    steps = []
    for version in RELEASES:
        for path in root.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(sdist(version), root, dirs_exist_ok=True, symlinks=True)
        steps.append(commit(root, version))
    git(root, "switch", "-q", "-C", "main", steps[0])
    return root, steps


@pytest.mark.real
def test_releases_one_after_the_other(releases: tuple[Path, list[str]], verl: Verl) -> None:
    root, steps = releases
    assert verl("apply", root).code == 0
    write(root, OWN)
    commit(root, "own")
    for step in steps[1:]:
        assert verl("revert", root).code == 0
        git(root, "merge", "-q", "--no-edit", step)
        assert verl("apply", root).code == 0
        equals_a_fresh_one(root, step, verl, set(OWN))
    assert verl("revert", root).code == 0
    assert set(git(root, "diff", "--name-only", steps[-1], "HEAD").split()) == set(OWN)


@pytest.mark.real
def test_releases_in_one_commit_per_codemod(releases: tuple[Path, list[str]], verl: Verl) -> None:
    root, steps = releases
    for step in steps:
        assert verl("apply", root, "--base", step, "--no-switch", "--branch", "whole").code == 0
        assert verl("apply", root, "--base", step, "--no-switch", "--branch", "parts", "--commit-per-codemod").code == 0
        assert git(root, "diff", "whole", "parts") == ""
        changed = [path for path in git(root, "diff", "--name-only", step, "parts").split() if path.endswith(".py")]
        for sha in git(root, "rev-list", f"{step}..parts").split():
            names = git(root, "ls-tree", "-r", "--name-only", sha).split("\n")
            for path in set(changed) & set(names):
                text = git(root, "show", f"{sha}:{path}")
                ast.parse(text)
                for module in ("torch_padding", "packing_guard"):
                    assert f"verl.utils.{module}" not in text or f"verl/utils/{module}.py" in names
        git(root, "branch", "-q", "-D", "whole", "parts")


@pytest.mark.real
def test_releases_file_by_file_as_a_hook_does(releases: tuple[Path, list[str]], verl: Verl) -> None:
    """``check --fix`` on each file by itself, the last first, makes what apply makes of the whole."""
    root, steps = releases
    for step in steps:
        git(root, "switch", "-q", "--detach", step)
        for path in reversed(git(root, "ls-files", "-z").split("\0")[:-1]):
            if (root / path).is_file() and not (root / path).is_symlink():
                assert verl("check", "--fix", root / path).code in (0, 1), path
        git(root, "add", "-A")
        assert verl("apply", root, "--base", step, "--no-switch", "--branch", FRESH).code == 0
        assert git(root, "diff", "--cached", "--stat", FRESH) == ""
        git(root, "reset", "-q", "--hard")
        subprocess.run(["git", "clean", "-qfd"], cwd=root, check=True)
        git(root, "branch", "-q", "-D", FRESH)
