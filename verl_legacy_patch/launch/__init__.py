"""Write a launch script for one checkout, one card and one model: which keys, which values, does it fit."""

from __future__ import annotations


class LaunchError(Exception):
    """There is no script to write; one line that says what is wrong and what to do.

    Attributes:
        code: an exit code of the table in ``cli``: 2 for what was asked, 3 for a checkout that cannot do it.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
