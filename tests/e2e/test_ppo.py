"""GRPO and PPO: the published release fails as users report, the rewritten one trains on right log-probabilities."""

from __future__ import annotations

import json

import pytest

from e2e import runs, trees
from e2e.cases import by_release
from e2e.logs import ppo_problems

pytestmark = pytest.mark.e2e
#: Steps until the reward has moved.
STEPS = 6
CHECKPOINT = [
    "trainer.save_freq=2",
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
]

#: Reads a merged model as a user does, and says what is in it.
READ = """
import json, sys
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], torch_dtype="auto", attn_implementation="eager")
finite = all(bool(p.float().isfinite().all()) for p in model.parameters())
print("RESULT" + json.dumps([sorted({str(p.dtype) for p in model.parameters()}), finite]))
"""


def train(release, options, name, machine_for, tree_for, output, *more, steps=STEPS, algorithm="grpo", **how):
    machine, tree = machine_for(release), tree_for(release, options)
    arguments = [*runs.ppo(machine, tree, output, steps=steps, algorithm=algorithm), *more]
    return runs.run(f"{release} {name}", machine, tree, arguments, **how)


@pytest.mark.parametrize("algorithm", ["grpo", pytest.param("gae", marks=pytest.mark.slow)])
@by_release({"0.4.1": "no-flash-attn", "0.5.0": "no-flash-attn", "0.9.0": "flash-attention-2"})
def test_original_fails_as_users_report(release, expected, algorithm, machine_for, tree_for, record, tmp_path):
    outcome = train(release, trees.BASE, f"{algorithm} original", machine_for, tree_for, tmp_path, algorithm=algorithm)
    record(outcome)
    assert outcome.code != 0
    assert outcome.reported[:1] == [expected], outcome.tail()
    assert not outcome.steps


@pytest.mark.slow
@by_release({"0.4.1": "bf16", "0.5.0": "bf16"})
def test_original_with_flash_attn_installed(release, expected, machine_for, tree_for, record, tmp_path):
    """Where somebody got flash-attn's wheel onto the machine, bfloat16 is the next thing that stops it."""
    outcome = train(
        release, trees.BASE, "grpo original, flash-attn installed", machine_for, tree_for, tmp_path, flash="installed"
    )
    record(outcome)
    assert outcome.code != 0
    assert outcome.reported[:1] == [expected], outcome.tail()
    assert not outcome.steps


@pytest.mark.slow
@by_release({"0.4.1": "no-flash-attn", "0.5.0": "no-flash-attn", "0.9.0": "triton"})
def test_dtype_and_attention_only(release, expected, machine_for, tree_for, record, tmp_path):
    """Not a claim but a record: how far the two obvious replacements alone get."""
    outcome = train(release, trees.DTYPE_AND_ATTENTION, "grpo dtype+attention", machine_for, tree_for, tmp_path)
    record(outcome)
    assert outcome.code != 0 and outcome.reported[:1] == [expected], outcome.tail()


@by_release(dict.fromkeys(("0.4.1", "0.9.0")))
def test_patched_grpo_trains(release, expected, machine_for, tree_for, record, tmp_path):
    """Not with v0.5.0: its trainer and its HF rollout both repeat the prompts, so that rollout.n > 1 cannot work."""
    outcome = train(release, trees.FULL, "grpo patched", machine_for, tree_for, tmp_path)
    record(outcome)
    assert ppo_problems(outcome, STEPS, reward_rises=True) == [], outcome.tail()


@by_release({"0.4.1": True, "0.5.0": True, "0.9.0": False})
def test_patched_ppo_trains_saves_and_merges(release, expected, machine_for, tree_for, record, tmp_path):
    """With a critic, and with a reward model where that is not a vLLM or SGLang server."""
    machine, tree = machine_for(release), tree_for(release, trees.FULL)
    more = list(CHECKPOINT)
    if expected:
        more += [
            "reward_model.enable=True",
            f"reward_model.model.path={machine.model}",
            "reward_model.model.input_tokenizer=null",
            "reward_model.micro_batch_size_per_gpu=4",
        ]
    output = tmp_path / "checkpoints"
    outcome = train(release, trees.FULL, "ppo patched", machine_for, tree_for, output, *more, steps=2, algorithm="gae")
    record(outcome)
    assert ppo_problems(outcome, 2, reward_rises=False) == [], outcome.tail()
    assert len(outcome.series("critic/vf_loss")) == 2

    actor = output / "global_step_2" / "actor"
    outcome, merged = merge(release, trees.FULL, "patched", actor, machine_for, tree_for, tmp_path)
    record(outcome)
    assert outcome.code == 0, outcome.tail()
    for folder in (merged, actor / "huggingface"):
        read = runs.run("read", machine, tree, ["-c", READ, str(folder)])
        assert read.code == 0, read.tail()
        assert json.loads(read.log.partition("RESULT")[2]) == [["torch.float32"], True], folder

    outcome, _ = merge(release, trees.BASE, "original", actor, machine_for, tree_for, tmp_path)
    record(outcome)
    assert outcome.code != 0 and outcome.reported[:1] == ["bf16"], outcome.tail()


def merge(release, options, name, actor, machine_for, tree_for, tmp_path):
    """Merge the shards of a checkpoint into a model that transformers reads."""
    machine, tree, merged = machine_for(release), tree_for(release, options), tmp_path / f"merged-{name}"
    arguments = ["--backend=fsdp", f"--local_dir={actor}", f"--target_dir={merged}"]
    return runs.run(f"{release} merge {name}", machine, tree, ["-m", "verl.model_merger", "merge", *arguments]), merged
