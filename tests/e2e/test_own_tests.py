"""verl's own CPU tests: each that passes before the patch passes after it."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e import own_tests, trees
from e2e.logs import Outcome

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
#: Release -> tests that must pass before, so that a broken environment is not taken for "nothing got worse".
RELEASES = {"0.4.1": 39, "0.9.0": 141}


@pytest.mark.parametrize("release", RELEASES)
def test_what_passed_still_passes(release, machine_for, tree_for, record):
    python = machine_for(release).python
    passed: dict[str, set[str]] = {}
    skip = []
    for name, options in (("original", trees.BASE), ("patched", trees.FULL)):
        found, hanging = own_tests.outcomes(python, tree_for(release, options), skip)
        passed[name] = {test for test, state in found.items() if state == "passed"}
        left_out = ", left out: " + " ".join(map(str, skip + hanging)) if skip + hanging else ""
        text = f"{dict(Counter(found.values()))}{left_out}"
        record(Outcome(f"{release} own tests, {name}: {text}", 0, 0.0, "\n".join(map(str, found.items()))))
        skip += hanging if name == "original" else []
    gained = sorted(passed["patched"] - passed["original"])
    record(Outcome(f"{release} own tests that pass only when patched: {gained}", 0, 0.0, ""))
    assert len(passed["original"]) >= RELEASES[release]
    assert sorted(passed["original"] - passed["patched"]) == []
