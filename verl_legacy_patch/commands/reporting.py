"""``--report FILE``: the whole result in a file, in the format that its suffix names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.commands import Refused

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.formats import Note
    from verl_legacy_patch.plan import Plan
    from verl_legacy_patch.report import About


def about(checkout: Checkout) -> About:
    """Return what a report says about files on disk."""
    from verl_legacy_patch.checkout import verl_version
    from verl_legacy_patch.report import About

    return About(str(checkout.root), verl_version(checkout), checkout.base)


@contextmanager
def reported(
    file: Path | None, plan: Plan, checkout: Checkout, notes: Sequence[Note] = (), info: About | None = None
) -> Iterator[None]:
    """Write the report, which gets its name when the block ends well.

    It is written first: when there is no room for it, nothing else has been written either.
    """
    if file is None:
        yield
        return
    import tempfile

    content = render(file.suffix.lower(), plan, info or about(checkout), notes)
    target = file.resolve()  # through a symlink, as any program would write
    try:
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):  # a device or a pipe must not be replaced by a file
            raise Refused(f"{show(str(file))} is no regular file: give another name for the report", 3)
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    with _named(file):
        descriptor, stage = tempfile.mkstemp(prefix=".verl-patch-report-", dir=target.parent)
    try:
        with _named(file), os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            os.fchmod(descriptor, stat.S_IMODE(mode))
        yield
        with _named(file):
            os.replace(stage, target)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(stage)  # noqa: PTH108
        raise


def written(file: Path | None) -> list[str]:
    """Return what to say when all is done: where the report is."""
    return [] if file is None else [f"Wrote {show(str(file))}"]


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Let an error name the report, and not the file that it is first written to."""
    try:
        yield
    except OSError as error:
        error.filename = show(str(file))
        raise


def render(suffix: str, plan: Plan, info: About, notes: Sequence[Note] = ()) -> bytes:
    """Return the content of a report."""
    import json

    from verl_legacy_patch import formats, report

    if suffix == ".json":
        data = {**report.as_json(plan, info), "unused_suppressions": [note._asdict() for note in notes]}
        return json.dumps(data, indent=1).encode("ascii") + b"\n"
    if suffix == ".sarif":
        return json.dumps(formats.sarif(plan.rewritten(), plan.codemods, notes), indent=1).encode("ascii") + b"\n"
    if suffix in (".patch", ".diff"):
        return b"".join(report.patch(plan))
    if suffix == ".html":
        from verl_legacy_patch.html import render as page

        return page(plan, info).encode("utf-8", "replace")
    if suffix == ".md":
        from verl_legacy_patch.markdown import markdown

        lines = [*markdown(plan, info, notes)]
    else:
        from verl_legacy_patch.summary import summary

        lines = [*summary(plan, info), *(formats.line(note) for note in notes)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
