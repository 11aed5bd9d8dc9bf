"""The command: what it writes, what it refuses, in which words."""

from __future__ import annotations

import json
import os
import re
import stat
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launch_minis import NEW, OLD, model, tree
from minis import Ran, Verl
from repos import make

from verl_legacy_patch.launch.words import texts


@pytest.fixture
def job(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checkout that needs no rewriting, a model and data; it is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    tree(tmp_path / "checkout")
    model(tmp_path / "model")
    for name in ("train", "val"):
        (tmp_path / f"{name}.parquet").touch()
    return tmp_path


def launch(verl: Verl, *more: str | Path, gpu: str = "p40", **changed: str) -> Ran:
    """Run the command on what is in the current folder."""
    given = {"model": "model", "train": "train.parquet", "val": "val.parquet", **changed}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    return verl("launch", "checkout", "--gpu", gpu, *options, *more)


def words_of(script: str | Path) -> list[str]:
    """Return what the script starts Python with."""
    shim = Path("shim")
    shim.mkdir(exist_ok=True)
    (shim / "python3").write_text('#!/bin/sh\nprintf "%s\\0" "$PYTHONPATH" "$@"\n')
    (shim / "python3").chmod(0o755)
    env = {"PATH": f"{shim.absolute()}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", script], env=env, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def keys_of(script: str | Path) -> dict[str, str]:
    words = [word.partition("=") for word in words_of(script)[1:]]
    return {key: value for key, equals, value in words if equals and not key.startswith("--")}


def test_it_writes_a_script_that_runs(job: Path, verl: Verl) -> None:
    ran = launch(verl, "-o", "run.sh").done("Wrote run.sh", "bash run.sh")
    script = job / "run.sh"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    path, *words = words_of(script)
    assert path == str(job / "checkout")
    assert words[:2] == ["-m", "verl.trainer.main_ppo"]
    found = keys_of(script)
    assert found["data.train_files"] == str(job / "train.parquet")
    assert found["actor_rollout_ref.model.path"] == str(job / "model")
    assert found["algorithm.adv_estimator"] == "grpo" and found["actor_rollout_ref.rollout.n"] == "4"
    out = ran.out.decode()
    assert "KV cache" in out and "total" in out and "4P/N" not in out
    [total] = [line.split()[2:] for line in script.read_text().splitlines() if line.startswith("# total")]
    assert f"total {' '.join(total)}" in " ".join(out.split())
    assert "4P/N" in script.read_text() and "c = 4 bytes" in script.read_text()
    assert list(job.glob(".verl-patch-*")) == []


def test_the_result_comes_first_then_the_table_with_its_unit(job: Path, verl: Verl) -> None:
    out = launch(verl).done().out.decode()
    first, blank, head, *rows = out.splitlines()
    assert re.fullmatch(r"Fits: an estimated \d+\.\d of 21\.6 GiB on each GPU \(most in: \w+\)", first) and blank == ""
    assert head.split() == ["GiB", "on", "each", "GPU", "generate", "update"]
    names = [re.split(r"\s{2,}", row)[0] for row in rows if row]
    assert len(set(names)) == len(names)
    assert {"activations (generate)", "activations (update)", "logits (generate)", "logits (update)"} <= set(names)
    more = launch(verl, "--force", "--formulas").done().out.decode()
    assert more.startswith(first) and "4P/N" in more and "P = 494,032,768 parameters" in more
    aside = launch(verl, "-o", "-").done().err
    assert aside.startswith(first) and "GiB on each GPU" in aside.partition("\n* ")[2]


def test_keys_that_nothing_reads_are_left_out(job: Path, verl: Verl) -> None:
    launch(verl, "--rollout", "vllm").done()
    found = keys_of("train.sh")
    # in the YAML, but FSDP's dtype is read nowhere: the class has another field, which the code reads
    assert "actor_rollout_ref.actor.fsdp_config.dtype" not in found
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert found["actor_rollout_ref.actor.use_torch_compile"] == "False"
    # nothing reads override_config.attn_implementation here
    assert not [key for key in found if "attn_implementation" in key]
    # neither key nor field, and no code that asks for it
    assert not [key for key in found if "filter_overlong" in key or "prefix_caching" in key]
    # read only through another value of the YAML
    assert found["data.max_response_length"] == "512"


def test_a_key_that_is_no_longer_read_goes(job: Path, verl: Verl) -> None:
    launch(verl).done()
    assert keys_of("train.sh")["trainer.test_freq"] == "-1"
    for path in ("trainer/ppo/ray_trainer.py", "trainer/fsdp_sft_trainer.py"):
        file = job / "checkout/verl" / path
        file.write_text(file.read_text().replace(", config.trainer.test_freq", "").replace("actor.use_kl_loss, ", ""))
    launch(verl, "--force").done()
    assert keys_of("train.sh").keys().isdisjoint({"trainer.test_freq", "actor_rollout_ref.actor.use_kl_loss"})


def test_what_reads_the_attention_brings_the_key_in(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/model.py": 'config = override_config.get("attn_implementation", "eager")\n'})
    launch(verl).done()
    assert keys_of("train.sh")["+actor_rollout_ref.model.override_config.attn_implementation"] == "eager"


def test_a_key_that_the_yaml_has_needs_no_plus(job: Path, verl: Verl) -> None:
    launch(verl).done()
    found = keys_of("train.sh")
    assert found["+trainer.val_before_train"] == "False"
    assert found["+actor_rollout_ref.rollout.micro_batch_size"]
    yaml = str(OLD["verl/trainer/config/ppo_trainer.yaml"]).replace(
        "  nnodes: 1", "  nnodes: 1\n  val_before_train: true"
    )
    (job / "checkout/verl/trainer/config/ppo_trainer.yaml").write_text(yaml)
    launch(verl, "--force").done()
    assert keys_of("train.sh")["trainer.val_before_train"] == "False"


def test_a_checkout_without_a_needed_key_is_refused(job: Path, verl: Verl) -> None:
    yaml = str(OLD["verl/trainer/config/ppo_trainer.yaml"]).replace("  train_batch_size: 1024\n", "")
    (job / "checkout/verl/trainer/config/ppo_trainer.yaml").write_text(yaml)
    launch(verl).refused(3, "data.train_batch_size")


def test_the_trainer_says_which_configuration_it_takes(job: Path, verl: Verl) -> None:
    yaml = job / "checkout/verl/trainer/config/ppo_trainer.yaml"
    yaml.rename(yaml.with_name("own.yaml"))
    launch(verl).refused(3, "ppo_trainer.yaml")
    main = job / "checkout/verl/trainer/main_ppo.py"
    main.write_text(main.read_text().replace("ppo_trainer", "own"))
    launch(verl).done()


def test_numbers_fit_together(job: Path, verl: Verl) -> None:
    assert "never run" in launch(verl, "--gpus", "2").done().err
    for gpus in (1, 2, 3, 6, 7):
        launch(verl, "--gpus", str(gpus), "--force", "--rollout", "vllm", "--prompt-length", "900").done()
        found = keys_of("train.sh")
        batch, samples = int(found["data.train_batch_size"]), int(found["actor_rollout_ref.rollout.n"])
        mini = int(found["actor_rollout_ref.actor.ppo_mini_batch_size"])
        micro = int(found["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"])
        assert batch % gpus == 0 and batch % mini == 0 and mini * samples // gpus % micro == 0
        assert gpus % int(found["actor_rollout_ref.rollout.tensor_model_parallel_size"]) == 0
        assert int(found["actor_rollout_ref.rollout.max_num_batched_tokens"]) >= 900 + 512
        assert found["trainer.n_gpus_per_node"] == str(gpus)


def test_a_batch_that_cannot_be_shared_is_refused(job: Path, verl: Verl) -> None:
    launch(verl, "--gpus", "3", "--batch-size", "32").refused(2, "--batch-size 32", "use 30")
    assert not (job / "train.sh").exists()


NAMES = ["with space", "it's", 'say "hi"', "$HOME", "${HOME}", "`id`", "a=b,c", "{x}", "[y]", "#1", "-o", "null", "1e5"]
NAMES += ["back\\slash", "end\\", "\\${x}", "模型", "a;b", "%s", "*", "~", "true"]


@pytest.mark.parametrize("name", NAMES)
def test_any_path_reaches_hydra_as_it_is(name: str, job: Path, verl: Verl) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    folder = model(job / "models" / name)
    launch(verl, model=f"models/{name}", train=f"models/{name}/config.json").done()
    for key, path in (("actor_rollout_ref.model.path", folder), ("data.train_files", folder / "config.json")):
        word = f"{key}={keys_of('train.sh')[key]}"
        [override] = OverridesParser.create().parse_overrides([word])
        read = OmegaConf.create({"value": override.value()})
        assert read.value == str(path)


def test_a_checkout_with_a_strange_name(job: Path, verl: Verl) -> None:
    strange = "it's $HOME `id`"
    (job / "checkout").rename(job / strange)
    ran = verl(
        "launch", strange, "--gpu", "p40", "--model", "model", "--train", "train.parquet", "--val", "val.parquet"
    )
    assert words_of("train.sh")[0] == str(job / strange), ran


def test_control_characters_are_refused(job: Path, verl: Verl) -> None:
    model(job / "a\nb")
    launch(verl, model="a\nb").refused(2, "control characters")


def test_nothing_is_written_over(job: Path, verl: Verl) -> None:
    (job / "train.sh").write_text("mine")
    launch(verl).refused(2, "train.sh exists", "--force")
    assert (job / "train.sh").read_text() == "mine"
    launch(verl, "--force").done()
    assert (job / "train.sh").read_text().startswith("#!/usr/bin/env bash\n")
    assert stat.S_IMODE((job / "train.sh").stat().st_mode) == 0o755


@pytest.mark.parametrize("target", ["checkout", "/dev/null"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_is_no_file_is_never_replaced(target: str, force: list[str], job: Path, verl: Verl) -> None:
    launch(verl, "-o", target, *force).refused(2, target)
    assert Path("/dev/null").is_char_device()


def test_a_folder_that_is_not_there(job: Path, verl: Verl) -> None:
    launch(verl, "-o", "no/train.sh").refused(2, "no/train.sh", "No such file")


def test_a_file_that_appears_meanwhile_stays(job: Path) -> None:
    from verl_legacy_patch.launch import LaunchError
    from verl_legacy_patch.launch.files import write

    (job / "late.sh").write_text("mine")
    with pytest.raises(LaunchError, match="exists"):
        write(job / "late.sh", "ours", force=False)
    assert (job / "late.sh").read_text() == "mine"
    assert list(job.glob(".verl-patch-*")) == []


def test_a_link_is_followed_with_force(job: Path, verl: Verl) -> None:
    (job / "real.sh").write_text("old")
    (job / "train.sh").symlink_to("real.sh")
    launch(verl).refused(2, "exists")
    launch(verl, "--force").done()
    assert (job / "train.sh").is_symlink() and "main_ppo" in (job / "real.sh").read_text()


def test_standard_output(job: Path, verl: Verl) -> None:
    ran = launch(verl, "-o", "-").done("total")
    assert ran.out.startswith(b"#!/usr/bin/env bash\n") and b"\nWrote" not in ran.out
    assert not (job / "train.sh").exists() and not (job / "-").exists()


def test_json(job: Path, verl: Verl) -> None:
    data = launch(verl, "--format", "json").data
    assert data["format"] == 1 and data["path"] == "train.sh"
    assert data["estimate"]["parameters"] == 494_032_768 and data["estimate"]["fits"] is True
    assert data["overrides"]["actor_rollout_ref.rollout.name"] == "hf"
    assert data["gpu"] == {"name": "p40", "compute_capability": "6.1", "gib": 24.0}
    assert (job / "train.sh").read_text() == data["script"]


def test_a_card_that_the_checkout_cannot_generate_on(job: Path, verl: Verl) -> None:
    (job / "new").mkdir()
    tree(job / "new", NEW)
    os.rename("checkout", "old")  # noqa: PTH104
    os.rename("new", "checkout")  # noqa: PTH104
    for algorithm in ("ppo", "grpo"):
        ran = launch(verl, "--algorithm", algorithm)
        ran.refused(3, "6.1", "0.7.9", "V1 engine", "v0.2 to v0.6.1", "--algorithm sft")
    launch(verl, "--algorithm", "sft").done()
    ran = launch(verl, "--force", gpu="v100").done("0.10.2 to 0.12")
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "vllm"
    newer = "raise ValueError(f'vllm versions are 0.18.0+')\n"
    tree(job / "checkout", NEW, more={"third_party/vllm/__init__.py": newer})
    launch(verl, "--force", gpu="v100").refused(3, "7.0", "vLLM 0.18", "v0.2 to v0.8.0")
    launch(verl, "--force", gpu="t4").done("7.5")
    launch(verl, "--force", "--rollout", "hf", gpu="t4").refused(3, "no HF rollout", "v0.5")


def test_the_hf_rollout_where_it_cannot_give_several_answers(job: Path, verl: Verl) -> None:
    text = str(OLD["verl/trainer/ppo/ray_trainer.py"]) + "    gen_batch = gen_batch.repeat(repeat_times=2)\n"
    tree(job / "checkout", more={"trainer/ppo/ray_trainer.py": text})
    launch(verl).done("build for Pascal", "cannot give several answers")
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "vllm"
    assert "export VLLM_USE_V1=0" in (job / "train.sh").read_text()
    launch(verl, "--rollout", "hf", "--force").refused(3, "4 answers")
    launch(verl, "--algorithm", "ppo", "--force").done()
    assert keys_of("train.sh")["actor_rollout_ref.rollout.name"] == "hf"


def test_a_bug_of_the_checkout_stops_the_script_until_it_is_cured(job: Path, verl: Verl) -> None:
    worker = str(OLD["verl/workers/fsdp_workers.py"]) + "    use(self.rollout_sharding_manager.timing)\n"
    base = "class BaseShardingManager:\n    def __enter__(self):\n        pass\n"
    tree(job / "checkout", more={"workers/fsdp_workers.py": worker, "workers/sharding_manager/base.py": base})
    ran = launch(verl).done("sed -i", "apply first, then this, then commit it")
    done = subprocess.run(["bash", "train.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "needs one line first: sed -i" in done.stderr
    cure = re.search(r"sed -i .*", ran.err)
    assert cure
    subprocess.run(["bash", "-c", cure[0]], check=True)
    namespace: dict[str, Any] = {}
    exec((job / "checkout/verl/workers/sharding_manager/base.py").read_text(), namespace)
    assert namespace["BaseShardingManager"]().timing == {}
    assert words_of("train.sh")
    assert "sed -i" not in launch(verl, "--force").done().err


def test_offloading_is_chosen_before_it_is_refused(job: Path, verl: Verl) -> None:
    big = {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960}
    model(job / "model", **big)  # Qwen2.5-1.5B: 23 GiB with gradients and optimizer
    ran = launch(verl)
    ran.refused(2, "1 x p40 (24 GiB)", "23.0 GiB", "--gpus 4", "--rollout vllm")
    launch(verl, "--rollout", "vllm").done("main memory")
    found = keys_of("train.sh")
    assert found["actor_rollout_ref.actor.strategy"] == "fsdp2"
    assert found["actor_rollout_ref.actor.fsdp_config.offload_policy"] == "True"
    launch(verl, "--gpus", "2", "--force").done()
    assert keys_of("train.sh")["actor_rollout_ref.actor.fsdp_config.param_offload"] == "False"
    launch(verl, "--memory", "48", "--force").done()


def test_what_is_only_estimated_is_a_warning(job: Path, verl: Verl) -> None:
    ran = launch(verl, "--prompt-length", "4000", "--algorithm", "sft").done(
        "more than the card has", "150%", "Shorter"
    )
    assert ran.out.startswith(b"Does not fit by the estimate: ")
    assert "more than the card has" in (job / "train.sh").read_text(), ran
    launch(verl, "--prompt-length", "14000", "--algorithm", "sft", "--force").refused(2, "87.7 GiB", "Shorter")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu", "p41"], ["no GPU named", "did you mean p40?"]),
        (["--gpu", "7.5"], ["--memory"]),
        (["--prompt-length", "40000"], ["40512", "32768"]),
        (["--algorithm", "sft", "--samples", "2"], ["--samples"]),
        (["--model", "nowhere"], ["nowhere", "does not exist"]),
        (["--model", "train.parquet"], ["is not a folder"]),
        (["--model", "checkout"], ["no config.json"]),
        (["--train", "nowhere.parquet"], ["--train nowhere.parquet", "No such file"]),
        (["--val", "model"], ["--val model", "Is a directory"]),
    ],
)
def test_wrong_usage_is_one_line(options: list[str], words: list[str], job: Path, verl: Verl) -> None:
    launch(verl, *options).refused(2, *words)
    assert not (job / "train.sh").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["is no JSON"]),
        ("[1]", ["no JSON object"]),
        ("[" * 100_000, ["is no JSON"]),
        ('{"hidden_size": 8}', ["has no num_hidden_layers, num_attention_heads, vocab_size"]),
        ('{"hidden_size": "8", "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["'8'"]),
        ('{"hidden_size": 0, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["hidden_size is 0"]),
        ('{"hidden_size": true, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}', ["True"]),
        ('{"quantization_config": {}}', ["quantised"]),
        ('{"hidden_size": 8, "x": "\\ud800\\u001b[2J"}', ["has no"]),
    ],
)
def test_a_broken_configuration_is_one_line(content: str, words: list[str], job: Path, verl: Verl) -> None:
    (job / "model/config.json").write_text(content)
    launch(verl).refused(2, "config.json", *words)


def test_what_is_no_checkout(job: Path, verl: Verl) -> None:
    options = ("--gpu", "p40", "--model", "model", "--train", "train.parquet", "--val", "val.parquet")
    verl("launch", "model", *options).refused(3, "not a verl checkout")
    (job / "recipe").mkdir()
    (job / "recipe/main.py").write_text("import verl\n")
    verl("launch", "recipe", *options).refused(3, "no verl/ package")
    tree(job / "bare", {"verl/__init__.py": ""})
    verl("launch", "bare", *options).refused(3, "verl/trainer/main_ppo.py")
    tree(job / "odd", {**OLD, "verl/trainer/config/ppo_trainer.yaml": "defaults: [nowhere]\n"})
    verl("launch", "odd", *options).refused(3, "ppo_trainer.yaml")


def test_a_checkout_that_is_not_patched(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor.py": "dtype = torch.bfloat16\n"})
    launch(verl).done("cannot do: 1", "verl-patch apply checkout --gpu p40")


def test_nothing_of_the_checkout_is_run(job: Path, verl: Verl) -> None:
    trap = "open('ran', 'w')\n"
    tree(job / "checkout", more={"__init__.py": trap, "workers/config/__init__.py": trap, "codemods.py": trap})
    launch(verl).done()
    assert not list(job.rglob("ran"))


@pytest.mark.parametrize(("options", "variable"), [(["--lang", "zh"], ""), ([], "zh_CN.UTF-8")])
def test_chinese(options: list[str], variable: str, job: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable:
        monkeypatch.setenv("LANG", variable)
    ran = launch(verl, *options).done("已写入 train.sh")
    assert "权重" in ran.out.decode() and "合计" in ran.out.decode()
    script = (job / "train.sh").read_text("utf-8")
    assert "# 数据和批量" in script and "# data and batch" not in script
    assert words_of("train.sh")
    big = {"hidden_size": 4096, "num_hidden_layers": 60}
    model(job / "model", **big)
    launch(verl, "--force", *options).refused(2, "无法在 1 x p40")


def test_both_languages_have_the_same_texts_and_places() -> None:
    for key, text in texts().items():
        assert text.keys() == {"en", "zh"}, key
        places = [{name for _, name, *_ in string.Formatter().parse(one) if name} for one in text.values()]
        assert places[0] == places[1], key


def test_every_text_is_used_and_every_used_text_is_there() -> None:
    folder = Path(__file__).parents[1] / "verl_legacy_patch"
    paths = [*(folder / "launch").glob("*.py"), folder / "commands/launch.py"]
    source = "".join(path.read_text() for path in paths)
    prefixes = ("row-", "phase-", "section-", "role-")
    for key in texts():
        assert re.search(rf"[\"']{key}[\"']", source) or key.startswith(prefixes), key
    sections = set(re.findall(r'Line\(\s*"(\w+)"', source)) | set(re.findall(r'run, "(\w+)"', source))
    assert {f"section-{section}" for section in sections} <= texts().keys()
    rows = set(re.findall(r'Row\(\s*"(\w+)"', source))
    assert {f"row-{row}" for row in rows} <= texts().keys() and len(rows) > 6


def test_exports(job: Path, verl: Verl) -> None:
    wanted = {
        ("p40", "grpo", "hf"): ["PYTHONPATH", "PYTORCH_CUDA_ALLOC_CONF"],
        ("p40", "grpo", "vllm"): ["PYTHONPATH", "VLLM_USE_V1"],
        ("p40", "sft", None): ["PYTHONPATH", "PYTORCH_CUDA_ALLOC_CONF"],
        ("v100", "ppo", None): ["PYTHONPATH", "VLLM_USE_V1"],
    }
    for (gpu, algorithm, rollout), names in wanted.items():
        more = ["--rollout", rollout] if rollout else []
        launch(verl, "--algorithm", algorithm, "--force", *more, gpu=gpu).done()
        assert re.findall(r"^export (\w+)", (job / "train.sh").read_text(), re.MULTILINE) == names


def test_memory_of_cards(job: Path, verl: Verl) -> None:
    launch(verl, gpu="v100").done("16 GB is assumed", "32 GB, too", "--memory")
    assert "assumed" not in launch(verl, "--force", "--memory", "32", gpu="v100").done().err
    assert "assumed" not in launch(verl, "--force", gpu="Tesla V100-SXM2-32GB").done().err
    data = launch(verl, "--force", "--format", "json", gpu="RTX 2080 Ti").data
    assert data["gpu"]["gib"] == 11


def test_compilation_is_turned_off_where_triton_cannot_run(job: Path, verl: Verl) -> None:
    for gpu, there in (("p40", True), ("v100", False)):
        launch(verl, "--force", gpu=gpu).done()
        assert ("actor_rollout_ref.actor.use_torch_compile" in keys_of("train.sh")) == there


STEP = "def update(self):\n    with torch.autocast(device_type='cuda', dtype={dtype}):\n        {how}\n"
SCALED = "if self.scaler is not None:\n            self.scaler.scale(loss).backward()"


def step(dtype: str = "self.param_dtype", scaled: bool = False) -> str:
    """Return a training step: with a dtype from the configuration or written down, with or without loss scaling."""
    return STEP.format(dtype=dtype, how=SCALED if scaled else "loss.backward()")


def computed(verl: Verl, *more: str) -> tuple[dict[str, str], str]:
    """Return what each role computes in, and the notes."""
    data = launch(verl, "--force", "--format", "json", *more, gpu="v100").data
    return data["estimate"]["computes"], "\n".join(data["notes"])


def test_float16_counts_where_the_loss_is_scaled(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step(scaled=True)})
    launch(verl, "--dtype", "float16", "--attn", "sdpa", gpu="v100").done()
    found = keys_of("train.sh")
    assert found["actor_rollout_ref.rollout.dtype"] == "float16"
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp16"
    assert computed(verl, "--dtype", "float16")[0] == {"actor": "float16"}


def test_a_role_without_loss_scaling_stays_in_float32_by_its_key(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step()})
    launch(verl, "--dtype", "float16", gpu="v100").done("The actor computes in float32", "NaN")
    found = keys_of("train.sh")
    assert found["+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert found["actor_rollout_ref.rollout.dtype"] == "float16"
    rows = launch(verl, "--force", "--format", "json", "--dtype", "float16", gpu="v100").data["estimate"]["rows"]
    full = launch(verl, "--force", "--format", "json", gpu="v100").data["estimate"]["rows"]
    logits, single = ([row["bytes"] for row in each if row["part"] == "cache"] for each in (rows, full))
    assert logits != single
    assert [row["bytes"]["actor"] for row in rows if row["part"] == "weights"] == [4 * 494_032_768]


@pytest.mark.parametrize(
    ("algorithm", "file", "role"),
    [
        ("grpo", "workers/actor/dp_actor.py", "The actor"),
        ("ppo", "workers/critic/dp_critic.py", "The critic"),
        ("sft", "trainer/fsdp_sft_trainer.py", "SFT"),
    ],
)
def test_float16_is_refused_where_it_is_written_down_and_cannot_train(
    algorithm: str, file: str, role: str, job: Path, verl: Verl
) -> None:
    reads = str(OLD["verl/trainer/fsdp_sft_trainer.py"]) if algorithm == "sft" else ""
    good = {"workers/actor/dp_actor.py": step(scaled=True)}
    tree(job / "checkout", more={**good, file: reads + step("torch.bfloat16")})
    options = ("--algorithm", algorithm, "--dtype", "float16")
    launch(verl, *options, gpu="v100").refused(3, role, f"verl/{file}", "NaN", "--dtype float32")
    assert not (job / "train.sh").exists()
    tree(job / "checkout", more={**good, file: reads + step("torch.float16")})
    launch(verl, *options, gpu="v100").refused(3, role)
    # rewritten to float32 it trains, and that is what is counted
    tree(job / "checkout", more={**good, file: reads + step("torch.float32")})
    roles, notes = computed(verl, *options)
    assert roles[{"grpo": "actor", "ppo": "critic", "sft": "sft"}[algorithm]] == "float32"
    assert f"{role} computes in float32, not in float16" in notes


def test_the_step_is_judged_as_apply_judges_it(job: Path, verl: Verl) -> None:
    """One backward pass without a scaler is enough."""
    both = step(scaled=True) + "\n\ndef more(loss):\n    loss.backward()\n"
    for text, dtype in ((both, "float32"), (step(scaled=True), "float16"), ("self.scaler = GradScaler()\n", "float32")):
        tree(job / "checkout", more={"workers/actor/dp_actor.py": text})
        assert computed(verl, "--dtype", "float16")[0] == {"actor": dtype}, text


@pytest.fixture
def patched(job: Path, verl: Verl) -> Path:
    """The checkout, patched for float32 on a T4; its actor's dtype is written down."""
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step("torch.bfloat16")})
    make(job / "checkout", {})
    verl("apply", "checkout", "--gpu", "t4").done()
    return job


def test_a_patch_for_another_target_is_named(patched: Path, verl: Verl) -> None:
    assert "patched for" not in launch(verl, gpu="v100").done().err
    ran = launch(verl, "--force", "--dtype", "float16", "--attn", "sdpa", gpu="t4")
    ran.done("patched for float32 + eager for compute capability 7.5", "float16 + sdpa")
    assert "apply" not in ran.err  # for float16 its step, which scales nothing, could not train
    undo = "verl-patch revert checkout && verl-patch apply checkout --gpu t4 --attn sdpa"
    launch(verl, "--force", "--attn", "sdpa", gpu="t4").done("To patch it anew: " + undo)
    # a P40 needs more of the same, and here nothing of it is left
    assert "patched for" not in launch(verl, "--force", gpu="p40").done().err
    data = launch(verl, "--force", "--format", "json", "--dtype", "float16", gpu="t4").data
    assert data["estimate"]["computes"] == {"actor": "float32"}


def test_the_advice_has_the_whole_target(job: Path, verl: Verl) -> None:
    more = {"workers/actor/dp_actor.py": step(scaled=True), "workers/actor.py": "dtype = torch.bfloat16\n"}
    tree(job / "checkout", more=more)
    ran = launch(verl, "--dtype", "float16", "--attn", "sdpa", gpu="t4")
    ran.done("cannot do: 1", "Run first: verl-patch apply checkout --gpu t4 --dtype float16 --attn sdpa\n")


def test_a_card_that_can_do_all_of_it_needs_no_patch(job: Path, verl: Verl) -> None:
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step("torch.bfloat16")})
    ran = launch(verl, "--format", "json", gpu="a100")
    assert "verl-patch apply" not in "".join(ran.data["notes"])
    assert ran.data["estimate"]["computes"] == {"actor": "bfloat16"}


def test_the_configuration_file_of_the_checkout_counts(job: Path, verl: Verl) -> None:
    (job / "checkout/.verl-patch.toml").write_text('dtype = "float16"\n')
    tree(job / "checkout", more={"workers/actor/dp_actor.py": step(scaled=True)})
    launch(verl, gpu="v100").done()
    assert keys_of("train.sh")["actor_rollout_ref.rollout.dtype"] == "float16"


def test_doctor_finds_nothing_wrong_with_it(job: Path, verl: Verl) -> None:
    launch(verl, "--rollout", "vllm").done()

    def ids() -> set[str]:
        ran = verl("doctor", "checkout", "--gpu", "p40", "--script", "train.sh", "--format", "json")
        about_scripts = {"unknown-key", "dead-key", "token-budget", "script-value", "script-unread"}
        return {finding["id"] for finding in json.loads(ran.out)["findings"]} & about_scripts

    assert ids() == set()
    script = (job / "train.sh").read_text().replace("data.train_batch_size=", "data.train_batch_sizes=")
    (job / "train.sh").write_text(script.replace("max_num_batched_tokens=1024", "max_num_batched_tokens=1000"))
    assert ids() == {"unknown-key", "token-budget"}
