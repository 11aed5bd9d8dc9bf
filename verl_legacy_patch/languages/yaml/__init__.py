"""YAML and JSON: scalar values under their key paths, aliases and interpolation defaults resolved.

Nothing is constructed and nothing is ever dumped. A span is only given when the text at that place equals the
scalar's value; everything else is handed on as uncertain.

Positions of the settings: ``YAML value`` and ``YAML alias`` are uses of a value. ``YAML anchor`` is a key
that only holds a value for aliases (``_shared: &dt bfloat16``): it is neutral, the uses decide. All uses of
one anchor have the same span, so that uses which want different things can be told from their equal spans.

A scalar that holds shell commands goes to the shell's adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.yaml import programs
from verl_legacy_patch.languages.yaml.interpolation import defaults
from verl_legacy_patch.languages.yaml.paths import (
    MAX_PLACES,
    Anchor,
    Chain,
    Frame,
    chain_of,
    close,
    is_defaults_list,
    path_of,
    places_of,
    use_of,
)
from verl_legacy_patch.languages.yaml.reader import Hits, Reader
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Setting, Span

UNCERTAIN = "its exact place in the file is uncertain"
COLLECTION = "a collection of names"

_OPTION = lazy(r"--?([A-Za-z][\w.-]*)")
_HOLDER = ("_", ".", "x-")


class _Found(NamedTuple):
    """A value inside a scalar. ``path`` is None for the path of the scalar itself."""

    path: tuple[str, ...] | None
    value: str
    start: int
    end: int
    position: str = ""
    names: str = ""
    advice: bool = False


class _Record(NamedTuple):
    path: tuple[str, ...]
    chain: Chain
    found: list[_Found]
    own: Anchor | None
    hit: bool


def settings(source: bytes, hits: Sequence[Span]) -> Iterator[Setting]:
    """Yield the scalars of a YAML or JSON file that are hit, or whose key is, and every aliased scalar.

    Args:
        source: the file.
        hits: byte spans of trigger matches.

    Raises:
        SourceError: the file cannot be read as YAML.
    """
    from verl_legacy_patch.languages.yaml.lean import (
        AliasEvent,
        DocumentEndEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    reader = Reader(source)
    hit = Hits(reader.characters(hits)).overlap
    anchored = b"&" in source
    frames: list[Frame] = []
    anchors: dict[str, Anchor] = {}
    records: list[_Record] = []
    top: Frame | None = None
    for event in reader.events():
        kind = type(event)
        if kind is ScalarEvent:
            own = None
            if anchored and event.anchor:
                own = anchors[event.anchor] = Anchor(event.value)
            if top is None:
                continue
            if top.is_map and top.key is None:
                top.key, top.span = event.value, (event.start_mark.index, event.end_mark.index)
                continue
            start, end = event.start_mark.index, event.end_mark.index
            first, key_end = top.span if top.is_map else (start, start)
            key_hit = value_hit = False
            if hit(first, end):
                key_hit, value_hit = hit(first, key_end), hit(start, end)
            if value_hit and programs.looks_like_shell(event.value):
                yield from programs.settings(reader, event, hits)
            elif key_hit or value_hit or own:
                path = path_of(frames)
                if path is not None and not is_defaults_list(frames):
                    chosen = [
                        found
                        for found in _found(reader, event, top)
                        if key_hit or own or found.names == UNCERTAIN or hit(found.start, found.end)
                    ]
                    chain = chain_of(frames) if anchored else ()
                    records.append(_Record(path, chain, chosen, own, key_hit or value_hit))
                    if not anchored:
                        yield from _emit(reader, records)
            if top.is_map:
                top.keys.add(top.key or "")
                top.key = None
            else:
                top.last = event.value
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if kind is MappingStartEvent and top is not None and top.is_map and top.key is None:
                start = event.start_mark.index
                if reader.text[start - 1 : start + 1] == "{{":
                    raise SourceError("a template ({{ … }}), not YAML", event.start_mark.line + 1)
            anchor = None
            if event.anchor:
                anchor = anchors[event.anchor] = Anchor()
            top = Frame(kind is MappingStartEvent, anchor)
            frames.append(top)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            frames.pop()
            top = frames[-1] if frames else None
            close(top)
        elif kind is AliasEvent:
            target = anchors.get(event.anchor)
            if target is None:
                raise SourceError(f"not YAML: undefined alias {event.anchor!r}", event.start_mark.line + 1)
            if top is not None and top.is_map and top.key is None:
                top.key, top.span = target.value, (event.start_mark.index, event.end_mark.index)
                continue
            path = path_of(frames)
            if path is not None:
                target.uses.append(use_of(path, frames))
            close(top)
        elif kind is DocumentEndEvent:
            yield from _emit(reader, records)
            anchors.clear()


def _found(reader: Reader, event: Any, frame: Frame) -> list[_Found]:
    """Return what a scalar holds: itself, interpolation defaults, or Hydra overrides."""
    place = reader.inside(event)
    value = event.value
    if place is None:
        if event.style in ("|", ">"):
            value = value.strip()
            if not value or any(map(str.isspace, value)):
                return []  # text: a script, a prompt
        return [_Found(None, value, event.start_mark.index, event.end_mark.index, "", UNCERTAIN, True)]
    if not value:
        return []
    quoted = event.style == "'"

    def at(offset: int) -> int:
        # a quote is written twice inside single quotes
        return place[0] + offset + (value.count("'", 0, offset) if quoted else 0)

    def part(path: tuple[str, ...] | None, position: str) -> list[_Found]:
        if "${" not in value:
            return [_Found(path, reader.text[place[0] : place[1]], *place, position)]
        inner, whole = defaults(value, 0, len(value))
        found = []
        for default in inner:
            start, end = at(default.start), at(default.end)
            advice = bool(default.names)
            found.append(_Found(path, reader.text[start:end], start, end, default.position, default.names, advice))
        if not whole:
            found.append(_Found(path, reader.text[place[0] : place[1]], *place, position))
        return found

    if "=" in value or value.startswith("--"):
        from verl_legacy_patch.languages.hydra import overrides

        word = not frame.is_map and not (value.startswith("-") and " " in value)
        found = [
            _Found(
                o.path,
                reader.text[at(o.start) : at(o.end)],
                at(o.start),
                at(o.end),
                "default of a Hydra override" if o.position == "default" else "Hydra override",
                COLLECTION if o.position == "item" else "",
            )
            for o in overrides(value, word)
            if o.path
        ]
        if found:
            return found
    if frame.is_map:
        return part(None, "")
    option = _OPTION.fullmatch(frame.last)
    if option:
        return part((option[1].replace("-", "_"),), "command line option")
    return [found._replace(names=found.names or COLLECTION) for found in part(None, "")]


def _emit(reader: Reader, records: list[_Record]) -> Iterator[Setting]:
    """Yield the settings of ``records``, once for each place that the scalar reaches, and empty the list."""
    for path, chain, found, own, hit in records:
        if not hit and not (own and own.uses):
            continue
        if own is not None:
            chain = (*chain, (own, len(path)))
        places = places_of(path, chain) if chain else [path]
        for one in found:
            span = reader.span(one.start, one.end)
            if one.path is not None:
                yield Setting(one.path, one.value, span, one.position, one.names, one.advice)
            elif places is None:
                reason = f"aliased in more than {MAX_PLACES} places"
                yield Setting(path, one.value, span, "YAML anchor", one.names or reason, True)
            else:
                for number, place in enumerate(places):
                    position = one.position or "YAML value"
                    if number:
                        position = "YAML alias"
                    elif len(places) > 1 and place[:1] and place[0].startswith(_HOLDER):
                        position = "YAML anchor"
                    # an item of a list of names that an alias uses under a key of its own does choose there
                    names = "" if number and one.names == COLLECTION and own else one.names
                    yield Setting(place, one.value, span, position, names, one.advice)
    records.clear()
