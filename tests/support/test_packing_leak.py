"""The guard against real transformers on both sides of 4.53.1: it raises exactly where a packed row leaks.

Makes one virtual environment per version in ~/.cache/verl-patch-tests/venvs (about 1 GB each, kept).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "e2e", "-s", *sys.argv[1:]]))
