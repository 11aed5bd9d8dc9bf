"""The dry run on a terminal: the order of the files, the reasons above the hunks, counts that fit, colours."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_legacy_patch.commands.output import coloured
from verl_legacy_patch.plan import FileChange, Plan
from verl_legacy_patch.report import patch
from verl_legacy_patch.roles import ROLES, SHARED, importance, role_of
from verl_legacy_patch.setting import Edit, Span
from verl_legacy_patch.target import Target
from verl_legacy_patch.view import annotated, in_order, stat

ANSI = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("verl/workers/actor/dp_actor.py", "actor"),
        ("verl/workers/critic/dp_critic.py", "critic"),
        ("verl/trainer/config/ref/ref.yaml", "ref"),
        ("verl/workers/reward_model/model.py", "reward"),
        ("recipe/prime/prime_rm.py", "reward"),
        ("verl/workers/rollout/vllm_rollout/x.py", "rollout"),
        ("verl/checkpoint_engine/base.py", "rollout"),
        ("verl/trainer/fsdp_sft_trainer.py", "SFT"),
        ("verl/model_merger/base_model_merger.py", "merger"),
        ("verl/utils/checkpoint/fsdp_checkpoint_manager.py", "merger"),
        ("examples/ppo_trainer/run_critic.sh", "scripts"),
        ("verl/trainer/config/_generated_ppo_trainer.yaml", "generated"),
        ("verl/utils/preferences.py", SHARED),
        ("verl/utils/model.py", SHARED),
    ],
)
def test_roles(path: str, role: str) -> None:
    assert role_of(path) == role
    assert role in (*ROLES, SHARED)


def test_order(plan: Plan) -> None:
    paths = [change.path for change in in_order(plan)]
    assert sorted(paths) == [change.path for change in plan.changes]
    ranks = [
        "verl/workers/actor/dp_actor.py",
        "verl/trainer/fsdp_sft_trainer.py",
        "verl/utils/torch_padding.py",  # new: behind the code that imports it
        "verl/trainer/config/actor/actor.yaml",
        "scripts/model_merger.py",
        "examples/ppo_trainer/run_small_ppo.sh",
        "verl/trainer/config/_generated_ppo_trainer.yaml",
    ]
    assert [path for path in paths if path in ranks] == ranks
    assert paths[0].startswith("verl/workers/actor/")


def test_the_way_of_training_comes_first() -> None:
    ordered = [
        "verl/workers/actor/dp_actor.py",
        "verl/trainer/ppo/ray_trainer.py",
        "verl/workers/fsdp_workers.py",
        "verl/models/transformers/llama.py",
        "verl/utils/torch_functional.py",
        "verl/workers/critic/dp_critic.py",
        "verl/workers/rollout/vllm_rollout/x.py",
        "verl/workers/reward_model/model.py",
        "verl/trainer/fsdp_sft_trainer.py",
        "verl/model_merger/base_model_merger.py",
        "verl/trainer/config/actor/actor.yaml",
        "recipe/prime/prime_core.py",
        "scripts/model_merger.py",
        "examples/run.sh",
        "verl/trainer/config/_generated_ppo_trainer.yaml",
    ]
    assert sorted(set(ordered), key=importance) == ordered


def test_each_hunk_stands_below_its_reason(plan: Plan) -> None:
    text = b"".join(annotated(plan)).decode()
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("@@ "):
            assert lines[at - 1].startswith("# "), line
    names = {codemod.name for codemod in plan.codemods}
    for line in lines:
        if line.startswith("# "):
            assert re.match(r"# ([\w-]+)(?: \(review\))?: \S", line)[1] in names  # type: ignore[index]
    assert "# packing-guard (review): " in text


def test_without_the_reasons_it_is_the_patch(plan: Plan) -> None:
    parts = {re.search(rb" b/(\S+)", part)[1]: part for part in annotated(plan)}  # type: ignore[index]
    for wanted in patch(plan):
        part = parts.pop(re.search(rb" b/(\S+)", wanted)[1])  # type: ignore[index]
        assert b"\n".join(line for line in part.split(b"\n") if not line.startswith(b"# ")) == wanted
    assert not parts


@pytest.mark.parametrize("columns", [None, 60, 80, 120, 200])
def test_counts_fit_the_terminal(plan: Plan, columns: int | None) -> None:
    lines = list(stat(plan, columns))
    assert len(lines) == len(plan.changes)
    counted = sum(int(re.search(r"\| +(\d+) ", line)[1]) for line in lines)  # type: ignore[index]
    assert counted == len(plan.rewritten())
    assert len({line.index("|") for line in lines}) == 1
    if columns:
        assert max(map(len, lines)) <= max(columns, 66)
    if columns in (None, 200):
        assert all(change.path in line for change, line in zip(in_order(plan), lines, strict=True))
        assert not re.search(r"\+\d+\)", "\n".join(lines))
    if columns == 60:
        assert re.search(r"\(\w+: [\w-]+, \+\d\)", "\n".join(lines))


def test_odd_paths_take_one_line() -> None:
    path = "verl/a\nb\x1b[31mü.py"
    edit = Edit(Span(0, 4), "dtype", "rewrite", "fp32")
    plan = Plan(Target(), [], [FileChange(path, b"bf16\n", b"fp32\n", "100644", (edit,))])
    [line] = stat(plan, 80)
    assert "\n" not in line and "\x1b" not in line
    assert list(stat(Plan(Target(), []))) == []


# --- colours


def bold(line: bytes) -> list[bytes]:
    return re.findall(rb"\x1b\[1m(.*?)\x1b\[0m", line)


def shown(old: bytes, new: bytes) -> list[list[bytes]]:
    text = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-%s\n+%s\n" % (old, new)
    [part] = coloured([text])
    assert ANSI.sub(b"", part) == text
    return [bold(line) for line in part.split(b"\n")[4:6]]


@pytest.mark.parametrize(
    ("old", "new", "marks"),
    [
        (b"  dtype=torch.bfloat16,", b"  dtype=torch.float32,", [[b"bfloat16"], [b"float32"]]),
        (b"  packed: True  # why", b"  packed: False  # why", [[b"True"], [b"False"]]),
        (b"x = [1, 2]", b"x = [1, 2, 3]", [[], [b", 3"]]),
        (b"x = 1", b"x = 1  # one", [[], [b"  # one"]]),
        ("größe = 'bf16'".encode(), "größe = 'fp32'".encode(), [[b"bf16"], [b"fp32"]]),
        (b"import a", b"raise SystemExit", [[], []]),
        (b"", b"", [[], []]),
    ],
)
def test_what_changes_inside_a_line_is_bold(old: bytes, new: bytes, marks: list[list[bytes]]) -> None:
    assert shown(old, new) == marks


LINE = st.text(alphabet=st.sampled_from("ab ._#+-@é"), max_size=12)


@given(old=st.lists(LINE, max_size=4), new=st.lists(LINE, max_size=4))
def test_without_the_colours_it_is_the_same(old: list[str], new: list[str]) -> None:
    lines = [*(f"-{line}" for line in old), *(f"+{line}" for line in new), " end"]
    text = "\n".join(["diff --git a/x b/x", "# dtype: why", "@@ -1 +1 @@", *lines, ""]).encode()
    [part] = coloured([text])
    assert ANSI.sub(b"", part) == text
    part.decode()  # no character is cut in two


def test_colours_of_the_sample_say_reasons_apart(plan: Plan) -> None:
    parts = list(coloured(annotated(plan)))
    assert ANSI.sub(b"", b"".join(parts)) == b"".join(annotated(plan))
    assert b"\x1b[35m# packing-guard (review): " in b"".join(parts)
