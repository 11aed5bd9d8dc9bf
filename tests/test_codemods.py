"""What every codemod promises, whoever writes it: documentation, fixtures, and triggers that hide nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from cases import FIXTURES, Fixture

from verl_legacy_patch.codemod import Codemod, codemod_folder, discover
from verl_legacy_patch.gpus import GPUS
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import ATTENTIONS, DTYPES, Target

CODEMODS = sorted(discover().values(), key=lambda codemod: codemod.name)
TARGETS = [Target(dtype, attn, g.name, g.capability) for g in GPUS.values() for dtype in DTYPES for attn in ATTENTIONS]
REWRITING = {fixture.codemod for fixture in FIXTURES if fixture.changes}
#: In these a setting depends on its own text and place only, not on what else a trigger matches.
STRUCTURED = (".py", ".pyi", ".yaml", ".yml", ".json")
HEADINGS = ("What it does:", "Why:", "What it leaves alone:", "Source:")

each_codemod = pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.name)
each_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)


def own(codemod: Codemod) -> list[Fixture]:
    return [fixture for fixture in FIXTURES if fixture.codemod == codemod.name]


def acting(edits: Sequence[Edit]) -> list[Edit]:
    return [edit for edit in edits if edit.action != "keep"]


def test_a_codemod_is_one_file_named_after_it() -> None:
    files = {path.stem.replace("_", "-") for path in codemod_folder().glob("[!_]*.py")}
    assert {codemod.name for codemod in CODEMODS} == files
    assert {Path(fixture.folder).parent.name for fixture in FIXTURES} <= files | {"all"}


@each_codemod
def test_the_docstring_has_a_summary_and_the_fixed_headings(codemod: Codemod) -> None:
    summary, blank, *_ = codemod.doc().split("\n")
    assert summary.endswith(".") and summary[0].isupper() and len(summary) <= 120 and not blank
    places = [codemod.doc().find(f"\n\n{heading} ") for heading in HEADINGS]
    assert places == sorted(places) and places[0] > 0
    assert re.search(r"\nSource: https://\S+", codemod.doc())


@each_codemod
def test_what_reports_never_rewrites_and_says_so(codemod: Codemod) -> None:
    assert (codemod.does == "reports") == codemod.summary().startswith("Report ")
    assert (codemod.does == "rewrites") == (codemod.name in REWRITING)
    assert not (codemod.does == "reports" and codemod.needs_review())


def test_a_summary_names_what_is_chosen() -> None:
    dtype, attention = discover()["dtype"], discover()["attention"]
    for target in TARGETS:
        assert dtype.summary_for(target) == f"Choose {target.dtype} wherever bfloat16 is chosen."
        assert attention.summary_for(target) == f"Choose {target.attn} attention wherever FlashAttention is chosen."


@each_codemod
def test_grade_and_condition(codemod: Codemod) -> None:
    assert codemod.grade in ("safe", "review")
    assert codemod.when and not codemod.when.endswith(".")
    assert codemod.when == "always" or codemod.when.startswith(("with ", "where ")), "it stands behind the word runs"
    assert any(map(codemod.applies, TARGETS))
    if codemod.when == "always":
        assert all(map(codemod.applies, TARGETS))


@each_codemod
def test_fixtures_of_both_kinds_and_as_many_that_stay(codemod: Codemod) -> None:
    changed = [fixture for fixture in own(codemod) if fixture.changes]
    stays = [fixture for fixture in own(codemod) if not fixture.changes]
    assert len(stays) >= max(len(changed), 1)
    acts = [any(edit.codemod == codemod.name for edit in acting(f.result.edits)) for f in own(codemod)]
    assert any(acts) and not all(acts)


@each_codemod
def test_fixtures_that_stay_hold_what_the_codemod_looks_for(codemod: Codemod) -> None:
    words = [word.encode() for word in codemod.words]
    empty = [f.name for f in own(codemod) if not f.changes and not any(word in f.before.lower() for word in words)]
    assert not empty


@pytest.mark.parametrize("fixture", [f for f in FIXTURES if f.suffix in STRUCTURED], ids=lambda fixture: fixture.name)
def test_the_trigger_finds_all_settings_that_the_codemod_would_change(fixture: Fixture) -> None:
    """Looking at every statement and scalar must give no more than looking at those that a trigger matches."""
    narrow, everywhere = [], []
    for codemod in map(copy.copy, fixture.codemods):
        vars(codemod).update(visit=_nothing, inspect=_nothing)
        narrow.append(codemod)
        everywhere.append(copy.copy(codemod))
        vars(everywhere[-1]).update(words=("",), trigger=r"[^\n]+")
    found = fixture.rewrite(codemods=everywhere).edits
    assert acting(found) == acting(fixture.rewrite(codemods=narrow).edits)


def _nothing(*_: object) -> tuple[()]:
    return ()


@each_fixture
def test_codemods_do_not_need_each_other(fixture: Fixture) -> None:
    for name in {edit.codemod for edit in fixture.result.edits}:
        alone = fixture.rewrite(codemods=[discover()[name]]).edits
        assert acting(alone) == [edit for edit in acting(fixture.result.edits) if edit.codemod == name]


@each_fixture
def test_what_a_trigger_matches_holds_one_of_the_words(fixture: Fixture) -> None:
    """A file without any of the words is never read, so what is rewritten must not match without one."""
    for codemod in fixture.codemods:
        for hit in find_hits(fixture.before, [codemod]).get(codemod, []) if codemod.name in REWRITING else []:
            assert find_hits(fixture.before[hit.start : hit.end], [codemod])
