"""The catalogue: every message is found as people paste it, by the entry that explains it best."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from minis import Verl, new_process

from verl_legacy_patch.doctor.catalogue import LANGUAGES, entries, find, language, plain
from verl_legacy_patch.doctor.facts import facts

#: Entry -> messages as they stand in reports: the lines that matter, between others that do not.
PASTED: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "data/doctor_messages.yaml").read_text("utf-8"))
#: The blog's own errors: environment, no kernel image, bf16, shared memory at step 9, out of memory.
BLOG = ("flash-attn-missing", "no-kernel-image", "bf16-unsupported", "shared-memory", "out-of-memory")

CASES = [(name, text) for name, texts in PASTED.items() for text in texts]


def in_ray(text: str) -> str:
    return "".join(f"\x1b[36m(WorkerDict pid=123, ip=10.0.0.1)\x1b[0m {line}\n" for line in text.splitlines())


def in_log(text: str) -> str:
    noise = 'Traceback (most recent call last):\n  File "/x/verl/workers/fsdp_workers.py", line 12, in init_model\n'
    return noise + "".join(f"[rank0]: {line}\n" for line in text.splitlines()) + "Set HYDRA_FULL_ERROR=1 for more.\n"


def in_docker(text: str) -> str:
    return "".join(
        f"[2025-05-13T12:00:01.123Z] verl-1  | (EngineCore_DP0 pid=9) {line}\r\n" for line in text.splitlines()
    )


def in_chinese(text: str) -> str:
    return f"大佬们好，我在 P40 上训练到第 9 步报错：\n\n“{text}”\n\n请问怎么解决？谢谢。"


def wrapped(text: str) -> str:
    return "\n".join(re.findall(r".{1,60}(?:\s|$)", text))


@pytest.mark.parametrize("form", [str, in_ray, in_log, in_docker, in_chinese, wrapped, str.upper])
def test_messages_are_found_as_they_are_pasted(form: object) -> None:
    assert callable(form)
    wrong = [(name, [entry.id for entry in find(form(text))]) for name, text in CASES]
    assert [(name, ids) for name, ids in wrong if ids[:1] != [name]] == []


def test_the_blog_and_the_most_reported_ones_are_there() -> None:
    assert set(BLOG) <= PASTED.keys() <= entries().keys()
    assert len(PASTED) >= 25


def test_no_entry_stands_behind_one_that_always_wins() -> None:
    for entry in entries().values():
        found = [one.id for one in find(entry.message)]
        if entry.seen:
            assert found[:1] == [entry.id], (entry.id, found)
        else:  # found by checks alone: whatever the message finds is what the user should read then
            assert entry.message.startswith("(") or found, entry.id


@pytest.mark.parametrize("entry", entries().values(), ids=lambda entry: entry.id)
def test_entries_are_whole(entry: object) -> None:
    assert isinstance(entry, tuple)
    entry = entries()[entry[0]]
    assert re.fullmatch(r"[a-z0-9-]+", entry.id) and entry.source.startswith("https://") and " " not in entry.source
    for texts in (entry.title, entry.why, entry.cure):
        assert tuple(texts) == LANGUAGES and all(texts.values())
        assert set(re.findall(r"\{\w+\}", texts["en"])) == set(re.findall(r"\{\w+\}", texts["zh"]))
    assert re.search("[一-鿿]", entry.title["zh"]) and re.search("[一-鿿]", entry.why["zh"])
    assert not re.search("[一-鿿]", "".join((entry.title["en"], entry.why["en"], entry.cure["en"])))
    assert len(entry.why["en"]) < 420 and len(entry.title["en"]) < 110
    for pattern in entry.seen:
        re.compile(pattern)


def test_facts_are_whole() -> None:
    for name, fact in facts().items():
        assert fact.value and len(fact.holds) > 10 and fact.source.startswith("https://"), name


def test_a_long_log_is_searched_quickly_and_whole() -> None:
    log = "INFO 05-01 10:00:00 worker.py:1] step 1 flash_attn bf16 loss 0.1 CUBLAS_STATUS"
    log = "".join(f"{log} {number}\n" for number in range(5_000))
    assert find(log) == []
    assert [entry.id for entry in find(log + PASTED["out-of-memory"][0])] == ["out-of-memory"]


@pytest.mark.parametrize(
    "text", ["", "   \n", "hello", "训练很顺利", "loss: 0.3", "\x1b[31m\x1b[0m", "(pid=", "\x00\ufffd"]
)
def test_what_is_no_error_is_not_explained(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[36m(TaskRunner pid=7)\x1b[0m a\n\x1b[36m(TaskRunner pid=7)\x1b[0m b", "a b"),
        ("ERROR 02-17 20:51:49 [core.py:210] a", "a"),
        ("[rank3]: a\n[rank3]: b", "a b"),
        ("2025-05-13 12:00:01,123 ERROR: a", "a"),
        ("ＣＵＤＡ　error：no ‘x’", "CUDA error:no 'x'"),
        ("f(pid=1) stays", "f(pid=1) stays"),
    ],
)  # fmt: skip
def test_prefixes_of_logs(text: str, expected: str) -> None:
    assert plain(text) == expected


# the command


def test_a_message_is_explained(verl: Verl, config: Path) -> None:
    ran = verl("doctor", "/data/my verl", "--lang", "en", "--message", "no kernel image is available for execution")
    out = ran.done().out.decode()
    assert out.startswith("PyTorch (or a package")
    assert re.findall(r"^  (\w+): ", out, re.MULTILINE) == ["why", "cure", "source"]
    ran = verl("doctor", "/data/my verl", "--lang", "en", "--message", "No module named flash_attn")
    assert "verl-patch apply '/data/my verl'" in ran.done().out.decode()


@pytest.mark.parametrize(
    ("options", "variables", "zh"),
    [
        (["--lang", "zh"], {}, True),
        ([], {"LANG": "zh_CN.UTF-8"}, True),
        ([], {"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, False),
        (["--lang", "en"], {"LANG": "zh_CN.UTF-8"}, False),
        ([], {"LANG": "C.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, True),
        ([], {}, False),
    ],
)
def test_the_language(
    options: list[str],
    variables: dict[str, str],
    zh: bool,
    verl: Verl,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = verl("doctor", *options, "--message", "CUDA out of memory").done().out.decode()
    assert out.startswith("显存不足" if zh else "The GPU's memory does not suffice")
    assert ("解决：" in out) == zh
    assert language("de", {}) == "en"


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (in_ray(PASTED["shared-memory"][0]).encode(), 0, ""),
        (b"\xff\xfe CUDA out of memory \xe4\xbd", 0, ""),
        (b"", 1, "There is no message to explain.\n"),
        (b" \n", 1, "There is no message to explain.\n"),
        (
            b"all is well",
            1,
            "No entry of the catalogue explains this message. "
            "Give more of the log: verl-patch doctor --message - < LOG. "
            "Or look at the machine: verl-patch doctor ~/verl\n",
        ),
    ],
)
def test_messages_from_standard_input(given: bytes, code: int, says: str) -> None:
    done = new_process("doctor", "--lang", "en", "--message", "-", input=given)
    assert (done.returncode, done.stderr.decode()) == (code, says)
    assert bool(done.stdout) == (code == 0)


def test_entries_as_json(verl: Verl, config: Path) -> None:
    text = "VLLM_DTYPE and CUDA out of memory"
    data = verl("doctor", "--message", text, "--format", "json", "--lang", "zh").done().data
    assert data["asked"] == text and [row["id"] for row in data["entries"]] == ["out-of-memory", "useless-variable"]
    assert data["entries"][0]["title"] == "显存不足"
    ran = verl("doctor", "--message", "all is well", "--format", "json")
    assert ran.code == 1 and json.loads(ran.out)["entries"] == []
