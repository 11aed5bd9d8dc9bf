"""The patch is what git takes: applied to the old bytes it gives exactly the new ones."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verl_legacy_patch.diff import file_patch, hunks, split_lines
from verl_legacy_patch.setting import Edit, Span, splice

TEXT = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"


def edit(start: int, end: int, new: str) -> Edit:
    return Edit(Span(start, end), "test", "rewrite", new)


def replace(text: bytes, old: bytes, new: str) -> Edit:
    start = text.index(old)
    return edit(start, start + len(old), new)


def applied(patches: bytes, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return what the files are after ``git apply`` of a patch."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=folder, input=patches, capture_output=True, env={**env, "HOME": folder}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stderr.decode(), patches)
        found = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def check(before: bytes, edits: list[Edit], name: str = "a.py") -> bytes:
    patch = file_patch(name, before, splice(before, edits), edits, "100644")
    after = splice(before, edits)
    assert applied(patch, {name: before}) == {name: after} if patch else after == before
    return patch


def test_one_word() -> None:
    assert check(TEXT, [replace(TEXT, b"five", "FIVE")]).decode() == (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -2,7 +2,7 @@ one\n"
        " two\n three\n four\n-five\n+FIVE\n six\n seven\n eight\n"
    )


def test_near_changes_share_a_hunk_and_far_ones_do_not() -> None:
    assert check(TEXT, [replace(TEXT, b"one", "1"), replace(TEXT, b"eight", "8")]).count(b"@@ -") == 1
    assert check(TEXT, [replace(TEXT, b"one", "1"), replace(TEXT, b"nine", "9")]).count(b"@@ -") == 2
    assert check(TEXT, [replace(TEXT, b"two", "1\n2"), replace(TEXT, b"ten", "10")]).endswith(b"+10\n")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
@pytest.mark.parametrize("word", [b"first", b"last"])
def test_ends_of_files(end: bytes, word: bytes) -> None:
    for text in (b"first\nmiddle\nlast" + end, b"first last" + end, word + end):
        patch = check(text, [replace(text, word, "new")])
        assert (b"\\ No newline at end of file" in patch) == (not end)


def test_insertions_and_removals() -> None:
    for position in (0, 1, 4, len(TEXT) - 1, len(TEXT)):
        check(TEXT, [edit(position, position, "added")])
        check(TEXT, [edit(position, position, "added\n")])
        check(TEXT, [edit(position, position, "\n\nadded\n\n")])
    check(TEXT, [edit(0, len(TEXT), "")])
    check(b"", [edit(0, 0, "x\n")])
    check(b"", [edit(0, 0, "")])
    check(TEXT, [edit(4, 8, "")])
    check(TEXT, [edit(4, 8, "two\n")])  # nothing changes, so there is no patch
    assert file_patch("a.py", TEXT, TEXT, [edit(4, 8, "two\n")], "100644") == b""
    assert file_patch("a.py", TEXT, TEXT, [], "100644") == b""


def test_new_files() -> None:
    for content in (b"x\n", b"x", b"a\n\nb", b"\n", b"x\r\ny\r\n", b"\xff\n", b""):
        patch = file_patch("new/a.py", None, content, (), "100755")
        assert b"new file mode 100755\n" in patch
        assert applied(patch, {}) == {"new/a.py": content}


@pytest.mark.parametrize(
    "name",
    [
        "a b.py",
        "tab\t.py",
        "q\"uote's.py",
        "new\nline.py",
        "ünï/模型.py",
        "back\\slash.py",
        "-d.py",
        " lead.py",
        "e .py ",
    ],
)
def test_names(name: str) -> None:
    check(TEXT, [replace(TEXT, b"two", "2")], name)
    assert applied(file_patch(name, None, b"x\n", (), "100644"), {}) == {name: b"x\n"}


def test_undecodable_name() -> None:
    assert b'"a/la\\351.py"' in file_patch("la\udce9.py", TEXT, TEXT, [replace(TEXT, b"two", "2")], "100644")


def test_only_line_feeds_end_lines() -> None:
    text = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\nbf16 \r\r\nh\n".encode()
    assert len(split_lines(text)) == 3
    check(text, [replace(text, b"bf16", "fp32")])


def test_context() -> None:
    edits = [replace(TEXT, b"five", "5")]
    for context, lines in ((0, 2), (1, 4), (20, 11)):
        [hunk] = hunks(TEXT, edits, context)
        assert len(hunk.lines) == lines and hunk.edits == tuple(edits)


WORDS = st.lists(
    st.sampled_from(["a", "bf16", "", "\r", "é", "\t", "x" * 40, "\x0c", "\\", "+", "-", "@@ -1 +1 @@"]), max_size=3
)
LINES = st.lists(WORDS.map(" ".join), max_size=40)


@st.composite
def changed_files(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    text = "\n".join(draw(LINES)).encode() + draw(st.sampled_from([b"", b"\n"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12, unique=True)))
    edits = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        if draw(st.booleans()):
            end = min(end, start + 4)
        new = draw(
            st.sampled_from(["", "fp32", "fp32\n", "\n", "a\nb\nc", "é", text[start:end].decode("utf-8", "ignore")])
        )
        edits.append(edit(start, end, new))
    return text, edits


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(changed_files(), min_size=1, max_size=12), st.integers(0, 4))
def test_git_makes_the_same_of_it(cases: list[tuple[bytes, list[Edit]]], context: int) -> None:
    files = {f"f{number}": text for number, (text, _) in enumerate(cases)}
    after = {f"f{number}": splice(text, edits) for number, (text, edits) in enumerate(cases)}
    parts = [
        file_patch(f"f{number}", text, after[f"f{number}"], edits, "100644", max(1, context))
        for number, (text, edits) in enumerate(cases)
    ]
    if any(parts):
        assert applied(b"".join(parts), files) == after
    else:
        assert files == after
