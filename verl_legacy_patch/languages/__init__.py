"""Language adapters: from the bytes of a file to its settings, each with a byte span.

An adapter knows its language and nothing of codemods. It is given the spans of trigger matches (``hits``) and
yields the settings that overlap them, so that the cost follows the hits and not the size of the file.
"""

from __future__ import annotations

from posixpath import splitext

SUFFIXES = {
    ".py": "python",
    ".pyi": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sh": "shell",
    ".bash": "shell",
    ".txt": "requirements",
    ".toml": "requirements",
}


class SourceError(ValueError):
    """A file cannot be read as its language says.

    Attributes:
        line: where, from 1; 0 when the whole file is meant.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def language_of(path: str, source: bytes) -> str | None:
    """Return the language of a file by its suffix, or by its ``#!`` line when it has none."""
    suffix = splitext(path)[1].lower().rstrip(".")
    if suffix == ".txt" and "requirement" not in path.lower():
        return None
    if suffix or not source.startswith(b"#!"):
        return SUFFIXES.get(suffix)
    shebang = source.partition(b"\n")[0]
    if b"python" in shebang:
        return "python"
    return "shell" if b"sh" in shebang.split(b"/")[-1] else None
