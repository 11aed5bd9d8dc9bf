"""Compares the log-probabilities of a tree's own actor code with a plain float32 forward of each sample alone.

``python logprobs.py MODEL``, on the emulated card with the tree on PYTHONPATH. Prints ``RESULT`` and a JSON object:
for a padded and for a packed (``use_remove_padding``) batch of uneven lengths the largest difference of each sample
to the reference, or the first line of the error that the tree refuses it with.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

#: Tokens of the prompts and responses of a batch, and the width that each is padded to.
PROMPTS, RESPONSES = (24, 3, 11, 17, 6), (16, 5, 12, 1, 9)
PROMPT_WIDTH, RESPONSE_WIDTH = 24, 16


class Batch:
    """Random tokens: prompts padded on the left, responses on the right."""

    def __init__(self) -> None:
        generate = torch.Generator().manual_seed(1)
        shape = (len(PROMPTS), PROMPT_WIDTH + RESPONSE_WIDTH)
        self.ids = torch.zeros(shape, dtype=torch.long)
        self.mask = torch.zeros(shape, dtype=torch.long)
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            place = slice(PROMPT_WIDTH - prompt, PROMPT_WIDTH + response)
            self.ids[row, place] = torch.randint(3, 512, (prompt + response,), generator=generate)
            self.mask[row, place] = 1
        self.positions = (self.mask.cumsum(-1) - 1).clamp(min=0)

    def samples(self) -> list[torch.Tensor]:
        """Return the tokens of each sample without padding."""
        return [ids[mask.bool()] for ids, mask in zip(self.ids, self.mask, strict=True)]


def load(path: str) -> Any:
    """Return the model in float32 with eager attention."""
    return AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32, attn_implementation="eager").eval()


@torch.no_grad()
def reference(path: str, batch: Batch) -> list[torch.Tensor]:
    """Return the log-probabilities of each response, computed without verl, padding or a batch."""
    model = load(path)
    found = []
    for tokens, prompt in zip(batch.samples(), PROMPTS, strict=True):
        log_probs = model(input_ids=tokens[None], use_cache=False).logits[0].float().log_softmax(-1)
        found.append(log_probs[prompt - 1 : -1].gather(-1, tokens[prompt:, None]).squeeze(-1))
    return found


def by_actor(path: str, batch: Batch, packed: bool) -> list[torch.Tensor]:
    """Return them as ``DataParallelPPOActor`` computes them (v0.1 to v0.7)."""
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.models.transformers.monkey_patch import apply_monkey_patch
    from verl.workers.actor.dp_actor import DataParallelPPOActor

    model = load(path)
    apply_monkey_patch(model=model, use_remove_padding=packed)
    config = {
        "use_remove_padding": packed,
        "ulysses_sequence_parallel_size": 1,
        "entropy_from_logits_with_chunking": False,
        "entropy_checkpointing": False,
    }
    actor = DataParallelPPOActor(OmegaConf.create(config), actor_module=model)
    data = DataProto.from_dict(
        tensors={
            "input_ids": batch.ids,
            "attention_mask": batch.mask,
            "position_ids": batch.positions,
            "responses": batch.ids[:, PROMPT_WIDTH:],
        },
        meta_info={"micro_batch_size": len(PROMPTS), "temperature": 1.0, "use_dynamic_bsz": False},
    )
    log_probs, _ = actor.compute_log_prob(data)
    return [row[:length] for row, length in zip(log_probs, RESPONSES, strict=True)]


@torch.no_grad()
def by_engine(path: str, batch: Batch, packed: bool) -> list[torch.Tensor]:
    """Return them as ``FSDPEngineWithLMHead`` prepares and reads a forward of its model (v0.8 on)."""
    from verl.models.transformers.monkey_patch import apply_monkey_patch
    from verl.utils import tensordict_utils, torch_functional
    from verl.utils.dataset.dataset_utils import DatasetPadMode
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    model = load(path)
    apply_monkey_patch(model=model, use_remove_padding=packed)
    engine = FSDPEngineWithLMHead.__new__(FSDPEngineWithLMHead)
    vars(engine).update(
        module=model,
        rank=0,
        use_remove_padding=packed,
        use_ulysses_sp=False,
        ulysses_sequence_parallel_size=1,
        pad_to_length=False,
        compute_entropy_from_logits=torch_functional.entropy_from_logits,
        engine_config=SimpleNamespace(
            entropy_checkpointing=False,
            entropy_from_logits_with_chunking=False,
            use_torch_compile=False,
            forward_only=True,
        ),
        model_config=SimpleNamespace(use_remove_padding=packed, hf_config=model.config, mtp=None),
    )

    def nested(parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(parts, layout=torch.jagged)

    samples = batch.samples()
    micro_batch = tensordict_utils.get_tensordict(
        {
            "input_ids": nested(samples),
            "position_ids": nested([torch.arange(len(tokens)) for tokens in samples]),
            "loss_mask": nested([torch.ones(len(tokens)) for tokens in samples]),
            "temperature": torch.ones(len(samples)),
        },
        non_tensor_dict={
            "use_remove_padding": packed,
            "pad_mode": DatasetPadMode.NO_PADDING,
            "use_fused_kernels": False,
            "calculate_entropy": False,
            "pad_token_id": 0,
        },
    )
    inputs, arguments = engine.prepare_model_inputs(micro_batch=micro_batch)
    output = model(**inputs, use_cache=False)
    log_probs = engine.prepare_model_outputs(
        output=output, output_args=arguments, micro_batch=micro_batch, logits_processor_func=None
    )["log_probs"]
    return [
        log_probs[row][prompt - 1 : prompt - 1 + response]
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True))
    ]


def main() -> None:
    """Compare padded and packed batches with the reference."""
    path = sys.argv[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    batch = Batch()
    expected = reference(path, batch)
    compute = by_actor if importlib.util.find_spec("verl.workers.actor") else by_engine
    result: dict[str, Any] = {"code": compute.__name__}
    for name, packed in (("padded", False), ("packed", True)):
        try:
            found = compute(path, batch, packed)
        except RuntimeError as error:
            result[name] = str(error).splitlines()[0]
        else:
            result[name] = [float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)]
    print("RESULT" + json.dumps(result))


if __name__ == "__main__":
    main()
