"""Cutting functions out of a file must never change what is said about the statements that stay."""

import ast
import random
import textwrap
import time
from pathlib import Path

import pytest

from verl_legacy_patch.languages.python import skeleton as module
from verl_legacy_patch.languages.python.context import locate
from verl_legacy_patch.languages.python.skeleton import skeleton
from verl_legacy_patch.languages.python.source import Source
from verl_legacy_patch.setting import Span

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_IT", 0)


def cut(source: str, keep: str = "KEEP") -> str | None:
    start = source.index(keep)
    text = skeleton(source.encode(), [Span(start, start + len(keep))])
    return None if text is None else text.decode()


def agrees(source: bytes, hits: list[Span]) -> bool:
    """Whether the statements at ``hits`` are the same in the skeleton as in the file, or it gives up."""
    read = Source(source)
    text = skeleton(read.utf8, hits)
    if text is None:
        return True
    try:
        tree = ast.parse(text.decode())
    except SyntaxError:
        return True  # the caller reads the whole file then
    return list(locate(read, tree, hits)) == list(locate(read, ast.parse(read.text), hits))


def test_functions_without_a_place_to_keep_become_an_assignment_on_their_line() -> None:
    source = (
        "import a\ndef f(\n    x,\n) -> int:\n    return 1\n\n"
        "class A:\n    def g(self):\n        KEEP\n\n    def h(self): ...\n"
    )
    text = cut(source)
    assert text is not None
    assert text.splitlines()[1] == "_=0"
    assert "return 1" not in text and "def h" not in text
    assert text.splitlines()[7:9] == source.splitlines()[7:9]
    assert text.count("\n") == source.count("\n")


def test_so_do_other_blocks_with_all_their_branches() -> None:
    source = (
        "z\nif a:\n    b\nelse:\n    c\n\nfor d in e:\n    f\n\n"
        "if g:\n    h\nelif i:\n    KEEP\n    while j:\n        k\n"
    )
    lines = (cut(source) or "").splitlines()
    assert [line for line in lines if line] == ["z", "_=0", "_=0", "if g:", "    h", "elif i:", "    KEEP", "    _=0"]
    assert [number for number, line in enumerate(lines) if line] == [0, 1, 6, 9, 10, 11, 12, 13]


@pytest.mark.parametrize(
    "source",
    [
        "if a:\n    def f():\n        pass\nelse:\n    def f():\n        KEEP\n",
        "try:\n    KEEP\nexcept ImportError:\n    def f():\n        return 1\n",
        "class A:\n    x = '''\n    def f():\n        '''\n    def g(self):\n        KEEP\n",
        'def f():\n    return """\ndef g():\n    KEEP\n"""\n',
        "def f():\n    return 1  # odd \\\nelse_ = 1\nKEEP = 2\n",
        "if a:\n    def f():\n        return 1  # odd \\\nelse:\n    KEEP = 2\n",
        "x = (a\n@b)\ndef f():\n    KEEP\n",
        "x = a \\\n@b\ndef f():\n    KEEP\n",
        "def f():\n    return [\n1,\n    ]\nKEEP\n",
        "def f():\n    return 1 + \\\nKEEP\n",
        "def f():\n    return 'a\\\ndef g(): ' + 'KEEP'\n",
        "@first(\n    1,\n)\n# why\n@second\ndef f():\n    KEEP\n",
        "@first(KEEP)\n@second\nasync def f():\n    return 1\n",
        "def f():\n    def g():\n        return 1\n    KEEP\n\ndef h():\n    return 2\n",
        "match a:\n    case 1:\n        def f():\n            return 1\n    case 2:\n        KEEP\n",
        "def f():\r\n    return 1\r\n\r\ndef g():\r\n    KEEP\r\n",
        "def f():\n    return f'{a:{b}} {{' \n\ndef g():\n    KEEP\n",
        "def f(): return 1\ndef g(): KEEP\n",
        "if a:\n    x = 1\nelif b:\n    KEEP\nelse:\n    y = 2\n",
        "if a:\n    x = 1\n# else:\nelse:\n    KEEP\n",
        "if a:\n    x = 1\nelse_ = KEEP\n",
        "if a:\n    '''\nelse:\n'''\nelse:\n    KEEP\n",
        "for a in b:\n    c\nelse:\n    KEEP\n",
        "while a:\n    if b:\n        c\n    else:\n        d\nelse:\n    KEEP\n",
        "with a as b, \\\n        c:\n    d\nwith e:\n    KEEP\n",
        "async def f():\n    async with a:\n        b\n    async for c in d:\n        KEEP\n",
        "try:\n    KEEP\nexcept E:\n    if a:\n        raise\nexcept F:\n    with b:\n        pass\nfinally:\n    c\n",
        "if (a\nand b):\n    c\nelse:\n    KEEP\n",
        "if a: b\nelse: KEEP\n",
        "x = [\n    a\n    for a in b\n    if a\n]\nKEEP\n",
        "x = y[\n    1\n    if a else b:\n    2\n]\nKEEP\n",
        "x = (\n    1\n    if a else lambda:\n    2\n)\nKEEP\n",
        'x\n@first("""\ndef f():\n    return 1\n""")\ndef g(KEEP):\n    return 2\n',
        "if a:\n    @b\n    def\\\n f():\n        c\nelse:\n    @b\n    class d:\n        e\n    KEEP\n",
        "if a:\n    @b\n    async  def f():\n        c\nelse:\n    @b\n    class d:\n        e\n    KEEP\n",
        "if a:\n    @b\n    async \\\n  def f():\n        c\nelse:\n    @b\n    class d:\n        e\n    KEEP\n",
        "if a:\n    def f():\n        return 1\n\n    @KEEP\n    def g():\n        return 2\n",
    ],
)
def test_the_statements_that_stay_are_the_same(source: str) -> None:
    start = source.index("KEEP")
    assert agrees(source.encode(), [Span(start, start + 4)])


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n\treturn 1\nKEEP\n",
        "def f():\r    return 1\rKEEP\r",
        "def f():\n    return f'{a['b']}'\nKEEP\n",
        'def f():\n    return f"""{a["""\ndef g():\n"""]}"""\nKEEP\n',
        "def f():\n    return 'never closed\nKEEP\n",
        "x = 'a'\n'''\n# \\\n'''\n# \\\nKEEP\n",
    ],
)
def test_it_gives_up_on_what_it_does_not_know(source: str) -> None:
    assert cut("'''odd'''\n" + source) is None


@pytest.mark.parametrize("hit", range(5))
@pytest.mark.parametrize("indent", ["", "    "])
def test_decorators_stay_together_with_what_they_decorate(hit: int, indent: str) -> None:
    lines = ["@first", "@second(\n    1,\n)", "# why", "@third", "async def f():\n    return 1"]
    lines[hit] += "  # KEEP"
    body = "\n".join(["x = 1", *lines, "def g():", "    return 2", "y = 1\n"])
    text = cut("class A:\n" + textwrap.indent(body, indent) if indent else body)
    assert text is not None
    ast.parse(text)
    assert text.count("@") == 3 and "return 1" in text and "return 2" not in text


def test_braces_in_f_strings_take_no_time() -> None:
    odd = "f'" + "{{a}} " * 4000 + "{'\n"
    assert cut(f"'''x'''\nx = {odd}KEEP\n") is None


@pytest.mark.parametrize(
    ("piece", "hits"),
    [("@a\n", 1), ("a\n    @a\n", 1), ("def f(a):\n    return a\n", 4000), ("try:\n    a\nexcept B:\n    c\n", 4000)],
)
def test_many_blocks_and_hits_take_no_time(piece: str, hits: int) -> None:
    source = f"x\n{piece * 20_000}KEEP\n".encode()
    keep = [Span(start, start + 1) for start in range(0, len(source), len(source) // hits)]
    start = time.process_time()
    assert skeleton(source, keep) is not None
    assert time.process_time() - start < 1.5  # each of them took three seconds or more


def test_the_projects_own_files_at_random_places() -> None:
    draw = random.Random(0)
    for path in sorted(ROOT.glob("[cvt]*/**/*.py")):
        source = path.read_bytes()
        for count in (1, 1, 3):
            starts = [draw.randrange(max(1, len(source) - 9)) for _ in range(count)]
            hits = [Span(start, start + draw.randrange(1, 9)) for start in sorted(starts)]
            assert agrees(source, hits), (path, hits)
