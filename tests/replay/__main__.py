"""What a change of the compiler changes in what it compiles: `python -m tests.replay against main`.

    record FOLDER        each stage of every model and kernel of the repository, for three targets
    diff BEFORE AFTER    which subjects differ, in which stage first, and where; --ignore: a pattern, as of an attribute
    against REVISION     both: of that revision, in a worktree of its own, and of this tree

With `--full-size` models are those that benchmarks run, else small ones of the same structure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.replay.record import LEFT_OUT, changes, record

ROOT = Path(__file__).parents[2]


def main() -> int:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--only", default="", metavar="TEXT", help="subjects with this in their names")
    common.add_argument("--full-size", action="store_true")
    common.add_argument("--jobs", type=int, default=os.cpu_count())
    parser = argparse.ArgumentParser(
        prog="python -m tests.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", parents=[common]).add_argument("folder", type=Path)
    diff = commands.add_parser("diff")
    diff.add_argument("before", type=Path)
    diff.add_argument("after", type=Path)
    diff.add_argument("--ignore", default="", metavar="PATTERN", help="what makes no difference in texts")
    commands.add_parser("against", parents=[common]).add_argument("revision")
    args = parser.parse_args()
    if args.command == "diff":
        return _print_changes(args.before, args.after, args.ignore)
    if args.command == "record":
        _record(args, args.folder)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        before, after, tree = (Path(scratch) / name for name in ("before", "after", "tree"))
        _git("worktree", "add", "--detach", str(tree), args.revision)
        try:
            options = [f"--only={args.only}", f"--jobs={args.jobs}", *(["--full-size"] if args.full_size else [])]
            _record_elsewhere(tree, before, options)
        finally:
            _git("worktree", "remove", "--force", str(tree))
        _record(args, after)
        return _print_changes(before, after)


def _record(args: argparse.Namespace, folder: Path) -> None:
    index = record(folder, args.only, full_size=args.full_size, jobs=args.jobs)
    left_out = {name: stages[LEFT_OUT] for name, stages in index.items() if LEFT_OUT in stages}
    for name, why in left_out.items():
        sys.stdout.write(f"left out: {name}: {why}\n")
    sys.stdout.write(f"{len(index) - len(left_out)} recorded, {len(left_out)} left out\n")


def _record_elsewhere(tree: Path, folder: Path, options: list[str]) -> None:
    """This recorder on the compiler of another tree, which may have none or an older one."""
    code = "import sys; from tests.replay.__main__ import main; sys.exit(main())"
    # the compiler is that tree's, all else (tests, models) this one's
    path = os.pathsep.join((str(tree / "only"), str(ROOT)))
    (tree / "only").mkdir()
    (tree / "only" / "graphfuse").symlink_to(tree / "graphfuse")
    command = [sys.executable, "-c", code, "record", str(folder), *options]
    subprocess.run(command, cwd=tree / "only", env={**os.environ, "PYTHONPATH": path}, check=True)


def _print_changes(before: Path, after: Path, ignored: str = "") -> int:
    found = sorted(changes(before, after, ignored=ignored), key=lambda c: c.subject)
    for change in found:
        sys.stdout.write(f"{change}\n")
    sys.stdout.write(f"{len(found)} changed\n")
    return 1 if found else 0


def _git(*args: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
