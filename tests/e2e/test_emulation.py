"""The emulated card refuses what a P40's user sees refused, and nothing else."""

from __future__ import annotations

import json

import pytest

from e2e import runs
from e2e.cases import by_release
from e2e.logs import REPORTED

pytestmark = pytest.mark.e2e

REFUSED = {
    "make": ("torch.zeros(2, dtype=torch.bfloat16)", "bf16"),
    "cast": ("torch.ones(2).to(torch.bfloat16)", "bf16"),
    "method": ("torch.ones(2).bfloat16()", "bf16"),
    "module": ("torch.nn.Linear(2, 2).bfloat16()", "bf16"),
    "module, keyword": ("torch.nn.Linear(2, 2).to(dtype=torch.bfloat16)", "bf16"),
    "arithmetic on a loaded tensor": ("loaded() + 1", "bf16"),
    "a result of another dtype": ("loaded() == 1", "bf16"),
    "in place": ("loaded().add_(1)", "bf16"),
    "in another thread": ("in_thread(lambda: torch.ones(2).bfloat16())", "bf16"),
    "in a gradient": ("torch.ones(2, requires_grad=True).bfloat16().sum().backward()", "bf16"),
    "autocast": ("torch.autocast(device_type='cuda', dtype=torch.bfloat16)", "bf16"),
    "autocast, positional": ("torch.amp.autocast('cpu', torch.bfloat16)", "bf16"),
    "autocast, old spelling": ("torch.cuda.amp.autocast(True, torch.bfloat16)", "bf16"),
    "default dtype": ("torch.set_default_dtype(torch.bfloat16)", "bf16"),
    "compiled function": ("torch.compile(lambda x: x)(1)", "triton"),
    "compiled by decorator": ("torch.compile(dynamic=True)(lambda x: x)(1)", "triton"),
    "compiled module": ("torch.compile(torch.nn.Linear(2, 2))(torch.ones(2))", "triton"),
}
ALLOWED = {
    "float32": "torch.ones(2) + 1",
    "float16": "torch.ones(2).half() + 1",
    "float32 autocast": "torch.autocast(device_type='cpu', dtype=torch.float32)",
    "bf16 autocast that is off": "torch.autocast('cuda', dtype=torch.bfloat16, enabled=False)",
    "convert a loaded tensor": "loaded().float() + loaded().to(torch.float16)",
    "cut and copy a loaded tensor": "torch.zeros(2).copy_(loaded()[1:].view(-1))",
    "shape without data": "torch.zeros(2, dtype=torch.bfloat16, device='meta')",
    "make a compiled function": "torch.compile(lambda x: x)",
    "name the dtype": "getattr(torch, 'bfloat16')",
}
FLASH = {
    "absent": ("import flash_attn", "no-flash-attn"),
    "absent, a part of it": ("from flash_attn.bert_padding import pad_input", "no-flash-attn"),
    "installed": ("import flash_attn; flash_attn.flash_attn_func(1, 2, 3)", "ampere"),
    "installed, packed": ("from flash_attn import flash_attn_varlen_func as f; f(*range(7))", "ampere"),
    "installed, cross entropy": (
        "from flash_attn.ops.triton.cross_entropy import cross_entropy_loss; cross_entropy_loss()",
        "triton",
    ),
    "installed, padding": ("from flash_attn.bert_padding import pad_input, rearrange, unpad_input", None),
}

PROBE = """
import json, sys, threading, warnings
warnings.simplefilter("ignore")
import torch
from safetensors.torch import load
import numpy, struct

def loaded():
    header = json.dumps({"w": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    return load(struct.pack("<Q", len(header)) + header + numpy.zeros(3, "<u2").tobytes())["w"]

def in_thread(function):
    caught = []
    def call():
        try:
            function()
        except Exception as error:
            caught.append(error)
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    raise caught[0] if caught else AssertionError("no error in the thread")

results = {}
for name, code in json.loads(sys.argv[1]).items():
    try:
        exec(code)
        results[name] = None
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print("RESULTS" + json.dumps(results))
"""


def probe(machine, tmp_path, code, flash="absent"):
    script = tmp_path / "probe.py"
    script.write_text(PROBE)
    outcome = runs.run("probe", machine, tmp_path, [str(script), json.dumps(code)], flash=flash)
    assert outcome.code == 0, outcome.tail()
    return json.loads(outcome.log.partition("RESULTS")[2])


@by_release(dict.fromkeys(("0.4.1", "0.9.0")))
def test_what_is_refused_and_what_is_not(release, expected, machine_for, tmp_path):
    code = {name: code for name, (code, _) in REFUSED.items()} | ALLOWED
    results = probe(machine_for(release), tmp_path, code)
    assert {name: results[name] for name in ALLOWED} == dict.fromkeys(ALLOWED)
    for name, (_, error) in REFUSED.items():
        assert REPORTED[error] in (results[name] or ""), (name, results[name])
        assert "[legacy-gpu: " in results[name]


@pytest.mark.parametrize("state", ["absent", "installed"])
def test_flash_attn(state, machine_for, tmp_path):
    cases = {name: case for name, case in FLASH.items() if name.startswith(state)}
    results = probe(machine_for("0.4.1"), tmp_path, {name: code for name, (code, _) in cases.items()}, flash=state)
    for name, (_, error) in cases.items():
        assert results[name] is None if error is None else REPORTED[error] in (results[name] or ""), results


def test_log_mode_names_the_line_of_verl_and_goes_on(machine_for, tmp_path):
    module = tmp_path / "verl" / "workers" / "thing.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import torch\n\ndef run():\n    x = torch.ones(2).to(torch.bfloat16)\n"
        "    torch.compile(abs)(1)\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        return x.float()\n"
        "\ntry:\n    import flash_attn\nexcept ImportError:\n    pass\n"
    )
    log = tmp_path / "violations"
    outcome = runs.run(
        "log",
        machine_for("0.4.1"),
        tmp_path,
        ["-c", "from verl.workers.thing import run; print(run())"],
        gpu="log",
        environment={"LEGACY_GPU_LOG": str(log)},
    )
    assert outcome.code == 0, outcome.tail()
    assert "tensor([1., 1.])" in outcome.log
    assert [line.partition("[legacy-gpu] ")[2] for line in log.read_text().splitlines()] == [
        "import flash_attn @ verl/workers/thing.py:10",
        "aten::_to_copy @ verl/workers/thing.py:4",
        "torch.compile of abs @ verl/workers/thing.py:5",
        "torch.autocast('cpu', dtype=torch.bfloat16) @ verl/workers/thing.py:6",
    ]


def test_off_is_off(machine_for, tmp_path):
    code = "import torch; print(torch.ones(2).bfloat16() + 1)"
    outcome = runs.run("off", machine_for("0.4.1"), tmp_path, ["-c", code], gpu="off")
    assert outcome.code == 0 and "bfloat16" in outcome.log, outcome.tail()
