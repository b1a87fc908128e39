"""The command line every model file shares: `python -m models.<name> OUT.onnx [--small]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def run(build: Callable[..., None], description: str | None) -> None:
    """Parse the command line and write the model."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("output", type=Path, help="ONNX file to write")
    parser.add_argument("--small", action="store_true", help="same structure, tiny widths")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights (default 0)")
    args = parser.parse_args()
    build(args.output, small=args.small, seed=args.seed)
    print(f"{args.output}: {args.output.stat().st_size / 1e6:.1f} MB")
