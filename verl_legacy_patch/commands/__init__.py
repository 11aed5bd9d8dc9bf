"""One module per command, each with a ``command``."""

from __future__ import annotations


class Refused(Exception):
    """A command ends with one line on stderr and an exit code of the table in ``cli``."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
