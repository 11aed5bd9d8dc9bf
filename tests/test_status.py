"""``status``: what a checkout is."""

from __future__ import annotations

from pathlib import Path

from forks import LEFT
from minis import BRANCH, Verl, make_mini
from repos import commit, git, write

from verl_legacy_patch import __version__


def rows(ran_out: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in ran_out.decode().splitlines():
        key, _, text = line.partition(":")
        found.setdefault(key, []).append(text.strip())
    return found


def test_before_and_after(mini: Path, verl: Verl) -> None:
    ran = verl("status", mini)
    assert ran.code == 0 and ran.err == ""
    said = rows(ran.out)
    assert said["verl"] == ["0.5.0 in verl"] and said["patched"] == ["no"]
    assert said["commit"][0].endswith(" on main") and "9 places in 5 files" in said["left"][0]
    assert verl("apply", mini).code == 0
    said = rows(verl("status", mini).out)
    sha = git(mini, "rev-parse", "HEAD")[:10]
    base = git(mini, "rev-parse", "main")[:10]
    assert said["patched"] == [f"{sha} by verl-patch {__version__} for float32 eager 6.1, on {base}"]
    assert said["left"] == ["nothing to rewrite"] and said["commit"] == [f"{sha} on {BRANCH}"]


def test_new_places_and_undone(mini: Path, verl: Verl) -> None:
    assert verl("apply", mini).code == 0
    write(mini, {"verl/own.py": LEFT})
    commit(mini)
    said = rows(verl("status", mini).out)
    assert (
        said["left"] == [f"1 place in 1 file: verl-patch apply {mini} adds them to the patch"]
        and len(said["patched"]) == 1
    )
    assert verl("revert", mini).code == 0
    said = rows(verl("status", mini).out)
    assert said["patched"] == ["no"] and "10 places" in said["left"][0]


def test_what_a_person_has_to_decide(mini: Path, verl: Verl) -> None:
    write(mini, {"run.sh": "python t.py actor_rollout_ref.rollout.name=sglang\n"})
    commit(mini)
    assert verl("apply", mini).code == 0
    said = rows(verl("status", mini).out)
    assert said["left"] == ["nothing to rewrite"]
    assert said["decide"] == [f"1 place in 1 file, by a person: verl-patch check --strict {mini} lists them"]


def test_part_of_a_checkout_and_code_without_a_package(mini: Path, tmp_path: Path, verl: Verl) -> None:
    write(mini, {"examples/a.py": "import verl\n"})
    commit(mini)
    part = rows(verl("status", mini / "examples").out)
    assert part["verl"] == ["0.5.0 in verl; only examples/ of it is looked at"] and "2 places" in part["left"][0]
    write(tmp_path / "recipe", {"a.py": "import verl\n"})
    said = rows(verl("status", tmp_path / "recipe").out)
    assert said["verl"] == ["no verl package here, but code that imports it"]


def test_configuration_and_changed_files_and_detached(mini: Path, verl: Verl) -> None:
    write(mini, {".verl-patch.toml": 'dtype = "float16"\n', "README.md": "x\n"})
    git(mini, "switch", "-q", "--detach")
    said = rows(verl("status", mini).out)
    assert "float16" in said["target"][0] and said["target"][0].endswith(f"({mini}/.verl-patch.toml)")
    assert said["commit"][0].endswith("on no branch (detached HEAD), 1 changed file")


def test_problems_submodules_and_no_git(config: Path, tmp_path: Path, verl: Verl) -> None:
    config.write_text(config.read_text() + '[protocol "file"]\n\tallow = always\n')
    recipe = make_mini(tmp_path / "recipe")
    root = make_mini(tmp_path / "fork", {"verl/bad.py": "def f(dtype=torch.bfloat16:\n"})
    git(root, "submodule", "--quiet", "add", str(recipe), "recipe")
    git(root, "commit", "-q", "-m", "recipe")
    said = rows(verl("status", root).out)
    assert said["apart"] == ["recipe is a submodule, checked out"]
    assert said["problem"][0].startswith("verl/bad.py:1:")
    plain = make_mini(tmp_path / "wheel", git_too=False)
    assert rows(verl("status", plain).out)["git"] == ["no repository"]
    verl("status", tmp_path / "none").refused(3, "does not exist")
