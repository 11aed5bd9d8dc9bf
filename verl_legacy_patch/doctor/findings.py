"""What the checks are given, and what they give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.facts import Version, numbers
from verl_legacy_patch.doctor.told import filled, told

#: Will fail, may fail, good to know. In the order in which they are shown.
Level = Literal["fails", "warns", "note"]
LEVELS: tuple[Level, ...] = ("fails", "warns", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that will fail (or may).

    Attributes:
        id: the entry of the catalogue.
        level: how sure it is.
        said: name of the sentence (``sentences.yaml``) that says what was found here.
        values: what the sentences are filled with.
        cure: name of the sentence that cures it here, where the entry's own cure is too general.
        source: where the fact can be read, if elsewhere than the entry's.
    """

    id: str
    level: Level
    said: str
    values: Mapping[str, str] = field(default_factory=dict)
    cure: str = ""
    source: str = ""

    def detail(self, language: str) -> str:
        """Return what was found, in words."""
        values = {name: told(value, language) for name, value in self.values.items() if name in ("why", "reason")}
        return filled(sentences()[self.said][language], {**self.values, **values})

    def message(self, usual: str) -> str:
        """Return what is printed when it happens: in this case, where the sentence knows, else as usual."""
        own = sentences()[self.said].get("message")
        return usual if own is None else filled(own, self.values) or NOT_KNOWN


@dataclass(frozen=True)
class Code:
    """What a checkout says, read as text.

    Attributes:
        release: version of verl.
        left: what verl-patch would still rewrite outside of scripts: codemod -> number of places.
        reported: what it would report there.
        pins: requirements by package: ``>=0.8.0,<=0.10.0``.
        python: its requirement for Python.
        plain_trl: whether the value head is imported from trl's top level, and from nowhere else.
        patched: for what it is patched, where that is not what is asked for; else empty.
        asked: what is asked for then.
    """

    release: str | None = None
    left: Mapping[str, int] = field(default_factory=dict)
    reported: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    plain_trl: bool = False
    patched: str = ""
    asked: str = ""


class Settled(NamedTuple):
    """What a launch script decides: of all its trainer commands together.

    Attributes:
        generates: whether one of them generates; SFT does not.
        serves: whether one of them may start the asynchronous vLLM server with prefix caching or chunked prefill on.
    """

    generates: bool
    serves: bool


@dataclass(frozen=True)
class Case:
    """What is looked at.

    Attributes:
        environment: the machine.
        gpu: the one that counts.
        code: the checkout.
        planned: whether the GPU was named.
        script: what a launch script decides.
        configured: the GPU that the configuration of the checkout names, and its file, where that counts.
    """

    environment: Environment
    gpu: Capability
    code: Code | None = None
    planned: bool = False
    script: Settled | None = None
    configured: Mapping[str, str] = field(default_factory=dict)

    def installed(self, package: str) -> str:
        """Return the version of an installed package; empty when it is not installed."""
        return self.environment.versions.get(package, "")

    def version(self, package: str) -> Version:
        """Return the version of an installed package as numbers; () when it is not installed."""
        return numbers(self.installed(package))

    @property
    def vllm(self) -> str:
        """Return the version of vLLM, that of a build for Pascal too; empty without."""
        return self.installed("vllm") or self.installed("vllm-pascal")


#: Stands for the message of a case whose literal message is not known. It is not printed.
NOT_KNOWN = "(not known for this case)"

#: Sentences that are those of ``launch``, which refuses what doctor finds in a script.
SHARED = ("no-hf", "no-hf-samples")

Check = Callable[[Case], Iterator[Finding]]


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Return what the checks say: name -> language -> text; ``message`` is what is printed in this very case."""
    import yaml

    text = (files("verl_legacy_patch.doctor") / "sentences.yaml").read_text("utf-8")
    loaded: dict[str, Mapping[str, str]] = yaml.safe_load(text)
    from verl_legacy_patch.launch.words import texts

    for name in SHARED:  # with the line of the script, and what is printed there
        loaded[name] = {**texts()[name], "message": "{seen}"}
    return loaded
