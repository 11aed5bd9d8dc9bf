"""Comments that keep a line as it is, in every language, and those that keep nothing."""

from __future__ import annotations

import re

import pytest

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.rewrite import rewrite
from verl_legacy_patch.suppression import Unused, complaint
from verl_legacy_patch.target import make_target

CODEMODS = [codemod for codemod in discover().values() if codemod.applies(make_target())]


def kept(path: str, text: str) -> bool:
    """Return whether a text stays as it is although without its comments it would not."""
    without = re.sub("(verl-patch):", r"\1 ", text, flags=re.IGNORECASE)
    assert rewrite(path, without.encode(), CODEMODS, make_target()).changed
    return not rewrite(path, text.encode(), CODEMODS, make_target()).changed


def idle(path: str, text: str) -> list[tuple[int, str, bool]]:
    rows = rewrite(path, text.encode(), CODEMODS, make_target()).unused_suppressions
    return [(row.line, row.codemod, row.wrong) for row in rows]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep\n"),
        ("verl/a.py", "A = dict(dtype='bf16')  # noqa: E501 # verl-patch: keep\n"),
        ("verl/a.py", "A = dict(dtype='bf16')#verl-patch:keep[dtype]\r\n"),
        ("verl/a.py", "A = dict(\n    dtype='bf16',  # Verl-Patch: Keep [dtype, attention]\n)\n"),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep[attention] # verl-patch: keep[dtype]\n"),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep (measured: no difference)"),
        ("verl/a.py", 'CMD = """\npython train.py rollout.dtype=bfloat16  # verl-patch: keep\n"""\n'),
        ("verl/a.py", "from flash_attn.bert_padding import pad_input  # verl-patch: keep\n"),
        ("verl/a.yaml", "dtype: bf16 # verl-patch: keep\n"),
        ("verl/a.yaml", "a: {dtype: bf16} # verl-patch: keep[dtype]\r\nb: 1\r\n"),
        ("run.sh", "python t.py rollout.dtype=bf16 # verl-patch: keep\n"),
        ("run.sh", "python t.py \\\n  rollout.dtype=bf16 `# verl-patch: keep` \\\n  x=1\n"),
        ("run.sh", "A=(\n  rollout.dtype=bf16 # verl-patch: keep\n)\npython t.py ${A[@]}\n"),
        ("run.sh", "python - <<'EOF'\nA = dict(dtype='bf16')  # verl-patch: keep\nEOF\n"),
        ("bin/run", "#!/bin/bash\npython t.py rollout.dtype=bf16 # verl-patch: keep[dtype]\n"),
    ],
)
def test_keeps_in_every_language(path: str, text: str) -> None:
    assert kept(path, text)
    assert not [row for row in idle(path, text) if row[1] != "attention"]


@pytest.mark.parametrize(
    ("path", "text", "rows"),
    [
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep[attention]\n", [(1, "attention", False)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep[dtpe]\n", [(1, "dtpe", False)]),
        ("verl/a.py", "# verl-patch: keep\nA = dict(dtype='bf16')\n", [(1, "", False)]),
        ("verl/a.py", "A = dict(dtype='bf16')\n# verl-patch: keep\n", [(2, "", False)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: kep\n", [(1, "", True)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch:\n", [(1, "", True)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep[]\n", [(1, "", True)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keep[dtype\n", [(1, "", True)]),
        ("verl/a.py", "A = dict(dtype='bf16')  # verl-patch: keepers\n", [(1, "", True)]),
        ("a.yaml", "# verl-patch: keep\r\ndtype: bf16\r\n", [(1, "", False)]),
    ],
)
def test_comments_that_keep_nothing_here(path: str, text: str, rows: list[tuple[int, str, bool]]) -> None:
    assert not kept(path, text)
    assert idle(path, text) == rows


def test_only_the_part_that_is_not_used_is_named() -> None:
    text = "A = dict(dtype='bf16')  # verl-patch: keep[dtype, attention]\n"
    assert idle("verl/a.py", text) == [(1, "attention", False)]
    assert idle("verl/a.py", "X = 1  # verl-patch: keep[dtype, attention]\n") == [
        (1, "dtype", False),
        (1, "attention", False),
    ]


def test_a_string_about_such_comments_is_no_comment_that_is_not_used() -> None:
    text = '"""Write ``# verl-patch: keep`` on the line,\nor # verl-patch: kept.\n"""\n\nX = "# verl-patch: keep"\n'
    assert idle("verl/a.py", text) == []
    assert idle("verl/a.py", text + "Y = 1  # verl-patch: keep\n") == [(6, "", False)]


def test_a_file_that_is_only_read_for_its_comment_may_have_any_content() -> None:
    assert idle("verl/a.py", "def (:\n    # verl-patch: keep\n") == [(2, "", False)]
    assert idle("a.yaml", "a: [\n# verl-patch: keep\n") == [(2, "", False)]
    assert rewrite("a.py", b"\xff\xfe # verl-patch: keep\n", CODEMODS, make_target()).unused_suppressions


def test_what_a_kept_line_chooses_is_shown_as_kept() -> None:
    [site] = rewrite("a.yaml", b"dtype: bf16 # verl-patch: keep\n", CODEMODS, make_target()).sites
    assert (site.action, site.reason) == ("keep", "kept by a comment on the line")


@pytest.mark.parametrize(
    ("row", "all_ran", "said"),
    [
        (Unused(1, "verl-patch: keep"), True, "keeps nothing, remove it"),
        (Unused(1, "verl-patch: keep"), False, ""),
        (Unused(1, "", "dtype"), False, "'verl-patch: keep[dtype]' keeps nothing"),
        (Unused(1, "", "attention"), False, ""),
        (Unused(1, "", "attention"), True, "'verl-patch: keep[attention]' keeps nothing"),
        (Unused(1, "", "atention"), False, "did you mean attention?"),
        (Unused(1, "", "zzz"), False, "see verl-patch codemods"),
        (Unused(1, "verl-patch: kep", wrong=True), False, "'verl-patch: kep' keeps nothing: write"),
    ],
)
def test_what_is_said_about_them(row: Unused, all_ran: bool, said: str) -> None:
    """A codemod that was left out on the command line may need its comment another time."""
    text = complaint(row, {"dtype"}, ["dtype", "attention"], all_ran=all_ran)
    assert (said in text) if said else text == ""
