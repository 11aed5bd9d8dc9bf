"""Entry point of the console script and of ``python -m verl_legacy_patch``."""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command line and exit with its code."""
    # "python -m" puts the current folder first: a checkout's own yaml.py or click/ must never be imported
    if sys.path and (sys.path[0] == "" or (__name__ == "__main__" and sys.path[0] == _current_folder())):
        del sys.path[0]
    try:
        gc.disable()  # short and busy: collecting would cost a tenth of it, and frees nothing
        if sys.argv[1:2] == ["check"]:
            from verl_legacy_patch.quick import nothing_to_say

            if nothing_to_say(sys.argv[2:]):
                _leave(0)
        from verl_legacy_patch.cli import run

        code = run()
    except KeyboardInterrupt:  # while modules were loading
        code = 130
    _leave(code)


def _leave(code: int) -> "NoReturn":
    """End the process without freeing every object and module first, which costs a tenth of a dry run.

    Where something is left that cannot be written, Python's own way out says so.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        sys.exit(code)
    os._exit(code)


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (pathlib is not imported for this)
    except OSError:  # it has been removed
        return ""


if __name__ == "__main__":
    main()
