"""The GPUs of this machine, as nvidia-smi tells them, and programs that are asked with a time limit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.gpus import by_name

_NOTHING = ("no devices", "nvidia-smi has failed", "failed to", "unable")


class NoCards(Exception):
    """No card can be told: one phrase that says why.

    Attributes:
        missing: whether there is no nvidia-smi at all.
    """

    def __init__(self, why: str, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


class Card(NamedTuple):
    """A GPU of this machine.

    Attributes:
        name: what nvidia-smi calls it.
        capability: as the driver says, else as the name says; None where neither is known.
        memory: MiB; None where it is not told, as for a slice of a GPU or without permission.
        driver: version of the driver; empty where it is not told.
    """

    name: str
    capability: Capability | None
    memory: int | None = None
    driver: str = ""


class Answer(NamedTuple):
    """What a program said. ``code`` is None when it gave no answer in time, negative when a signal ended it."""

    code: int | None
    out: str
    err: str


def ask(
    command: Sequence[str], seconds: float, *, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> Answer:
    """Run a program and return what it says; one that hangs is ended, with all that it started.

    Raises:
        OSError: it cannot be run.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=variables,
        start_new_session=True,
    )
    code: int | None
    try:
        out, err = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired as error:
        code, out, err = None, error.stdout or b"", error.stderr or b""
    finally:
        if process.returncode is None:
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            with suppress(subprocess.TimeoutExpired):  # one that hangs in the driver cannot even be killed
                process.wait(1)
    return Answer(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def read_cards(seconds: float, *more: str) -> list[Card]:
    """Ask nvidia-smi for the cards, in the order of their bus.

    A driver that cannot tell capabilities (before 470 or so) tells at least the names.

    Args:
        seconds: that nvidia-smi may take.
        more: what else to ask for: ``memory.total``, ``driver_version``.

    Raises:
        NoCards: there is no nvidia-smi, it fails or does not answer, or it shows no card.
    """
    fields = ["name", "compute_cap", *more]
    code, said = _nvidia_smi(fields, seconds)
    if code and "compute_cap" in said:
        fields.remove("compute_cap")
        code, said = _nvidia_smi(fields, seconds)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if code or not lines or lines[0].lower().startswith(_NOTHING):
        raise NoCards(f"nvidia-smi shows no GPU{f' ({lines[0]})' if lines else ''}")
    return [_card(line, fields) for line in lines]


def _card(line: str, fields: Sequence[str]) -> Card:
    """Return the card of a line; a field that is ``[N/A]`` or ``[Not Supported]`` is left out."""
    texts = [text.strip() for text in line.rsplit(",", len(fields) - 1)]
    told = dict(zip(fields, texts, strict=False))
    name = told["name"] if len(texts) == len(fields) else line.partition(",")[0].strip()
    match = re.fullmatch(r"(\d+)\.(\d+)", told.get("compute_cap", ""))
    known = None if match else by_name(name)
    capability = Capability(int(match[1]), int(match[2])) if match else known[1] if known else None
    memory = re.match(r"\d+", told.get("memory.total", ""))
    driver = re.fullmatch(r"[\d.]+", told.get("driver_version", ""))
    return Card(name, capability, int(memory[0]) if memory else None, driver[0] if driver else "")


def _nvidia_smi(fields: Sequence[str], seconds: float) -> tuple[int, str]:
    """Return exit code and output (of an error: what it says) of a query, one line per card."""
    try:
        answer = ask(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"], seconds)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise NoCards(f"cannot run nvidia-smi ({error.strerror or error})", missing) from None
    if answer.code is None:
        raise NoCards(f"nvidia-smi does not answer within {seconds:g} s")
    return answer.code, answer.out if answer.out.strip() else answer.err
