"""Which releases a test runs on, and which of them the quick part leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

#: The release whose environment the quick part builds.
QUICK = "0.4.1"


def by_release(expected: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test for each release with what is expected of it; all but one are ``slow``."""
    rows = [
        pytest.param(release, value, id=release, marks=() if release == QUICK else pytest.mark.slow)
        for release, value in expected.items()
    ]
    return pytest.mark.parametrize(("release", "expected"), rows)
