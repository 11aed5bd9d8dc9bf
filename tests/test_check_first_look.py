"""The first look passes over files that ``check`` would say nothing about, and over no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forks import LEFT
from minis import PROJECT, Verl
from repos import git, write

from verl_legacy_patch.quick import nothing_to_say


def test_the_first_look_agrees_with_the_command(done: Path, verl: Verl) -> None:
    write(
        done,
        {
            "verl/a.py": LEFT,
            "verl/b.py": "X = 1  # verl-patch: keep\n",
            "verl/c.py": "import verl.utils.torch_padding\n",
        },
    )
    names = [*git(done, "ls-files").split("\n"), "verl/a.py", "verl/b.py", "verl/c.py"]
    silent = {name for name in names if nothing_to_say(["--fix", "--strict", name])}
    for name in names:
        ran = verl("check", name)
        if name in silent:
            assert (ran.code, ran.out, ran.err) == (0, b"", ""), name
    assert silent >= {"verl/__init__.py", "README.md", "verl/version/version"}
    assert silent.isdisjoint({"verl/a.py", "verl/b.py", "verl/c.py"})
    assert nothing_to_say(["verl/__init__.py", "README.md"]) and not nothing_to_say(["verl/__init__.py", "verl/a.py"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--fix"],
        ["."],
        ["verl"],
        ["none.py"],
        ["--format", "json", "README.md"],
        ["--help"],
        ["--", "README.md"],
        ["-"],
    ],
)
def test_the_first_look_leaves_everything_else_to_the_command(arguments: list[str], done: Path) -> None:
    assert nothing_to_say(["README.md"]) and not nothing_to_say(arguments)


@pytest.mark.parametrize(
    "text",
    [
        'gpu = "titanic"', "gpuu = 1", "select = []", 'ignore = ["dtyp"]', 'keys.dtyp = ["x"]', "gpu = [",
        'gpu = "auto"', 'select = ["dtype"]\nignore = ["dtype"]', 'select = ["remove-padding"]\nsafe-only = true',
    ],
)  # fmt: skip
def test_the_first_look_passes_over_no_wrong_configuration(text: str, done: Path) -> None:
    write(done, {".verl-patch.toml": text})
    assert not nothing_to_say(["README.md"])


def test_the_first_look_knows_the_keys_of_the_configuration(done: Path, verl: Verl) -> None:
    write(done, {".verl-patch.toml": 'keys.torch-compile = ["my_compile"]\n', "a.yaml": "my_compile: true\n"})
    assert not nothing_to_say(["a.yaml"]) and verl("check", "a.yaml").code == 1


def test_the_program_takes_the_first_look(done: Path) -> None:
    code = (
        "import os, sys; from verl_legacy_patch.__main__ import main\n"
        "leave = os._exit\n"
        "os._exit = lambda code: (print('click' in sys.modules, flush=True), leave(code))\n"
        "main()"
    )
    for name, loaded in (("README.md", b"False"), ("verl/a.py", b"True")):
        write(done, {"verl/a.py": LEFT})
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        ran = subprocess.run(
            [sys.executable, "-c", code, "check", name], cwd=done, env=env, capture_output=True, check=False
        )
        assert ran.stdout.split()[-1] == loaded and ran.returncode == (name != "README.md")
