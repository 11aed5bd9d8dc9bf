"""The guard against real transformers on both sides of 4.53.1: it raises exactly where a packed row leaks.

By itself, and as verl calls it: through ``apply_monkey_patch`` of rewritten releases, which every role calls.

Makes one virtual environment per version in ~/.cache/verl-patch-tests/venvs (about 1 GB each, kept); releases of verl
run in the environments of ``tests/e2e``, with another transformers laid over where one is asked for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from e2e.venvs import python_for
from rewritten import rewritten, source

pytestmark = pytest.mark.e2e

GUARD = Path(__file__).parents[2] / "codemods" / "support" / "packing_guard.py"
VENVS = Path.home() / ".cache" / "verl-patch-tests" / "venvs"
TORCH = "torch==2.13.0"
BEFORE, AFTER = "transformers==4.51.3", "transformers==4.53.3"

# Packed and padded forward of one tiny random model, float32 on the CPU; prints one JSON object.
PROBE = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import torch, transformers
sys.path.insert(0, sys.argv[1])
from packing_guard import check_packing

architecture, attention = sys.argv[2:]
torch.manual_seed(0)
config = transformers.AutoConfig.for_model(
    architecture, vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15,
    **({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32} if architecture == "qwen2_moe" else {}),
)
model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).float().eval()
lengths = [40, 8, 23, 18, 15]
ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
mask = torch.zeros_like(ids)
for row, length in enumerate(lengths):
    ids[row, -length:] = torch.randint(3, 512, (length,))
    mask[row, -length:] = 1
positions = (mask.cumsum(-1) - 1).clamp(min=0)
keep = mask.bool()

def logits(ids, mask, positions):
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits

padded = logits(ids, mask, positions)[keep]
packed = logits(ids[keep][None], None, positions[keep][None])[0]
alone = torch.cat([logits(i[k][None], None, p[k][None])[0] for i, k, p in zip(ids, keep, positions)])

def refusal(target, packing=True, sp=1):
    try:
        check_packing(target, packing, sp)
    except RuntimeError as error:
        return str(error)

print(json.dumps({
    "transformers": transformers.__version__,
    "packed": float((packed - alone).abs().max()),
    "padded": float((padded - alone).abs().max()),
    "refusal": refusal(model),
    "refusal_of_config": refusal(model.config),
    "refusal_of_padding": refusal(model, packing=False),
    "refusal_of_sp": refusal(model, sp=2),
}))
"""


def python_with(*pins: str) -> Path:
    """The interpreter of a cached environment that holds the pins."""
    home = VENVS / "+".join(pins).replace("==", "-")
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pins, "numpy"], check=True)
        ready.touch()
    return python


def probe(transformers: str, architecture: str, attention: str) -> dict[str, Any]:
    python = str(python_with(TORCH, transformers))
    command = [python, "-c", PROBE, str(GUARD.parent), architecture, attention]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    print(f"{transformers} {architecture} {attention}: packed {result['packed']:.1e}", end=", ")
    print(f"padded {result['padded']:.1e}, guard {'raises' if result['refusal'] else 'passes'}")
    return result


# qwen2_moe still builds its mask by itself in 4.53.3: there the version alone would let the leak through.
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    ("transformers", "architecture", "leaks"),
    [
        (BEFORE, "llama", True),
        (BEFORE, "qwen2", True),
        (BEFORE, "qwen2_moe", True),
        (AFTER, "llama", False),
        (AFTER, "qwen2", False),
        (AFTER, "qwen2_moe", True),
    ],
)
def test_the_guard_raises_exactly_where_packed_samples_attend_to_each_other(
    transformers: str, architecture: str, attention: str, leaks: bool
) -> None:
    result = probe(transformers, architecture, attention)
    assert result["transformers"] == transformers.partition("==")[2]
    assert result["padded"] < 1e-4
    assert result["refusal_of_padding"] is None
    assert "ulysses_sequence_parallel_size=1" in result["refusal_of_sp"]
    if leaks:
        assert result["packed"] > 1e-2
        assert "actor_rollout_ref.model.use_remove_padding=False" in result["refusal"]
    else:
        assert result["packed"] < 1e-4
        assert result["refusal"] is None
    assert (result["refusal_of_config"] is not None) == (transformers == BEFORE)


# What a worker does before it packs: the model as configured, then verl's patch; and what the packed rows are then.
AS_VERL = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
import torch, transformers
from verl.models.transformers.monkey_patch import apply_monkey_patch
logging.disable(logging.WARNING)

def model(architecture, attention):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        architecture, vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.15,
    )
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).float().eval()

def refusal(architecture, attention, **options):
    try:
        apply_monkey_patch(model(architecture, attention), **options)
    except RuntimeError as error:
        return str(error)

def leak(architecture, attention):
    made = model(architecture, attention)
    first, second = torch.randint(3, 512, (1, 24)), torch.randint(3, 512, (1, 16))
    positions = [torch.arange(part.shape[1])[None] for part in (first, second)]
    with torch.no_grad():
        packed = made(torch.cat([first, second], 1), position_ids=torch.cat(positions, 1), use_cache=False).logits
        alone = made(second, position_ids=positions[1], use_cache=False).logits
    return float((packed[:, 24:] - alone).abs().max())

found = {}
for architecture in ("llama", "qwen2"):
    for attention in ("eager", "sdpa"):
        leaks = leak(architecture, attention)  # before anything is patched: the patches are of whole modules
        found[f"{architecture} {attention}"] = {
            "leak": leaks,
            "packed": refusal(architecture, attention, use_remove_padding=True),
            "padded": refusal(architecture, attention, use_remove_padding=False),
        }
found["sequence parallel"] = refusal("llama", "eager", use_remove_padding=True, ulysses_sp_size=2)
print("RESULTS" + json.dumps({"transformers": transformers.__version__, "found": found}))
"""


def overlay(python: Path, version: str) -> Path:
    """A folder with one release of transformers and nothing else, made once."""
    folder = VENVS / f"overlay-transformers-{version}"
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        what = ["--no-deps", "--target", str(folder), f"transformers=={version}"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *what], check=True)
        (folder / ".ready").touch()
    return folder


def as_verl(release: str, tree: Path, version: str | None, folder: Path) -> dict[str, Any]:
    """What apply_monkey_patch of a tree says, and how much a packed row leaks, with a release of transformers."""
    python = python_for(release)
    path = [str(tree)] + ([str(overlay(python, version))] if version else [])
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env |= {"PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    run = subprocess.run([python, "-c", AS_VERL], cwd=folder, env=env, capture_output=True, text=True)
    assert "RESULTS" in run.stdout, run.stderr
    result: dict[str, Any] = json.loads(run.stdout.rpartition("RESULTS")[2])
    assert version is None or result["transformers"] == version
    return result["found"]  # type: ignore[no-any-return]


# Release of verl, transformers (None: that of its environment), whether packed rows leak with it.
@pytest.mark.parametrize(
    ("release", "version", "leaks"),
    [
        ("0.4.1", None, True),
        ("0.4.1", "4.53.0", True),
        ("0.4.1", "4.53.1", False),
        ("0.5.0", None, True),
        ("0.5.0", "4.53.1", False),
        ("0.9.0", None, False),
    ],
)
def test_a_rewritten_verl_refuses_what_the_published_one_trains_on(
    release: str, version: str | None, leaks: bool, tmp_path: Path
) -> None:
    cure = "actor_rollout_ref.model.use_remove_padding=False"
    published = as_verl(release, source(release), version, tmp_path)
    patched = as_verl(release, rewritten(release, tmp_path), version, tmp_path)
    for found in (published, patched):
        sequence_parallel = found.pop("sequence parallel")
        assert (sequence_parallel is not None) == (found is patched)
        for result in found.values():
            assert (result["leak"] > 1e-2) == leaks
            assert leaks or result["leak"] < 1e-5
            assert result["padded"] is None
            if found is patched and leaks:
                assert cure in result["packed"]
            else:
                assert result["packed"] is None
        if found is patched:
            assert "ulysses_sequence_parallel_size=1" in sequence_parallel


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "e2e", "-s", *sys.argv[1:]]))
