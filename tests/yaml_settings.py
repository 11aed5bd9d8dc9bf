"""The settings that are found in a text of YAML, with either of PyYAML's parsers."""

from __future__ import annotations

import re
import sys

import pytest

from verl_legacy_patch.languages.yaml import UNCERTAIN, settings
from verl_legacy_patch.setting import Setting, Span

TRIGGER = rb"bfloat16|bf16|(?:use_remove_padding|enable_prefix_caching)[^\n]{0,80}?true"


def found(source: str | bytes) -> list[Setting]:
    """Return the settings; the span of each holds its value, unless it is uncertain."""
    data = source.encode() if isinstance(source, str) else source
    result = list(settings(data, [Span(*m.span()) for m in re.finditer(TRIGGER, data, re.I)]))
    for one in result:
        if one.names != UNCERTAIN:
            assert data[slice(*one.span)].decode() == one.value
    return result


def short(source: str | bytes) -> list[tuple[str, str, str]]:
    """Return path, value and position of the settings."""
    return [(".".join(one.path), one.value, one.position) for one in found(source)]


@pytest.fixture(params=["libyaml", "python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse with libyaml, or as where it is not installed."""
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
