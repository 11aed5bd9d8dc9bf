"""A text generation server on plain transformers, for releases of verl whose rollouts are all servers (v0.7 on).

Written against v0.9.0. It stands in for vLLM and says nothing about it, but for one check that it repeats in vLLM's
words: under the emulated GPU it refuses ``rollout.dtype=bfloat16``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import legacy_gpu
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

#: How long a request waits for others to be decoded with.
GATHER_SECONDS = 0.05
BATCH = 32


@dataclass
class Request:
    """One prompt that waits for its answer."""

    prompt: list[int]
    length: int
    temperature: float
    answer: asyncio.Future[tuple[list[int], list[float]]]


class Server:
    """The Ray actor that holds the model."""

    def __init__(self, config: Any, path: str, eos: int, pad: int) -> None:
        from transformers import AutoModelForCausalLM

        dtype = str(config.dtype)
        if legacy_gpu.MODE != "off" and dtype in ("bfloat16", "bf16", "auto"):
            from legacy_gpu import violations

            violations.bf16(f"rollout.dtype={dtype}")
        torch.set_num_threads(1)
        self.config, self.eos, self.pad = config, eos, pad
        self.model = AutoModelForCausalLM.from_pretrained(
            path, torch_dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.busy = asyncio.Lock()
        self.waiting: list[Request] = []
        self.step: Any = None

    async def load(self, weights: dict[str, torch.Tensor], step: Any) -> None:
        """Take the trainer's weights."""
        async with self.busy:
            self.model.load_state_dict(weights, strict=False)
            self.step = step

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **more: Any
    ) -> TokenOutput:
        """Answer one prompt, together with those that arrive shortly after it."""
        length = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens")
        request = Request(
            list(prompt_ids),
            int(length or self.config.response_length),
            float(sampling_params.get("temperature", 1.0)),
            asyncio.get_running_loop().create_future(),
        )
        self.waiting.append(request)
        if len(self.waiting) == 1:
            await asyncio.sleep(GATHER_SECONDS)
            async with self.busy:
                work, self.waiting = self.waiting, []
                for start in range(0, len(work), BATCH):
                    self._decode(work[start : start + BATCH])
        tokens, log_probs = await request.answer
        return TokenOutput(
            token_ids=tokens, log_probs=log_probs, stop_reason="completed", extra_fields={"global_steps": self.step}
        )

    @torch.no_grad()
    def _decode(self, work: list[Request]) -> None:
        """Sample all answers of a left-padded batch, token by token."""
        width = max(len(request.prompt) for request in work)
        ids = torch.tensor([[self.pad] * (width - len(r.prompt)) + r.prompt for r in work])
        mask = torch.tensor([[0] * (width - len(r.prompt)) + [1] * len(r.prompt) for r in work])
        heat = torch.tensor([request.temperature for request in work])
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        answers: list[tuple[list[int], list[float]]] = [([], []) for _ in work]
        open_rows = set(range(len(work)))
        cache = None
        while open_rows:
            out = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache = out.past_key_values
            scale = torch.where(heat > 0, heat, torch.ones_like(heat))[:, None]
            log_probs = (out.logits[:, -1].float() / scale).log_softmax(-1)
            sampled = torch.multinomial(log_probs.exp(), 1).squeeze(-1)
            chosen = torch.where(heat > 0, sampled, log_probs.argmax(-1))
            for row in list(open_rows):
                token = int(chosen[row])
                answers[row][0].append(token)
                answers[row][1].append(float(log_probs[row, token]))
                if token == self.eos or len(answers[row][0]) >= work[row].length:
                    open_rows.remove(row)
            ids, mask = chosen[:, None], torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            positions = positions[:, -1:] + 1
        for request, answer in zip(work, answers, strict=True):
            request.answer.set_result(answer)

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """Stand in for what a real server does with its memory: there is nothing to do."""

    abort_all_requests = clear_kv_cache = release_kv_cache = resume_generation = resume_kv_cache = nothing
    sleep = start_profile = stop_profile = wake_up = nothing


class Replica(RolloutReplica):
    """Starts the server."""

    async def launch_servers(self) -> None:
        """Start one server, and wait for it: an error of its constructor appears here."""
        from transformers import AutoTokenizer

        path = self.model_config.get("path") if hasattr(self.model_config, "get") else self.model_config.path
        tokenizer = AutoTokenizer.from_pretrained(path)
        options = {"name": f"hf_server_{self.replica_rank}", "num_cpus": 0, "max_concurrency": 64}
        server = (
            ray.remote(Server)
            .options(**options)
            .remote(self.config, path, tokenizer.eos_token_id, tokenizer.pad_token_id)
        )
        await server.nothing.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, "127.0.0.1:0"


class Adapter(BaseRollout):
    """The trainer's side: hands the weights over."""

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: no memory was released."""

    async def release(self) -> None:
        """Do nothing: the server keeps its memory."""

    async def update_weights(self, weights: Any, global_steps: Any = None, **more: Any) -> None:
        """Copy all weights to the server."""
        state = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        await ray.get_actor("hf_server_0").load.remote(state, global_steps)
