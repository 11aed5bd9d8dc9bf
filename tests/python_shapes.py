"""Random Python modules with a known right answer: text in which each value that chooses is marked.

``Marked`` text holds both versions; what is not marked is the same in both. The strategies are a grammar of the shapes
that occur in checkouts: an expression whose value is chosen may be wrapped in everything that passes a choice on, one
that only names stands in comparisons, tables, messages and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Marked:
    """The text before and after a rewrite."""

    before: str
    after: str

    def __add__(self, other: Marked | str) -> Marked:
        other = plain(other)
        return Marked(self.before + other.before, self.after + other.after)

    def __radd__(self, other: str) -> Marked:
        return plain(other) + self

    def replace(self, old: str, new: str) -> Marked:
        """Replace text in both versions."""
        return Marked(self.before.replace(old, new), self.after.replace(old, new))


def plain(text: Marked | str) -> Marked:
    """Return text that is the same in both versions."""
    return text if isinstance(text, Marked) else Marked(text, text)


def join(parts: list[Marked | str], separator: str = "") -> Marked:
    """Join texts."""
    result = plain("")
    for index, part in enumerate(parts):
        result = result + (separator if index else "") + part
    return result


SPELLINGS = [("bfloat16", "float32"), ("bf16", "fp32"), ("Bfloat16", "float32"), ("BF16", "FP32")]
QUOTES = ['"', "'", '"""', "'''"]
NAMES = st.sampled_from(["cfg", "model", "größe", "x1", "_private", "self"])
KEYS = st.sampled_from(["dtype", "param_dtype", "ROLLOUT_DTYPE", "torch_dtype", "paramDtype"])
OTHER_KEYS = st.sampled_from(["name", "label", "tag", "kind"])
#: White space that may stand between tokens inside of brackets.
GAPS = st.sampled_from(["", "", "", " ", "  ", "\n    ", "  # bf16, dtype='bfloat16'\n", " \\\n", "\n\n"])
TESTS = st.sampled_from(["cfg.fast", "not x1", "role == 'actor'", "x1 > 3", "isinstance(x1, str)", "len(role)"])


@st.composite
def strings(draw: Draw) -> Marked:
    """Return a string literal that chooses."""
    quote, prefix = draw(st.sampled_from(QUOTES)), draw(st.sampled_from(["", "", "r", "u", "R"]))
    return prefix + quote + Marked(*draw(st.sampled_from(SPELLINGS))) + quote


def names(draw: Draw) -> str:
    """Return a value that only names, as code or as a string."""
    return str(draw(st.sampled_from(['"bfloat16"', "'bf16'", "torch.bfloat16", '"BF16"'])))


@st.composite
def chosen(draw: Draw, depth: int = 3) -> Marked:
    """Return an expression that chooses where it stands under a dtype key."""
    kind = draw(st.integers(0, 8 if depth else 1))
    gap = draw(GAPS)
    if kind == 0:
        return draw(strings())
    if kind == 1:
        return Marked("torch.bfloat16", "torch.float32")
    inner = draw(chosen(depth - 1))
    name, test = draw(NAMES), draw(TESTS)
    if kind == 2:
        return "(" + gap + inner + gap + ")"
    if kind == 3:
        return f"({name}.get({gap}{draw(key_strings())}, " + inner + gap + "))"
    if kind == 4:
        return f"(None if {test} else " + gap + inner + ")"
    if kind == 5:
        return "(" + inner + f" if {test}{gap} else {name})"
    if kind == 6:
        return f"({name} or{gap or ' '}" + inner + ")"
    if kind == 7:
        return f"getattr({name}, {draw(key_strings())},{gap}" + inner + ",)"
    return f"load({name}, {draw(KEYS)}={gap}" + inner + f"{gap}, name='bf16')"


@st.composite
def key_strings(draw: Draw) -> str:
    """Return a dtype key as a string literal."""
    quote = draw(st.sampled_from(["'", '"']))
    return quote + draw(KEYS) + quote


@st.composite
def naming(draw: Draw) -> str:
    """Return an expression that names bfloat16 and chooses nothing."""
    value, name, gap = names(draw), draw(NAMES), draw(GAPS)
    return str(
        draw(
            st.sampled_from(
                [
                    f"({name}.dtype =={gap}{value})",
                    f"({value}{gap} in {name}.dtypes)",
                    f"({name}.dtype is not{gap or ' '}{value})",
                    f"({name}.dtype in [{gap}{value},{gap}'fp16'])",
                    f"{{'bf16': {gap}torch.bfloat16, 'fp32': torch.float32}}",
                    f"{{torch.bfloat16:{gap} 'bf16'}}[{name}.dtype]",
                    f"[{value}, torch.float16]",
                    f"print('dtype=bfloat16',{gap}{value})",
                    f"logger.info(f'dtype=bfloat16 {{{name}}} {{{name}.dtype!r:>8}}')",
                    f"{name}.startswith({gap}'bf16')",
                    f"table[{gap}{value}{gap}]",
                    f"run(name='bf16', title={gap}'dtype=bfloat16')",
                    f"hasattr(torch, {gap}'bfloat16')",
                    f"isinstance({name},{gap} torch.BFloat16Tensor)",
                ]
            )
        )
    )


@st.composite
def simple(draw: Draw) -> Marked:
    """Return a simple statement."""
    kind = draw(st.integers(0, 13))
    name, key, gap = draw(NAMES), draw(KEYS), draw(GAPS)
    if kind >= 9:
        text = draw(naming())
        return plain(draw(st.sampled_from([f"x1 = {text}", f"assert {text}, 'dtype=bf16'", text, f"y = not {text}"])))
    value = draw(chosen())
    torch = Marked("torch.bfloat16", "torch.float32")
    statements: list[Marked] = [
        f"{key} = " + value,
        f"{name}.{key}: str = " + value,
        f"{name}['{key}'] = " + value,
        f"{name} = load({gap}{name}, {key} ={gap} " + value + f"{gap})",
        f"{name} = {{{gap}'{key}': " + value + f",{gap} 'name': 'bf16'}}",
        f"(x1 := load({key}=" + value + "))",
        f"{name} = model.to(" + gap + torch + f"{gap})",
        f"{name} = ({name}{gap}.{gap}" + Marked("bfloat16", "float") + f"{gap}())",
        f"command = f'run {{{name}}}.{key}=" + Marked("bf16", "fp32") + " name=bf16'",
    ]
    return statements[kind]


#: A line with its depth. What follows an end of line inside of a statement is not indented.
Line = tuple[int, Marked]


@st.composite
def blocks(draw: Draw, depth: int = 2) -> list[Line]:
    """Return the statements of a block."""
    lines: list[Line] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 8)) if depth else 0
        comment = draw(st.sampled_from(["", "", "  # dtype=bf16", "  # größe"]))
        if kind <= 3:
            start = draw(st.sampled_from(["", "", "x1 = 3; ", "if x1: ", "for x1 in y: "]))
            more = "; " + draw(simple()) if draw(st.integers(0, 5)) == 0 else ""
            lines.append((0, start + draw(simple()) + more + comment))
            continue
        if kind == 7:
            lines.append((0, plain(draw(st.sampled_from(_FROZEN)))))
            lines += [(1 + level, plain(line.before)) for level, line in draw(blocks(depth - 1))]
            continue
        if kind == 8:
            lines += _filler(draw(st.sampled_from(_FILLERS))) * draw(st.integers(1, 12))
            continue
        lines += draw(st.sampled_from([[], [(0, plain(""))], [(0, plain("# torch.bfloat16")), (0, plain(""))]]))
        for level, header in draw(_compound()):
            lines.append((level, header + comment))
            if not header.before.startswith(("match", "@")):
                lines += [(level + 1 + inner, line) for inner, line in draw(blocks(depth - 1))]
    return lines


#: Headers of blocks in which every value only names.
_FROZEN = [
    "if x1 == 'bf16':",
    "if (\n    x1 is not None\n    and x1 in ('bf16', torch.bfloat16)  # bf16\n):",
    "if torch.cuda.get_device_capability()[0] >= 8:",
    "if strategy == 'megatron':",
    "class VeOmniConfig:",
    "def supports_bf16():",
    "while x1.dtype is torch.bfloat16:",
]
#: Definitions without anything to find, to make files long; odd enough to lead astray whoever cuts them out by text.
#: A bar begins a line that is not indented with the others, because it goes on with the one before.
_FILLERS = r'''
def f(a, b=(
|    1,
|), *c):
    """Docs.
|
|def g():
|class A:
|    """
    return [
|1,
|]

class B:
    x = 1
# comment
    def f(self): return 'def g():'
    y = {
|  'a': 1}

@a
@b(
|  1)
async def h():
    r"""
|async def i():
|"""
    await x
    # """

def j():
    s = 'it\'s' \
|'x' + \
|f'{x}'
    if s:
        pass
    else:
        def k(): ...

def m():
    return f'{x["a"]!r:>{w}} {{}}' + "#" + '"""' + rf"\d{{3}}"

def n(): pass
def o(): pass
class P: pass
class Q(
|    P
|):
    def r(self):
        pass

def s(x): return {
|    "def t():": lambda: x,
|  # def u():
|}; y = 3

if x:
    def t(): return """
|class U:
|"""
else:
    class V(object): """Docs"""

for x in y:
    class W:
        def v(self):
            @c
            def w(): yield
            return w
    z = 3
'''.strip().split("\n\n")


def _filler(text: str) -> list[Line]:
    lines: list[Line] = []
    for line in text.split("\n"):
        if line.startswith("|"):
            level, before = lines.pop()
            lines.append((level, before + "\n" + line[1:]))
        else:
            bare = line.lstrip(" ")
            lines.append(((len(line) - len(bare)) // 4, plain(bare)))
    return lines


@st.composite
def _compound(draw: Draw) -> list[Line]:
    """Return the headers of a compound statement."""
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return [(0, plain(f"if {draw(naming())} is None:"))]
    if kind == 1:
        return [(0, plain("if x1:")), (0, plain("elif x1 == 3:")), (0, plain("else:"))]
    if kind == 2:
        iterated = draw(st.sampled_from(["(torch.bfloat16, 1, torch.float32)", "[1, 2]", "x1"]))
        return [(0, plain(f"for x1 in {iterated}:")), (0, plain("else:"))]
    if kind == 3:
        return [(0, "with load(" + draw(KEYS) + "=" + draw(chosen(1)) + ") as x1, x1:")]
    if kind == 4:
        handlers = draw(st.sampled_from([["except (A, B) as e:"], ["finally:"], ["except A:", "else:", "finally:"]]))
        return [(0, plain("try:")), *((0, plain(handler)) for handler in handlers)]
    if kind == 5:
        return [(0, plain("match x1:")), (1, plain("case 1 | {'a': 3}:")), (1, plain("case [*_] if x1:"))]
    decorators = [(0, f"@cached({draw(KEYS)}=" + draw(chosen(1)) + ")")] * draw(st.integers(0, 2))
    if kind == 6:
        return [*decorators, (0, f"class A(Base, {draw(KEYS)}=" + draw(chosen(1)) + ", name='bf16'):")]
    name, prefix = draw(st.sampled_from(["load", "größer"])), draw(st.sampled_from(["def", "async def"]))
    parameters = f"self, {draw(KEYS)}=" + draw(chosen(1)) + ", *args, label='bf16', **kwargs"
    return [*decorators, (0, f"{prefix} {name}(" + parameters + "):")]


@dataclass(frozen=True)
class Module:
    """A module as bytes, before and after."""

    before: bytes
    after: bytes


@st.composite
def modules(draw: Draw) -> Module:
    """Return a whole module in one of the encodings, line endings and indentations that occur."""
    indent = draw(st.sampled_from(["    ", "  ", "\t"]))
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    encoding, start = draw(
        st.sampled_from(
            [
                ("utf-8", ""),
                ("utf-8", ""),
                ("utf-8-sig", ""),
                ("latin-1", "# -*- coding: latin-1 -*-\n"),
                ("utf-8", "#!/usr/bin/env python\n# coding: utf-8\n"),
            ]
        )
    )
    end = draw(st.sampled_from(["\n", "\n", "", "\n\n# bf16"]))
    lines = [indent * level + line if line.before else line for level, line in draw(blocks())]
    text = (start + join([plain("import torch"), *lines], "\n") + end).replace("\n", newline)
    return Module(text.before.encode(encoding), text.after.encode(encoding))
