"""The demo, as a newcomer runs it: in a folder of its own, without a git identity, offline."""

from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import make_repository, own_git, sample

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
BRANCH = "verl-patch/float32-eager"


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **variables}
    command = [sys.executable, "-m", "verl_legacy_patch", *arguments]
    return subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout that the demo has left patched."""
    folder = tmp_path_factory.mktemp("demo")
    done = run(folder, "demo", "--keep", "my verl")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "my verl"


def test_it_shows_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    steps = ["\n1. Dry run", " | ", "\n2. The same for real", "\n3. What changed", "\n+dtype: float32", "\n4. Undo"]
    steps += ["as it was.", "git -C DIR show\n", "apply ~/verl --dry-run\n"]
    places = [done.stdout.index(step) for step in steps]
    assert places == sorted(places)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert list((tmp_path / "home").iterdir()) == []


def test_it_fits_on_a_few_screens_and_says_nothing_twice(tmp_path: Path) -> None:
    shown = run(tmp_path, "demo").stdout
    lines = [line for line in shown.splitlines() if len(line) > 30 and not line.startswith("$ ")]
    assert shown.count("\n") < 180 and shown.count("\nverl 0.6.0+demo") == 1 and shown.count("\ndiff --git ") == 1
    assert {line for line in lines if lines.count(line) > 1 and "/" not in line} == set()
    assert shown.splitlines()[-1] == "Now your own: verl-patch apply ~/verl --dry-run"


def test_the_dry_run_is_the_patch_that_it_applies(tmp_path: Path, kept: Path) -> None:
    patch = run(tmp_path, "apply", str(kept), "--base", "main", "--dry-run").stdout
    git(kept, "switch", "-q", "--detach", "main")
    subprocess.run(["git", "apply", "--index", "-"], cwd=kept, input=patch, text=True, check=True)
    assert git(kept, "write-tree") == git(kept, "rev-parse", f"{BRANCH}^{{tree}}")
    git(kept, "reset", "-q", "--hard")
    git(kept, "switch", "-q", BRANCH)


def test_the_undo_that_it_prints_works(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--keep", "kept")
    show, revert, delete = done.stdout.splitlines()[-3:]
    shown = subprocess.run(shlex.split(show), check=True, capture_output=True, text=True)
    assert "diff --git a/verl/workers/actor/dp_actor.py" in shown.stdout
    assert run(tmp_path, *shlex.split(revert)[1:]).returncode == 0
    subprocess.run(shlex.split(delete), check=True, capture_output=True)
    assert git(tmp_path / "kept", "branch", "--format=%(refname:short)") == "main"
    assert git(tmp_path / "kept", "status", "--porcelain") == ""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the codemods that rewrite or report something in the sample, for one target or the other."""
    folder = tmp_path_factory.mktemp("shown")
    with own_git(folder):
        make_repository(folder / "verl")
    names = set()
    for dtype in ("float32", "float16"):
        done = run(folder, "apply", "verl", "--dry-run", "--dtype", dtype, "--format", "json")
        rows = json.loads(done.stdout)["sites"]
        names |= {row["codemod"] for row in rows if row["action"] in ("rewrite", "report")}
    return names


@pytest.mark.parametrize("name", sorted(discover()))
def test_every_codemod_has_something_to_show(name: str, shown: set[str]) -> None:
    if discover()[name].foreign():
        pytest.skip("somebody else's codemod")
    assert name in shown, "put a line for it into verl_legacy_patch/sample/"


def test_no_linter_takes_the_sample_for_code() -> None:
    folder = ROOT / "verl_legacy_patch" / "sample"
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".txt"}


@pytest.mark.parametrize("path", [path for path, _ in sample() if path.endswith(".py")])
def test_its_python_compiles_before_and_after(path: str, kept: Path) -> None:
    for revision in ("main", BRANCH):
        ast.parse(git(kept, "show", f"{revision}:{path}"))


def test_its_scripts_are_bash(kept: Path) -> None:
    for path in kept.rglob("*.sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)
        assert os.access(path, os.X_OK)


@pytest.mark.parametrize("revision", ["main", BRANCH])
@pytest.mark.parametrize("engine", ["dp", "megatron"])
def test_its_generated_configuration_is_the_composition(engine: str, revision: str, kept: Path) -> None:
    git(kept, "switch", "-q", "--detach", revision)
    folder = kept / "verl/trainer/config"
    name = "_generated_ppo_trainer.yaml" if engine == "dp" else f"_generated_ppo_{engine}_trainer.yaml"
    with initialize_config_dir(str(folder), version_base=None):
        fresh = OmegaConf.to_container(compose("ppo_trainer", overrides=[f"model_engine={engine}"]))
    assert isinstance(fresh, dict)
    fresh.pop("model_engine")  # printed above the line where verl's script begins to copy
    copy = folder / name
    assert yaml.safe_load(copy.read_text()) == fresh, (
        f"{copy.relative_to(kept)} of verl_legacy_patch/sample/ is no copy of the composition:\n{_differs(copy, fresh)}"
    )
    git(kept, "switch", "-q", BRANCH)


def _differs(copy: Path, fresh: object) -> str:
    """Return the lines that the two have different, written in the same way."""
    texts = [yaml.safe_dump(each).splitlines() for each in (yaml.safe_load(copy.read_text()), fresh)]
    return "\n".join(unified_diff(*texts, "the copy", "the composition", n=1, lineterm=""))


def test_what_must_stay_stays(kept: Path) -> None:
    changed = git(kept, "diff", "--name-only", "main", BRANCH).splitlines()
    for path in (
        "README.md",
        "examples/ppo_trainer/run_megatron.sh",
        "requirements.txt",
        "tests/utils/test_dtypes_on_cpu.py",
        "verl/trainer/config/engine/megatron.yaml",
        "verl/utils/torch_dtypes.py",
        "verl/workers/megatron_workers.py",
    ):
        assert path not in changed
        assert (kept / path).is_file()
    assert "if param_dtype == torch.bfloat16:" in (kept / "verl/workers/fsdp_workers.py").read_text()
    assert 'RUN_NAME="grpo_small_bf16"' in (kept / "examples/grpo_trainer/run_small_grpo.sh").read_text()


def test_a_second_run_finds_nothing_to_rewrite(tmp_path: Path, kept: Path) -> None:
    done = run(tmp_path, "apply", str(kept), "--dry-run", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["summary"]["rewrite"]) == (0, 0)


def test_the_first_commit_is_the_same_everywhere(tmp_path: Path, kept: Path) -> None:
    with own_git(tmp_path):
        base = make_repository(tmp_path / "again")
    assert git(kept, "rev-parse", "main") == base
    assert git(kept, "log", "--format=%an", "--all") == "verl-patch demo\nverl-patch demo"


def test_targets_are_passed_on(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--gpu", "t4", "--dtype", "float16", "--attn", "sdpa", "--keep", "kept")
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "kept", "branch", "--show-current") == "verl-patch/float16-sdpa"
    assert "use_torch_compile: true" in (tmp_path / "kept/verl/trainer/config/engine/fsdp.yaml").read_text()


def test_a_strange_machine_does_not_matter(tmp_path: Path) -> None:
    config = tmp_path / "gitconfig"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-checkout"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    config.write_text(
        f"[commit]\n\tgpgSign = true\n[core]\n\tautocrlf = true\n\thooksPath = {hooks}\n"
        f"[user]\n\tuseConfigOnly = true\n[init]\n\tdefaultBranch = other\n\ttemplateDir = {hooks}\n"
    )
    foreign = {"GIT_DIR": str(tmp_path / "nowhere"), "GIT_INDEX_FILE": "x", "GIT_CONFIG_GLOBAL": str(config)}
    done = run(tmp_path, "demo", LC_ALL="C", LANG="C", **foreign)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--keep", "full"], 2, "is not empty"),
        (["--keep", "full/file"], 2, "is a file"),
        (["--gpu", "p41"], 2, "did you mean p4"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    done = run(tmp_path, "demo", *arguments)
    assert done.returncode == code
    assert message in done.stderr.splitlines()[-1]
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_without_git_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", PATH=str(tmp_path))
    assert done.returncode == 3
    assert "git" in done.stderr
    assert len(done.stderr.splitlines()) == 1
