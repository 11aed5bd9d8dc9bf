"""What every codemod promises, whoever writes it: documentation, fixtures, and triggers that hide nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence

import pytest
from cases import FIXTURES, Fixture

from verl_legacy_patch.capability import AMPERE, TURING, VOLTA, Capability
from verl_legacy_patch.codemod import Codemod, codemod_folder, discover
from verl_legacy_patch.gpus import GPUS
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.rewrite import rewrite
from verl_legacy_patch.setting import Edit
from verl_legacy_patch.target import ATTENTIONS, DTYPES, Target

#: Those of this repository; what another package in this environment registers is its own business.
CODEMODS = sorted((each for each in discover().values() if not each.foreign()), key=lambda codemod: codemod.name)
TARGETS = [Target(dtype, attn, g.name, g.capability) for g in GPUS.values() for dtype in DTYPES for attn in ATTENTIONS]
CAPABILITIES = sorted({*(gpu.capability for gpu in GPUS.values()), VOLTA, TURING, AMPERE, Capability(9, 0)})
REWRITING = {fixture.codemod for fixture in FIXTURES if fixture.changes}
#: In these a setting depends on its own text and place only, not on what else a trigger matches.
STRUCTURED = (".py", ".pyi", ".yaml", ".yml", ".json")
HEADINGS = ("What it does:", "Why:", "What it leaves alone:", "Source:")

each_codemod = pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.name)
each_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)


def own(codemod: Codemod) -> list[Fixture]:
    return [fixture for fixture in FIXTURES if fixture.codemod == codemod.name]


def file_of(codemod: Codemod) -> str:
    return f"codemods/{codemod.name.replace('-', '_')}.py"


def acting(edits: Sequence[Edit]) -> list[Edit]:
    return [edit for edit in edits if edit.action != "keep"]


def test_a_codemod_is_one_file_named_after_it() -> None:
    files = {path.stem.replace("_", "-") for path in codemod_folder().glob("[!_]*.py")}
    names = {codemod.name for codemod in CODEMODS}
    assert names == files, f"no file of the same name: {names - files}; no codemod of the same name: {files - names}"
    strays = {fixture.codemod for fixture in FIXTURES} - files - {"all"}
    assert not strays, f"folders in fixtures/ without a codemod of the name: {strays}"


@each_codemod
def test_the_docstring_has_a_summary_and_the_fixed_headings(codemod: Codemod) -> None:
    where = f"docstring of {file_of(codemod)}"
    summary, _, rest = codemod.doc().partition("\n")
    sentence = summary.endswith(".") and summary[:1].isupper() and len(summary) <= 120
    assert sentence and rest.startswith("\n"), f"{where}: first one line that is a sentence, then a blank line"
    places = {heading: codemod.doc().find(f"\n\n{heading} ") for heading in HEADINGS}
    missing = [heading for heading, place in places.items() if place < 0]
    assert not missing, f"{where}: no paragraph begins with {missing}"
    assert [*places.values()] == sorted(places.values()), f"{where}: the order is {' '.join(HEADINGS)}"
    assert re.search(r"\nSource: https://\S+", codemod.doc()), f"{where}: Source: needs an address, https://..."


@each_codemod
def test_what_reports_never_rewrites_and_says_so(codemod: Codemod) -> None:
    said = codemod.summary().startswith("Report ")
    assert (codemod.does == "reports") == said, f'{file_of(codemod)}: "Report ..." goes with does = "reports"'
    changed = codemod.name in REWRITING
    assert (codemod.does == "rewrites") == changed, (
        f"fixtures/{codemod.name}/: it {codemod.does}, but {'a' if changed else 'no'} case has an after.*"
    )
    assert not (codemod.does == "reports" and codemod.needs_review())


def test_a_summary_names_what_is_chosen() -> None:
    dtype, attention = discover()["dtype"], discover()["attention"]
    for target in TARGETS:
        assert dtype.summary_for(target) == f"Choose {target.dtype} wherever bfloat16 is chosen."
        assert attention.summary_for(target) == f"Choose {target.attn} attention wherever FlashAttention is chosen."


@each_codemod
def test_grade_and_condition(codemod: Codemod) -> None:
    where = f"{file_of(codemod)}: when"
    assert codemod.grade in ("safe", "review")
    assert codemod.when == "always" or re.match(r"(?:with|where) .*[^.]$", codemod.when), (
        f'{where} stands behind the word "runs": "always", or "with ..." or "where ..." without a full stop'
    )
    assert any(map(codemod.applies, TARGETS)), f"{where}: applies refuses every target"
    if codemod.when == "always":
        assert all(map(codemod.applies, TARGETS)), f"{where} says always, but applies refuses a target"


@each_codemod
def test_the_condition_in_words_is_that_of_the_code(codemod: Codemod) -> None:
    """The tables of the README take the one from ``when`` and the other from ``applies``."""
    targets = [Target(dtype, attn, None, each) for each in CAPABILITIES for dtype in DTYPES for attn in ATTENTIONS]
    runs = {target.capability for target in targets if codemod.applies(target)}
    said = re.fullmatch(r"with compute capability below (\d+)\.(\d+)", codemod.when)
    limit = Capability(int(said[1]), int(said[2])) if said else Capability(99, 0)
    expected = {each for each in CAPABILITIES if each < limit}
    assert runs == expected, (
        f"{file_of(codemod)}: when = {codemod.when!r}, but applies is true for {', '.join(map(str, sorted(runs)))}"
    )


@each_codemod
def test_fixtures_of_both_kinds_and_as_many_that_stay(codemod: Codemod) -> None:
    changed = [fixture for fixture in own(codemod) if fixture.changes]
    stays = [fixture for fixture in own(codemod) if not fixture.changes]
    where = f"fixtures/{codemod.name}/"
    assert len(stays) >= max(len(changed), 1), (
        f"{where}: {len(changed)} cases change and {len(stays)} stay (no after.*); as many must stay, at least one"
    )
    acts = [any(edit.codemod == codemod.name for edit in acting(f.result.edits)) for f in own(codemod)]
    assert any(acts), f"{where}: the codemod neither rewrites nor reports anything in any case"
    assert not all(acts), f"{where}: no case in which the codemod has nothing to rewrite or report"


@each_codemod
def test_fixtures_that_stay_hold_what_the_codemod_looks_for(codemod: Codemod) -> None:
    words = [word.encode() for word in codemod.words]
    empty = [f.name for f in own(codemod) if not f.changes and not any(word in f.before.lower() for word in words)]
    assert not empty, f"these prove nothing, no word of {codemod.words} is in their before.*: {empty}"


@pytest.mark.parametrize("fixture", [f for f in FIXTURES if f.suffix in STRUCTURED], ids=lambda fixture: fixture.name)
def test_the_trigger_finds_all_settings_that_the_codemod_would_change(fixture: Fixture) -> None:
    """Looking at every statement and scalar must give no more than looking at those that a trigger matches."""
    narrow, everywhere = [], []
    for codemod in map(copy.copy, fixture.codemods):
        vars(codemod).update(visit=_nothing, inspect=_nothing)
        narrow.append(codemod)
        everywhere.append(copy.copy(codemod))
        vars(everywhere[-1]).update(words=("",), trigger=r"[^\n]+")
    found, seen = (acting(fixture.rewrite(codemods=each).edits) for each in (everywhere, narrow))
    hidden = [(edit.codemod, fixture.before[slice(*edit.span)]) for edit in found if edit not in seen]
    assert found == seen, f"fixtures/{fixture.name}/: no match of the trigger reaches to {hidden}"


def _nothing(*_: object) -> tuple[()]:
    return ()


def test_what_is_reported_as_one_of_several_says_what_is_wrong_with_it() -> None:
    script = b"python3 -m verl.trainer.main_ppo --multirun actor_rollout_ref.rollout.name=sglang,vllm\n"
    [row] = rewrite("run.sh", script, [discover()["unsupported-backend"]], Target()).sites
    assert (row.action, row.before) == ("report", "sglang")
    assert row.reason.startswith("one of several values: ") and "7.5" in row.reason


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
