"""Products of groups of rows, or of columns, each with a matrix of its own."""

from __future__ import annotations

from typing import Any

import torch

from graphfuse.frontends.emit import shape_of
from graphfuse.frontends.fx.lowering import Call, lowers
from graphfuse.frontends.fx.ops.matmul import product
from graphfuse.frontends.groups import tiles_in_order
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32

aten = torch.ops.aten


@lowers("aten._grouped_mm.default")
def grouped_mm(c: Call, self: Value, mat2: Value, offs: Value | None = None, bias: Any = None, **_: Any) -> Value:
    """Groups end at `offs` [groups]: of the rows of [M, K], or of the columns of [K, N], if one of both is a matrix."""
    c.want(bias is None, "it has a bias")
    if offs is None:
        return product(c, self, mat2, "gmk,gkn->gmn")
    e, offs = c.e, c.e.cast(offs, I32)
    ranks = len(shape_of(self)), len(shape_of(mat2))
    c.want(ranks != (2, 2), "its groups are parts of its sums")
    if ranks == (2, 3):
        return _of_rows(c, self, mat2, offs, "tmk,tkn->tmn")
    return e.permute(_of_rows(c, e.permute(mat2, (1, 0)), self, offs, "tmk,tnk->tmn"), (1, 0))


def _of_rows(c: Call, rows: Value, matrices: Value, ends: Value, spec: str) -> Value:
    """Rows [M, K] times the matrix of the group of each."""
    tiles = tiles_in_order(c.e, ends, shape_of(rows)[0])
    return tiles.of_rows(c.e, tiles.contract(c.e, tiles.of_tiles(c.e, rows), matrices, spec), tiles.place)
