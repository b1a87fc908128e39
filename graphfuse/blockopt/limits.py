"""Masks that are limits: a tile of bools that is true where indices are less than something, dim by dim.

    %m = lt(add(splat(%p), arange(0, 64)), splat(%n))        index 0 is less than n - p

What all lanes share, such as `k > 32`, limits the first dim to all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.blockopt.forms import Form, Forms
from graphfuse.dialects import block
from graphfuse.ir.core import Op, Value, attr_ints, tile_of
from graphfuse.ir.types import Tile
from graphfuse.symbolic import Dim, ceildiv, minimum

Limit = tuple[int, Dim]
"""A dim, and the first index along it that is out."""

COMPARISONS = {"block.lt": (1, -1, 0), "block.le": (1, -1, 1), "block.gt": (-1, 1, 0), "block.ge": (-1, 1, 1)}
"""`a < b` as `sum > 0`: what a and b count, and what is added. For integers `a <= b` is `b - a + 1 > 0`."""


class Limits:
    """Reads masks, whose integers have forms."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms

    def least(self, mask: Value) -> list[Limit] | None:
        """One limit a dim: the mask is true where all of them hold; None where it is no such thing."""
        found = self.of(mask)
        if found is None:
            return None
        out: dict[int, Dim] = {}
        for d, limit in found:
            out[d] = minimum(out[d], limit) if d in out else limit
        return list(out.items())

    def of(self, mask: Value) -> list[Limit] | None:
        """The limits that a tile of bools is the conjunction of."""
        op, tile = mask.op, tile_of(mask)
        if op is None:
            return None
        if op.kind is block.const:
            return [] if op.attrs["value"] is True or op.attrs["value"] == 1 else None
        if op.kind is block.and_:
            a, b = (self.of(v) for v in op.operands)
            return None if a is None or b is None else [*a, *(limit for limit in b if limit not in a)]
        if op.kind in (block.broadcast, block.trans, block.reshape):
            return self._moved(op, tile)
        if op.kind is block.splat:
            return self._uniform(op.operands[0], tile)
        return self._compared(op, tile.shape)

    def _compared(self, op: Op, shape: Sequence[int]) -> list[Limit] | None:
        left = self._left(op)
        if left is None:
            return None
        moving = [d for d, s in enumerate(left.strides) if s != 0]
        if not moving:
            return [(0, left.base * shape[0])] if shape else None
        if len(moving) > 1:
            return None
        (d,) = moving
        step = -1 * left.strides[d]
        if not isinstance(step, int) or step < 1:
            return None
        return [(d, left.base if step == 1 else ceildiv(left.base, step))]

    def _left(self, op: Op) -> Form | None:
        """How far a comparison is from failing: it holds where this is more than 0."""
        if op.kind.name not in COMPARISONS:
            return None
        a, b = (self.forms.form(v) for v in op.operands)
        if a is None or b is None:
            return None
        p, q, plus = COMPARISONS[op.kind.name]
        # p and q say what -a and -b count
        strides = (-p * s - q * t for s, t in zip(a.strides, b.strides, strict=True))
        return Form(-p * a.base - q * b.base + plus, tuple(strides))

    def _uniform(self, condition: Value, tile: Tile) -> list[Limit] | None:
        """All or nothing, by a scalar."""
        op = condition.op
        if op is not None and op.kind is block.and_:
            parts = [self._uniform(v, tile) for v in op.operands]
            return None if None in parts else [limit for part in parts if part is not None for limit in part]
        if op is None or not tile.shape:
            return None
        left = self._left(op)
        return None if left is None else [(0, left.base * tile.shape[0])]

    def _moved(self, op: Op, tile: Tile) -> list[Limit] | None:
        """Limits of the operand, on the dims where its dims went."""
        old, found = tile_of(op.operands[0]), self.of(op.operands[0])
        if found is None:
            return None
        out: list[Limit] = []
        for d, limit in found:
            if op.kind is block.trans:
                out.append((attr_ints(op, "perm").index(d), limit))
            elif old.shape[d] == 1:
                # one element says it for all: all or nothing along another dim
                out.append((0, limit * tile.shape[0]) if tile.shape else (0, limit))
            elif op.kind is block.broadcast:
                out.append((d, limit))
            else:
                wide = [i for i, n in enumerate(old.shape) if n != 1]
                now = [i for i, n in enumerate(tile.shape) if n != 1]
                if [old.shape[i] for i in wide] != [tile.shape[i] for i in now]:
                    return None
                out.append((now[wide.index(d)], limit))
        return out
