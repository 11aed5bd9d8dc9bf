"""Shell scripts: what chooses, what only names, and that an edit changes one argument and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import settings as configure
from hypothesis import strategies as st

from verl_legacy_patch.languages.shell import parse, reparse, same_shape, settings
from verl_legacy_patch.languages.shell.commands import commands
from verl_legacy_patch.setting import Edit, Setting, Span

TRIGGER = re.compile(rb"bf16|bfloat16|flash_attention_2|use_torch_compile|enable_prefix_caching")


def found(script: str | bytes) -> list[Setting]:
    source = script if isinstance(script, bytes) else script.encode()
    result = list(settings(source, [Span(*match.span()) for match in TRIGGER.finditer(source)]))
    for setting in result:
        written = source[setting.span.start : setting.span.end].decode("utf-8", "replace")
        assert written == setting.value or setting.advice
    return result


def chosen(script: str | bytes) -> list[tuple[str, str]]:
    return [(".".join(s.path), s.value) for s in found(script) if not s.names]


def named(script: str | bytes) -> list[tuple[str, str]]:
    return [(".".join(s.path), s.names) for s in found(script) if s.names]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("python x a.b.dtype=bf16", "a.b.dtype"),
        ("python x \\\n  a.b=c \\\n  +a.dtype=bf16 \\\n  e.f=g", "a.dtype"),
        ("python x \"+a.dtype=bf16\" '++b.c=1'", "a.dtype"),
        ("python x '++a.dtype=\"bf16\"'", "a.dtype"),
        ('python x "a.dtype=\\"bf16\\""', "a.dtype"),
        ('python x a.dtype="bf16" b=1', "a.dtype"),
        ("python x $'a.dtype=bf16'", "a.dtype"),
        ("python x `# flash_attention_2` a.dtype=bf16 `# bf16`\\\n  b=1", "a.dtype"),
        ("python x '+a.m={param_dtype: bf16, reduce_dtype: x}'", "a.m.param_dtype"),
        ('python x "a.m={param_dtype: ${D:-bf16}}"', "a.m.param_dtype"),
        ("python x a.dtype=${DTYPE:-bf16}", "a.dtype"),
        ('python x a.dtype="${DTYPE:-bf16}"', "a.dtype"),
        ("python x a.dtype=${A:-${B:-bf16}}", "a.dtype"),
        ("python x '+a.dtype=${oc.env:D,bf16}'", "a.dtype"),
        ("python x ${FAST:+a.dtype=bf16}", "a.dtype"),
        ("python x --dtype bf16 --seed 1", "dtype"),
        ("python x --dtype=bf16", "dtype"),
        ("python x --kv-cache-dtype=bf16", "kv_cache_dtype"),
        ("python x --dtype ${D:-bf16}", "dtype"),
        ('python x --hf-overrides \'{"torch_dtype": "bf16"}\'', "hf_overrides.torch_dtype"),
        ("ARGS=( a.dtype=bf16 b=1 )", "a.dtype"),
        ("ARGS=(\\\na.dtype=bf16\n)", "a.dtype"),
        ("ARGS+=(\n  # bf16\n  '+a.dtype=bf16'\n)", "a.dtype"),
        ("ARGS=(--dtype bf16)", "dtype"),
        ("declare -A CFG=([dtype]=bf16 [x]=1)", "CFG.dtype"),
        ('COMMON="a.b=1 a.dtype=bf16"', "a.dtype"),
        ("DTYPE=bf16", "DTYPE"),
        ("export ROLLOUT_DTYPE='bf16' X=1", "ROLLOUT_DTYPE"),
        ('dtype=${1:-"bf16"}', "dtype"),
        (': "${DTYPE:=bf16}"', "DTYPE"),
        ("VLLM_DTYPE=bf16 python x", "VLLM_DTYPE"),
        ("env VLLM_DTYPE=bf16 python x", "VLLM_DTYPE"),
        ("f() { local dtype=bf16; }", "dtype"),
        ("for i in 1 2; do python x a.dtype=bf16; done", "a.dtype"),
        ("X=$(python x a.dtype=bf16)", "a.dtype"),
        ('X="got $(python x a.dtype=bf16)"', "a.dtype"),
        ("bash -c 'python x a.dtype=bf16'", "a.dtype"),
        ('bash -lc "cd /x && python x a.dtype=\\"bf16\\" \\$Y"', "a.dtype"),
        ('ssh node1 "DTYPE=bf16 python x"', "DTYPE"),
        ('eval "python x a.dtype=bf16"', "a.dtype"),
        ("ray job submit --address=$A -- python3 -m x a.dtype=bf16", "a.dtype"),
        ("python -c 'f(dtype=\"bf16\")'", "dtype"),
        ("python - <<'EOF'\nf(dtype='bf16')\nEOF", "dtype"),
        ("N=$(python3 - <<EOF\nf(dtype='bf16', n=$N)\nEOF\n)", "dtype"),
        ("cat > x.py <<EOF\ndtype = 'bf16'\nEOF", "dtype"),
        ("cat <<'EOF' > x.sh\npython x a.dtype=bf16\nEOF", "a.dtype"),
        ("bash <<EOF\npython x a.dtype=bf16 $X\nEOF", "a.dtype"),
        ("cat > c.yaml <<EOF\na:\n  dtype: bf16\nEOF", "a.dtype"),
        ('if [ -n "$D" ]; then DTYPE=bf16; fi', "DTYPE"),
        ('case "$MODEL" in qwen) DTYPE=bf16;; esac', "DTYPE"),
        ('if [ "$D" = fp16 ]; then T=fp16; else T=bf16; fi', "T"),
        ("DTYPE=bf16\r\npython x b=1\r\n", "DTYPE"),
        ("# \xff \udcff caf\u00e9\nexport N=\u4e2d DTYPE=bf16", "DTYPE"),
        ("( cd /x; DTYPE=bf16 )", "DTYPE"),
        ("python x a.use_torch_compile=${TC:-bf16}", "a.use_torch_compile"),
    ],
)
def test_chooses(script: str, expected: str) -> None:
    # what else a word holds may be yielded as well
    pairs = [pair for pair in chosen(script.encode("utf-8", "surrogateescape")) if pair[1] == "bf16"]
    assert pairs == [(expected, "bf16")]


@pytest.mark.parametrize(
    "script",
    [
        "",
        "\n",
        "# bf16",
        "python x  # a.dtype=bf16",
        "python x \\\n  `# a.dtype=bf16` \\\n  b=1",
        "MODEL=$HOME/qwen-bf16/$X",
        "ls *bf16*",
        "rm -rf /tmp/bf16.log",
        "f_bf16() { :; }",
        "python x > bf16",
        "python x model@bf16=c",
        "echo training in bf16",
        "X=${X//bf16/fp16}",
        "X=$bf16",
    ],
)
def test_yields_no_choice(script: str) -> None:
    assert not [pair for pair in chosen(script) if pair[1] in ("bf16", "a.dtype=bf16")]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("[[ $D == bf16 ]] && echo", ("D", "comparison")),
        ('[ "$D" = "bf16" ] || exit', ("D", "comparison")),
        ('test "$D" = bf16', ("D", "comparison")),
        ('case "$D" in bf16) echo;; esac', ("D", "comparison")),
        ('[ "${D:-bf16}" = x ]', ("D", "comparison")),
        ("echo 'a.dtype=bf16'", ("a.dtype", "a message")),
        ('printf "dtype=bf16 %s" "$X"', ("dtype", "a message")),
        ('echo "dtype ${DTYPE:-bf16}"', ("DTYPE", "a message")),
        ("cat <<EOF\nusage: dtype=bf16\nEOF", ("dtype", "a message")),
        ("grep -q dtype=bf16 log", ("dtype", "a pattern for grep")),
        ("for d in bf16 fp16; do :; done", ("d", "one of several values")),
        ("python x a.dtypes=[bf16]", ("a.dtypes", "one of several values")),
        ("DTYPES=(bf16 fp16)", ("DTYPES", "one of several values")),
        ("python x name=run_${D:-bf16}", ("name", "part of a longer value")),
        ("python x m={a:bf16,b:fp32}", ("m.a", "the shell cuts these braces apart at the commas")),
        ('python x a.dtype=b"f16"bf16', ("a.dtype", "written in several pieces")),
        ("python x a.\\\ndtype=bf16", ("dtype", "a word that continues the line above")),
        ("bash run.sh bf16", ("", "no key says what this word is")),
        ("python <<EOF\ndef (bf16\nEOF", ("", "inside a heredoc that cannot be parsed")),
        ('cat > "$F" <<EOF\nbf16\nEOF', ("", "inside a heredoc of an unknown language")),
        ("python x --use_torch_compile", ("use_torch_compile", "a flag without a value")),
        ("C=${C:-['bf16','x']}", ("", "the shell grammar cannot read this place")),
    ],
)
def test_names(script: str, expected: tuple[str, str]) -> None:
    assert expected in named(script)
    assert not [value for _, value in chosen(script) if value == "bf16"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('case "$D" in bf16|b) T=torch.bfloat16;; esac', "translation"),
        ('if [ "$D" = bf16 ]; then T=bfloat16; fi', "translation"),
        ('if [[ "$D" == "bfloat16" ]]; then A+=(a.dtype=bf16); fi', "translation"),
        ('if [ "$D" != bf16 ]; then T=x; else T=bfloat16; fi', "translation"),
        ('if [ "$D" = x ]; then :; elif [ "$D" = bf16 ]; then T=bfloat16; fi', "translation"),
        ("[[ $D == bf16 ]] && T=bfloat16", "translation"),
        ('if [ "$(nvidia-smi --query-gpu=compute_cap)" -ge 80 ]; then T=bf16; fi', "hardware"),
    ],
)
def test_translations_and_gates_stay(script: str, reason: str) -> None:
    assert chosen(script) == []
    assert any(reason in names for _, names in named(script))


def test_equal_switches_are_no_translation() -> None:
    script = 'if [ "$C" = True ]; then A+=(a.use_torch_compile=True); fi'
    assert chosen(script) == [("a.use_torch_compile", "True")]


def test_a_hit_over_several_words() -> None:
    source = b"python x a.enable_prefix_caching=False b=True c=1"
    hit = Span(source.index(b"enable"), source.index(b"True") + 4)
    assert [(s.path[-1], s.value) for s in settings(source, [hit])] == [
        ("enable_prefix_caching", "False"),
        ("b", "True"),
    ]


def test_a_variable_is_also_what_it_is_used_for() -> None:
    script = 'PREC=${1:-bf16}\npython x a.dtype=$PREC --kv-dtype="${PREC}" name=run_$PREC b.prec=$PREC c=${PREC}x'
    assert chosen(script) == [("PREC", "bf16"), ("a.dtype", "bf16"), ("kv_dtype", "bf16")]
    assert chosen("DTYPE=bf16\npython x a.dtype=$DTYPE") == [("DTYPE", "bf16")]
    assert chosen("PREC=bf16\npython x a.dtype=$PRECISION") == [("PREC", "bf16")]


def test_words_without_a_hit_are_not_looked_at() -> None:
    assert chosen("python x a=1 b.dtype=bf16 c=2 d.dtype=fp32") == [("b.dtype", "bf16")]


BROKEN = [
    *(b"\xff\xfe bf16 \x00", b"a='bf16", b'a="bf16 $(', b"x=(bf16", b"<<EOF bf16\n", b"`bf16", b"case bf16"),
    *(b"${bf16", b"python a.dtype=bf16 ${(s: :)x} =(a) *(.)", b"bf16" * 2000, b"cat <<EOF\nbf16", b"((bf16"),
    *(b"\\\nbf16", b"\\\n\\\nbf16\\"),
]


@pytest.mark.parametrize("script", BROKEN)
def test_broken_scripts_do_not_crash(script: bytes) -> None:
    found(script)
    list(commands(script))


PIECES = (
    *("bf16", "a.dtype=", "'", '"', "$(", ")", "${", "}", ":-", "`", "\\", "\n", " ", "<<EOF\n", "EOF\n"),
    *("(", "{", "if ", "[", "]", "case ", "in ", ";;", "#", "=", "\u00e9"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=25))
@configure(max_examples=300, deadline=None)
def test_no_text_crashes(pieces: list[str]) -> None:
    found("".join(pieces))
    list(commands("".join(pieces).encode()))


# bash as the judge


def arguments(script: str) -> list[str]:
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True, env={"PATH": "/bin"})
    return done.stdout.split("\x1e\n")[:-1]


KEYS = st.from_regex(r"[+]{0,2}[a-z]{1,4}(?:[.][a-z]{1,4}){0,2}[.]dtype", fullmatch=True)
VALUES = st.sampled_from(
    ["bf16", "${D:-bf16}", "x", "bf16x", "{p: bf16, q: fp32}", "[bf16,x]", "a bf16", "${Z}bf16", "a,bf16"]
)


def _quoted(word: str, style: int) -> str:
    key, _, value = word.partition("=")
    bare = re.sub(r"([ {}\[\],])", r"\\\1", value) if "$" not in value else f'"{value}"'
    written = [
        f'"{word}"',
        f"'{word}'",
        f'{key}="{value}"',
        f"{key}='{value}'",
        f"{key}={bare}",
        f'"{key}"={bare}',
    ]
    return written[style]


WORDS = st.lists(st.builds(_quoted, st.builds("{}={}".format, KEYS, VALUES), st.integers(0, 5)), min_size=1, max_size=5)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
@configure(max_examples=80, deadline=None)
@given(WORDS, st.sampled_from([" ", " \\\n    ", " `# bf16 comment` \\\n  "]), st.booleans())
def test_an_edit_changes_one_argument(words: Sequence[str], gap: str, array: bool) -> None:
    assert shutil.which("bash")
    joined = gap.join(words)
    script = f'A=({" ".join(words)})\nset -- "${{A[@]}}"\n' if array else f"set --{gap}{joined}\n"
    script += "printf '%s\\x1e\\n' \"$@\" # bf16\n"
    before = arguments(script)
    assume(len(before) == len(words))
    source = script.encode()
    for setting in found(script):
        if setting.advice:
            continue
        new = source[: setting.span.start] + b"zz9" + source[setting.span.end :]
        after = arguments(new.decode())
        differ = [(old, changed) for old, changed in zip(before, after, strict=True) if old != changed]
        assert len(differ) == 1
        old, changed = differ[0]
        assert changed in {
            old[: at.start()] + "zz9" + old[at.end() :] for at in re.finditer(re.escape(setting.value), old)
        }


# after a rewrite

SCRIPT = b"""set -x
DTYPE=${1:-bfloat16}
python x a.dtype=bfloat16 `# bf16` \\
    'm={p: bf16, q: "bf16"}' "$@"
"""


def _edits(source: bytes, new: str) -> list[Edit]:
    spans = [Span(*match.span()) for match in TRIGGER.finditer(source)]
    return [Edit(s.span, "dtype", "rewrite", new) for s in settings(source, spans) if not s.names]


def _shape(node: object) -> object:
    from tree_sitter import Node

    assert isinstance(node, Node)
    return node.type, node.start_byte, node.end_byte, [_shape(child) for child in node.children]


def test_reparse_is_a_fresh_parse() -> None:
    edits = _edits(SCRIPT, "float32")
    assert len(edits) == 4
    after, tree = reparse(SCRIPT, parse(SCRIPT), edits)
    assert b"bfloat16" not in after
    assert _shape(tree.root_node) == _shape(parse(after).root_node)
    assert same_shape(SCRIPT, parse(SCRIPT), tree, edits)


@pytest.mark.parametrize("new", ["a b", "$X", '"', "'", "", "x;y", "`", "(", "a\nb", "$(x)", "${x}"])
def test_another_shape_is_noticed(new: str) -> None:
    for edit in _edits(SCRIPT, new)[:2]:
        _, tree = reparse(SCRIPT, parse(SCRIPT), [edit])
        assert not same_shape(SCRIPT, parse(SCRIPT), tree, [edit])


# commands

COMMANDS = b"""
MAX=1024; RESP=$((MAX * 2))
TOTAL=$(($MAX + RESP))
COMMON="a.b=1 c.dtype=bf16"
ARGS=(x.dtype=bf16 "y.z=a b")
ARGS+=("${MORE[@]}" m.n=$MAX)
LAUNCH=(python3)
"${LAUNCH[@]}" -m verl.x ${COMMON} "${ARGS[@]}" t=$TOTAL --k ${V:-7} home=$HOME/x "$@" > log 2>&1
X=$(python3 -c 'print(1)')
"""


def test_commands_are_expanded() -> None:
    first, second = commands(COMMANDS)
    assert [word.text for word in first.words] == [
        *("python3", "-m", "verl.x", "a.b=1", "c.dtype=bf16", "x.dtype=bf16", "y.z=a b", "${MORE[@]}"),
        *("m.n=1024", "t=3072", "--k", "7", "home=$HOME/x", "$@"),
    ]
    for word in first.words[3:6]:
        assert COMMANDS[word.span.start : word.span.end].decode() == word.text
    values = first.values()
    assert (values["m.n"].text, values["t"].text, values["k"].text) == ("1024", "3072", "7")
    assert [word.text for word in second.words] == ["python3", "-c", "print(1)"]


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("A=1 python $A", ["python", "$A"]),
        ("A='x y'; python $A \"$A\"", ["python", "x", "y", "x y"]),
        ("A=x; A+=y; python ${A}", ["python", "xy"]),
        ("A=; python ${A:-d}", ["python", "d"]),
        ('A=(1 2); python "${A[*]}" z${A[@]}', ["python", "1 2", "z1 2"]),
        ("for i in 1 2; do python $i; done", ["python", "$i"]),
        ("python $((2 ** 99999)) $((1/0)) $((x))", ["python", "$((2 ** 99999))", "$((1/0))", "$((x))"]),
        ("python 'a'\"b\"$c", ["python", "ab$c"]),
        ('A="$A$A"; python $A', ["python", "$A$A"]),
    ],
)
def test_words_of_a_command(script: str, last: list[str]) -> None:
    assert [word.text for word in list(commands(script.encode()))[-1].words] == last


# time: the cost follows the hits


def test_many_hits_and_huge_lines_take_no_time() -> None:
    line = b"python x " + b" ".join(b"a.b%d.dtype=bf16" % number for number in range(3000))
    assert len(chosen(line)) == 3000
    lines = b"\n".join(b"bash -c 'python x a.b%d.dtype=bf16'" % number for number in range(1000))
    assert len(chosen(lines)) == 1000
    text = b'X="' + b"a.dtype=bf16 " * 5000 + b'"\n'
    assert len(chosen(text)) == 5000
