"""verl's own CPU tests: each that passes before the patch passes after it."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e import own_tests, trees
from e2e.logs import Outcome
from e2e.own_tests import file_of, passing

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
#: Release -> tests that must pass before, so that a broken environment is not taken for "nothing got worse".
RELEASES = {"0.4.1": 39, "0.9.0": 141}


@pytest.mark.parametrize("release", RELEASES)
def test_what_passed_still_passes(release, machine_for, tree_for, record):
    python = machine_for(release).python
    original, left_out = own_tests.outcomes(python, tree_for(release, trees.BASE), [])
    patched, hanging = own_tests.outcomes(python, tree_for(release, trees.FULL), left_out)
    before, after = passing(original), passing(patched)
    # what starts a Ray cluster may run into its limit on a busy machine: once more, for what is missing
    for path in sorted({file_of(test) for test in before - after}):
        after |= passing(own_tests.run(python, tree_for(release, trees.FULL), [path], own_tests.SECONDS_ALONE) or {})
    lost, gained = sorted(before - after), sorted(after - before)
    text = f"original {dict(Counter(original.values()))}, patched {dict(Counter(patched.values()))}"
    text += f", passes only when patched: {gained}, left out: {[str(path) for path in left_out]}"
    record(Outcome(f"{release} own tests: {text}", 0, 0.0, "\n".join(f"{a} {b}" for a, b in original.items())))
    assert len(before) >= RELEASES[release]
    assert lost == [], f"at their limit: {hanging}"
