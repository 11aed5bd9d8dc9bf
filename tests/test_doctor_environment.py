"""The Python that doctor looks at: which one, what it answers, and verl-patch's own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import venv
from pathlib import Path

import pytest
from machines import Doctor, Machine, said
from minis import Verl, everything, make_mini, new_process

from verl_legacy_patch.doctor import environment
from verl_legacy_patch.doctor.environment import look, usual_python


@pytest.mark.parametrize(
    ("script", "entry", "says"),
    [
        ("exit 3", "python-broken", "it says nothing"),
        ("echo 'bad interpreter' >&2; exit 1", "python-broken", "bad interpreter"),
        ("echo '{\"python\"'; echo '[1]'; echo '{'", "python-broken", "it says nothing"),
        ("/bin/sleep 60 & wait", "python-broken", "no answer in time"),
        ("echo '%s'; /bin/sleep 60", "torch-broken", "import torch gave no answer within 0.5 seconds"),
        ("echo '%s'; echo '{\"arch\": []}'; /bin/sleep 60", "torch-broken", "torch.cuda.is_available() gave no answer"),
        ("echo '%s'; echo Fatal >&2; kill -SEGV $$", "torch-broken", "import torch ended with code -11: Fatal"),
        ("echo '%s'; echo '{\"error\": \"ImportError: a\\\\n b\"}'", "torch-broken", "ImportError: a b"),
        ("printf '\\377\\n' >&2; echo '%s' | /bin/tr -d x", None, ""),
    ],
)
def test_a_python_that_does_not_answer_well(
    script: str, entry: str | None, says: str, doctor: Doctor, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SECONDS", 0.5 if "sleep" in script else 20)
    first = json.dumps({"python": "3.10.1", "versions": {"torch": "2.7.1"}, "cuda": None if entry else "11.8"})
    machine.program("envs/python", script.replace("'%s'", f"'{first}'"))
    started = time.monotonic()
    data = doctor()
    assert time.monotonic() - started < 10
    assert said(data) == ([("fails", entry)] if entry else [])
    assert not entry or (says in data["findings"][0]["detail"] and "\n" not in data["findings"][0]["detail"])


@pytest.mark.parametrize("path", ["/nowhere/python", "nothing-of-this-name", "./nothing", "."])
def test_a_python_that_is_not_there_is_wrong_usage(path: str, verl: Verl, machine: Machine, mini: Path) -> None:
    for more in ([], [str(mini)], ["--message", "CUDA out of memory"]):
        verl("doctor", "--python", path, *more).refused(2, "--python", path, "give a Python or the folder of its")


def test_the_folder_of_an_environment_means_its_python(doctor: Doctor, verl: Verl, machine: Machine) -> None:
    machine.program("venv/bin/python", f'exec {machine.python} "$@"')
    for name in ("venv", "venv/"):
        ran = verl("doctor", "--python", machine.folder / name, "--format", "json")
        assert ran.code == 0 and ran.data["executable"] == str(machine.folder / "venv/bin/python")


#: What is installed beside verl-patch -> whether that is an environment of its own.
OWN: list[tuple[list[str], bool]] = [
    (["verl-legacy-patch"], True),
    (["verl-legacy-patch", "numpy"], True),
    (["verl-legacy-patch", "verl"], False),
    (["verl-legacy-patch", "vllm"], False),
    (["verl-legacy-patch", "vllm-pascal"], False),
    (["verl-legacy-patch", "torch"], False),
    (["numpy"], False),
    ([], False),
]


@pytest.mark.parametrize(("packages", "own"), OWN)
def test_an_environment_of_verl_patch_alone(packages: list[str], own: bool, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    [site] = (tmp_path / "venv").glob("lib/*/site-packages")
    for name in packages:
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (site / f"{name.replace('-', '_')}-1.0.dist-info").mkdir()
        (site / f"{name.replace('-', '_')}-1.0.dist-info/METADATA").write_text(text)
    assert look(str(tmp_path / "venv/bin/python")).own is own


def test_the_own_environment_is_named_first_and_nothing_goes_into_it(
    verl: Verl, machine: Machine, mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.answers(versions={}, cuda=None, arch=[], own=True)
    monkeypatch.setattr(environment, "usual_python", lambda variables: machine.python)
    heads = {"en": "will fail: This is verl-patch's own", "zh": "会失败：这是 verl-patch 自己的环境"}
    for language, first in heads.items():
        ran = verl("doctor", mini, "--lang", language)
        out = ran.out.decode()
        assert ran.code == 1 and out.startswith(first) and out.count(first) == 1
        assert f"{machine.python} -m" not in out and f"--interpreter {machine.python}" not in out
        assert "/path/to/venv/bin/python -m pip install" in out and f"doctor {mini} --python /path/to/venv" in out
        assert "No module named 'torch'" not in out
    data = verl("doctor", mini, "--format", "json").data
    assert data["executable"] == machine.python and data["findings"][0]["id"] == "own-environment"
    named = verl("doctor", mini, "--python", machine.python, "--format", "json").data  # who names it means it
    assert "own-environment" not in [row["id"] for row in named["findings"]]
    assert f"{machine.python} -m pip install" in str(named["install"])


def test_a_path_to_python_is_meant_from_here(machine: Machine, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.folder)
    assert verl("doctor", "--python", "envs/python").code == 0


def test_the_python_of_the_active_environment_counts(tmp_path: Path) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").touch()
    assert usual_python({"VIRTUAL_ENV": str(tmp_path / "gone"), "CONDA_PREFIX": str(tmp_path / "env")}) == str(
        tmp_path / "env/bin/python"
    )
    assert usual_python({"VIRTUAL_ENV": ""}) == sys.executable


def test_this_python_is_asked_without_running_code_of_the_checkout(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = "raise SystemExit('code of the checkout was run')\n"
    names = ("torch", "json", "sys", "site", "sitecustomize", "usercustomize", "importlib/__init__", "yaml", "click")
    root = make_mini(tmp_path / "trap", {**{f"{name}.py": trap for name in names}, "verl/__init__.py": trap})
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), "", "."]))
    found = look(sys.executable)
    assert found.python == sys.version.split()[0] and found.python_error == ""
    shutil.rmtree(root / "importlib")  # Python itself starts with that one
    before = everything(root)
    done = new_process("doctor", "--python", sys.executable, "--gpu", "p40", "--lang", "en", str(root), cwd=root)
    assert (done.returncode, done.stderr) == (1, b""), done
    assert b"The checkout still chooses" in done.stdout and b"was run" not in done.stdout
    assert everything(root) == before


def test_a_real_torch_is_read(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that looks like PyTorch: architectures are known without a GPU."""
    site = tmp_path / "modules"
    for name, text in {
        "torch/__init__.py": "from types import SimpleNamespace as S\nversion = S(cuda='12.6')\n"
        "_C = S(_cuda_getArchFlags=lambda: 'sm_50 sm_60')\n"
        "cuda = S(is_available=lambda: False, get_arch_list=lambda: [])\nprint('{noise')\n",
        "torch-2.6.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0+cu126\n",
        "xformers-0.0.29.dist-info/METADATA": "Metadata-Version: 2.1\nName: xformers\nVersion: 0.0.29\n"
        "Requires-Dist: numpy\nRequires-Dist: torch ==2.5.1 ; python_version > '3'\n",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(site))
    found = look(sys.executable)
    assert (found.cuda, found.arch, found.available) == ("12.6", ("sm_50", "sm_60"), False)
    assert found.versions["torch"] == "2.6.0+cu126" and found.torch_pins == {"xformers": "2.5.1"}
