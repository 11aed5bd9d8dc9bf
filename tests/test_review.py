"""The walk of --interactive: what is accepted is what is written, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import sample
from verl_legacy_patch.plan import FileChange, Plan
from verl_legacy_patch.review import SKIPPED, Review, suppressions
from verl_legacy_patch.rewrite import rewrite, sites
from verl_legacy_patch.setting import Edit, Span, splice
from verl_legacy_patch.target import Target


def test_everything_accepted_is_the_whole_plan(plan: Plan) -> None:
    review = Review(plan)
    review.decide_rest(True)
    assert review.current is None
    assert review.result().changes == plan.changes
    assert review.result().sites == plan.sites


def test_nothing_accepted_is_nothing_written(plan: Plan) -> None:
    review = Review(plan)
    review.decide_rest(False)
    result = review.result()
    assert result.changes == []
    assert {site.reason for site in result.sites if site.action == "keep"} >= {SKIPPED}
    assert not result.rewritten()


def test_undecided_is_skipped(plan: Plan) -> None:
    review = Review(plan)
    review.decide(True)
    assert [change.path for change in review.result().changes if change.before is not None] == [
        review.items[0].change.path
    ]


@pytest.mark.parametrize("name", ["dtype", "remove-padding", "flash-attn-import"])
def test_a_whole_codemod_at_once(plan: Plan, name: str) -> None:
    review = Review(plan)
    review.at = next(i for i, item in enumerate(review.items) if item.codemods == {name})
    review.decide_codemod(True)
    result = review.result()
    assert {edit.codemod for change in result.changes for edit in change.edits} == {name}
    added = {change.path for change in result.changes if change.before is None}
    assert bool(added) == (name == "flash-attn-import")


def test_a_whole_file_at_once(plan: Plan) -> None:
    review = Review(plan)
    path = next(
        item.change.path for item in review.items if sum(i.change.path == item.change.path for i in review.items) > 1
    )
    review.at = next(i for i, item in enumerate(review.items) if item.change.path == path)
    review.decide_file(True)
    modified = [change for change in review.result().changes if change.before is not None]
    assert modified == [change for change in plan.changes if change.path == path]


STEPS = st.lists(st.sampled_from(["y", "n", "a", "s", "f", "d", "u", "k"]), max_size=30)


@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_any_walk_gives_files_with_just_the_accepted_edits(plan: Plan, steps: list[str]) -> None:
    review = Review(plan)
    for step in steps:
        if step == "u":
            review.undo()
        elif step == "k":
            review.back()
        elif review.current is not None:
            {"y": review.decide, "n": review.decide, "a": review.decide_codemod, "s": review.decide_codemod,
             "f": review.decide_file, "d": review.decide_file}[step](step in "yaf")  # fmt: skip
    accepted = {n for n, yes in review.decided.items() if yes}
    wanted: dict[str, list[object]] = {}
    for number in accepted:
        item = review.items[number]
        assert item.hunk is not None
        wanted.setdefault(item.change.path, []).extend(item.hunk.edits)
    result = review.result()
    for change in result.changes:
        if change.before is not None:
            assert sorted(change.edits, key=lambda e: e.span) == sorted(wanted.pop(change.path), key=lambda e: e.span)  # type: ignore[attr-defined]
            assert change.after == splice(change.before, change.edits)
    assert not wanted
    places = sum(len(change.edits) for change in result.changes)
    assert len(result.rewritten()) == places


@given(steps=STEPS)
@settings(max_examples=30, deadline=None)
def test_undo_takes_back_each_step(plan: Plan, steps: list[str]) -> None:
    review = Review(plan)
    states = []
    for step in steps:
        if step in "ukd" or review.current is None:
            continue
        states.append((review.at, dict(review.decided)))
        review.decide(step in "yaf")
    while states:
        assert review.undo()
        assert (review.at, review.decided) == states.pop()
    assert not review.undo()


def test_skipped_places_are_kept_by_later_runs(plan: Plan) -> None:
    review = Review(plan)
    review.decide_rest(False)
    marked = suppressions(review.result(), review)
    assert marked.changes
    codemods = list(discover().values())
    for change in marked.changes:
        assert b"verl-patch: keep[" in change.after
        assert change.before is not None
        again = rewrite(change.path, change.after, codemods, Target())
        before = rewrite(change.path, change.before, codemods, Target())
        left = [edit for edit in again.edits if edit.replacement is not None]
        assert len(left) < sum(edit.replacement is not None for edit in before.edits)
        assert again.unused_suppressions == ()


def test_a_comment_never_lands_where_it_would_change_the_meaning(plan: Plan) -> None:
    review = Review(plan)
    review.decide_rest(False)
    for change in suppressions(review.result(), review).changes:
        for line in change.after.split(b"\n"):
            assert not line.rstrip().endswith(b"\\  # verl-patch")
            if b"verl-patch: keep" in line:
                assert b"\\" not in line.partition(b"# verl-patch")[2]


def test_sample_is_data() -> None:
    assert all(not Path(path).is_absolute() for path, _ in sample())


# --- a part of a file is checked as the whole was


def plan_of(path: str, text: str, *changes: tuple[str, str]) -> Plan:
    """Return a plan that puts new words in the place of old ones, whatever comes of it."""
    source = text.encode()
    edits = []
    for old, new in changes:
        at = source.index(old.encode())
        edits.append(Edit(Span(at, at + len(old)), "dtype", "rewrite", new))
    edits.sort(key=lambda edit: edit.span)
    change = FileChange(path, source, splice(source, edits), "100644", tuple(edits))
    return Plan(Target(), list(discover().values()), [change], list(sites(path, source, edits)))


def accepted(plan: Plan, *numbers: int) -> Plan:
    review = Review(plan)
    review.decided = {number: number in numbers for number in range(len(review.items))}
    return review.result()


FAR = "\n" * 12


def test_a_part_that_does_not_parse_is_a_problem() -> None:
    plan = plan_of("verl/a.py", f"x = [{FAR}1{FAR}]\n", ("[", "("), ("]", ")"))
    assert accepted(plan, 0, 1).changes == plan.changes
    half = accepted(plan, 0)
    assert half.changes == [] and half.rewritten() == []
    [problem] = half.problems
    assert problem.path == "verl/a.py" and "would not parse" in problem.message


def test_a_part_that_changes_something_else_is_a_problem() -> None:
    text = f"x = 1  #{FAR}y = 2{FAR}z = 3  # bfloat16\n"
    plan = plan_of("verl/a.py", text, ("1  #", "1 + ("), ("z = 3", "3)"))
    [problem] = accepted(plan, 0).problems
    assert "would not parse" in problem.message
    yaml = plan_of("verl/a.yaml", f"a: 1\nb: x{FAR}c: y\n", ("1", "1\nd: 2"), ("y", "z"))
    [problem] = accepted(yaml, 0).problems
    assert problem.path == "verl/a.yaml"


def test_a_part_that_the_next_run_would_change_again_is_a_problem() -> None:
    text = f"dtype = torch.bfloat16{FAR}other_dtype = 'bfloat16'\n"
    plan = plan_of("verl/a.py", text, ("torch.bfloat16", "(torch.bfloat16)"), ("'bfloat16'", "'float32'"))
    [problem] = accepted(plan, 0).problems
    assert "would rewrite its own result" in problem.message
    assert accepted(plan, 1).problems == []


def test_what_was_skipped_in_the_same_statement_is_no_problem() -> None:
    text = f"f(\n    dtype=torch.bfloat16,{FAR}    param_dtype='bfloat16',\n)\n"
    plan = plan_of("verl/a.py", text, ("torch.bfloat16", "getattr(torch, 'float32')"), ("'bfloat16'", "'float32'"))
    part = accepted(plan, 0)
    assert part.problems == []
    assert [change.after.count(b"bfloat16") for change in part.changes] == [1]


def test_every_part_of_the_sample_passes(plan: Plan) -> None:
    count = len(Review(plan).items)
    for chosen in (range(0, count, 2), range(1, count, 2), range(0, count, 3)):
        result = accepted(plan, *chosen)
        assert result.problems == []
        assert result.changes


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("verl/a.py", 'X = """one\ntwo dtype=bfloat16\n"""\n'),
        ("verl/a.yaml", "text: |\n  one\n  dtype: bfloat16\n  two\n"),
        ("verl/a.yaml", "dtype: bfloat16\n  and more\n"),
        ("a.sh", "cat <<'EOF'\ndtype=bfloat16\nEOF\n"),
        ("a.sh", "python main.py \\\n    dtype=bfloat16 \\\n    x=1\n"),
        ("verl/a.json", '{"dtype": "bfloat16"}\n'),
    ],
)
def test_no_comment_where_it_would_be_text(path: str, text: str) -> None:
    review = Review(plan_of(path, text, ("bfloat16", "float32")))
    review.decide_rest(False)
    assert suppressions(review.result(), review).changes == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("verl/a.py", 'X = """one\n"""; dtype = "bfloat16"\n'),
        ("verl/a.yaml", "a:\n  dtype: bfloat16\n"),
        ("a.sh", "export DTYPE=bfloat16\npython main.py\n"),
    ],
)
def test_a_comment_where_it_is_one(path: str, text: str) -> None:
    review = Review(plan_of(path, text, ("bfloat16", "float32")))
    review.decide_rest(False)
    [change] = suppressions(review.result(), review).changes
    comment = "  # verl-patch: keep[dtype]\n"
    assert change.after.decode().replace(comment, "\n") == text and comment in change.after.decode()
