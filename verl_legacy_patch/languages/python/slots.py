"""The place that a walk over a Python statement has reached: what a value there would stand under."""

from __future__ import annotations

from typing import NamedTuple

from verl_legacy_patch.languages.python import reasons as why


class Slot(NamedTuple):
    """Where a value stands.

    Attributes:
        path: the key, outermost part first.
        position: the kind of place, in words.
        names: why the place only names values; empty where it chooses one.
        advice: true where a person should look although nothing is rewritten.
        allowed: the values that the place accepts.
        spoken: the place is inside a call that is inside a message: text is still said, but code there runs.
    """

    path: tuple[str, ...] = ()
    position: str = "expression"
    names: str = ""
    advice: bool = False
    allowed: tuple[str, ...] = ()
    spoken: bool = False

    def naming(self, reason: str, advice: bool = False) -> Slot:
        """Return this slot as one that only names; the first reason wins."""
        return self if self.names else self._replace(names=reason, advice=advice)

    def at(self, position: str, *path: str) -> Slot:
        """Return a slot at another position and path, with what this one says of names."""
        return self._replace(path=path, position=position, allowed=())

    def under(self, key: str | None, position: str) -> Slot:
        """Return the slot of a value of a dict literal in this one. In a list of dicts each may choose again."""
        inner = self._replace(path=(*self.path, key) if key is not None else (), position=position)
        return inner._replace(names="", advice=False) if self.names == why.COLLECTION else inner

    def inside(self) -> Slot:
        """Return the bare slot of an expression in this one that is no value of its own."""
        return Slot(names=self.names, advice=self.advice, spoken=self.spoken)

    def called(self) -> Slot:
        """Return the slot of a call's receiver and arguments: a call in a test or a list chooses for itself."""
        names = self.names if self.names in why.STICKY else ""
        return Slot(names=names, advice=self.advice and bool(names), spoken=bool(names))
