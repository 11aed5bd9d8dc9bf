"""Codemods of other distributions: found by their entry point, and refused in one line when they cannot work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from repos import commit, git, write

from verl_legacy_patch.codemod import Codemod, discover
from verl_legacy_patch.plugins import PluginError, flaw, plugins

ROOT = Path(__file__).resolve().parent.parent
GOOD = '''"""Turn My_Switch off.

Why: somebody else's reason. And more.
"""

from verl_legacy_patch.codemod import Codemod, SwitchCodemod


class Mine(SwitchCodemod):
    name = "my-switch"
    grade = "review"
    keys = ("My_Switch",)
'''
#: What is changed in it, and what is said then.
BROKEN = {
    "import": ("from verl", "import nowhere\nfrom verl", "ModuleNotFoundError: No module named 'nowhere'"),
    "no such class": ("class Mine", "class Other", "AttributeError: module 'theirs' has no attribute 'Mine'"),
    "no codemod": ("class Mine(SwitchCodemod)", "class Mine", "it is no Codemod"),
    "name": ('    name = "my-switch"\n', "", "it has no name"),
    "words": ('    keys = ("My_Switch",)\n', "", "it has no words"),
    "trigger": ("(SwitchCodemod):\n", '(Codemod):\n    words = ("my",)\n', "it has no trigger"),
    "text for a tuple": ('("My_Switch",)', '"My_Switch"', "TypeError: keys of Mine is a text"),
    "grade": ('"review"', '"unsafe"', "grade is neither safe nor review"),
    "a name that is taken": ('"my-switch"', '"dtype"', "there is another codemod of the name dtype"),
    "docstring": ('"""Turn My_Switch off.\n\nWhy: somebody else\'s reason. And more.\n"""', "", "has no docstring"),
    "capitals in a word": ("keys", 'words, trigger = ("My_Switch",), "my"\n    extra', "word My_Switch has capitals"),
    "pattern": ("keys", 'words, trigger = ("my",), "my("\n    extra', "its trigger is no pattern: missing )"),
}  # fmt: skip


def install(folder: Path, code: str) -> None:
    info = {"METADATA": "Metadata-Version: 2.1\nName: theirs-dist\nVersion: 1.0\n"}
    info["entry_points.txt"] = "[verl_patch.codemods]\nanything = theirs:Mine\n"
    write(folder, {f"theirs_dist-1.0.dist-info/{name}": content for name, content in info.items()})
    write(folder, {"theirs.py": code})


@pytest.fixture
def run(config: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what runs verl-patch in a checkout, where a distribution with this codemod is installed."""
    checkout, installed = tmp_path / "verl", tmp_path / "installed"
    write(checkout, {"verl/__init__.py": "", "verl/version/version": "0.6.0\n", "verl/a.yaml": "My_Switch: true\n"})
    git(checkout, "init", "-q")
    commit(checkout)

    def process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        install(installed, code)
        env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{installed}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "verl_legacy_patch", *arguments]
        return subprocess.run(command, cwd=checkout, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    return process


def test_one_that_is_registered_is_a_codemod_like_any_other(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert "my-switch" in run(GOOD, "codemods").stdout
    assert run(GOOD, "explain", "my-switch").stdout.startswith("my-switch (review; runs always)\n\nTurn My_Switch off.")
    patch = run(GOOD, "apply", ".", "--dry-run", "--select", "my-switch")
    assert (patch.returncode, "\n-My_Switch: true\n+My_Switch: false\n" in patch.stdout) == (0, True), patch.stderr


@pytest.mark.parametrize("command", [["codemods"], ["check", "verl/a.yaml"]], ids=lambda command: command[0])
def test_a_command_ends_with_one_line_where_one_cannot_be_loaded(
    command: list[str], run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run("import nowhere\n", *command)
    said = "the codemod theirs:Mine of theirs-dist cannot be used (ModuleNotFoundError: No module named 'nowhere')"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"Error: {said}: repair or uninstall it\n")


@pytest.mark.parametrize("case", BROKEN)
def test_one_that_cannot_work_is_refused_with_what_is_wrong(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, said = BROKEN[case]
    assert old in GOOD
    install(tmp_path, GOOD.replace(old, new, 1))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    with pytest.raises(PluginError, match=re.escape(said)):
        list(plugins(Codemod, {"dtype": Codemod()}))


@pytest.mark.parametrize("name", sorted(discover()))
def test_our_own_have_none_of_these_flaws(name: str) -> None:
    assert not flaw(discover()[name])
