"""Correctness: the rewritten actor computes what a plain float32 model does, or refuses to."""

from __future__ import annotations

import json

import pytest

from e2e import runs, trees
from e2e.cases import by_release

pytestmark = pytest.mark.e2e
PROBE = runs.HERE / "probes" / "logprobs.py"
TOLERANCE = 1e-4


def probe(release, options, machine_for, tree_for):
    machine, tree = machine_for(release), tree_for(release, options)
    outcome = runs.run(f"{release} log-probs", machine, tree, [str(PROBE), str(machine.model)])
    assert outcome.code == 0, outcome.tail()
    return json.loads(outcome.log.partition("RESULT")[2].splitlines()[0])


@by_release({"0.4.1": "by_actor", "0.5.0": "by_actor", "0.9.0": "by_engine"})
def test_log_probs_of_uneven_lengths(release, expected, machine_for, tree_for):
    result = probe(release, trees.FULL, machine_for, tree_for)
    assert result["code"] == expected
    assert len(result["padded"]) == 5 and max(result["padded"]) < TOLERANCE, result
    if release == "0.9.0":
        # its transformers keeps packed samples apart, and the guard knows it
        assert max(result["packed"]) < TOLERANCE, result
    else:
        assert result["packed"].startswith("use_remove_padding packs samples into one row"), result
        assert "use_remove_padding=False" in result["packed"]


@pytest.mark.slow
def test_what_the_guard_prevents(machine_for, tree_for):
    """Without it, each packed sample but the first is wrong, and nothing says so."""
    result = probe("0.4.1", trees.without("packing-guard"), machine_for, tree_for)
    first, *others = result["packed"]
    assert first < TOLERANCE
    assert min(others) > 0.1, result
