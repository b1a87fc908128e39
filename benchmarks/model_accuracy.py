"""The largest difference from ONNX Runtime of every model at full size, at every shape that is tested.

    python -m benchmarks.model_accuracy [--models a,b] [--json benchmarks/results/model_accuracy.json]

In standard deviations of the output, the worst element of the worst output. Each model is compiled once, for the whole
ranges of its symbols; the tests hold the same figures to a bound.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from benchmarks import record
from models import _compare


def main() -> int:
    """Compare, print, and write the JSON; 1 if a difference is above the bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(models.names()), help="comma-separated (default: all)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    os.environ["GRAPHFUSE_CACHE"] = "0"
    rows: list[dict[str, Any]] = []
    for name in args.models.split(","):
        for dims, distance in _compare.distances(name, small=False):
            rows.append({"model": name, "dims": dims, "distance": distance})
            at = ", ".join(f"{key} {value}" for key, value in dims.items())
            print(
                f"{name:20} {at:36} {distance:.1e}{'' if distance <= _compare.BOUND else '  ABOVE THE BOUND'}",
                flush=True,
            )
    if args.json:
        record.write(args.json, rows)
    return int(any(row["distance"] > _compare.BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
