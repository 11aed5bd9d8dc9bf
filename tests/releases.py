"""verl's releases from PyPI, unpacked into a cache folder, for tests marked ``real``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

VERSIONS = ("0.1", "0.2", "0.3.0.post1", "0.4.1", "0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.0", "0.9.1")


def cache() -> Path:
    """Return the folder that keeps unpacked releases (``VERL_PATCH_RELEASES`` names another one)."""
    named = os.environ.get("VERL_PATCH_RELEASES")
    return Path(named) if named else Path.home() / ".cache" / "verl-patch-tests"


def release(version: str) -> Path:
    """Return a folder with the unpacked wheel: ``verl/`` with its YAML."""
    return _unpacked(version, "wheel", ("--only-binary", ":all:"))


def sdist(version: str) -> Path:
    """Return a folder with the unpacked source distribution: ``verl/``, ``scripts/``, some of ``tests/``."""
    return _unpacked(version, "sdist", ("--no-binary", ":all:"))


def _unpacked(version: str, kind: str, options: tuple[str, ...]) -> Path:
    target = cache() / f"{kind}-{version}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        archive = _download(version, kind, options, Path(folder))
        content = Path(folder) / "content"
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(content)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(content, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            [content] = content.iterdir()
        # renamed when complete, so that an interrupted download is never taken for a release
        try:
            content.rename(target)
        except OSError:
            if not target.is_dir():
                shutil.move(content, target)
    return target


def _download(version: str, kind: str, options: tuple[str, ...], folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options]
    command += ["--dest", str(folder), f"verl=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # pip builds the metadata of an sdist, which may fail after the download that is all we want
    found = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    if not found:
        pytest.fail(
            f"cannot download the {kind} of verl {version} (no network?): set VERL_PATCH_RELEASES to "
            f"a folder that holds {kind}-{version}/\n{done.stderr.strip()}",
            pytrace=False,
        )
    return found[0]
