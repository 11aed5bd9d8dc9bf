"""The configuration of a fork: files, command line, errors, and what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forks import LEFT
from minis import PROJECT, Verl, make_mini
from repos import as_nobody, git, write

from verl_legacy_patch.config import KEYS, Config, ConfigError, load, merge
from verl_legacy_patch.scope import Scope


def own(root: Path, text: str | bytes) -> Path:
    root.mkdir(exist_ok=True)
    path = root / ".verl-patch.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    path = own(
        tmp_path,
        'gpu = "t4"\ndtype = "float16"\nattn = "sdpa"\nselect = ["dtype", "attention"]\nignore = ["attention"]\n'
        'safe-only = true\nexclude = ["recipe/"]\ninclude = ["tests/mine"]\nbranch = "p40"\n'
        'keys.dtype = ["kind"]\nkeys."attention" = ["how"]\n',
    )
    config, source = load(tmp_path)
    assert config == Config(
        "t4", "float16", "sdpa", ("dtype", "attention"), ("attention",), True, ("recipe/",), ("tests/mine",),
        {"dtype": ("kind",), "attention": ("how",)}, "p40",
    )  # fmt: skip
    assert source is not None and source.path == path and source.keys == set(KEYS)


def test_pyproject_and_which_file_wins(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "verl"\n')
    assert load(tmp_path) == (Config(), None)
    project.write_text('[project]\nname = "verl"\n[tool.verl-patch]\ngpu = 7.5\n')
    config, source = load(tmp_path)
    assert config.gpu == "7.5" and source is not None and source.path == project
    own(tmp_path, "\ufeff".encode() + b'gpu = "v100"\r\n')
    assert load(tmp_path)[0].gpu == "v100"


def test_errors_of_upstreams_own_file_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"[tool.other\n\xff")
    assert load(tmp_path) == (Config(), None)
    (tmp_path / "pyproject.toml").write_text("[tool.verl-patch-of-mine]\nx = 1\n")
    assert load(tmp_path) == (Config(), None)
    (tmp_path / "pyproject.toml").write_text('tool = "verl-patch"\n')
    assert load(tmp_path) == (Config(), None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpuu = 1", "unknown key 'gpuu'; did you mean gpu?"),
        ("safe_only = true", "did you mean safe-only?"),
        ("Exclude = []", "did you mean exclude?"),
        ("color = 1", "there are: gpu, dtype"),
        ('dtype = "fp32"', "dtype is 'fp32'; it can be float32 or float16"),
        ("dtype = 32", "dtype has to be a text, and is 32"),
        ("gpu = true", "gpu has to be a text"),
        ("gpu = 7", "gpu has to be a text"),
        ('safe-only = "yes"', "safe-only has to be true or false"),
        ('select = "dtype"', "select has to be a list of texts"),
        ("ignore = [1]", "ignore has to be a list of texts"),
        ('keys = ["kind"]', "keys has to be a table of lists of texts"),
        ('keys.dtype = "kind"', "keys has to be a table"),
        ('exclude = ["!recipe"]', "goes under include"),
        ('include = ["../other"]', "means no file of the checkout"),
        ('exclude = [""]', "means no file"),
        ('gpu = "p40"\ngpu = "t4"', "not TOML"),
        ("gpu = p40", "not TOML"),
        (b'gpu = "\xff"', "not TOML in UTF-8"),
        ('gpu = "p40"'.encode("utf-16"), "not TOML in UTF-8"),
        ("x = " + "[" * 5000 + "]" * 5000, "not TOML"),
        ("gpu = " + "9" * 5000, "not TOML"),
    ],
)
def test_wrong_files_are_one_line_that_names_file_and_key(text: str | bytes, words: str, tmp_path: Path) -> None:
    path = own(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    assert words in str(error.value) and str(error.value).startswith(f"{path}: ")


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".verl-patch.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / ".verl-patch.toml").rmdir()
    (tmp_path / ".verl-patch.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / ".verl-patch.toml").unlink()
    own(tmp_path, "").chmod(0)
    with as_nobody(tmp_path), pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load(tmp_path)
    (tmp_path / "pyproject.toml").write_text("tool.verl-patch = 3\n")
    (tmp_path / ".verl-patch.toml").unlink()
    with pytest.raises(ConfigError, match="has to be a table"):
        load(tmp_path)


def test_command_line_over_file_over_default() -> None:
    config = Config(gpu="t4", ignore=("dtype",), safe_only=True)
    assert merge(config, {}) == config
    said = {"gpu": "p40", "ignore": (), "safe_only": False, "dtype": None}
    assert merge(config, said) == Config(gpu="p40")


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("prime", ["prime/x.py", "a/prime/b/x.py", "a/prime"], ["primes/x.py", "a/xprime"]),
        ("recipe/prime", ["recipe/prime/x.py"], ["a/recipe/prime/x.py", "recipe/primes/x.py"]),
        ("/prime", ["prime/x.py", "prime"], ["a/prime/x.py"]),
        ("recipe/", ["recipe/a/b.py", "x/recipe/y"], ["recipes/a"]),
        ("*.sh", ["a.sh", "b/c/a.sh"], ["a.shx", "a.py"]),
        ("examples/*.sh", ["examples/a.sh"], ["examples/b/a.sh"]),
        ("examples/**/*.sh", ["examples/a.sh", "examples/b/c/a.sh"], ["a.sh"]),
        ("**/legacy/*", ["legacy/x", "a/b/legacy/x/y"], ["legacy"]),
        ("x/**", ["x/y", "x/y/z"], ["x"]),
        ("run[0-9].sh", ["run1.sh"], ["run.sh", "run12.sh"]),
        ("a[[]1].py", ["a[1].py"], ["a1.py"]),
        ("a[z-a", ["a[z-a"], ["a"]),
        ("a+(b).py", ["a+(b).py"], ["aab.py"]),
        ("é*.py", ["été.py", "x/é\n.py"], ["e.py"]),
    ],
)
def test_patterns_are_those_of_gitignore(pattern: str, meant: list[str], not_meant: list[str]) -> None:
    for path in meant + not_meant:
        reason = Scope(exclude=(pattern,)).file_reason(f"verl/{path}" if "/" not in pattern.strip("/") else path)
        if pattern.startswith("/"):
            reason = Scope(exclude=(pattern,)).file_reason(path)
        assert bool(reason) is (path in meant), path


@pytest.mark.parametrize("pattern", ["**/" * 200 + "x", "**/a/" * 12 + "x", "*a" * 30 + "b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    path = "a/" * 40 + "a" * 60
    assert not Scope(exclude=(pattern,)).file_reason(path)
    assert Scope(exclude=(f"{pattern[:-1]}*",)).file_reason(path)


def test_include_wins_over_scope_and_exclude() -> None:
    scope = Scope(exclude=("recipe",), include=("recipe/mine", "tests"))
    assert scope.file_reason("recipe/x.py") and not scope.file_reason("recipe/mine/x.py")
    assert not scope.file_reason("tests/x.py") and scope.file_reason("docs/x.py")


# --- through the command


def test_show_config_says_where_each_value_comes_from_and_is_a_configuration(mini: Path, verl: Verl) -> None:
    path = own(mini, 'attn = "eager"\ngpu = "t4"\nexclude = ["a\\"b", "recipe"]\nkeys.dtype = ["kind"]\n')
    ran = verl("apply", mini, "--show-config", "--gpu", "v100", "--ignore", "dtype, attention")
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.decode().splitlines()
    assert any(line.startswith('gpu = "v100" ') and line.endswith("# command line") for line in lines)
    assert any(line.startswith('attn = "eager" ') and line.endswith(f"# {path}") for line in lines)
    assert any(line.startswith('dtype = "float32" ') and line.endswith("# default") for line in lines)
    own(mini, ran.out)
    config, _ = load(mini)
    assert config.gpu == "v100" and config.ignore == ("dtype", "attention") and config.exclude == ('a"b', "recipe")
    assert config.keys == {"dtype": ("kind",)} and config.branch == "verl-patch/float32-eager"
    assert git(mini, "branch") == "* main"


def test_apply_and_check_and_a_hook_agree(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    write(mini, {"recipe/prime/a.py": LEFT, "tests/mine/b.py": LEFT, "verl/c.py": "A = dict(kind='bf16')\n"})
    own(mini, 'exclude = ["recipe/prime"]\ninclude = ["tests/mine"]\nkeys.dtype = ["kind"]\nignore = ["attention"]\n')
    git(mini, "add", "-A")
    git(mini, "commit", "-q", "-m", "fork")
    planned = verl("apply", mini, "--dry-run", "--format", "json").data
    places = {(site["path"], site["line"]) for site in planned["sites"] if site["action"] == "rewrite"}
    assert {("tests/mine/b.py", 3), ("verl/c.py", 1)} < places
    assert not any(path.startswith("recipe/prime") for path, _ in places)
    assert not any(site["codemod"] == "attention" for site in planned["sites"])
    monkeypatch.chdir(mini)
    checked = verl("check", "--format", "json")
    assert checked.code == 1
    assert {(s["path"], s["line"]) for s in checked.data["sites"] if s["action"] == "rewrite"} == places
    tracked = git(mini, "ls-files").split("\n")
    assert verl("check", "--fix", *tracked).code == 1
    assert verl("apply", mini, "--no-switch").code == 0
    git(mini, "add", "-A")
    assert git(mini, "diff", "--cached", "verl-patch/float32-eager") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('select = ["dtyp"]', ["no codemod named 'dtyp'; did you mean dtype?", ".verl-patch.toml"]),
        ("select = []", ["select names no codemod"]),
        ('keys.attn = ["x"]', ["no codemod named 'attn'"]),
        ('gpu = "titanic"', ["no GPU named 'titanic'"]),
        ("gpuu = 1", ["did you mean gpu?"]),
    ],
)
def test_wrong_configuration_is_a_usage_error(
    text: str, words: list[str], mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(mini, text)
    monkeypatch.chdir(mini)
    for command in (("apply", "."), ("check",), ("check", "verl/workers/actor.py"), ("status", ".")):
        verl(*command).refused(2, *words)


def test_the_file_of_the_work_tree_counts_for_every_base(mini: Path, verl: Verl) -> None:
    own(mini, 'dtype = "float16"\n')
    git(mini, "add", "-A")
    git(mini, "commit", "-q", "-m", "configure")
    own(mini, 'branch = "p40"\n')
    assert verl("apply", mini, "--base", "HEAD~", "--no-switch").code == 0
    assert "float32" in git(mini, "show", "p40:verl/workers/actor.py")


def test_branch_of_the_file_is_no_demand(mini: Path, verl: Verl) -> None:
    """It names the branch that is created first; later ones go where the patch is."""
    own(mini, 'branch = "p40"\n')
    git(mini, "add", "-A")
    git(mini, "commit", "-q", "-m", "configure")
    assert verl("apply", mini).code == 0
    git(mini, "switch", "-q", "-c", "mine")
    write(mini, {"verl/new.py": LEFT})
    git(mini, "add", "-A")
    git(mini, "commit", "-q", "-m", "new")
    assert verl("apply", mini).code == 0
    assert git(mini, "branch", "--show-current") == "mine"
    assert "float32" in git(mini, "show", "mine:verl/new.py")


def test_command_line_can_turn_off_what_the_file_turns_on(config: Path, tmp_path: Path, verl: Verl) -> None:
    root = make_mini(tmp_path / "fork", {".verl-patch.toml": 'safe-only = true\nignore = ["dtype"]\n'})
    shown = verl("apply", root, "--show-config", "--no-safe-only", "--ignore", "").out.decode()
    assert "safe-only = false" in shown and "ignore = []" in shown


@pytest.mark.parametrize("document", ["docs/fork.md", "docs/fork.zh.md"])
def test_the_documentation_shows_every_key(document: str, tmp_path: Path) -> None:
    text = (PROJECT / document).read_text("utf-8")
    table = text.partition("<!-- generated: config -->")[2].partition("<!-- end: config -->")[0]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(KEYS)
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for example in examples:
        own(tmp_path, example)
        assert load(tmp_path)[0].gpu == "p40"
    assert examples


def test_defaults_in_the_documentation_are_those_in_force(mini: Path, verl: Verl) -> None:
    lines = verl("apply", mini, "--show-config").out.decode().splitlines()
    shown = dict(line.split(" = ", 1) for line in lines if " = " in line)
    for key, value in shown.items():
        assert KEYS[key].default in value, key


def test_names_of_codemods_and_targets_in_any_case(config: Path, verl: Verl, mini: Path) -> None:
    assert verl("explain", "DTYPE").out == verl("explain", "dtype").out != b""
    assert verl("explain", "Flash-Attn-Import").done().out
    lower = verl("apply", mini, "-n", "--select", "dtype,attention", "--attn", "sdpa", "--dtype", "float16").done()
    upper = verl("apply", mini, "-n", "--select", "DTYPE,Attention", "--attn", "SDPA", "--dtype", "Float16").done()
    assert lower.out == upper.out != b""
    verl("explain", "DTIPE").refused(2, "did you mean dtype?")
