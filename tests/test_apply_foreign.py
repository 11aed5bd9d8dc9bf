"""A checkout is data: whatever modules, packages, entry points or settings it holds, none of its code runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from minis import PROJECT, new_process
from repos import commit, git, write

#: What is imported somewhere in a run, by us, by what we import, or by Python itself before we can prevent it.
MODULES = [
    *("yaml", "click", "libcst", "git", "gitdb", "tree_sitter", "tree_sitter_bash", "codemods", "tomli", "tomllib"),
    *("json", "re", "subprocess", "difflib", "dataclasses", "tempfile", "importlib_metadata", "sitecustomize"),
    *("usercustomize", "conftest", "setup", "verl", "torch", "hydra", "omegaconf", "multiprocessing", "concurrent"),
    *("encodings", "ast", "signal", "hashlib", "pathlib", "typing_extensions", "colorama"),
]
#: Those that ``python -m`` itself imports from the current folder, before any of our code.
BY_PYTHON = {"verl_legacy_patch", "runpy", "pkgutil"}


@pytest.fixture
def trap(mini: Path) -> Path:
    """Return a checkout full of code that says so when it runs."""
    mark = mini.parent / "ran"
    code = f"import os\nwith open({str(mark)!r}, 'a') as file:\n    file.write(__name__ + '\\n')\n"
    files = {f"{name}.py": code for name in MODULES if name != "verl"}
    files |= {f"{name}/__init__.py": code for name in ("codemods", "libcst", "yaml", "verl")}
    files |= {f"codemods/{name}.py": code for name in ("dtype", "attention", "evil")}
    entries = "[verl_patch.codemods]\nevil = evil_plugin:Evil\n[console_scripts]\nverl-patch = evil_plugin:main\n"
    for folder in ("evil-1.0.dist-info", "evil.egg-info", "verl.egg-info"):
        files |= {f"{folder}/entry_points.txt": entries, f"{folder}/METADATA": "Name: evil\nVersion: 1.0\n"}
        files |= {f"{folder}/PKG-INFO": "Name: evil\nVersion: 1.0\n", f"{folder}/top_level.txt": "evil_plugin\n"}
    files |= {"evil_plugin.py": code, "evil.pth": "import evil_plugin\n", "__main__.py": code}
    files |= {"verl/version/version": "0.5.0\n", "verl/version/__init__.py": code, "pyvenv.cfg": "home = /nowhere\n"}
    write(mini, files)
    commit(mini)
    return mini


def ran(trap: Path) -> set[str]:
    mark = trap.parent / "ran"
    names = set(mark.read_text().split()) if mark.exists() else set()
    mark.unlink(missing_ok=True)
    return names


def test_as_a_module_inside_of_it(trap: Path) -> None:
    for arguments in (["apply", "--dry-run", "-j", "2"], ["check"], ["apply"]):
        done = new_process(*arguments, cwd=trap)
        assert done.returncode == (arguments == ["check"]), done.stderr
        assert b"Traceback" not in done.stderr and b"evil" not in done.stdout + done.stderr
        assert ran(trap) == set()


def test_as_a_script_inside_of_it(trap: Path) -> None:
    """The console script does not even look into the current folder."""
    code = (trap / "yaml.py").read_text()
    write(trap, {f"{name}/__init__.py": code for name in BY_PYTHON} | {"verl_legacy_patch/__main__.py": code})
    commit(trap)
    script = trap.parent / "bin/verl-patch"
    write(script.parent, {script.name: "import sys\nfrom verl_legacy_patch.__main__ import main\n\nmain()\n"})
    done = new_process("apply", start=[str(script)], cwd=trap)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert ran(trap) == set()
    assert git(trap, "status", "--porcelain") == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 has -P")
def test_as_a_module_where_python_is_safe(trap: Path) -> None:
    code = (trap / "yaml.py").read_text()
    write(trap, {"verl_legacy_patch/__init__.py": code, "verl_legacy_patch/__main__.py": code})
    done = new_process("codemods", cwd=trap, env={"PYTHONSAFEPATH": "1"})
    assert done.returncode == 0 and ran(trap) == set(), done.stderr


def test_that_the_trap_works(trap: Path) -> None:
    done = new_process(start=["-c", "import sys; sys.path.insert(0, ''); import yaml, evil_plugin"], cwd=trap)
    assert done.returncode == 0, done.stderr
    assert ran(trap) == {"yaml", "evil_plugin"}


def test_programs_of_the_checkout_are_not_started(trap: Path) -> None:
    """Reading starts nothing that the checkout's configuration or folder names."""
    write(
        trap,
        {"git": "#!/bin/sh\ntouch ../ran\n", "python3": "#!/bin/sh\ntouch ../ran\n", ".gitattributes": "* diff=x\n"},
    )
    for name in ("git", "python3"):
        (trap / name).chmod(0o755)
    commit(trap)
    for key in ("core.fsmonitor", "diff.x.textconv", "diff.external", "core.sshCommand", "core.editor", "pager.grep"):
        git(trap, "config", key, f"touch {trap.parent}/ran; false")
    before = os.environ["PATH"]
    done = new_process("apply", "--dry-run", cwd=trap, env={"PATH": f"{before}:"})
    assert done.returncode == 0 and ran(trap) == set(), done.stderr
    assert PROJECT.is_dir()
