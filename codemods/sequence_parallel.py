"""Report Ulysses sequence parallelism: it exists only inside the flash attention forward.

What it does: nothing is rewritten. Scripts and configuration that set ulysses_sequence_parallel_size above 1 are
listed; the check that packing-guard adds refuses such a run.

Why: verl exchanges the slices of a sequence inside its patched flash attention. With eager or sdpa each rank attends
inside its own slice, without an error. Long sequences then need more memory per card, so the size cannot just be
changed to 1: lengths and batch sizes have to be chosen anew.

What it leaves alone: sizes of 1, and sizes that come from elsewhere.

Source: https://github.com/volcengine/verl/blob/main/verl/utils/ulysses.py
"""

from verl_legacy_patch.codemod import ReportCodemod

SIZE = r"ulysses_(?:sequence_parallel_)?size"


class SequenceParallel(ReportCodemod):
    """See the module's docstring."""

    name = "sequence-parallel"
    grade = "review"
    words = ("ulysses_sequence_parallel_size", "ulysses_size", "sp_size=")
    trigger = rf"(?:{SIZE}|\bsp_size)[\"']?\s*[=:]\s*[\"']?(?:\$\{{?\w+:-)?(?:[2-9]|1\d)"
    when = "attention that is not flash"
    rules = (
        (
            rf"{SIZE}|sp_size",
            r"[2-9]|1\d",
            "sequence parallelism needs flash attention: set 1 and shorten the sequences",
        ),
    )
