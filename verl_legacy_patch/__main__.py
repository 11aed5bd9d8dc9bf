"""Entry point of the console script and of ``python -m verl_legacy_patch``."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if (sys.path and sys.path[0] == "") or _started_as_module():
        # "python -m" puts the current folder first: a checkout's own yaml.py or click/ must never be imported
        del sys.path[0]
    from verl_legacy_patch.cli import run

    sys.exit(run())


def _started_as_module() -> bool:
    import os

    return __name__ == "__main__" and bool(sys.path) and sys.path[0] == os.getcwd()  # noqa: PTH109 (pathlib is not imported for this)


if __name__ == "__main__":
    main()
