"""Builds the environments of ``pins.TABLE`` from nothing, each once, in a cache folder.

``python tests/e2e/venvs.py [RELEASE...]`` builds them ahead of the tests and prints where they are.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.pins import TABLE, Pins

#: Written last: a folder without it is what an interrupted build left.
COMPLETE = "complete"


def cache() -> Path:
    """Return the folder for environments and runs (``VERL_PATCH_E2E_CACHE`` names another one)."""
    named = os.environ.get("VERL_PATCH_E2E_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "verl-patch-tests" / "e2e"


def python_for(release: str) -> Path:
    """Return the Python of a release's environment, built first where it is not there yet."""
    pins = TABLE[release]
    folder = cache() / f"venv-{pins.name}-{_digest(pins)}"
    if not (folder / COMPLETE).exists():
        _build(pins, folder)
    return folder / "bin" / "python"


def _digest(pins: Pins) -> str:
    """Return a short name for pins and interpreter: a change of either is another environment."""
    text = "\n".join((sys.version, *pins.packages, pins.lock.read_text()))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _build(pins: Pins, folder: Path) -> None:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command = [*pip, "--constraint", str(pins.lock), *pins.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cannot build {folder}:\n{done.stdout}{done.stderr}")
    (folder / COMPLETE).write_text(f"{time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or TABLE:
        print(name, python_for(name), flush=True)
