"""The estimate against numbers worked out by hand, and the sizes that are read of a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch_minis import QWEN, model, safetensors

from verl_legacy_patch.launch import LaunchError
from verl_legacy_patch.launch.fitting import enough_gpus, fit, shares, whole_batch
from verl_legacy_patch.launch.gpu import GIB, find_card
from verl_legacy_patch.launch.memory import Choice, Estimate, Job, Phase, cache_of, estimate, host
from verl_legacy_patch.launch.model import read_model

#: Published numbers of parameters (model cards and papers), and the fields of config.json that make them.
KNOWN = {
    494_032_768: {},  # Qwen2.5-0.5B
    1_543_714_304: {  # Qwen2.5-1.5B
        "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960,
    },
    7_615_616_512: {  # Qwen2.5-7B
        "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
    },
    1_235_814_400: {  # Llama-3.2-1B
        "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "head_dim": 64,
    },
    596_049_920: {  # Qwen3-0.6B
        "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 151936, "head_dim": 128,
    },
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "fields"), KNOWN.items())
def test_parameters_of_known_models(parameters: int, fields: dict[str, int], tmp_path: Path) -> None:
    found = read_model(model(tmp_path, **fields))
    assert found.parameters == parameters and not found.counted


def test_the_weights_say_it_exactly(tmp_path: Path) -> None:
    folder = model(tmp_path)
    safetensors(folder / "model.safetensors", embed=[151936, 896], layer=[10, 20])
    found = read_model(folder)
    assert (found.parameters, found.counted, found.notes) == (151936 * 896 + 200, True, ())
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    found = read_model(folder)
    assert (found.parameters, found.counted, found.notes) == (494_032_768, False, ("weights-broken",))


@pytest.mark.parametrize("there", [True, False])
def test_weights_in_several_files(there: bool, tmp_path: Path) -> None:
    folder = model(tmp_path)
    index = {"metadata": {"total_size": 2 * 1000}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if there:
        safetensors(folder / "1.safetensors", a=[5, 100])
        safetensors(folder / "2.safetensors", b=[300])
    assert read_model(folder).parameters == (800 if there else 1000)


@pytest.mark.parametrize(
    "index", ["{", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": "../x"}, "metadata": {}}']
)
def test_a_broken_index_is_a_note(index: str, tmp_path: Path) -> None:
    folder = model(tmp_path)
    (folder / "model.safetensors.index.json").write_text(index)
    found = read_model(folder)
    assert found.parameters == 494_032_768 and found.notes == ("weights-broken",)


def test_text_part_of_a_vision_model(tmp_path: Path) -> None:
    tmp_path.joinpath("config.json").write_text(json.dumps({"model_type": "x_vl", "text_config": QWEN}))
    found = read_model(tmp_path)
    assert (found.parameters, found.notes, found.kind) == (494_032_768, ("vision",), "qwen2")


def test_experts_without_weights_are_a_guess(tmp_path: Path) -> None:
    found = read_model(model(tmp_path, num_experts=8, moe_intermediate_size=100, num_experts_per_tok=2))
    assert found.notes == ("moe",) and found.intermediate == 200


def job(**changed: object) -> Job:
    return Job("grpo", 1, 512, 512, 4, 32, rollout="hf")._replace(**changed)


def part(found: Estimate, key: str, phase: Phase) -> float:
    return sum(row.bytes.get(phase, 0) for row in found.rows if row.key == key)


def test_an_update_by_hand(tmp_path: Path) -> None:
    """Qwen2.5-0.5B on one card, 2 sequences of 1024 tokens, float32."""
    found = estimate(read_model(model(tmp_path)), job(), Choice(micro=2))
    assert part(found, "weights", "actor") == 4 * 494_032_768  # 1.84 GiB
    assert part(found, "gradients", "actor") == 4 * 494_032_768
    assert part(found, "optimizer", "actor") == 8 * 494_032_768
    assert part(found, "gathered", "actor") == 0  # nothing is sharded
    checkpoints = 24 * 2 * 1024 * 896 * 4
    layer = 2 * 1024 * (16 * 896 + 6 * 4864) * 4
    scores = 4 * (2 * 14 * 1024 * 1024) * 4
    assert part(found, "activations", "actor") == checkpoints + layer + scores
    logits = 2 * 1024 * 151936 * 4
    assert part(found, "logits", "actor") == 2 * logits + 3 * logits / 2
    assert "critic" not in found.phases


def test_sharding_over_gpus_by_hand(tmp_path: Path) -> None:
    small = read_model(model(tmp_path))
    wrapped = estimate(small, job(gpus=4, rollout="vllm"), Choice())
    assert part(wrapped, "weights", "actor") == 494_032_768  # 4 bytes over 4 GPUs
    embedding, layers = 151936 * 896, 2 * ((494_032_768 - 151936 * 896) // 24)
    assert part(wrapped, "gathered", "actor") == 2 * 4 * (embedding + layers)
    # the HF rollout has no wrapping by layers: every GPU gathers all weights, and all gradients
    whole = estimate(small, job(gpus=4), Choice())
    assert part(whole, "gathered", "actor") == 2 * 4 * 494_032_768
    assert part(whole, "gathered", "generate") == 4 * 494_032_768


def test_the_cache_by_hand(tmp_path: Path) -> None:
    """Keys and values of 24 layers, 2 heads of 64, 1024 tokens, 4 bytes: 24 MiB a sequence."""
    small = read_model(model(tmp_path))
    assert cache_of(small, job()) == 2 * 24 * 2 * 64 * 1024 * 4 == 24 * 2**20
    assert cache_of(small, job(), tensor=2) == 12 * 2**20
    assert cache_of(small, job(), tensor=4) == 12 * 2**20  # a head cannot be halved: it is there twice
    assert cache_of(small, job(compute=2)) == 12 * 2**20
    found = estimate(small, job(), Choice(chunk=8))
    assert part(found, "cache", "generate") == 8 * 4 * 24 * 2**20


def test_offloading_by_hand(tmp_path: Path) -> None:
    small = read_model(model(tmp_path))
    parameters = 494_032_768
    for offload, waits in (("none", 12), ("optimizer", 4), ("all", 0), ("stream", 0)):
        found = estimate(small, job(algorithm="ppo", samples=1, rollout="vllm"), Choice(offload=offload))
        assert part(found, "others", "critic") == waits * parameters, offload
        expected = 0 if offload == "stream" else 16 * parameters
        keys = ("weights", "gradients", "optimizer")
        assert sum(part(found, key, "actor") for key in keys) == expected, offload
    assert host(small, job(), Choice(offload="none"), reference=True) == 4 * parameters
    assert host(small, job(), Choice(offload="stream"), reference=False) == 16 * parameters


def test_attention_without_a_score_matrix_takes_less(tmp_path: Path) -> None:
    small = read_model(model(tmp_path))
    eager, sdpa = (estimate(small, job(eager=eager), Choice()) for eager in (True, False))
    assert part(eager, "activations", "actor") - part(sdpa, "activations", "actor") == 16 * 14 * 1024**2


def test_the_largest_batch_that_fits_is_taken(tmp_path: Path) -> None:
    small, card = read_model(model(tmp_path)), find_card("p40", None)
    found = fit(small, job(), card, ("none", "optimizer"))
    assert found.fits and found.choice.offload == "none"
    assert found.estimate.worst() <= card.usable
    double = estimate(small, job(), found.choice._replace(micro=found.choice.micro * 2))
    assert double.total("actor") > 0.9 * card.usable
    assert 32 * 4 % found.choice.micro == 0 and 32 % found.choice.chunk == 0


def test_offloading_starts_where_it_is_needed(tmp_path: Path) -> None:
    small = read_model(model(tmp_path))
    levels = ("none", "optimizer", "all", "stream")
    chosen = []
    for memory in (40, 16, 12, 10, 8):
        found = fit(small, job(algorithm="ppo", samples=1, rollout="vllm"), find_card("p40", memory), levels)
        chosen.append(found.choice.offload if found.fits else "no")
    assert chosen[0] == "none" and len(set(chosen)) > 2
    order = [*levels, "no"]
    assert [order.index(one) for one in chosen] == sorted(order.index(one) for one in chosen)


def test_what_does_not_fit_names_enough_gpus(tmp_path: Path) -> None:
    big = read_model(model(tmp_path, **KNOWN[7_615_616_512]))
    card, levels = find_card("p40", None), ("none", "optimizer", "all")
    found = fit(big, job(rollout="vllm"), card, levels)
    assert not found.fits and found.estimate.states() > card.usable
    gpus = enough_gpus(big, job(rollout="vllm"), card, levels)
    # 16 bytes for each of 7.6e9 parameters are 113.5 GiB, or 6 cards; but embedding and output layer are gathered on
    # each card, with their gradients, and they alone are 8 GiB: 16 cards are just not enough
    assert gpus == 32
    more = fit(big, job(gpus=gpus, rollout="vllm"), card, levels)
    assert more.fits and gpus % more.choice.tensor == 0 and 28 % more.choice.tensor == 0


def test_the_part_of_the_card_for_the_engine(tmp_path: Path) -> None:
    small, card = read_model(model(tmp_path)), find_card("p40", None)
    found = fit(small, job(rollout="vllm"), card, ("none",))
    own = 4 * 494_032_768 / found.choice.tensor
    assert found.utilization * card.memory * GIB >= own + found.choice.cache
    assert found.choice.cache >= 4 * cache_of(small, found.job)
    assert found.estimate.total("generate") <= card.usable


def test_which_numbers_of_gpus_share_an_engine(tmp_path: Path) -> None:
    small = read_model(model(tmp_path))  # 14 heads, 2 KV heads
    assert {gpus: list(shares(small, gpus)) for gpus in (1, 2, 6, 7, 14)} == {
        1: [1],
        2: [1, 2],
        6: [1, 2],
        7: [1],
        14: [1, 2, 14],
    }


def test_batches() -> None:
    assert [whole_batch(None, gpus) for gpus in (1, 3, 8, 48)] == [32, 33, 32, 48]
    assert whole_batch(12, 4) == 12
    with pytest.raises(LaunchError, match="use 8"):
        whole_batch(10, 4)
    with pytest.raises(LaunchError, match="use 4"):
        whole_batch(3, 4)


def test_budget_holds_a_whole_sequence() -> None:
    for prompt, response in ((1, 1), (512, 512), (1000, 25), (8192, 4096)):
        budget = job(prompt=prompt, response=response).budget
        assert budget >= prompt + response and budget % 256 == 0 and budget >= 256


@pytest.mark.parametrize(
    ("name", "memory"),
    [("p40", 24), ("Tesla P4", 8), ("t4", 16), ("V100 32GB", 32), ("titan v", 12), ("rtx8000", 48), ("1080ti", 11)],
)
def test_memory_of_cards(name: str, memory: int) -> None:
    card = find_card(name, None)
    assert card.memory == memory
    assert card.usable == pytest.approx((memory * 0.94 - 1) * GIB)
    assert find_card(name, 10).memory == 10


def test_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from verl_legacy_patch import cards
    from verl_legacy_patch.capability import Capability

    found = [cards.Card("Tesla T4", Capability(7, 5), 15360), cards.Card("Tesla P40", Capability(6, 1), 22919)]
    monkeypatch.setattr(cards, "read_cards", lambda *_: found)
    card = find_card("auto", None)
    assert (card.name, card.capability, card.memory) == ("Tesla P40", Capability(6, 1), 15.0)  # the least of all
    monkeypatch.setattr(cards, "read_cards", lambda *_: [cards.Card("Tesla T4", Capability(7, 5))])
    with pytest.raises(LaunchError, match="--memory"):
        find_card("auto", None)
    assert find_card("auto", 16).memory == 16

    def none(*_: object) -> list[cards.Card]:
        raise cards.NoCards("cannot run nvidia-smi")

    monkeypatch.setattr(cards, "read_cards", none)
    with pytest.raises(LaunchError, match="name the GPU instead"):
        find_card("auto", None)
