"""Which rewrite makes a model's results wrong: `python -m tools.bisect_rewrites model.onnx --dim batch=2`.

Compiles with more or fewer rewrites (`GRAPHFUSE_STOP_AFTER`), halving the distance until one is left with which results
are far from the interpreter's and without which they are near. Passes and the rules that fire in them are counted
together: what it names is a rule, or `stage @function: pass`. Where the code that no rewrite made is wrong already, it
says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import graphfuse
from graphfuse.artifact import Array
from graphfuse.cli.common import random_inputs
from graphfuse.cli.model_options import ModelOptions
from graphfuse.frontends.onnx import import_model
from graphfuse.interp.graph import run
from graphfuse.ir.core import attr_strs
from graphfuse.ir.limit import counted
from graphfuse.knobs import scope

ALL = 1 << 40


def distance(got: Mapping[str, Array], want: Mapping[str, Array]) -> float:
    """The largest difference of an element, relative to its output's deviation; infinite where one of two is NaN."""
    worst = 0.0
    for name, exact in want.items():
        wide, found = exact.astype(np.float64), got[name].astype(np.float64)
        same = (found == wide) | (np.isnan(found) & np.isnan(wide))
        away = np.where(same, 0.0, np.nan_to_num(np.abs(found - wide), nan=np.inf))
        worst = max(worst, float(away.max(initial=0.0)) / (float(np.std(wide)) or 1.0))
    return worst


def guilty(model: Path, target: str, dims: Mapping[str, int], seed: int, bound: float) -> str | None:
    """The rewrite without which results are near; None if they are near with all. `""` if they are far with none."""
    graph = import_model(model, dims=dims)

    def is_far(most: int) -> tuple[bool, Sequence[str]]:
        with scope(cache="0"), counted(most) as rewrites:
            compiled = graphfuse.compile(model, target=target, dims=dims)
        assert rewrites is not None
        feed = random_inputs(compiled, {}, seed)
        exact = run(graph, *feed.values())  # not `compiled.interpret`, which runs what passes made of the graph
        away = distance(compiled(feed), dict(zip(attr_strs(graph, "outputs"), exact, strict=False)))
        sys.stderr.write(f"{len(rewrites.made)} rewrites: {away:.1e}\n")
        return away > bound, tuple(rewrites.made)

    far, made = is_far(ALL)
    if not far:
        return None
    if is_far(0)[0]:
        return ""
    right, wrong = 0, len(made)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if is_far(middle)[0] else (middle, wrong)
    return f"{made[wrong - 1]}, rewrite {wrong} of {len(made)}"


def main() -> int:
    """Search, and print what is found; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="python -m tools.bisect_rewrites", description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--bound", type=float, default=1e-3, help="what is far, in an output's deviations")
    args = parser.parse_args()
    found = guilty(args.model, args.target, ModelOptions(args.model, tuple(args.dim)).values, args.seed, args.bound)
    said = {
        None: "nothing is far from the interpreter's results",
        "": "far without any rewrite: look at blockgen, or below",
    }
    sys.stdout.write(f"{said.get(found, found)}\n")
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main())
