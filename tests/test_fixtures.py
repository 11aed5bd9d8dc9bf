"""Every fixture, through the same function that apply, check and the hook call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from difflib import unified_diff
from pathlib import Path

import pytest
from cases import CHANGED, FIXTURES, Fixture, reported

from verl_legacy_patch.diff import file_patch


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_result_and_reports(fixture: Fixture) -> None:
    differs = "".join(unified_diff(*map(_lines, (fixture.after, fixture.result.after)), "expected", "result", n=0))
    assert fixture.result.after == fixture.after, f"fixtures/{fixture.name}/ has another after.*:\n{differs}"
    given = reported(fixture.result)
    surplus, missing = (
        [row for row in a if row not in b] for a, b in ((given, fixture.reports), (fixture.reports, given))
    )
    wrong = [f"lacks {surplus}"] * bool(surplus) + [f"has {missing}, which is not reported"] * bool(missing)
    assert given == fixture.reports, f"fixtures/{fixture.name}/reports.txt {' and '.join(wrong) or 'has another order'}"


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").splitlines(keepends=True)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_a_case_holds_nothing_that_is_never_read(fixture: Fixture) -> None:
    """A name that is almost right would make a case say less than its author thinks."""
    read = {*(f"{name}{fixture.suffix}" for name in ("before", "after")), "reports.txt", "target.yaml", "why.md"}
    unread = {path.name for path in fixture.folder.iterdir()} - read
    assert not unread, f"fixtures/{fixture.name}/: nothing reads {unread}, only {sorted(read)}"
    options = fixture.options.keys() - {"gpu", "dtype", "attn", "path"}
    assert not options, f"fixtures/{fixture.name}/target.yaml: nothing reads {options}, only gpu, dtype, attn and path"
    same = fixture.changes and fixture.after == fixture.before
    assert not same, f"fixtures/{fixture.name}/: after{fixture.suffix} is before{fixture.suffix}; remove it"


@pytest.mark.parametrize("fixture", CHANGED, ids=lambda fixture: fixture.name)
def test_a_second_run_changes_nothing(fixture: Fixture) -> None:
    again = fixture.rewrite(fixture.after)
    assert not again.changed, f"fixtures/{fixture.name}/: a second run changes {[s for s in again.sites if s.after]}"


def test_git_apply_makes_the_results_of_the_patches(tmp_path: Path) -> None:
    patches = []
    for fixture in CHANGED:
        path = f"{fixture.name}{fixture.suffix}"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(fixture.before)
        patches.append(file_patch(path, fixture.before, fixture.after, fixture.result.edits, "100644"))
    (tmp_path / "all.patch").write_bytes(b"".join(patches))
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "-c", "core.autocrlf=false", "apply", "all.patch"], cwd=tmp_path, check=True)
    wrong = [f.name for f in CHANGED if (tmp_path / f"{f.name}{f.suffix}").read_bytes() != f.after]
    assert not wrong


def test_linters_find_nothing_new_that_they_cannot_fix(tmp_path: Path) -> None:
    """ruff is one of verl's own hooks: a name that a rewrite has taken away would stop every commit of a fork."""
    found = []
    for part in ("before", "after"):
        (tmp_path / part).mkdir()
        for fixture in CHANGED:
            if fixture.suffix == ".py":
                path = tmp_path / part / f"{fixture.name.replace('/', '__')}.py"
                path.write_bytes(fixture.before if part == "before" else fixture.result.after)
        command = ["ruff", "check", "--isolated", "--select=F821,F811,F823,E9", "--output-format=json", part]
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, check=False, timeout=60
        )
        rows = json.loads(done.stdout)
        found.append(Counter((Path(row["filename"]).name, row["code"]) for row in rows))
    assert found[1] - found[0] == Counter()
