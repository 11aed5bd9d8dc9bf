"""Whole processes, measured from outside: CPU seconds of the process tree and the largest peak of memory in it."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """What a command cost: user and system seconds of it and its children, and MiB of the largest of them."""

    cpu: float
    peak: float


class Pair(NamedTuple):
    """Medians of two commands that ran in turn, and the median of their ratios, pair by pair."""

    ours: Cost
    other: Cost
    ratio: float


def run(command: Sequence[str], cwd: Path, found: int = 0) -> Cost:
    """Run a command and return what it cost; ``found`` is a second exit code that is no failure.

    Raises:
        RuntimeError: it failed: what a broken command costs says nothing.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with Path(os.devnull).open("wb") as nowhere:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdin=nowhere.fileno(), stdout=nowhere, stderr=nowhere)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, found):
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def pair(ours: Sequence[str], other: Sequence[str], cwd: Path, runs: int, found: int = 0) -> Pair:
    """Run two commands in turn, after one run of each that is not counted. ``found`` is for the first of them."""
    costs = [(run(ours, cwd, found), run(other, cwd)) for _ in range(runs + 1)][1:]
    ratio = statistics.median(one.cpu / two.cpu for one, two in costs)
    return Pair(_median([one for one, _ in costs]), _median([two for _, two in costs]), ratio)


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.peak for cost in costs))
