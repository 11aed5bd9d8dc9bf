"""What is only reported: what the whole checkout decides, and how much of it real releases have."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from releases import VERSIONS
from repos import write
from rewritten import plan_for, plan_of

from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.cli import run
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.languages.shell.commands import commands
from verl_legacy_patch.plan import make_plan
from verl_legacy_patch.scope import backend
from verl_legacy_patch.setting import Site
from verl_legacy_patch.target import make_target

SCRIPT = """python3 -m verl.trainer.main_ppo \\
    actor_rollout_ref.actor.fsdp_config.dtype=float32 \\
    critic.model.fsdp_config.dtype=float32 \\
    reward_model.model.fsdp_config.dtype=float32 \\
    actor_rollout_ref.actor.use_torch_compile=False \\
    +actor_rollout_ref.model.override_config.attn_implementation=sdpa \\
    +critic.model.override_config.attn_implementation=sdpa
torchrun -m verl.trainer.sft_trainer engine.dtype=float32
"""
MIXED = "mixed_precision = fsdp_config.get('mixed_precision', None)\n"
#: How the releases read these keys, in short.
RELEASES = {
    # code only: the literals of the workers count, and the fallback of FSDP's mixed precision
    "0.4": {"verl/workers/fsdp_workers.py": MIXED + "compile = self.config.get('use_torch_compile', True)\n"},
    "0.6": {
        "verl/workers/fsdp_workers.py": MIXED + "attn = override_model_config.get('attn_implementation', 'eager')\n",
        "verl/workers/actor/dp_actor.py": "dtype = self.config.fsdp_config.get('dtype', 'float32')\n"
        "compile = self.config.get('use_torch_compile', True)\n",
    },
    "0.9": {
        "verl/workers/engine/fsdp/transformer_impl.py": "mixed = self.engine_config.mixed_precision\n"
        "compile = self.engine_config.use_torch_compile\n",
        "verl/workers/engine/megatron/transformer_impl.py": "dtype = self.engine_config.dtype\n",
        "verl/workers/config/model.py": "attn = self.override_config.get('attn_implementation', 'eager')\n",
    },
}
NOTHING = "nothing here reads this key, and no other does this: the code's own choice counts"
#: Release -> line of the script -> the key that works, or None where none does. Other lines are read.
DEAD = {
    "0.4": {
        2: "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
        3: "+critic.model.fsdp_config.mixed_precision.param_dtype",
        4: None,
        6: None,
        7: None,
        8: "+engine.mixed_precision.param_dtype",
    },
    "0.6": {
        3: "+critic.model.fsdp_config.mixed_precision.param_dtype",
        4: None,
        7: None,
        8: "+engine.mixed_precision.param_dtype",
    },
    "0.9": {
        2: "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
        3: "+critic.model.fsdp_config.mixed_precision.param_dtype",
        4: None,
        5: "actor_rollout_ref.actor.fsdp_config.use_torch_compile",
        7: None,
        8: "+engine.mixed_precision.param_dtype",
    },
}


def tree(folder: Path, files: dict[str, str], script: str = SCRIPT) -> Path:
    write(folder, {"verl/__init__.py": "", "examples/run.sh": script, **files})
    return folder


def reports(folder: Path, codemod: str, **target: str) -> list[Site]:
    return [s for s in plan_of(folder, **target).sites if s.codemod == codemod and s.action == "report"]


# dead keys


@pytest.mark.parametrize("release", RELEASES)
def test_a_dead_key_is_named_with_the_key_that_works_there(release: str, tmp_path: Path) -> None:
    found = reports(tree(tmp_path, RELEASES[release]), "dead-keys")
    expected = {
        line: f"nothing here reads this key: set {key} instead" if key else NOTHING
        for line, key in DEAD[release].items()
    }
    assert {site.line: site.reason for site in found} == expected


@pytest.mark.parametrize("words", ["engine=megatron", "--config-name=ppo_megatron_trainer", "actor.strategy=megatron"])
def test_a_script_for_another_backend_is_not_judged_by_what_fsdp_reads(words: str, tmp_path: Path) -> None:
    script = f"torchrun -m verl.trainer.sft_trainer {words} engine.dtype=float32\n"
    assert not reports(tree(tmp_path, RELEASES["0.9"], script), "dead-keys")


def test_tests_and_other_backends_do_not_count_as_readers(tmp_path: Path) -> None:
    files = {"tests/test_actor.py": "fsdp_config.dtype\n", "verl/models/mcore/actor.py": "fsdp_config.dtype\n"}
    script = "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.dtype=float32\n"
    [site] = reports(tree(tmp_path, files, script), "dead-keys")
    assert site.reason == NOTHING


# the batch


LONG = "python3 -m verl.trainer.main_ppo data.max_prompt_length=2048 data.max_response_length=16384\n"


def test_the_default_budget_is_judged_unless_verl_raises_it(tmp_path: Path) -> None:
    [site] = reports(tree(tmp_path, {}, LONG), "batched-tokens")
    assert "need 18432 tokens, the default budget is 8192" in site.reason
    assert site.reason.endswith("add actor_rollout_ref.rollout.max_num_batched_tokens=18432")
    raises = "class Server:\n    def start(self):\n        if not self.config.enable_chunked_prefill:\n"
    raises += "            self.config.max_num_batched_tokens = self.config.max_model_len\n"
    assert not reports(tree(tmp_path, {"verl/server.py": raises}, LONG), "batched-tokens")


@pytest.mark.parametrize(("gpu", "count"), [("p40", 1), ("t4", 1), ("a100", 0)])
def test_it_follows_from_chunked_prefill_being_off(gpu: str, count: int, tmp_path: Path) -> None:
    assert len(reports(tree(tmp_path, {}, LONG), "batched-tokens", gpu=gpu)) == count


# branches of scripts


@pytest.mark.parametrize(
    ("script", "around"),
    [
        ("case $D in npu) X ;; esac", True),
        ('case "$D" in "npu") X ;; gpu) true ;; esac', True),
        ("case $D in gpu|npu) X ;; esac", False),
        ("case $D in npu) true ;; *) X ;; esac", False),
        ('if [ "$D" = npu ]; then X\nfi', True),
        ('if [[ $D == "npu" ]]; then\n  if true; then X\n  fi\nfi', True),
        ('if [ "$D" = gpu ]; then true; elif [ "$D" = npu ]; then X\nfi', True),
        ('if [ "$D" = npu ]; then true; else X\nfi', False),
        ('if [ "$D" != npu ]; then X\nfi', False),
        ('if ! [ "$D" = npu ]; then X\nfi', False),
        ('if [ "$D" = npu ] || [ "$D" = gpu ]; then X\nfi', False),
        ('[ "$D" = npu ] && X', True),
        ('[ "$D" = npu ] || X', False),
        ('if [ "$BACKEND" = megatron ]; then X\nfi', True),
    ],
)
def test_what_a_script_does_for_another_backend_is_out_of_scope(script: str, around: bool, tmp_path: Path) -> None:
    words = "run actor.ulysses_sequence_parallel_size=4"
    rows = [site for site in plan_of(tree(tmp_path, {}, script.replace("X", words))).sites if site.line]
    [site] = [site for site in rows if site.codemod == "sequence-parallel"]
    assert site.action == ("keep" if around else "report")
    assert ("cannot run below compute capability 8.0" in site.reason) == around
    # the same for what reads a script as commands
    known = [c.words[-1].text for c in commands(script.replace("X", words).encode(), leave_out=backend)]
    assert ("actor.ulysses_sequence_parallel_size=4" in known) != around


# stderr


def test_the_interpreters_warnings_about_a_checkouts_code_stay_off_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tree(tmp_path, {"verl/odd.py": "import torch\n\nif 1 is 1:\n    dtype = torch.bfloat16\n"})
    assert run(["apply", "--dry-run", str(tmp_path)]) == 0
    err = capfd.readouterr().err
    assert "SyntaxWarning" not in err and "1 place in 1 file" in err


# real releases


SFT, ACTOR, CRITIC = (
    "verl/trainer/fsdp_sft_trainer.py",
    "verl/workers/actor/dp_actor.py",
    "verl/workers/critic/dp_critic.py",
)
ENGINE, OLD = "verl/workers/engine/fsdp/transformer_impl.py", "verl/trainer/ppo/"
UNSCALED = {
    "0.1": {SFT, f"{OLD}actor/dp_actor.py", f"{OLD}critic/dp_critic.py"},
    "0.2": {SFT, ACTOR, CRITIC},
    "0.3.0.post1": {SFT, ACTOR, CRITIC},
    "0.4.1": {SFT, ACTOR, CRITIC},
    "0.5.0": {SFT, ACTOR, CRITIC, "verl/workers/engine/fsdp/engine_impl.py"},
    "0.6.1": {SFT, CRITIC, ENGINE},
    "0.7.1": {CRITIC, ENGINE},
    "0.8.0": set(),
    "0.9.0": set(),
    "0.9.1": set(),
}


@pytest.mark.real
@pytest.mark.parametrize("version", VERSIONS)
def test_backward_passes_without_loss_scaling(version: str) -> None:
    rows = [site for site in plan_for(version, "t4", "float16").sites if site.codemod == "loss-scaling"]
    assert {site.path for site in rows if site.action == "report"} == UNSCALED[version]
    assert not any(site.codemod == "loss-scaling" for site in plan_for(version).sites)


#: The releases whose server drops the False that vllm-prefill writes.
DROPS = {"0.6.1": "vllm_async_server.py", "0.7.1": "utils.py", "0.8.0": "utils.py", "0.9.0": "utils.py"}


@pytest.mark.real
@pytest.mark.parametrize("version", VERSIONS)
def test_servers_that_drop_false(version: str) -> None:
    rows = [site for site in plan_for(version).sites if site.codemod == "vllm-server-flags" and site.action == "report"]
    names = [f"verl/workers/rollout/vllm_rollout/{DROPS[version]}"] if version in DROPS else []
    assert [site.path for site in rows] == names


#: Tag -> codemod -> reports, over the whole repository with its examples, each looked at by hand.
WHOLE = {
    "v0.1": {"unsupported-backend": 1},
    "v0.2": {"flash-attn-requirement": 2, "sequence-parallel": 4, "unsupported-backend": 1},
    "v0.3.0.post1": {"flash-attn-requirement": 4, "sequence-parallel": 4, "unsupported-backend": 1},
    "v0.4.1": {"flash-attn-requirement": 3, "sequence-parallel": 18, "unsupported-backend": 15},
    "v0.5.0": {"flash-attn-requirement": 3, "sequence-parallel": 22, "unsupported-backend": 20},
    "v0.6.1": {
        "batched-tokens": 4,
        "flash-attn-requirement": 3,
        "sequence-parallel": 39,
        "unsupported-backend": 39,
        "vllm-attention-backend": 4,
        "vllm-server-flags": 1,
    },
    "v0.7.1": {
        "batched-tokens": 2,
        "flash-attn-requirement": 3,
        "padded-engine": 6,
        "sequence-parallel": 27,
        "submodule": 1,
        "unsupported-backend": 32,
        "vllm-attention-backend": 3,
        "vllm-server-flags": 1,
    },
    "v0.8.0": {
        "batched-tokens": 4,
        "dead-keys": 10,
        "flash-attn-requirement": 1,
        "sequence-parallel": 19,
        "submodule": 1,
        "unsupported-backend": 5,
        "vllm-server-flags": 1,
    },
    "v0.9.0": {
        "batched-tokens": 4,
        "dead-keys": 16,
        "flash-attn-requirement": 1,
        "sequence-parallel": 19,
        "submodule": 1,
        "unsupported-backend": 6,
        "vllm-server-flags": 1,
    },
}
CLONE = os.environ.get("VERL_PATCH_VERL_REPO")


@pytest.mark.real
@pytest.mark.skipif(not CLONE, reason="VERL_PATCH_VERL_REPO names no clone of verl: only the repository has examples")
@pytest.mark.parametrize("tag", WHOLE)
def test_whole_repositories(tag: str) -> None:
    mine = {key for counts in WHOLE.values() for key in counts}
    plan = make_plan(open_checkout(Path(CLONE or ""), tag), list(discover().values()), make_target())
    assert Counter(s.codemod for s in plan.sites if s.action == "report" and s.codemod in mine) == WHOLE[tag]
