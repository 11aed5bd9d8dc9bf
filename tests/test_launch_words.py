"""What launch says, in both languages, and in which order."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from launch_minis import launch, model, words_of
from minis import Verl

from verl_legacy_patch.launch.words import texts


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
