"""`python -m tests.fuzzing --kind onnx --seed 0 --count 300`: a line for each finding, then one for each kind.

A finding is run again by its seed: `--seed SEED --count 1`, or, to debug it in this process, `--here`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzzing.runner import kind_module, kinds, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--kind", action="append", choices=kinds(), help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--here", action="store_true", help="run the cases in this process")
    chosen = parser.parse_args()
    # neither what is compiled nor what a shell has set may make a seed something else
    os.environ.update({"GRAPHFUSE_CACHE": "0", "GRAPHFUSE_THREADS": "1", "OMP_NUM_THREADS": "1"})
    seeds, found = range(chosen.seed, chosen.seed + chosen.count), 0
    for kind in chosen.kind or kinds():
        if chosen.here:
            for seed in seeds:
                with tempfile.TemporaryDirectory() as folder:
                    sys.stdout.write(f"{kind} {seed}: {kind_module(kind).case(seed, Path(folder))}\n")
            continue
        pool = run(kind, seeds, lambda line: (sys.stdout.write(line + "\n"), sys.stdout.flush()))
        sys.stdout.write(f"{pool}\n")
        found += len(pool.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
