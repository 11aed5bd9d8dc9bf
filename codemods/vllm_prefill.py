"""Turn vLLM's prefix caching and chunked prefill off.

What it does: enable_prefix_caching and enable_chunked_prefill become false in Python, YAML and launch scripts.

Why: a prefix-cache hit or a chunked prefill runs vLLM's Triton kernel prefix_prefill, whose block size is chosen
for cards with more shared memory: "OutOfResources: shared memory, Required: 81920, Hardware limit: 49152". It
happens when the first prompt repeats, so training starts well and dies at step 8 or 9.

What it leaves alone: values that are read from the configuration, and other engines' prefill settings.

Source: https://github.com/vllm-project/vllm/pull/11584 and https://github.com/vllm-project/vllm/issues/36802
"""

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.codemod import SwitchCodemod
from verl_legacy_patch.target import Target


class VllmPrefill(SwitchCodemod):
    """See the module's docstring."""

    name = "vllm-prefill"
    keys = ("enable_prefix_caching", "enable_chunked_prefill")
    when = "with compute capability below 8.0"

    def applies(self, target: Target) -> bool:
        """Only cards before Ampere run out of shared memory there."""
        return target.capability < Capability(8, 0)
