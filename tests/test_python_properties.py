"""Random modules of known shapes: the right places change, nothing else does, whatever encoding and white space."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from python_shapes import Module, modules

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.languages import SourceError, python
from verl_legacy_patch.languages.python import context
from verl_legacy_patch.languages.python.context import parse
from verl_legacy_patch.languages.python.source import Source
from verl_legacy_patch.rewrite import Rewritten, rewrite
from verl_legacy_patch.setting import Places, Span, moved
from verl_legacy_patch.target import make_target

TARGET = make_target()
CODEMODS = [discover()["attention"], discover()["dtype"]]


def rewritten(source: bytes) -> Rewritten:
    return rewrite("verl/module.py", source, CODEMODS, TARGET)


@settings(max_examples=120, deadline=None)
@given(modules())
def test_the_right_places_change_and_nothing_the_second_time(module: Module) -> None:
    result = rewritten(module.before)
    assert result.after == module.after
    assert not rewritten(result.after).changed


@settings(max_examples=40, deadline=None)
@given(modules())
def test_what_is_not_edited_stays_the_same_bytes_and_parses(module: Module) -> None:
    result = rewritten(module.before)
    edits = [edit for edit in result.edits if edit.replacement is not None]
    kept, position = [], 0
    for edit in edits:
        kept.append(result.before[position : edit.span.start])
        position = edit.span.end
    kept.append(result.before[position:])
    places = moved(edits)
    left = [result.after[a.end : b.start] for a, b in zip([Span(0, 0), *places], [*places, None], strict=True) if b]
    assert [*left, result.after[places[-1].end :]] == kept if places else result.after == result.before
    before, after = parse(Source(result.before)), parse(Source(result.after))
    assert [type(node) for node in ast.walk(before)] == [type(node) for node in ast.walk(after)]


@settings(max_examples=60, deadline=None)
@given(modules())
def test_both_parsers_and_the_shortened_file_lead_to_the_same_edits(module: Module) -> None:
    expected = rewritten(module.before).edits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "skeleton", lambda *_: None)
        assert rewritten(module.before).edits == expected
        patch.setattr(python, "parse_around", _unreadable)
        assert rewritten(module.before).edits == expected


def _unreadable(*_: object) -> ast.Module:
    raise SourceError("as if it were written for a newer Python")


@settings(max_examples=150, deadline=None)
@given(modules(), st.data())
def test_damaged_files_are_refused_or_read_and_never_crash(module: Module, data: st.DataObject) -> None:
    source = module.before
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(source)))
        end = min(len(source), start + data.draw(st.sampled_from([0, 0, 1, 5, 40])))
        odd = data.draw(st.sampled_from(ODD))
        source = source[:start] + odd + source[end:]
    try:
        result = rewritten(source)
    except SourceError:
        return
    assert not rewritten(result.after).changed


ODD = [
    b"", b"\0", b"\r", b"\n", b"\t", b"\f", b"\xff", b"\\", b"'", b'"""', b"(", b"}", b"#", b":", b"{{", 
    b"\xe2\x80\xa8", b"\n    ", b"if x:", b"f'{", b"lambda: ", b"match x:\n case 1:", b"@", b"yield ", b"*", b"bf16",
    b"= ", b"<<<<<<< HEAD\n",
]  # fmt: skip


@pytest.mark.parametrize("size", range(2600, 3100, 45))
def test_a_file_that_an_edit_makes_long_enough_to_shorten(size: int) -> None:
    source = b"def first():\n    return 1\n\n\nclass Second:\n    x = 1\n\n\n"
    source += b"def apply_monkey_patch(model):\n    return model\n"
    source += b"# " + b"x" * size + b"\n\n\ndef last():\n    return torch.bfloat16\n"
    every = [codemod for codemod in discover().values() if codemod.applies(TARGET)]
    after = rewrite("verl/module.py", source, every, TARGET).after
    assert len(after) > len(source) + 50 and b"torch.float32" in after


spans = st.builds(lambda start, size: Span(start, start + size), st.integers(0, 30), st.integers(0, 9))


@given(st.lists(spans, max_size=8), spans)
@example([Span(0, 9), Span(1, 2)], Span(5, 6))
def test_places_are_those_that_meet(many: list[Span], one: Span) -> None:
    places = Places(many)
    touching = sorted(span for span in many if span.start <= one.end and span.end >= one.start)
    assert places.touching(one) == touching
    assert places.overlapping(one) == [span for span in touching if span.start < one.end and span.end > one.start]
