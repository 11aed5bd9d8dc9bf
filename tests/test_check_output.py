"""What ``check`` says: exit codes, one line for each place, and what a person has to decide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from forks import LEFT, LINE, RIGHT
from minis import Verl, new_process
from repos import git, write


def test_exit_codes_and_one_line_per_site(done: Path, verl: Verl) -> None:
    nothing = verl("check")
    assert (nothing.code, nothing.out, nothing.err) == (0, b"", "0 places left in 11 files\n")
    named = verl("check", "README.md", "verl/workers/actor.py")
    assert (named.code, named.out, named.err) == (0, b"", "")  # hooks have nothing to say mostly
    write(done, {"verl/a.py": LEFT})
    assert verl("check").code == 0  # git does not know it
    assert verl("check", "verl/a.py").code == 1  # unless it is asked about
    git(done, "add", "verl/a.py")
    left = verl("check")
    assert (left.code, left.out.decode()) == (1, LINE)
    assert left.err == (
        "1 place left in 1 file; rewrite on disk: verl-patch check --fix, with a commit: verl-patch apply\n"
    )
    fixed = verl("check", "--fix")
    assert (fixed.code, fixed.out.decode(), fixed.err) == (1, LINE, "rewrote verl/a.py\n")
    assert verl("check", "--fix").code == 0
    assert git(done, "diff", "--cached", "--name-only") == git(done, "diff", "--name-only") == "verl/a.py"


@pytest.mark.parametrize("format", ["text", "json", "github", "sarif"])
def test_a_reader_that_has_gone_changes_nothing(format: str, done: Path) -> None:
    """``check --fix | head`` rewrites all the same, and ``set -o pipefail`` sees the exit code."""
    write(done, {"verl/a.py": LEFT + "# " + "x" * 99_000})
    for fix in ([], ["--fix"]):
        reader, writer = os.pipe()
        os.close(reader)
        ran = new_process(
            "check", *fix, "--format", format, "verl/a.py", stdout=writer, stderr=-1, capture_output=False
        )
        os.close(writer)
        assert ran.returncode == 1 and b"Exception" not in ran.stderr and b"Error" not in ran.stderr, ran
        assert (RIGHT in (done / "verl/a.py").read_text()) == bool(fix)


REPORTED = "python t.py actor_rollout_ref.rollout.name=sglang\n"


def test_what_a_person_has_to_decide_is_counted_and_fails_when_that_is_asked_for(done: Path, verl: Verl) -> None:
    write(done, {"run.sh": REPORTED, "verl/a.py": LEFT})
    ran = verl("check", "run.sh", "--format", "json")
    assert (ran.code, ran.err) == (0, "") and [site["action"] for site in ran.data["sites"]] == ["report"]
    ran = verl("check", "run.sh")
    decide = "0 places left in 1 file; 1 for a person to decide"
    assert (ran.code, ran.out, ran.err) == (0, b"", f"{decide} (--strict lists them)\n")
    ran = verl("check", "run.sh", "--strict")
    assert (ran.code, ran.err) == (1, f"{decide}\n")
    assert ran.out.startswith(b"run.sh:1:44 unsupported-backend sglang: ") and ran.out.count(b"\n") == 1
    ran = verl("check", "run.sh", "verl/a.py")
    assert ran.code == 1 and ran.err.startswith(
        "1 place left in 1 file, and 1 for a person to decide (--strict lists them); rewrite on disk: "
    )
    ran = verl("check", "--fix", "run.sh", "verl/a.py")
    assert ran.err == "rewrote verl/a.py\n1 place for a person to decide (--strict lists them)\n"
    assert verl("check", "--fix", "--strict", "run.sh", "verl/a.py").code == 1
    assert b"::warning file=run.sh" in verl("check", "run.sh", "--strict", "--format", "github").out
    (result,) = verl("check", "run.sh", "--strict", "--format", "sarif").data["runs"][0]["results"]
    assert result["level"] == "note"
    assert verl("check", "--strict", "verl/workers/actor.py").code == 0
    write(done, {"run.sh": REPORTED.rstrip() + "  # verl-patch: keep[unsupported-backend]\n"})
    assert verl("check", "--strict", "run.sh").code == 0


def test_reports_have_no_grade_that_leaves_them_out(done: Path, verl: Verl) -> None:
    write(done, {"run.sh": "python t.py actor_rollout_ref.actor.ulysses_sequence_parallel_size=2\n"})
    for options in ([], ["--safe-only"]):
        assert b" sequence-parallel 2: " in verl("check", "--strict", *options, "run.sh").out


def test_json_has_what_stays_when_it_is_asked_for(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT + "if dtype == torch.bfloat16:\n    pass\n"})
    ran, whole = (verl("check", "verl/a.py", "--format", "json", *more).data for more in ([], ["--kept"]))
    assert [site["action"] for site in ran["sites"]] == ["rewrite"]
    assert [site["action"] for site in whole["sites"]] == ["rewrite", "keep"]
    assert ran["summary"] == whole["summary"] and ran["summary"]["keep"] == 1


def test_comments_that_keep_nothing_are_named(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": "A = 1  # verl-patch: keep\nB = 2  # verl-patch: keep[dtyp]\n"})
    ran = verl("check", "verl/a.py")
    assert ran.code == 0 and ran.out == b""
    assert ran.err.splitlines() == [
        "verl/a.py:1: this 'verl-patch: keep' keeps nothing, remove it",
        "verl/a.py:2: 'verl-patch: keep' names 'dtyp', which is no codemod; did you mean dtype?",
    ]
    assert len(verl("check", "verl/a.py", "--format", "json").data["unused_suppressions"]) == 2
    assert verl("check", "verl/a.py", "--format", "github").out.count(b"::warning ") == 2
    # another time the others run
    assert "remove it" not in verl("check", "verl/a.py", "--select", "attention").err


def test_in_a_locale_without_unicode(done: Path) -> None:
    write(done, {"verl/ü.py": LEFT})
    for env in ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}):
        ran = new_process("check", "verl/ü.py", cwd=done, env=env)
        assert ran.returncode == 1 and b"dtype torch.bfloat16 -> torch.float32" in ran.stdout, ran.stderr
        assert b"Traceback" not in ran.stderr
