"""Times verl-patch against what one would use instead, side by side, as whole processes.

    pip install . ast-grep-cli
    python benchmarks/run.py ~/verl            about two minutes
    python benchmarks/run.py ~/verl --libcst 5 plain LibCST too, five times, each of which takes a minute or two

``~/verl`` is a git clone of verl with a clean work tree; nothing is written to it. Prints ratios of CPU time (medians
of pairs that ran in turn), because they carry over from one machine to another. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from measure import Pair, pair, run  # noqa: E402

from verl_legacy_patch.codemod import discover  # noqa: E402

PASS = [sys.executable, "-c", "pass"]
SOURCES = (".py", ".sh", ".yaml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verl", type=Path, help="a git clone of verl with a clean work tree")
    parser.add_argument("-n", "--runs", type=int, default=5, help="runs of each command [default: 5]")
    parser.add_argument(
        "--libcst", type=int, nargs="?", const=1, default=0, help="also run libcst.tool codemod, once or so often"
    )
    arguments = parser.parse_args()
    verl: Path = arguments.verl.expanduser().resolve()
    tool, ast_grep = _program("verl-patch"), _program("ast-grep")
    dry_run = [tool, "apply", str(verl), "--dry-run"]

    print("| verl-patch | CPU s | peak MiB | against | CPU s | ratio |\n| --- | --- | --- | --- | --- | --- |")
    scan = [ast_grep, "scan", "--config", str(HERE / "ast-grep" / "sgconfig.yml"), str(verl)]
    _row("dry run, every codemod", pair(dry_run, scan, verl, arguments.runs), "ast-grep scan, two rewrites")
    two = [*dry_run, "--select", "dtype,attention"]
    _row("dry run, dtype and attention", pair(two, scan, verl, arguments.runs), "the same")
    for option in ("--version", "--help"):
        _row(option, pair([tool, option], PASS, verl, arguments.runs), "python -c pass")
    for label, path in _files(verl).items():
        _row(f"check, {label}", pair([tool, "check", path], PASS, verl, arguments.runs, found=1), "python -c pass")
    with _sixteenfold(verl) as many:
        bigger = [tool, "apply", str(many), "--dry-run"]
        _row("dry run, 16 times the files", pair(bigger, dry_run, verl, arguments.runs), "dry run of verl")
    for _ in range(arguments.libcst):
        # a minute is long: what the machine does meanwhile is met by a measurement before and one behind
        costs = [run(dry_run, verl).cpu for _ in range(arguments.runs)]
        other = _libcst(verl)
        ours = statistics.median(costs + [run(dry_run, verl).cpu for _ in range(arguments.runs)])
        print(f"dry run against libcst.tool codemod: {ours:.3f} s, {other:.1f} s, 1 : {other / ours:.0f}", flush=True)


def _row(label: str, measured: Pair, other: str) -> None:
    ours, theirs, ratio = measured
    print(f"| {label} | {ours.cpu:.3f} | {ours.peak:.0f} | {other} | {theirs.cpu:.3f} | {ratio:.2f} |", flush=True)


def _program(name: str) -> str:
    """Return the program that is installed beside this Python, else the one on PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        sys.exit(f"no {name}: pip install . ast-grep-cli")
    return found


def _files(verl: Path) -> dict[str, str]:
    """Return a file without a trigger and the smallest and largest Python file that dtype rewrites."""
    done = subprocess.run(
        [_program("verl-patch"), "check", "--select", "dtype"], cwd=verl, capture_output=True, text=True
    )
    hits = {line.partition(":")[0] for line in done.stdout.splitlines()}
    by_size = sorted((path for path in hits if path.endswith(".py")), key=lambda path: (verl / path).stat().st_size)
    return {
        "no trigger": next(path for path in _plain(verl) if path.endswith(".py")),
        "few sites": by_size[0],
        "most lines": by_size[-1],
    }


def _tracked(verl: Path) -> list[str]:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=verl, capture_output=True, check=True).stdout
    return [path for path in files.decode().split("\0") if path and (verl / path).is_file()]


def _plain(verl: Path) -> list[str]:
    """Return the source files without a trigger word."""
    sources = [path for path in _tracked(verl) if path.endswith(SOURCES)]
    words = {word for codemod in discover().values() for word in codemod.words}
    texts = ((path, (verl / path).read_text("utf-8", "replace").lower()) for path in sources)
    return [path for path, text in texts if not any(word in text for word in words)]


@contextmanager
def _sixteenfold(verl: Path) -> Iterator[Path]:
    """Give a repository with the files of ``verl`` and 15 times as many more that hold no trigger word."""
    paths, plain = _tracked(verl), _plain(verl)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "verl")
        for path in paths:
            _copy(verl / path, root / path)
        for number in range(15 * len(paths)):
            path = plain[number % len(plain)]
            _copy(verl / path, root / f"more/{number // len(plain)}/{path}")
        for command in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", "-c", "gc.auto=0", *command], cwd=root, check=True)
        yield root


def _copy(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)


def _libcst(verl: Path) -> float:
    """Return the CPU seconds of a plain LibCST command over all Python files."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "libcst_command.py", folder)
        shutil.copytree(verl, Path(folder, "verl"), ignore=shutil.ignore_patterns(".git"), symlinks=True)
        options = ["--no-format", "--hide-progress"]
        command = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "libcst_command.Float32Eager", "verl"]
        cost = run([*command, *options], Path(folder))
        if not any((Path(folder, "verl") / path).read_bytes() != (verl / path).read_bytes() for path in _tracked(verl)):
            sys.exit("libcst.tool changed nothing")
        return cost.cpu


if __name__ == "__main__":
    main()
