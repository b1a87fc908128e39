"""What every benchmark writes beside its figures: machine, versions, date and command."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("onnxruntime", "torch", "triton", "onnx", "llvmlite", "numpy")


def environment() -> dict[str, Any]:
    """Where and when this process measures."""
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
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": f"python -m benchmarks.{shlex.join([Path(sys.argv[0]).stem, *map(argument, sys.argv[1:])])}",
    }


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


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One JSON file: the environment and the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**environment(), "rows": list(rows)}, indent=1) + "\n", encoding="utf-8")
