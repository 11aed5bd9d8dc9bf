"""Imports PyYAML in half of its time: the patterns of its own scanner and resolver are compiled when they are used.

libyaml's parser, which reads the files, uses none of them. The modules are the same to everybody else.
"""

from __future__ import annotations

from verl_legacy_patch.patterns import deferred

with deferred():
    import yaml
    from yaml.events import (
        AliasEvent,
        DocumentEndEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

__all__ = [
    "AliasEvent",
    "DocumentEndEvent",
    "MappingEndEvent",
    "MappingStartEvent",
    "ScalarEvent",
    "SequenceEndEvent",
    "SequenceStartEvent",
    "yaml",
]
