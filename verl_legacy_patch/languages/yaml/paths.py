"""Key paths in a stream of YAML events, and the further paths that anchored nodes reach through aliases."""

from __future__ import annotations

from typing import NamedTuple

#: More places than this are not listed one by one: aliases of aliases multiply.
MAX_PLACES = 64


class Anchor:
    """An anchored node, and where aliases use it. ``value`` is set for scalars."""

    __slots__ = ("uses", "value")

    def __init__(self, value: str = "") -> None:
        self.value = value
        self.uses: list[Use] = []


Chain = tuple[tuple[Anchor, int], ...]  # enclosing anchored nodes, each with the length of its own path


class Use(NamedTuple):
    """A place of an alias. ``explicit`` holds the keys that win over those of a merge (``<<: *x``)."""

    path: tuple[str, ...]
    chain: Chain
    explicit: set[str] | None


class Frame:
    """An open mapping or sequence."""

    __slots__ = ("anchor", "is_map", "key", "keys", "last", "span")

    def __init__(self, is_map: bool, anchor: Anchor | None) -> None:
        self.is_map = is_map
        self.anchor = anchor
        self.key: str | None = None  # None: the next node of this mapping is a key
        self.span = (0, 0)
        self.last = ""
        self.keys: set[str] = set()


def close(top: Frame | None) -> None:
    """Note that a node inside ``top`` has ended: a value, or a key that is no scalar."""
    if top is not None and top.is_map:
        if top.key is not None:
            top.keys.add(top.key)
        else:
            top.span = (0, 0)
        top.key = "" if top.key is None else None


def path_of(frames: list[Frame]) -> tuple[str, ...] | None:
    """Return the key path at the open frames; None inside of a key."""
    path: list[str] = []
    for frame in frames:
        if frame.is_map:
            if frame.key is None:
                return None
            path += _parts(frame.key)
    return tuple(path)


def _parts(key: str) -> list[str]:
    """Return the parts of a dotted key (``rollout.dtype: …``, as sweeps write it)."""
    parts = key.split(".")
    return parts if len(parts) > 1 and all(part.isidentifier() for part in parts) else [key]


def is_defaults_list(frames: list[Frame]) -> bool:
    """Return whether the open frames are inside Hydra's list of config files."""
    return len(frames) > 1 and frames[0].key == "defaults" and not frames[1].is_map


def chain_of(frames: list[Frame]) -> Chain:
    """Return the anchored nodes among the open frames."""
    chain: list[tuple[Anchor, int]] = []
    length = 0
    for frame in frames:
        if frame.anchor is not None:
            chain.append((frame.anchor, length))
        if frame.is_map:
            length += len(_parts(frame.key or ""))
    return tuple(chain)


def use_of(path: tuple[str, ...], frames: list[Frame]) -> Use:
    """Return the use that an alias at ``path`` is; a merge key is no part of the path."""
    if path and path[-1] == "<<":
        mapping = next(frame for frame in reversed(frames) if frame.is_map)
        return Use(path[:-1], chain_of(frames), mapping.keys)
    return Use(path, chain_of(frames), None)


def places_of(path: tuple[str, ...], chain: Chain) -> list[tuple[str, ...]] | None:
    """Return ``path`` and all paths that reach it through aliases; None when there are too many."""
    places: dict[tuple[str, ...], None] = {}
    waiting = [(path, chain)]
    steps = 0
    while waiting:
        path, chain = waiting.pop()
        places[path] = None
        steps += 1
        for anchor, length in chain:
            rest = path[length:]
            for use in anchor.uses:
                if not (use.explicit and rest and rest[0] in use.explicit):
                    waiting.append((use.path + rest, use.chain))
        if steps + len(waiting) > MAX_PLACES:
            return None
    return list(places)
