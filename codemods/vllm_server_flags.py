"""Report where a False of the configuration is lost on its way to the vLLM server.

What it does: nothing is rewritten. The code that turns the configuration into vLLM's command line is listed where it
leaves False out instead of passing `--no-...` on.

Why: vLLM's own default for prefix caching and chunked prefill is on. In verl's asynchronous server from v0.6.1 to
v0.9.0 the False that vllm-prefill writes is dropped, so both stay on; v0.9.1 passes it on. To pass it by hand needs
more than the flag: without chunked prefill max_num_batched_tokens has to hold max_model_len, which there is the whole
context of the model unless rollout.max_model_len is set.

What it leaves alone: code that passes `--no-...`, and verl's synchronous rollout, which gives vLLM the values as they
are.

Source: https://github.com/verl-project/verl/pull/7632
"""

from collections.abc import Iterator

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Edit, Span
from verl_legacy_patch.target import Target

_DROPS = lazy(
    rb"if isinstance\((?P<value>\w+), bool\):\s*\n(?P<indent>[ \t]+)"
    rb"(?P<site>if (?P=value):\s+\w+\.append\(f(?P<quote>[\"'])--\{\w+\}(?P=quote)\))"
    rb"(?!\s*\n(?P=indent)(?:elif|else)\b)"
)
_ON = "+actor_rollout_ref.rollout.engine_kwargs.vllm.no_enable_{}=True"


class VllmServerFlags(Codemod):
    """See the module's docstring."""

    name = "vllm-server-flags"
    grade = "review"
    does = "reports"
    words = ("--{",)
    trigger = r"\.append\(f[\"']--\{\w+\}[\"']\)"
    when = "with compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """It follows from vllm-prefill."""
        return target.capability < Capability(8, 0)

    def inspect(self, source: bytes, language: str, target: Target) -> Iterator[Edit]:
        """Point at the test that lets True through and nothing else."""
        if language != "python":
            return
        for match in _DROPS.finditer(source):
            reason = f"False is dropped here, vLLM's default is on: add {_ON.format('prefix_caching')}"
            reason += f"; {_ON.format('chunked_prefill')} also needs rollout.max_model_len and max_num_batched_tokens"
            yield Edit(Span(*match.span("site")), self.name, "report", None, reason, self.grade)
