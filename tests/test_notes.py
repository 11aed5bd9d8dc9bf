"""What the summary says about a plan for this very checkout: generation, packing that stays on, no package, float16."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from minis import BRANCH, TREE, Verl, make_mini
from repos import commit, git, make, write

PACKS = {"verl/trainer/config/model.yaml": "use_remove_padding: true\n"}
SCRIPT = {"examples/pack.sh": "python3 -m verl.trainer.main model.use_remove_padding=True\n"}
ALONE = [
    ("--safe-only",),
    ("--select", "dtype,attention"),
    ("--select", "attention"),
    ("--ignore", "remove-padding,packing-guard"),
]
LEAK = "Note: packing stays on ("


@pytest.mark.parametrize("options", ALONE)
@pytest.mark.parametrize("attn", ["eager", "sdpa"])
def test_packing_that_stays_on(options: tuple[str, ...], attn: str, config: Path, tmp_path: Path, verl: Verl) -> None:
    root = make_mini(tmp_path / "packs", {**PACKS, **SCRIPT})
    said = f"{LEAK}verl/trainer/config/model.yaml:1 and 1 more): with {attn} attention samples of a packed row see each"
    options = (*options, "--attn", attn)
    for more in ((), ("--summary",), ("--stat",)):
        verl("apply", root, "-n", *options, *more).done(said, "without an error", "use_remove_padding=False")
    (note,) = json.loads(verl("apply", root, "-n", *options, "--format", "json").out)["notes"]
    assert note.startswith("packing stays on (")
    report = tmp_path / "report.html"
    verl("apply", root, "-n", *options, "--summary", "--report", report).done()
    assert "packing stays on (" in report.read_text()
    verl("apply", root, *options).done(said)
    verl("apply", root, *options).done("Nothing to rewrite", said)
    verl("apply", root, "--attn", attn).done("Added to branch")  # the cure
    assert LEAK not in verl("apply", root, *options).done().err


BOTH = "remove-padding,packing-guard"


@pytest.mark.parametrize(
    ("options", "file", "cure"),
    [
        (("--safe-only",), "", "leave out --safe-only"),
        (("--select", "dtype,attention"), "", f"add {BOTH} to --select"),
        (("--ignore", BOTH), "", f"take {BOTH} out of --ignore"),
        (("--ignore", "packing-guard", "--safe-only"), "", "leave out --safe-only"),
        (("--ignore", BOTH, "--safe-only"), "", f"take {BOTH} out of --ignore and leave out --safe-only"),
        (
            ("--select", "attention,packing-guard", "--ignore", "packing-guard"),
            "",
            "take packing-guard out of --ignore",
        ),
        (("--select", "attention", "--safe-only"), "", f"add {BOTH} to --select and leave out --safe-only"),
        ((), "safe-only = true", "leave out safe-only in .verl-patch.toml"),
        ((), 'select = ["attention"]', f"add {BOTH} to select in .verl-patch.toml"),
        ((), f"ignore = {BOTH.split(',')}", f"take {BOTH} out of ignore in .verl-patch.toml"),
        (
            ("--safe-only",),
            f"ignore = {BOTH.split(',')}",
            f"take {BOTH} out of ignore in .verl-patch.toml and leave out --safe-only",
        ),
    ],
)
def test_the_note_on_packing_names_what_keeps_it_on(
    options: tuple[str, ...], file: str, cure: str, config: Path, tmp_path: Path, verl: Verl
) -> None:
    root = make_mini(tmp_path / "packs", {**PACKS, ".verl-patch.toml": file})
    ran = verl("apply", root, "-n", "--summary", *options).done("packing stays on")
    assert f"without an error: {cure}, or train with use_remove_padding=False." in ran.err


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ((), PACKS),
        (("--safe-only",), {}),
        (("--safe-only",), {"verl/trainer/config/model.yaml": "use_remove_padding: false\n"}),
        (("--safe-only", "--ignore", "attention"), PACKS),
        (("--select", "dtype"), PACKS),
        (("--select", "attention,remove-padding"), PACKS),
        (("--select", "attention,packing-guard"), PACKS),
        (("--ignore", "remove-padding"), PACKS),
    ],
)
def test_packing_that_does_no_harm(
    options: tuple[str, ...], more: Mapping[str, str], config: Path, tmp_path: Path, verl: Verl
) -> None:
    root = make_mini(tmp_path / "quiet", more)
    assert "packing stays on" not in verl("apply", root, "-n", *options).done().err


def test_packing_of_scripts_and_places_out_of_scope(config: Path, tmp_path: Path, verl: Verl) -> None:
    root = make_mini(tmp_path / "packs", {**SCRIPT, ".verl-patch.toml": 'exclude = ["examples/"]\n'})
    assert "packing stays on" not in verl("apply", root, "-n", "--safe-only").done().err
    git(root, "rm", "-q", ".verl-patch.toml")
    commit(root)
    verl("apply", root, "-n", "--safe-only").done(f"{LEAK}examples/pack.sh:1): with eager")


def test_a_folder_without_the_package(config: Path, tmp_path: Path, verl: Verl, mini: Path) -> None:
    recipe = "import torch\nfrom verl.trainer import main\n\nmain(dtype=torch.bfloat16)\n"
    root = make(tmp_path / "recipe", {"train.py": recipe})
    said = "Note: no verl package here, only code that imports verl: give the folder of a verl clone"
    verl("apply", root, "-n").done(said, "1 place in 1 file")
    verl("apply", root).done(said, f"On branch {BRANCH}")
    verl("apply", root).done(said, "Nothing to rewrite")
    assert "no verl package" not in verl("apply", mini, "-n").done().err


STEP = "def update(self, loss):\n    loss.backward()\n"
SCALED = "def update(self, loss):\n    if self.scaler is not None:\n        self.scaler.scale(loss).backward()\n"


@pytest.mark.parametrize(
    ("actor", "critic", "says"),
    [
        (STEP, STEP, "float32 it is: this verl scales no loss"),
        (SCALED, STEP, "is worth a try on this card: this verl scales the loss of the actor, not of the critic"),
        (SCALED, SCALED, "this verl scales the loss of actor and critic"),
        (None, None, "the actor's from v0.6.1, the critic's from v0.8.0"),
        (STEP, None, "the actor's from v0.6.1, the critic's from v0.8.0"),
    ],
)
def test_float16_as_this_checkout_can(
    actor: str | None, critic: str | None, says: str, config: Path, tmp_path: Path, verl: Verl
) -> None:
    root = make(tmp_path / "verl-clone", TREE)
    steps = {"verl/workers/actor/dp_actor.py": actor, "verl/workers/critic/dp_critic.py": critic}
    write(root, {path: text for path, text in steps.items() if text is not None})
    (root / "verl/workers/actor.py").unlink()
    commit(root)
    for gpu in ("t4", "v100"):
        verl("apply", root, "-n", "--gpu", gpu).done(says)
    for options in ((), ("--gpu", "p40"), ("--gpu", "t4", "--dtype", "float32")):
        assert "scales" not in verl("apply", root, "-n", *options).done().err


SERVER = {"verl/workers/rollout/vllm_rollout/vllm_async_server.py": "class Server: ...\n"}
IN_PROCESS = {"verl/workers/rollout/vllm_rollout/rollout.py": "engine = LLM(model=path)\n"}
HF = {"verl/workers/fsdp_workers.py": "rollout = HFRollout(module=module)\n"}
FLOOR = {"verl/third_party/vllm/__init__.py": 'raise ValueError("vllm versions are 0.13 or newer")\n'}
CANNOT = "PPO and GRPO cannot run on compute capability"


@pytest.mark.parametrize(
    ("files", "gpu", "older"),
    [
        (SERVER, "6.1", "v0.6.1"),
        (SERVER, "6.0", "v0.6.1"),
        (SERVER, "7.0", ""),
        (SERVER, "7.5", ""),
        (SERVER | FLOOR, "7.0", "v0.8.0"),
        (SERVER | FLOOR, "7.5", ""),
        (SERVER | IN_PROCESS, "6.1", ""),
        (SERVER | HF, "6.1", ""),
        ({}, "6.1", ""),
    ],
)
def test_releases_that_cannot_generate_on_the_card(
    files: Mapping[str, str], gpu: str, older: str, config: Path, tmp_path: Path, verl: Verl
) -> None:
    root = make_mini(tmp_path / "generates", dict(files))
    said = verl("apply", root, "-n", "--summary", "--gpu", gpu).done().err
    assert (f"Note: {CANNOT} {gpu} with this verl" in said) == bool(older)
    assert f"(git switch --detach {older}); SFT works here" in said if older else CANNOT not in said
