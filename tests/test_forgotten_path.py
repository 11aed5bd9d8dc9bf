"""A path that nobody typed: only what shows that it is meant is rewritten; and hints name commands that work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from minis import BRANCH, PROJECT, Verl, make_mini
from repos import commit, git, make, state, write

RECIPE = "import torch\nfrom verl.trainer import main\n\nmain(dtype=torch.bfloat16)\n"
WRITES = [("apply",), ("apply", "-n"), ("apply", "-n", "--format", "json"), ("apply", "--in-place"), ("check", "--fix")]
WAYS = ("no folder was given", "no verl package", "give the folder of a verl clone", '"." for this one')


@pytest.fixture
def recipe(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a repository that imports verl and holds none."""
    root = make(tmp_path / "recipe", {"train.py": RECIPE, "tools/a.py": RECIPE})
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("command", WRITES)
def test_what_only_imports_verl_is_not_rewritten_by_a_forgotten_path(
    command: Sequence[str], recipe: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(recipe)
    verl(*command).refused(3, *WAYS, str(recipe))
    monkeypatch.chdir(recipe / "tools")
    verl(*command).refused(3, *WAYS)
    assert state(recipe) == before


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="no clone")
def test_this_very_repository_is_safe(config: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    verl("apply", "-n").refused(3, *WAYS)


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("how", ["typed", ".verl-patch.toml", "pyproject.toml"])
def test_what_is_meant_is_rewritten(command: Sequence[str], how: str, recipe: Path, verl: Verl) -> None:
    if how != "typed":
        write(recipe, {how: 'gpu = "p40"\n' if how[0] == "." else '[tool.verl-patch]\ngpu = "p40"\n'})
        commit(recipe)
    ran = verl(*command, *(["."] if how == "typed" else []))
    assert ran.code == (command[0] == "check") and "Error" not in ran.err, ran


def test_a_part_of_a_clone_names_the_clone(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    write(mini, {"recipe/a.py": RECIPE})
    commit(mini)
    monkeypatch.chdir(mini / "recipe")
    verl("apply").refused(3, *WAYS, f"(is {mini} meant?)")
    verl("apply", ".").done(f"On branch {BRANCH}")
    verl("apply", "--show-config").done()


def test_check_reads_all_the_same_and_says_so(recipe: Path, verl: Verl) -> None:
    note = "Note: no verl package here"
    ran = verl("check")
    assert ran.code == 1 and ran.out.count(b"\n") == 2 and note in ran.err
    assert note not in verl("check", "train.py").err + verl("check", ".").err
    write(recipe, {".verl-patch.toml": ""})
    assert note not in verl("check").err


def commands(text: str) -> list[list[str]]:
    """Return the commands that rewrite, as a hint says them."""
    found = re.findall(r"verl-patch ((?:check --fix|apply)(?: (?:'[^']*'|(?!rewrites|adds)[^\s,]+))*)", text)
    return [shlex.split(each) for each in found]


@pytest.mark.parametrize("git_too", [True, False], ids=["git", "no git"])
@pytest.mark.parametrize("package", [True, False], ids=["verl", "recipe"])
@pytest.mark.parametrize("where", ["here", "elsewhere", "below"])
def test_every_command_that_is_named_works(
    git_too: bool, package: bool, where: str, config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 0

    def fresh() -> Path:
        nonlocal number
        number += 1
        root = tmp_path / f"a clone {number}"
        if package:
            make_mini(root, git_too=git_too)
        elif git_too:
            make(root, {"train.py": RECIPE, "examples/b.py": RECIPE})
        else:
            write(root, {"train.py": RECIPE, "examples/b.py": RECIPE})
        monkeypatch.chdir({"here": root, "elsewhere": tmp_path, "below": root / "examples"}[where])
        return root

    asked = [("status", "checkout"), ("check", "checkout"), ("check", ""), ("check", "files")]
    for command, given in asked:
        root = fresh()
        if where != "here" and given == "":
            continue  # the checkout around a folder is found by its git
        paths = {"checkout": [str(root)], "": [], "files": [str(root / "examples")]}[given]
        ran = verl(command, *paths)
        words = commands(ran.out.decode() + ran.err)
        assert [each[0] for each in words] == (["apply"] if command == "status" else ["check", "apply"][: 1 + git_too])
        for again in words:
            root_again = fresh()
            typed = [part.replace(str(root), str(root_again)) for part in again]
            done = verl(*typed)
            assert done.code == (again[0] == "check") and "Error" not in done.err, (again, done)
            if git_too and again[0] == "apply":
                assert git(root_again, "branch", "--show-current") == BRANCH


def test_many_paths_are_not_repeated(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mini)
    names = [f"verl/{name}.py" for name in "abcd"]
    write(mini, dict.fromkeys(names, "dtype = 'bfloat16'\n"))
    assert "verl-patch check --fix FILES, with a commit: verl-patch apply\n" in verl("check", *names).err
