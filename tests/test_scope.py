"""What is out of scope: by path, by content of test files, by key and by name."""

from __future__ import annotations

import pytest

from verl_legacy_patch.scope import backend, file_reason, setting_reason
from verl_legacy_patch.setting import Setting, Span

PYTEST = b"import torch\nimport pytest\n\n\ndef test_dtype():\n    assert make().dtype == torch.bfloat16\n"


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_actor.py",
        "recipe/prime/tests/run.sh",
        "docs/source/perf.py",
        ".github/workflows/gpu.yml",
        "verl/third_party/vllm/config.py",
        "training/verl/third_party/sglang/engine.py",
        "third_party/other/setup.py",
        "third_party/verl/verl/third_party/vllm/llm.py",
        "third_party/verl/tests/run.sh",
        "verl/workers/megatron_workers.py",
        "verl/models/mcore/loader.py",
        "examples/grpo_trainer/run_qwen_veomni.sh",
        "verl/trainer/config/engine/torchtitan.yaml",
        "verl/workers/engine/automodel/utils.py",
        "verl/checkpoint_engine/hccl_checkpoint_engine.py",
        "examples/ascend_extras/run.sh",
        "verl/models/transformers/npu_patch.py",
        "verl/workers/rollout/trtllm_rollout/server.py",
        "verl/utils/qat/linear.py",
        "verl/utils/vllm/vllm_quant_utils.py",
        "verl/utils/modelopt/quantize.py",
        "verl/utils/vllm/vllm_fp4_utils.py",
        "scripts/run_w8a8_fp8.sh",
        "verl/experimental/vla/actor.py",
    ],
)
def test_files_out_of_scope(path: str) -> None:
    assert file_reason(path)


@pytest.mark.parametrize(
    "path",
    [
        "verl/workers/fsdp_workers.py",
        "third_party/verl/verl/workers/actor/dp_actor.py",
        "external/verl/verl/trainer/config/ppo_trainer.yaml",
        "verl/models/transformers/llama.py",
        "scripts/sort_ascending.py",
        "recipe/quant_trading/run.sh",
        "recipe/quant/config/trainer.yaml",
        "verl/utils/vlm_utils.py",
        "examples/villa/inputs.py",
        "verl/utils/input_utils.py",
        "tests/trainer/config/legacy_ppo_trainer.yaml",
        "eval/test_aime.py",
    ],
)
def test_files_in_scope(path: str) -> None:
    assert file_reason(path, b"import torch\n") == ""


@pytest.mark.parametrize("path", ["recipe/queue/test_queue.py", "queue_test.py", "recipe/conftest.py", "a/test.py"])
def test_a_test_file_outside_of_tests_is_known_by_what_it_holds(path: str) -> None:
    assert file_reason(path, PYTEST) == "tests keep what they test"
    assert file_reason(path, b"model = load('bf16')\n") == ""
    assert file_reason(path.replace("test", "check"), PYTEST) == ""


@pytest.mark.parametrize("name", ["VeOmniEngineConfig", "AutomodelEngineConfig", "McoreConfig", "is_npu_available"])
def test_names_of_backends(name: str) -> None:
    assert backend(name).endswith("cannot run below compute capability 8.0")


@pytest.mark.parametrize("name", ["AutoModel", "AutoModelForCausalLM", "VLMConfig", "descend", "fsdp.dtype", "inputs"])
def test_names_of_other_things(name: str) -> None:
    assert backend(name) == ""


def test_a_setting_is_out_of_scope_by_its_key_or_by_what_is_around() -> None:
    setting = Setting(("actor", "fsdp_config", "dtype"), "bf16", Span(0, 4), "YAML value")
    assert setting_reason(setting) == ""
    inside = Setting(("actor", "megatron", "dtype"), "bf16", Span(0, 4), "YAML value")
    assert setting_reason(inside).startswith("Megatron")
    around = Setting(("dtype",), "bf16", Span(0, 4), "assignment", around=("", "TorchTitanConfig"))
    assert setting_reason(around).startswith("TorchTitan")
