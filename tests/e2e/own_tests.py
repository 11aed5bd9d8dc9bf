"""Runs verl's own ``*_on_cpu.py`` tests in a tree: which pass?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from e2e.runs import ENVIRONMENT, kill

#: Files that start a Ray cluster or a TransferQueue. Each gets a process of its own, because some of them hang past
#: every limit on a small machine, with and without the patch.
ALONE = re.compile(r"^\s*import ray\b|ray\.init|transfer_queue|TransferQueue", re.MULTILINE)
SECONDS_ALONE, SECONDS_TOGETHER = 180, 1800


def outcomes(python: Path, tree: Path, skip: list[Path]) -> tuple[dict[str, str], list[Path]]:
    """Run all files but ``skip``, without the emulated card.

    Returns:
        test -> passed, failed, error or skipped, and the files that were still running at their limit
    """
    paths = [path.relative_to(tree) for path in sorted((tree / "tests").rglob("*_on_cpu.py"))]
    paths = [path for path in paths if path not in skip]
    alone = [path for path in paths if ALONE.search((tree / path).read_text())]
    found = run(python, tree, [path for path in paths if path not in alone], SECONDS_TOGETHER)
    assert found is not None, "pytest did not finish"
    hanging = []
    for path in alone:
        more = run(python, tree, [path], SECONDS_ALONE)
        if more is None:
            hanging.append(path)
        else:
            found |= more
    return found, hanging


def passing(found: dict[str, str]) -> set[str]:
    """Return the tests that passed."""
    return {test for test, state in found.items() if state == "passed"}


def file_of(test: str) -> Path:
    """Return the file of a test, relative to the tree."""
    parts = test.partition("::")[0].split(".")
    while not parts[-1].endswith("_on_cpu"):  # a class
        parts.pop()
    return Path(*parts).with_suffix(".py")


def run(python: Path, tree: Path, paths: list[Path], seconds: int) -> dict[str, str] | None:
    """Run files in one pytest process; return None when it does not end."""
    with tempfile.TemporaryDirectory(prefix="vp-", ignore_cleanup_errors=True) as scratch:
        report = Path(scratch) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "python_files=*_on_cpu.py"]
        options += ["--continue-on-collection-errors", "--timeout=120", f"--junitxml={report}"]
        command = [str(python), "-m", "pytest", *options, *map(str, paths)]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "RAY_"))}
        env |= ENVIRONMENT | {"PYTHONPATH": str(tree), "HF_DATASETS_CACHE": f"{scratch}/data", "RAY_TMPDIR": scratch}
        # the tests check how an engine is looked up
        del env["VERL_ENGINE_DEVICE"]
        with (Path(scratch) / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=tree, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = -signal.SIGALRM
            finally:
                kill(process)
        if code == -signal.SIGALRM or not report.exists():
            return None
        return _read(report)


def _read(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        states = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[f"{case.get('classname')}::{case.get('name')}"] = states[0] if states else "passed"
    return found
