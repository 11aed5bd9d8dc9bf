"""Makes a tiny random Qwen2 model with a tokenizer, laid out as real Qwen2.5 files are: bfloat16 weights, ChatML.

``python model.py FOLDER``, in the environment of a release. About 140,000 parameters, no download.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 512
END, START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on the sentences that the data consists of."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentences = (
        f"What is {a} plus {b}? The answer is {a + b}. user assistant system" for a in range(60) for b in range(20)
    )
    bpe.train_from_iterator(sentences, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def main(folder: Path) -> None:
    """Write model, tokenizer and generation defaults."""
    tokens = tokenizer()
    assert len(tokens) <= VOCABULARY
    tokens.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
        # larger than usual, so that a wrong attention mask changes the result visibly
        initializer_range=0.15,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    written = folder / "config.json"
    content = json.loads(written.read_text())
    content.pop("dtype", None)
    # the spelling that every release of transformers reads
    content["torch_dtype"] = "bfloat16"
    written.write_text(json.dumps(content, indent=2))
    generation = {
        "eos_token_id": [tokens.eos_token_id],
        "pad_token_id": tokens.pad_token_id,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
