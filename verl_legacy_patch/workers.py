"""Several files at once, in worker processes (``--jobs``): the same results in the same order."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from verl_legacy_patch.checkout.gitio import CheckoutError

Result = TypeVar("Result")


def in_workers(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], jobs: int) -> Iterator[Result]:
    """Yield ``function(*arguments)`` for each of ``calls``, in order.

    Raises:
        CheckoutError: a worker process did not live to answer.
    """
    # Python's other ways to start a worker look for its modules in the current folder first, which is a checkout
    # with who knows what modules of its own.
    given = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = given or "1"
    context = get_context("fork" if sys.platform == "linux" else None)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_signals_to_the_parent)
    try:
        tasks = [pool.submit(function, *arguments) for arguments in calls]
        for task in tasks:
            yield task.result()
    except BrokenProcessPool:
        raise CheckoutError("a worker process was killed (out of memory?): use fewer --jobs") from None
    finally:
        pool.shutdown(cancel_futures=True)
        if given is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = given


def _leave_signals_to_the_parent() -> None:
    """Let Ctrl-C end the parent only, which then ends the workers: two answers to it would wait for each other."""
    for name, action in (("SIGINT", signal.SIG_IGN), ("SIGHUP", signal.SIG_IGN), ("SIGTERM", signal.SIG_DFL)):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), action)
