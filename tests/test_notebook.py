"""Notebooks: code of cells by language, and where it stands in the file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.languages.notebook import cells
from verl_legacy_patch.rewrite import rewrite
from verl_legacy_patch.setting import Span
from verl_legacy_patch.target import Target


def notebook(*sources: str | list[str]) -> bytes:
    every = [{"cell_type": "code", "outputs": [{"text": ["dtype=bf16\n"]}], "source": source} for source in sources]
    return json.dumps({"cells": every, "nbformat": 4}, indent=1, ensure_ascii=False).encode()


def code(source: str) -> list[tuple[str, str]]:
    return [(cell.name, cell.text) for cell in cells(notebook(source.splitlines(keepends=True)))]


@pytest.mark.parametrize(
    ("source", "python", "shell"),
    [
        ("x = 1\n", "x = 1\n", ""),
        ("!ls -l\nx = 1", "pass  \nx = 1", " ls -l\n     "),
        ("if x:\n    !ls \\\n  a=1\ny", "if x:\n    pass \n     \ny", "     \n     ls \\\n  a=1\n "),
        ("%%time\nx = 1", "pass  \nx = 1", " %time\n     "),
        ("x = 5 %2\n", "x = 5 %2\n", ""),
    ],
)
def test_commands_and_python_are_told_apart(source: str, python: str, shell: str) -> None:
    assert code(source) == [("cell.py", python), *([("cell.sh", shell)] if shell else [])]


def test_a_cell_of_a_script_is_all_shell() -> None:
    assert code("%%bash\npython train.py a=1\n") == [("cell.sh", "      \npython train.py a=1\n")]


@pytest.mark.parametrize("source", [b"[]", b"{", b'{"cells": 1}', b'{"cells": [{"cell_type": "code"}]}', b"\xff"])
def test_what_is_no_notebook_has_no_cells(source: bytes) -> None:
    assert list(cells(source)) == []


def test_a_file_in_ascii_escapes_is_left_alone_where_a_string_cannot_be_found() -> None:
    source = json.dumps({"cells": [{"cell_type": "code", "source": ["x = 'ü'\n"]}]}).encode()
    assert list(cells(source)) == []


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r!%"), max_size=8), min_size=1, max_size=4))
def test_every_character_is_found_again(lines: list[str]) -> None:
    source = [f"{line}é\n" for line in lines]
    raw = notebook("".join(source), source)
    for cell in cells(raw):
        for at, character in enumerate(cell.text):
            start = len(cell.text[:at].encode())
            span = cell.locate(Span(start, start + len(character.encode())))
            assert json.loads(b'"' + raw[slice(*span)] + b'"') == character


def test_what_cells_choose_is_reported_and_nothing_is_rewritten() -> None:
    source = notebook(["load(dtype=torch.bfloat16)\n"], "!python -m verl.trainer.main rollout.dtype=bf16\nx = (")
    result = rewrite("examples/train.ipynb", source, list(discover().values()), Target())
    assert not result.changed
    assert [(site.codemod, site.action, site.before) for site in result.sites] == [
        ("dtype", "report", "torch.bfloat16"),
        ("dtype", "report", "bf16"),
    ]
    assert rewrite("docs/train.ipynb", source, list(discover().values()), Target()).sites[0].reason.startswith("docum")
