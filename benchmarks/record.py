"""What every benchmark writes beside its figures: machine, versions, commit, date, command and seed."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SEED = 0
"""What benchmarks draw is drawn from this (or from this plus a number), unless their `--seed` says otherwise."""

PACKAGES = ("onnxruntime", "torch", "triton", "onnx", "llvmlite", "numpy")


def environment(seed: int | None = SEED) -> dict[str, Any]:
    """Where, when and what this process measures; None is the seed of what draws nothing."""
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "versions": versions,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": f"python -m benchmarks.{shlex.join([Path(sys.argv[0]).stem, *map(argument, sys.argv[1:])])}",
        **({} if seed is None else {"seed": seed}),
    }


def commit(tree: Path = ROOT) -> str:
    """The commit of a tree, with `+changes` where its files are others (figures and pages aside).

    BENCHMARK_COMMIT names that of a copy, whose own git, if it has one, knows another; else it is "unknown".
    """
    measured = ["--", ".", ":!benchmarks/results", ":!*.md"]
    if named := os.environ.get("BENCHMARK_COMMIT"):
        return named
    if not (tree / ".git").exists():
        return "unknown"
    try:
        changed = _git(tree, "status", "--porcelain", *measured)
        return _git(tree, "rev-parse", "--short=10", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):  # no git here, or not for this user
        return "unknown"


def _git(tree: Path, *arguments: str) -> str:
    command = ["git", "-C", str(tree), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def argument(text: str) -> str:
    """An argument of the command; of a file somewhere else, the place it has in the repository."""
    return f"benchmarks/results/{Path(text).name}" if Path(text).is_absolute() else text


def cpu_name() -> str:
    """The processor's own name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(path: Path, rows: Sequence[dict[str, Any]], seed: int | None = SEED) -> None:
    """One JSON file: the environment and the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**environment(seed), "rows": list(rows)}, indent=1) + "\n", encoding="utf-8")


def collect(
    made: Iterable[dict[str, Any]], report: Callable[[dict[str, Any]], str], path: Path | None
) -> list[dict[str, Any]]:
    """Rows as they are made: each is printed, and written with those before it, should the time run out."""
    rows: list[dict[str, Any]] = []
    for row in made:
        rows.append(row)
        print(report(row), flush=True)
        if path:
            write(path, rows)
    return rows
