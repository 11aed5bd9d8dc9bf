"""The picture in the README: a real dry run on the demo's checkout, cut to what fits on a screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from terminal_svg import draw

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "verl-patch apply ~/verl --dry-run"
COLUMNS = 100, 140  # at least, at most: as wide as the longest line between
#: File of the patch -> the hunk that is shown.
SHOWN = {"verl/trainer/config/rollout/rollout.yaml": 0, "verl/workers/fsdp_workers.py": 1}

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def picture() -> str:
    """Return the SVG. Every line of it was printed by the dry run; rows with an ellipsis say what was cut."""
    done = dry_run(terminal=True)
    patch, summary = done.stdout.splitlines(), done.stderr.splitlines()
    lines = [f"\x1b[1m$ {COMMAND}\x1b[0m", *_excerpt(patch), *_head(summary)]
    return draw(
        lines,
        columns=min(COLUMNS[1], max(COLUMNS[0], *(len(_ANSI.sub("", line)) for line in lines))),
        title=f"What {COMMAND} prints",
        description="A patch that chooses float32 and eager attention, then the counts for each codemod.",
    )


def dry_run(*options: str, terminal: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``verl-patch apply --dry-run`` on a fresh copy of the demo's checkout; on a terminal it is coloured."""
    from verl_legacy_patch.miniature import make_repository, own_git

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        home = Path(folder, "home")
        home.mkdir()
        with own_git(home):
            make_repository(Path(folder, "verl"))
            ours, theirs = os.openpty() if terminal else os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-m", "verl_legacy_patch", "apply", "verl", "--dry-run", *options],
                cwd=folder,
                env={**_environment(), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=errors,
            )
            os.close(theirs)
            output = b"".join(_read(ours)).replace(b"\r\n", b"\n").decode()
        errors.seek(0)
        talk = errors.read().decode()
        if process.wait():
            raise SystemExit(f"the dry run on the demo's checkout failed: {talk}")
        return subprocess.CompletedProcess(process.args, 0, output, talk)


def _environment() -> dict[str, str]:
    """Return the environment without what users and continuous integration say about colours."""
    return {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}, "TERM": "xterm"}


def _read(descriptor: int) -> Iterator[bytes]:
    """Yield what comes from a pipe or a terminal; the end of a terminal is an error on Linux."""
    with suppress(OSError):
        while part := os.read(descriptor, 65536):
            yield part
    os.close(descriptor)


def _excerpt(patch: list[str]) -> list[str]:
    """Return one hunk of each file that is shown, and a row for what lies between."""
    files: list[list[str]] = []
    for line in patch:
        if _ANSI.sub("", line).startswith("diff --git "):
            files.append([])
        if files:
            files[-1].append(line)
    lines: list[str] = []
    hidden = 0
    for file in files:
        name = _ANSI.sub("", file[0]).rpartition(" b/")[2]
        if name not in SHOWN:
            hidden += 1
            continue
        lines += _cut(hidden)
        hidden = 0
        parts = _hunks(file)
        lines += parts[0] + parts[SHOWN[name] + 1]
    return [*lines, *_cut(hidden)]


def _hunks(file: list[str]) -> list[list[str]]:
    """Return the head of a file's patch, then its hunks, each with the reasons that stand above it."""
    parts: list[list[str]] = [[]]
    for line in file:
        plain = _ANSI.sub("", line)
        above = _ANSI.sub("", parts[-1][-1]) if parts[-1] else ""
        if plain.startswith(("@@ ", "# ")) and not above.startswith("# "):
            parts.append([])
        parts[-1].append(line)
    return parts


def _cut(files: int) -> list[str]:
    return [f"\x1b[2m  … {files} more file{'s' * (files > 1)} …\x1b[0m"] if files else []


def _head(summary: list[str]) -> list[str]:
    """Return the summary up to the end of its first list."""
    blanks = [index for index, line in enumerate(summary) if not line]
    end = blanks[1] if len(blanks) > 1 else len(summary)
    rest = [line for line in summary[end:] if line and not line.startswith(" ")]
    return ["", *summary[:end], "", *(f"{line}\x1b[2m …\x1b[0m" if line.endswith(":") else line for line in rest)]
