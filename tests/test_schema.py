"""The JSON of a plan is what its schema says, for every kind of site."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import make_repository
from verl_legacy_patch.plan import make_plan
from verl_legacy_patch.report import FORMAT, About, as_json
from verl_legacy_patch.target import Target


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    text = (files("verl_legacy_patch") / "schema" / f"plan-{FORMAT}.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    Draft202012Validator.check_schema(loaded)
    return loaded


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("schema") / "verl"
    base = make_repository(root)
    plan = make_plan(open_checkout(root), list(discover().values()), Target())
    loaded: dict[str, Any] = json.loads(json.dumps(as_json(plan, About(str(root), "0.0", base))))
    return loaded


def test_a_plan_is_valid(schema: dict[str, Any], data: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(data)
    assert {site["action"] for site in data["sites"]} == {"rewrite", "keep", "report"}


def test_every_field_is_described(schema: dict[str, Any], data: dict[str, Any]) -> None:
    assert set(data) <= set(schema["properties"])
    assert set(data["sites"][0]) == set(schema["$defs"]["site"]["properties"])
    assert set(data["summary"]) == set(schema["properties"]["summary"]["properties"])
    assert set(data["target"]) == set(schema["properties"]["target"]["properties"])


@pytest.mark.parametrize(
    "change",
    [{"action": "guess"}, {"line": 0}, {"column": "1"}, {"after": 3}, {"action": "keep", "after": "x"}, {"path": ""}],
)
def test_the_schema_refuses_what_is_wrong(schema: dict[str, Any], data: dict[str, Any], change: dict[str, Any]) -> None:
    site = next(site for site in data["sites"] if site["action"] == "rewrite")
    wrong = {**data, "sites": [{**site, **change}]}
    assert not Draft202012Validator(schema).is_valid(wrong)


def test_the_schema_lies_in_the_package() -> None:
    assert Path(str(files("verl_legacy_patch") / "schema" / "plan-1.json")).is_file()
