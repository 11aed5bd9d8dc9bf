"""How deeply code is nested, told before LibCST's parser sees it: that one recurses in native code.

A few thousand brackets or operators inside of each other overflow its stack and kill the process, which nothing can
catch. Python's own parser stops at 200 brackets, and nobody writes a hundred, so code above a generous limit is
refused.
"""

from __future__ import annotations

import re

from verl_legacy_patch.languages.python.lean import cst, native

_LIMIT = 1000
#: Shorter code cannot reach the depth that is too much.
_SHORT = 2000
_TOKEN = re.compile(
    r"#[^\n]*|(?P<string>(\"\"\"|''').*?\2|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<end>[,;\n])|(?P<elif>\belif\b)|(?P<deeper>\b(?:not|lambda|if|or|and|await)\b|\.(?=\w)|[-+*/%@&|^~<>=!]+)",
    re.DOTALL,
)


def parse_module(text: str) -> cst.Module:
    """Parse a module with LibCST.

    Raises:
        RecursionError: it is nested too deeply to try.
        libcst.ParserSyntaxError: it is not Python to LibCST.
    """
    if len(text) > _SHORT and too_deep(text):
        raise RecursionError("nested too deeply")
    module: cst.Module = native.parse_module(text, encoding="utf-8")
    return module


def too_deep(text: str) -> bool:
    """Return whether code may nest more than a thousand brackets, operators or ``elif`` branches."""
    counts = [0]  # how much hangs together so far, for each open bracket
    total = branches = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "open":
            counts[-1] += 1
            counts.append(0)
            total += 1
        elif kind == "close":
            if len(counts) > 1:
                total -= counts.pop()
        elif kind == "end":
            if match[0] != "\n" or len(counts) == 1:
                total -= counts[-1]
                counts[-1] = 0
        elif kind in ("deeper", "string"):
            counts[-1] += 1
            total += 1
        elif kind == "elif":
            branches += 1
        if total > _LIMIT or branches > _LIMIT:
            return True
    return False
