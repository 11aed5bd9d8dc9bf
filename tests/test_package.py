"""What is built from this repository: metadata, the content of wheel and sdist, and a wheel that works alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

from verl_legacy_patch import __version__
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import sample

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = shutil.ignore_patterns(
    ".git", ".venv*", "venv", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build"
)


def python(*arguments: str, cwd: Path, **variables: str) -> str:
    env = {**os.environ, **variables}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an sdist and the wheel that was built from it, both made without the network."""
    if find_spec("build") is None:
        pytest.skip("needs the dev extras")
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "source"
    shutil.copytree(ROOT, copy, ignore=NOT_OURS)
    python("-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(copy), cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with nothing but the wheel's content; dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    [path] = built.glob("*.whl")
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(folder)]
    python("-m", "pip", "install", *options, str(path), cwd=folder)
    return folder


def test_the_wheel_has_all_of_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in ("verl_legacy_patch", "codemods")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".swp")
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "codemods/support/torch_padding.py" in names
    assert len([name for name in names if name.startswith("verl_legacy_patch/sample/")]) == len(list(sample()))


def test_the_metadata_says_what_a_person_needs(wheel: zipfile.ZipFile) -> None:
    [info] = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("verl-legacy-patch", __version__)
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# verl-patch")
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    scripts = wheel.read(f"{info}/entry_points.txt").decode()
    assert re.search(r"^verl-patch = verl_legacy_patch.__main__:main$", scripts, re.MULTILINE)
    needed = {re.split(r"[^\w.-]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert {"click", "gitpython", "libcst", "pyyaml", "tree-sitter", "tree-sitter-bash"} <= needed


def test_the_sdist_has_what_testing_and_documenting_need(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        ".ci/run",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.zh.md",
        "codemods/support/torch_padding.py",
        "docs/dry-run.svg",
        "pyproject.toml",
        "scripts/docs.py",
        "tests/test_package.py",
        "verl_legacy_patch/sample/setup.py.txt",
    ):
        assert name in names
    assert any(name.startswith("fixtures/dtype/") for name in names)
    assert not [name for name in names if name.endswith(".pyc") or "/.git/" in name]


def test_the_wheel_works_alone(installed: Path, tmp_path: Path) -> None:
    where = python("-c", "import verl_legacy_patch as v; print(v.__file__)", cwd=tmp_path, PYTHONPATH=str(installed))
    assert Path(where.strip()).is_relative_to(installed)
    command = ("-m", "verl_legacy_patch")
    assert python(*command, "--version", cwd=tmp_path, PYTHONPATH=str(installed)) == f"verl-patch {__version__}\n"
    listed = python(*command, "codemods", cwd=tmp_path, PYTHONPATH=str(installed))
    assert all(name in listed for name in discover())
    python(*command, "demo", "--keep", "verl", cwd=tmp_path, PYTHONPATH=str(installed))
    assert (tmp_path / "verl/verl/utils/torch_padding.py").is_file()


def test_a_folder_named_codemods_or_yaml_where_it_runs_is_not_imported(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "codemods").mkdir()
    for name in ("codemods/__init__.py", "codemods/dtype.py", "yaml.py", "click.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the current folder')")
    python("-m", "verl_legacy_patch", "codemods", cwd=tmp_path, PYTHONPATH=str(installed))


def test_the_version_is_one(wheel: zipfile.ZipFile) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert Path(str(wheel.filename)).name.startswith(f"verl_legacy_patch-{__version__}-")
