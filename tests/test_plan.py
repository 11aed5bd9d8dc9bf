"""Plans over several files: mirrors follow their sources also where they would be rewritten on their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repos import write

from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.plan import Plan, make_plan
from verl_legacy_patch.target import Target

HEADER = (
    "# This reference configuration yaml is automatically generated via 'scripts/generate_trainer_config.sh'\n"
    "# in which it invokes 'python3 scripts/print_cfg.py --cfg job --config-name=main.yaml' to flatten the\n"
    "# 'verl/trainer/config/main.yaml' config fields into a single file.\n"
)


def plan_of(root: Path, files: Mapping[str, str | bytes]) -> Plan:
    write(root, {"verl/__init__.py": "", **files})
    return make_plan(open_checkout(root, in_place=True), list(discover().values()), Target())


def rows(plan: Plan, path: str) -> list[tuple[int, str, str, str | None]]:
    return [(site.line, site.codemod, site.action, site.after) for site in plan.sites if site.path == path]


def test_a_mirror_keeps_what_a_source_out_of_scope_says_under_an_ordinary_key(tmp_path: Path) -> None:
    folder = "verl/trainer/config"
    plan = plan_of(
        tmp_path,
        {
            f"{folder}/main.yaml": "defaults:\n  - reward: megatron_loop\n  - rollout: plain\n  - _self_\n",
            f"{folder}/reward/megatron_loop.yaml": "engine:\n  dtype: bfloat16\n  enable_prefix_caching: true\n",
            f"{folder}/rollout/plain.yaml": "dtype: bfloat16\n",
            f"{folder}/_generated_main.yaml": HEADER
            + "reward:\n  engine:\n    dtype: bfloat16\n    enable_prefix_caching: true\nrollout:\n  dtype: bfloat16\n",
        },
    )
    assert plan.problems == []
    found = [row for row in rows(plan, f"{folder}/_generated_main.yaml") if row[1] in ("dtype", "vllm-prefill")]
    assert found == [
        (6, "dtype", "keep", None),
        (7, "vllm-prefill", "keep", None),
        (9, "dtype", "rewrite", "float32"),
    ]
