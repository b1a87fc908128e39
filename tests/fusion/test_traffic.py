"""What regions read: all of a tensor, or what a slice or a look-up takes of it."""

from __future__ import annotations

import pytest

from graphfuse.dialects import graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.traffic import bytes_read_by
from graphfuse.ir.parser import parse
from graphfuse.symbolic import evaluate

TABLE = "%w: tensor<1000x64xf32>, %i: tensor<(n)xi64>"
TAKE = "%t = graph.take(%w, %i) {axis = 0} : tensor<(n)x64xf32>"

CACHE = "%c: tensor<1000x64xf32>, %i: tensor<(n)x1xi64>, %u: tensor<(n)x64xf32>"


@pytest.mark.parametrize(
    ("params", "ops", "result", "read"),
    [
        (TABLE, TAKE, "%t", {1: 256 + 8, 4: 4 * 264, 5000: 256000 + 40000}),
        (TABLE, f"{TAKE}\n  %y = graph.exp(%t) : tensor<(n)x64xf32>", "%y", {1: 264, 4: 4 * 264}),
        ("%w: tensor<1000x64xf32>, %i: tensor<(n)xi64>", "%y = graph.neg(%i) : tensor<(n)xi64>", "%y", {3: 24}),
        (
            "%x: tensor<(n)x100xf32>",
            (
                "%s = graph.slice(%x) {sizes = [(n), 5], starts = [0, 10], steps = [1, 1]} : tensor<(n)x5xf32>\n"
                "  %y = graph.exp(%s) : tensor<(n)x5xf32>"
            ),
            "%y",
            {1: 20, 7: 140},
        ),
        (
            "%x: tensor<(n)x8xf32>, %b: tensor<8xf32>",
            (
                "%c = graph.broadcast(%b) {shape = [(n), 8]} : tensor<(n)x8xf32>\n"
                "  %y = graph.add(%x, %c) : tensor<(n)x8xf32>"
            ),
            "%y",
            {1: 64, 10: 320 + 32},
        ),
        ("%x: tensor<(n)x8xf32>", "%y = graph.mul(%x, %x) : tensor<(n)x8xf32>", "%y", {2: 64}),
        (CACHE, '%y = graph.scatter_nd(%c, %i, %u) {kind = "set"} : tensor<1000x64xf32>', "%y", {1: 264, 3: 792}),
        (CACHE, '%y = graph.scatter_nd(%c, %i, %u) {kind = "sum"} : tensor<1000x64xf32>', "%y", {1: 520, 3: 1560}),
        (
            "%x: tensor<(n)x8xf32>, %w: tensor<16x4x8xf32>, %i: tensor<(n)xi32>",
            (
                "%t = graph.take(%w, %i) {axis = 0} : tensor<(n)x4x8xf32>\n"
                '  %y = graph.contract(%x, %t) {spec = "tk,tnk->tn"} : tensor<(n)x4xf32>'
            ),
            "%y",
            {1: 32 + 128 + 4, 3: 3 * 164, 20: 20 * 36 + 16 * 128},
        ),
    ],
    ids=["rows", "rows and more", "not the table", "columns", "broadcast", "twice", "written", "added to", "picked"],
)
def test_what_is_read(params: str, ops: str, result: str, read: dict[int, int]) -> None:
    func, _ = outline(parse(f"func @main({params}) dims (n in 1..10000) {{\n  {ops}\n  return({result})\n}}\n"))
    regions = [op for op in func.body.ops if op.kind is graph.region]
    assert len(regions) == 1
    found = bytes_read_by(regions[0], func.ranges)
    assert {n: evaluate(found, {"n": n}) for n in read} == read
