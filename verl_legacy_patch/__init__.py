"""verl-patch: rewrite a verl checkout for GPUs without bfloat16 and FlashAttention-2."""

__version__ = "0.1.0"
