"""How long `graphfuse kernel --check` takes, of each small kernel of the gallery: interpreter, then emulator.

    python -m benchmarks.check_time --beside ../before        beside another checkout of graphfuse

With another one, both take turns, each in processes of its own; a ratio is this one's time over the other's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def seconds() -> dict[str, float]:
    """Of each kernel, of the checkout that Python finds; the least of three times, compiling included."""
    from graphfuse.kernels.checking import check
    from tests.kernels.test_gallery import SMALL

    out: dict[str, float] = {}
    for name, make in SMALL.items():
        job: Any = make()
        kernel = job.kernel()
        values = dict(zip((p.name for p in kernel.parameters), job.args, strict=True))
        times: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            check(kernel, job.grid, dict(values), frozenset(), emulate=True)
            times.append(time.perf_counter() - start)
        out[name] = min(times)
    return out


def measured(folder: Path) -> dict[str, float]:
    """`seconds` of a checkout."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, __file__, "--one"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", action="store_true", help="of the checkout that is on Python's path, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(seconds()))
        return
    folders = [ROOT, *([args.beside.resolve()] if args.beside else [])]
    rounds = [[measured(f) for f in folders] for _ in range(args.rounds)]
    best = [{n: min(r[i][n] for r in rounds) for n in rounds[0][i]} for i in range(len(folders))]
    ours, others = best[0], best[1] if args.beside else {}
    for name, took in ours.items():
        print(f"{name:28} {took:7.3f} s" + (f"  {took / others[name]:.2f}" if name in others else ""))
    print(f"{'all':28} {sum(ours.values()):7.3f} s")
    if ratios := [math.log(ours[n] / others[n]) for n in ours.keys() & others.keys()]:
        print(f"geomean {math.exp(sum(ratios) / len(ratios)):.2f}, most {math.exp(max(ratios)):.2f}")


if __name__ == "__main__":
    main()
