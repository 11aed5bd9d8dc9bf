"""The script that launch writes: it runs, with any path in it, and takes the place of no other file."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launch_minis import OLD, keys_of, launch, model, tree, words_of
from minis import Verl


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


# --- paths in it


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


# --- where it goes


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


@pytest.mark.parametrize("form", ["text", "json"])
def test_formulas_are_shown_though_the_script_exists(form: str, job: Path, verl: Verl) -> None:
    (job / "train.sh").write_text("mine\n")
    ran = launch(verl, "--formulas", "--format", form).done()
    assert (job / "train.sh").read_text() == "mine\n" and b"4P/N" in ran.out
    if form == "json":
        assert ran.data["path"] is None
    else:
        assert ran.err.endswith("train.sh exists and is left as it is: --force writes over it, -o names another file\n")
        assert "Wrote" not in ran.err
    launch(verl, "--formulas", "--force").done("Wrote train.sh")
    assert (job / "train.sh").read_text() != "mine\n"


def test_the_configuration_of_the_checkout_counts(job: Path, verl: Verl) -> None:
    rest = ("--model", "model", "--train", "train.parquet", "--val", "val.parquet", "--force")
    (job / "checkout/.verl-patch.toml").write_text('gpu = "t4"\nattn = "sdpa"\n')
    data = verl("launch", "checkout", *rest, "--format", "json").done().data
    assert data["gpu"] == {"name": "t4", "compute_capability": "7.5", "gib": 16.0}
    assert "16bas^2" not in data["script"]
    data = verl("launch", "checkout", *rest, "--format", "json", "--gpu", "P40", "--attn", "EAGER").done().data
    assert data["gpu"]["compute_capability"] == "6.1" and "16bas^2" in data["script"]


def test_words_of_the_options_in_any_case(job: Path, verl: Verl) -> None:
    more = ("--algorithm", "GRPO", "--rollout", "vLLM", "--dtype", "Float32", "--attn", "SDPA", "--lang", "EN")
    launch(verl, *more, "--format", "JSON", gpu="P40").done()
    assert keys_of("train.sh")["algorithm.adv_estimator"] == "grpo"
