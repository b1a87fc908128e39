"""Kernels that a graph calls go through what other hand-written kernels do, before anything asks what they store.

    graph.call(...) {grid = [(M/32), (N/32)], symbols = [M]} do (%a, %c, %M: i32) { ... block.store(%c, %o, %v, %m) }

becomes

    graph.call(...) {grid = [(M/32*N/32)], symbols = [M, grid_x, grid_y]} do (%a, %c, %M: i64, ...) {
      ... block.store_view(%c, ...)
    }
"""

from __future__ import annotations

from dataclasses import replace

from graphfuse.blockopt.grid import AXES, flat_grid
from graphfuse.blockopt.parameters import symbolic_parameters
from graphfuse.blockopt.pipeline import optimized
from graphfuse.dialects import graph
from graphfuse.dialects.call import arguments_of, call_like, function_of
from graphfuse.ir.core import Func, Op, attr_dims
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.symbolic import bounds, product


def optimize_calls(func: Func) -> Func:
    """Work out the addresses of every kernel that the function calls; its loops' counters are not negative."""
    ranges = dict(func.ranges)

    def visit(op: Op) -> Replacement | None:
        return _optimized(op, ranges) if op.kind is graph.call else None

    return rebuild(func, visit)


def _optimized(op: Op, ranges: dict[str, tuple[int, int]]) -> Op:
    called, args, grid = function_of(op), arguments_of(op), attr_dims(op, "grid")
    if AXES[0] in args and len(grid) == 1:
        return op  # has been here before
    flat = symbolic_parameters(flat_grid(called, len(grid)))
    args |= dict(zip(AXES, grid, strict=False))
    known: list[tuple[str, int, int]] = []
    for name, low, high in flat.dims:
        least, most = bounds(args[name], ranges)
        known.append((name, max(low, least), max(min(high, most), least, low)))
    known += [(n, *bounds(d, ranges)) for n, d in args.items() if n not in flat.ranges]
    done = optimized(replace(flat, dims=tuple(known)))
    return call_like(op, done, (product(grid),), tuple(args.values()))
