"""LibCST is imported faster than usual, and is the same to everybody."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DESCRIBE = """
import dataclasses, inspect
{}
import libcst as cst
node = cst.parse_module("x = 1").body[0].body[0]
for change in (lambda: setattr(node, "value", None), lambda: delattr(node, "value"), lambda: setattr(node, "new", 1)):
    try:
        change()
        print("changed")
    except (dataclasses.FrozenInstanceError, AttributeError, TypeError) as error:
        print(type(error).__name__, error)
for name, kind in sorted(vars(cst).items()):
    if isinstance(kind, type):
        print(name, sorted(vars(kind)), dataclasses.is_dataclass(kind) and inspect.signature(kind))
        own = [each for each in ("__eq__", "__repr__", "__setattr__") if each in vars(kind)]
        print([getattr(kind, each).__qualname__ for each in own])
        print(kind.__hash__ is None or kind.__hash__.__qualname__)
print(dataclasses.dataclass.__module__, dataclasses.dataclass.__qualname__)
"""


def described(first: str, program: str = DESCRIBE) -> str:
    run = [sys.executable, "-c", program.format(first)]
    done = subprocess.run(run, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def passes(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_classes_are_the_same() -> None:
    usual = described("")
    assert "FrozenInstanceError cannot assign to field 'value'" in usual
    assert described("import verl_legacy_patch.languages.python") == usual


CONSTRUCT = """
{}
import libcst as cst
kinds = [kind for _, kind in sorted(vars(cst).items()) if hasattr(kind, "__dataclass_fields__")]
later = [(kind, vars(kind)["__init__"]) for kind in kinds if "__init__" in vars(kind)]
node, value = cst.Name("a"), cst.Name("b")
for kind in kinds:
    for arguments, named in [
        ((), {{}}), ((), {{"unknown": 1}}), (range(40), {{}}), ((), {{"node": 1}}), ((), {{"self": 1}}),
        ((value,), {{}}), ((), {{"value": value}}), ((value,), {{"value": value}}), ((3,), {{}}), ((), {{"value": 3}}),
    ]:
        for each in later:
            type.__setattr__(each[0], "__init__", each[1])  # as if nobody had called any before
        try:
            print(kind.__name__, repr(kind(*arguments, **named)))
        except Exception as error:
            print(kind.__name__, type(error).__name__, error)
"""


def test_nodes_are_made_and_refused_as_usual() -> None:
    usual = described("", CONSTRUCT)
    assert "TypeError Add.__init__() got an unexpected keyword argument 'node'" in usual
    assert described("import verl_legacy_patch.languages.python", CONSTRUCT) == usual


def test_a_constructor_may_be_bound_before_it_is_compiled_and_compiled_by_many_threads() -> None:
    passes("""
import sys, threading
import verl_legacy_patch.languages.python
import libcst as cst
again = cst.Name(value="a").__init__
again("b")
again("c")
assert again.__self__.value == "c"
sys.setswitchinterval(1e-6)
errors = []
def make(kind, barrier):
    barrier.wait()
    try:
        kind(*range(60))
    except Exception as error:
        errors.append(type(error))
for kind in [kind for kind in vars(cst).values() if hasattr(kind, "__dataclass_fields__")]:
    barrier = threading.Barrier(8)
    threads = [threading.Thread(target=make, args=(kind, barrier)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
assert errors and set(errors) == {TypeError}, set(errors)
""")


def test_all_of_the_metadata_is_there_for_those_who_ask() -> None:
    passes("""
import verl_legacy_patch.languages.python
import libcst, libcst.metadata, libcst.matchers, libcst.codemod
from libcst.metadata import MetadataWrapper, PositionProvider, QualifiedNameProvider
assert libcst.metadata.MetadataWrapper is libcst.MetadataWrapper
wrapper = MetadataWrapper(libcst.parse_module("x = 1"))
assert wrapper.resolve(QualifiedNameProvider) and wrapper.resolve(PositionProvider)
""")


def test_the_encoding_of_bytes_is_found_out_for_those_who_ask() -> None:
    passes(r"""
import sys
import verl_legacy_patch.languages.python
import libcst
assert "libcst._parser.detect_config" not in sys.modules
module = libcst.parse_module(b"# coding: latin-1\nx = '\xe9'\n")
assert module.encoding == "iso-8859-1" and module.bytes.endswith(b"'\xe9'\n")
assert libcst.parse_module("x").encoding == "utf-8"
from libcst._parser.detect_config import convert_to_utf8
assert convert_to_utf8.__module__ == "libcst._parser.detect_config"
""")


def test_the_patterns_of_yaml_are_there_for_those_who_ask() -> None:
    passes("""
import re
compile = re.compile
from verl_legacy_patch.languages.yaml.lean import yaml
assert re.compile is compile
assert yaml.safe_load("{a: 1, b: 1.5, c: 2020-01-01, d: yes, e: null}")["b"] == 1.5
assert yaml.dump({"a": "yes", "b": 1.5}) == "a: 'yes'\\nb: 1.5\\n"
try:
    yaml.load("a: \x01", Loader=yaml.SafeLoader)
except yaml.reader.ReaderError:
    pass
else:
    raise AssertionError
""")


def test_the_grammar_of_bash_is_there_for_those_who_ask() -> None:
    passes("""
import sys
from verl_legacy_patch.languages.shell.tree import parse
assert parse(b"a=1").root_node.children[0].type == "variable_assignment"
assert "tree_sitter_bash" not in sys.modules
import tree_sitter_bash
assert tree_sitter_bash.language() and tree_sitter_bash.HIGHLIGHTS_QUERY
""")
