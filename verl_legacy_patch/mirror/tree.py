"""YAML config trees whose values know their place, and OmegaConf's merge of two of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.languages.yaml.reader import Reader
from verl_legacy_patch.setting import Span


class Unsupported(Exception):
    """A config tree uses something that is not worth guessing at."""


class Origin(NamedTuple):
    """Where a value of a composed config comes from.

    Attributes:
        path: the file in the checkout.
        span: the bytes of the scalar, inside its quotes; of a whole list.
        text: the text of the span.
        line: where it begins, from 1.
    """

    path: str
    span: Span
    text: str
    line: int


class Leaf(NamedTuple):
    """A scalar."""

    value: str
    plain: bool
    origin: Origin

    @property
    def is_null(self) -> bool:
        """Whether YAML reads the scalar as null."""
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


class Seq(NamedTuple):
    """A list: merged as one value."""

    items: list[Node]
    origin: Origin | None


class Map(NamedTuple):
    """A mapping; ``origin`` is None where the composition made it for a package."""

    items: dict[str, Node]
    origin: Origin | None = None


Node = Leaf | Seq | Map

#: A composed config of more leaves than this is built of aliases of aliases.
MAX_LEAVES = 100_000


def merge(low: Map, high: Map) -> Map:
    """Return a new tree: ``high`` over ``low``, as ``OmegaConf.merge`` does it."""
    items = dict(low.items)
    for key, node in high.items.items():
        old = items.get(key)
        missing = isinstance(node, Leaf) and node.value == "???"
        if isinstance(old, Leaf) and "${" in old.value and (missing or isinstance(node, Map)):
            raise Unsupported(f"a mapping merged over the interpolation {old.value}")
        if isinstance(old, Map) and isinstance(node, Map):
            items[key] = merge(old, node)
        elif not (missing and old is not None):
            items[key] = node
    return Map(items, high.origin or low.origin)


def leaves(tree: Map) -> dict[tuple[str, ...], Leaf | Seq | Map]:
    """Return scalars, lists and empty mappings by their key path."""
    found: dict[tuple[str, ...], Leaf | Seq | Map] = {}
    waiting: list[tuple[tuple[str, ...], Map]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        for key, value in node.items.items():
            if isinstance(value, Map) and value.items:
                waiting.append(((*path, key), value))
            else:
                found[(*path, key)] = value
        if len(found) + len(waiting) > MAX_LEAVES:
            raise Unsupported("too many values")
    return found


@lru_cache(maxsize=512)
def load(path: str, source: bytes) -> Map:
    """Return the tree of a YAML file. It is shared: nobody may change it.

    Raises:
        Unsupported: not YAML, not one mapping, or duplicate keys (which OmegaConf refuses).
    """
    try:
        return _Builder(path, source).tree()
    except SourceError as error:
        raise Unsupported(f"{path}: {error}") from None


class _Open:
    """A mapping or list whose end was not seen yet."""

    __slots__ = ("anchor", "items", "key", "line", "mapping", "merged", "start")

    def __init__(self, mapping: bool, event: Any) -> None:
        self.mapping = mapping
        self.items: dict[str, Node] = {}
        self.merged: dict[str, Node] = {}
        self.key: str | None = None
        self.start = event.start_mark.index
        self.line = event.start_mark.line + 1
        self.anchor = event.anchor


class _Builder:
    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.reader = Reader(source)
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def tree(self) -> Map:
        from verl_legacy_patch.languages.yaml.lean import (
            AliasEvent,
            MappingEndEvent,
            MappingStartEvent,
            ScalarEvent,
            SequenceEndEvent,
            SequenceStartEvent,
        )

        for event in self.reader.events():
            kind = type(event)
            if kind is ScalarEvent:
                self._add(self._leaf(event), event.anchor)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self.stack.append(_Open(kind is MappingStartEvent, event))
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                done = self.stack.pop()
                origin = self._origin(done.start, event.end_mark.index, done.line)
                if done.mapping:
                    node: Node = Map({**done.merged, **done.items}, origin)
                else:
                    node = Seq(list(done.items.values()), origin)
                self._add(node, done.anchor)
            elif kind is AliasEvent:
                if event.anchor not in self.anchors:
                    raise Unsupported(f"alias {event.anchor}")
                self._add(self.anchors[event.anchor], None)
        if self.root is None:
            return Map({})
        if not isinstance(self.root, Map):
            raise Unsupported(f"{self.path} is no mapping")
        return self.root

    def _origin(self, start: int, end: int, line: int) -> Origin:
        return Origin(self.path, self.reader.span(start, end), self.reader.text[start:end], line)

    def _leaf(self, event: Any) -> Leaf:
        place = self.reader.inside(event) or (event.start_mark.index, event.end_mark.index)
        start, end = place
        return Leaf(event.value, not event.style, self._origin(start, end, event.start_mark.line + 1))

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            if self.root is not None:
                raise Unsupported(f"{self.path} holds more than one document")
            self.root = node
            return
        top = self.stack[-1]
        if not top.mapping:
            top.items[str(len(top.items))] = node
        elif top.key is None:
            if not isinstance(node, Leaf):
                raise Unsupported("a key that is no scalar")
            top.key = node.value
        else:
            if top.key == "<<":
                for source in reversed(node.items) if isinstance(node, Seq) else [node]:
                    if not isinstance(source, Map):
                        raise Unsupported("a merge of something that is no mapping")
                    top.merged.update(source.items)
            elif top.key in top.items:
                raise Unsupported(f"{self.path}: duplicate key {top.key}")
            else:
                top.items[top.key] = node
            top.key = None
