"""Launch scripts and checkouts as doctor reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import hydra
import pytest
from minis import Verl, make_mini
from releases import VERSIONS, release

from verl_legacy_patch.capability import DEFAULT_CAPABILITY, Capability
from verl_legacy_patch.checkout import open_checkout
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.doctor import script as module
from verl_legacy_patch.doctor import show
from verl_legacy_patch.doctor.code import read_code
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.findings import NOT_KNOWN, Case, Code, Finding
from verl_legacy_patch.doctor.script import assigned, check_script
from verl_legacy_patch.doctor.settled import settled
from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.plan import make_plan
from verl_legacy_patch.target import Target

MAIN = '@hydra.main(config_path="config", config_name="{}", version_base=None)\ndef main(config):\n    ...\n'
#: A trainer whose configuration has a group, an empty mapping, a null, a reference and a list.
VERL: dict[str, str | bytes] = {
    "setup.py": 'REQUIRES = [\n    "numpy<2.0.0",\n    "ray[default]>=2.41.0",\n    # "transformers<4",\n'
    '    "transformers",\n'
    '    "tensordict>=0.8.0,<=0.10.0,!=0.9.0",\n    "torch==2.6.0",\n]\n',
    "pyproject.toml": '[project]\nrequires-python = ">=3.10"\n',
    "requirements.txt": "transformers>=4.51 # newer\nray\n",
    "verl/trainer/main_ppo.py": MAIN.format("ppo_trainer"),
    "verl/trainer/fsdp_sft_trainer.py": MAIN.format("sft_trainer"),
    "verl/trainer/config/ppo_trainer.yaml": "defaults:\n  - actor@role: dp\n  - _self_\n"
    "data:\n  train_files: x\n  max_prompt_length: 512\n  paths: [a, b]\n"
    "actor_rollout_ref:\n  model: {path: x, override_config: {}, other: null, same: '${data}'}\n"
    "  rollout: {name: vllm, dtype: float32, n: 1, enable_prefix_caching: false, max_num_batched_tokens: 8192}\n"
    "trainer: {nnodes: 1, logger: [console]}\n",
    "verl/trainer/config/actor/dp.yaml": "strategy: fsdp\nlr: 1\n",
    "verl/trainer/config/actor/mp.yaml": "strategy: other\nmicro: 1\n",
    "verl/trainer/config/sft_trainer.yaml": "data:\n  batch: 1\n",
    "verl/models/transformers/monkey_patch.py": "def patch():\n    from trl import AutoModelForCausalLMWithValueHead\n",
}
RUN = "python3 -m verl.trainer.main_ppo "


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_mini(tmp_path_factory.mktemp("script") / "verl", VERL, git_too=False)


def rows(script: str | bytes, root: Path, gpu: Capability = DEFAULT_CAPABILITY) -> list[Finding]:
    case = Case(Environment(), gpu, Code())
    target = Target(capability=gpu)
    codemods = [codemod for codemod in discover().values() if codemod.applies(target)]
    text = script.encode() if isinstance(script, str) else script
    return list(check_script(text, "run.sh", open_checkout(root), case, codemods, target))


def said(found: list[Finding]) -> list[str]:
    return [f"{row.values.get('line', '-')} {row.said}" for row in found]


#: Words of a command -> what is said of them.
WORDS: dict[str, list[str]] = {
    "data.max_prompt_length=64": [],
    "data.max_prompt_lenght=64": ["1 unknown-key-close"],
    "'data.paths=[c]' \"trainer.logger=['console','wandb']\"": [],
    "trainer.nothing.like_it=1": ["1 unknown-key"],
    "+trainer.nothing.like_it=1": [],
    "++trainer.nothing.like_it=1": [],
    "+trainer.nnodes=2": ["1 key-exists"],
    "++trainer.nnodes=2": [],
    "+trainer.logger=[x] '+actor_rollout_ref.model.override_config={a: 1}'": [],
    "+actor_rollout_ref.model.other=1": [],
    "~trainer.nnodes": [],
    "~trainer.nodes": ["1 nothing-to-delete"],
    "actor_rollout_ref.model.override_config.x=1": ["1 unknown-key"],
    "+actor_rollout_ref.model.override_config.x=1": [],
    "+actor_rollout_ref.model.new.a=1 actor_rollout_ref.model.new.a=2": [],
    "actor_rollout_ref.model.same.max_prompt_length=1": [],
    "actor_rollout_ref.model.other.x=1": ["1 unknown-key"],
    "role.lr=2": [],
    "role.micro=2": ["1 unknown-key"],
    "actor@role=mp role.micro=2": [],
    "role.lr=2 role.strategy=other hydra.run.dir=x": [],
    "$@ --help key=value path/to.py=1": [],
    "data.max_prompt_length=${LENGTH:-512} data.train_files=$HOME/x.parquet": [],
    "${EXTRA[@]} $KEY.name=1": [],
    "actor_rollout_ref.rollout.dtype=bfloat16": ["1 script-value"],
    "actor_rollout_ref.rollout.dtype=float32": [],
    "--config-name=sft_trainer data.batch=2": [],
    "--config-name=sft_trainer.yaml data.max_prompt_length=2": ["1 unknown-key"],
    "--config-name sft_trainer data.max_prompt_length=2": ["1 unknown-key"],
    "--config-path=/x data.whatever=2": ["- script-unread"],
    "--config-name=none_of_ours data.whatever=2": ["- script-unread"],
    "actor_rollout_ref.rollout.max_num_batched_tokens=512 data.max_prompt_length=512 +data.max_response_length=512":
        ["1 script-report"],
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), WORDS.items())
def test_words(words: str, expected: list[str], checkout: Path) -> None:
    assert said(rows(RUN + words, checkout)) == expected


@pytest.mark.parametrize("words", [words for words in WORDS if not re.search(r"[$-]|same|path/to|-c|bfloat16", words)])
def test_hydra_refuses_the_same(words: str, checkout: Path) -> None:
    with hydra.initialize_config_dir(str(checkout / "verl/trainer/config"), version_base=None):
        try:
            hydra.compose("ppo_trainer", overrides=shlex.split(words))
            refused = False
        except (hydra.errors.ConfigCompositionException, hydra.errors.OverrideParseException):
            refused = True
    assert refused == any("key" in row or "delete" in row for row in WORDS[words])


#: Scripts -> what is said of them.
SCRIPTS: dict[str, list[str]] = {
    "": ["- script-unread"],
    "echo verl.trainer.main_ppo a.b=1\n": ["- script-unread"],
    "python -m verl.trainer.not_there data.x=1": ["- script-unread"],
    "python verl/trainer/main_ppo.py data.x=1": ["1 unknown-key"],
    'cd "$V"; PYTHONPATH=. python "$V/verl/trainer/main_ppo.py" data.x=1': ["1 unknown-key"],
    "torchrun --nproc_per_node=1 -m verl.trainer.fsdp_sft_trainer \\\n  data.batch=1 \\\n  data.x=1": ["3 unknown-key"],
    "set -x\nN=trainer.nodes\nARGS=(data.x=1 trainer.nnodes=1)\n" + RUN + '"${ARGS[@]}" "$N=3"': [
        "3 unknown-key", "4 unknown-key-close",
    ],
    "if x; then\n  " + RUN + "data.x=1 &\nfi\n" + RUN + "data.y=2\n": ["2 unknown-key", "4 unknown-key"],
    RUN + "data.x=1 # data.y=1\n#" + RUN + "data.z=1\n": ["1 unknown-key"],
    "ray job submit -- " + RUN + "data.x=1": ["1 unknown-key"],
    "export VLLM_DTYPE=float32\n" + RUN: ["- useless-VLLM_DTYPE"],
    "# export VLLM_DTYPE=float32\necho $VLLM_DTYPE\n" + RUN: [],
    "export A=1 VLLM_ATTENTION_BACKEND='FLASH_ATTN'; " + RUN: ["- backend-needs"],
    RUN + "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2": ["1 unknown-key", "1 script-report"],
    RUN.replace("\n", "") + "data.x=1\r\n": ["1 unknown-key"],
}  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), SCRIPTS.items())
def test_scripts(script: str, expected: list[str], checkout: Path) -> None:
    assert said(rows(script, checkout)) == expected


def test_what_a_finding_says(checkout: Path) -> None:
    [row] = rows(f"{RUN}\\\n    'actor_rollout_ref.rollout.dtype=bfloat16' \\\n    trainer.nnodes=1", checkout)
    assert row.detail("en") == "line 2: actor_rollout_ref.rollout.dtype=bfloat16"
    assert row.values["new"] == "actor_rollout_ref.rollout.dtype=float32"


#: Words of a command -> what is printed when it runs, and the cure; (not known …) where nobody knows.
CASES: dict[str, tuple[str, str]] = {
    "actor_rollout_ref.rollout.enable_prefix_cashing=False": (
        "Could not override 'actor_rollout_ref.rollout.enable_prefix_cashing'. "
        "To append to your config use +actor_rollout_ref.rollout.enable_prefix_cashing=False",
        "actor_rollout_ref.rollout.enable_prefix_caching=…",
    ),
    # as a whole it is like enable_prefix_caching, and has nothing to do with it
    "actor_rollout_ref.rollout.enable_chunked_prefill=False": (
        "Could not override 'actor_rollout_ref.rollout.enable_chunked_prefill'.",
        "leave actor_rollout_ref.rollout.enable_chunked_prefill out",
    ),
    "+trainer.nnodes=2": ("An item is already at 'trainer.nnodes'", "trainer.nnodes=…"),
    "~trainer.nodes": ("Could not delete from config. 'trainer.nodes' does not exist.", "leave ~trainer.nodes out"),
    "actor_rollout_ref.rollout.name=sglang": ("SGLang only supports sm75", "actor_rollout_ref.rollout.name=vllm"),
    "actor_rollout_ref.rollout.name=trtllm": (NOT_KNOWN, "actor_rollout_ref.rollout.name=vllm"),
    "role.strategy=megatron": ("No module named 'megatron'", "actor_rollout_ref.actor.strategy=fsdp"),
    "role.strategy=automodel": (NOT_KNOWN, "actor_rollout_ref.actor.strategy=fsdp"),
    "actor_rollout_ref.rollout.max_num_batched_tokens=600 data.max_prompt_length=512 +data.max_response_length=256": (
        "max_num_batched_tokens (600) is smaller than max_model_len (768)",
        "actor_rollout_ref.rollout.max_num_batched_tokens=768",
    ),
    "data.max_prompt_length=8000 +data.max_response_length=1000": (
        "max_num_batched_tokens (8192) is smaller than max_model_len (9000)",
        "actor_rollout_ref.rollout.max_num_batched_tokens=9000",
    ),
    "+critic.ulysses_sequence_parallel_size=2": (
        "sequence parallelism for critic,",
        "ulysses_sequence_parallel_size=1",
    ),
}


@pytest.mark.parametrize(("words", "expected"), CASES.items())
def test_message_and_cure_are_those_of_the_case(words: str, expected: tuple[str, str], checkout: Path) -> None:
    [row] = rows(RUN + words, checkout)
    for language in ("en", "zh"):
        data = show.as_row(row, show.Names("~/verl", "python"), language)
        assert expected[0] in data["message"]
        assert expected[1] in data["cure"] or language == "zh"
        assert not re.search(r"\{\w+\}", "".join(data.values()))


#: Scripts -> whether they generate, and whether by the asynchronous server with prefix caching or chunked prefill.
FLAG = "+actor_rollout_ref.rollout.engine_kwargs.vllm.no_enable_"
DECIDED: dict[str, tuple[bool, bool] | None] = {
    "echo hello": None,
    RUN: (True, True),
    RUN + "+actor_rollout_ref.rollout.mode=sync": (True, False),
    RUN + "+actor_rollout_ref.rollout.mode=async": (True, True),
    RUN + "actor_rollout_ref.rollout.name=hf": (True, False),
    f"{RUN} {FLAG}prefix_caching=True": (True, True),
    f"{RUN} {FLAG}prefix_caching=True {FLAG}chunked_prefill=True": (True, False),
    "torchrun -m verl.trainer.fsdp_sft_trainer data.batch=1": (False, False),
    "torchrun -m verl.trainer.fsdp_sft_trainer data.batch=1\n" + RUN: (True, True),
}


@pytest.mark.parametrize(("script", "expected"), DECIDED.items())
def test_what_a_script_decides(script: str, expected: tuple[bool, bool] | None, checkout: Path) -> None:
    assert settled(script.encode(), open_checkout(checkout)) == expected


def test_the_cure_is_for_what_was_looked_at(verl: Verl, mini: Path) -> None:
    def cure(*more: str) -> str:
        found = verl("doctor", mini, "--format", "json", *more).data["findings"]
        return next(str(row["cure"]) for row in found if row["id"] == "sites-left")

    assert cure("--gpu", "t4").endswith(f"{mini} --gpu t4")
    (mini / ".verl-patch.toml").write_text('dtype = "float16"\nattn = "sdpa"\n')
    assert cure("--gpu", "t4").endswith(" --gpu t4 --dtype float16 --attn sdpa")
    ran = verl("doctor", "--gpu", "t4", "--message", "No module named flash_attn", "--lang", "en")
    assert "verl-patch apply ~/verl --gpu t4   (adds" in ran.done().out.decode()


def test_variables_of_a_script() -> None:
    text = b'VLLM_USE_V1=1 python x\nexport VLLM_ATTENTION_BACKEND="XFORMERS"; X=1\nMY_VLLM_USE_V1=0\nVLLM_USE_V1=0\n'
    assert assigned(text) == {"VLLM_USE_V1": "0", "VLLM_ATTENTION_BACKEND": "XFORMERS"}
    assert assigned(b"echo $VLLM_USE_V1=1 \xff\n") == {}


@pytest.mark.parametrize("script", [b"\x7fELF\x00\x01\xff\xfe", b"(" * 5_000, b"if then fi 'a", b"$(\n" * 300])
def test_a_script_that_is_none(script: bytes, checkout: Path) -> None:
    assert said(rows(script, checkout)) == ["- script-unread"]


def test_a_script_that_cannot_be_parsed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise SourceError("too deep", 7)

    monkeypatch.setattr(module, "rewrite", fail)
    with pytest.raises(module.ScriptError, match=r"^run\.sh:7: too deep"):
        rows(RUN, checkout)


# the checkout


def test_a_checkout_is_read_as_text(checkout: Path) -> None:
    opened, target = open_checkout(checkout), Target()
    code = read_code(opened, make_plan(opened, list(discover().values()), target))
    assert code.release == "0.5.0" and code.python == ">=3.10" and code.plain_trl
    assert code.pins == {
        "numpy": "<2.0.0", "ray": ">=2.41.0", "tensordict": ">=0.8.0,<=0.10.0,!=0.9.0", "transformers": ">=4.51",
    }  # fmt: skip
    assert code.left["dtype"] > 0 and code.left["torch-compile"] == 1
    (checkout / "verl/models/transformers/monkey_patch.py").write_bytes(
        b"try:\n    from trl.experimental.ppo import A\nexcept ImportError:\n"
        b"    from trl import AutoModelForCausalLMWithValueHead\n"
    )
    assert not read_code(opened, make_plan(opened, [], target)).plain_trl


def test_a_rewritten_checkout_is_fine(verl: Verl, mini: Path) -> None:
    verl("apply", mini).done()
    data = verl("doctor", mini, "--gpu", "p40", "--format", "json").data
    assert "sites-left" not in [row["id"] for row in data["findings"]] and data["verl_version"] == "0.5.0"


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [("gone.sh", 2, "gone.sh: No such file"), (".", 2, "directory")],
)
def test_scripts_that_cannot_be_read(
    script: str, code: int, words: str, verl: Verl, mini: Path, tmp_path: Path
) -> None:
    verl("doctor", mini, "--gpu", "p40", "--script", tmp_path / script).refused(code, words)


def test_the_script_of_the_command_line(verl: Verl, mini: Path, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python -m verl.trainer.main rollout.dtype=bf16\nVLLM_DTYPE=x\n")
    data = verl("doctor", mini, "--gpu", "p40", "--script", tmp_path / "run.sh", "--format", "json").data
    ids = [row["id"] for row in data["findings"]]
    assert ids[-2:] == ["useless-variable", "script-unread"] and "script-value" in ids


@pytest.mark.real
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_releases(version: str) -> None:
    """Every release is read, and keys of its own configuration are known."""
    root = release(version)
    opened = open_checkout(root)
    code = read_code(opened, make_plan(opened, list(discover().values()), Target()))
    assert code.release == version and code.left["dtype"] > 5
    assert code.plain_trl == (version in ("0.4.1", "0.5.0", "0.6.1", "0.7.1"))
    good = "data.train_files=x actor_rollout_ref.rollout.dtype=float32 trainer.n_gpus_per_node=1"
    assert said(rows(RUN + good, root)) == []
    assert said(rows(RUN + "actor_rollout_ref.rollout.dtpye=float32", root)) == ["1 unknown-key-close"]
