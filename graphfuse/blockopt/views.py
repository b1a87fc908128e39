"""Loads and stores of computed addresses that are strided views say so.

    %o = add(broadcast(mul(%row, %ld)), broadcast(%col)); %m = lt(%col, %n)
    %x = load(%p, %o, %m)

becomes

    %x = load_view(%p, %base, %limit) {strides = [ld, 1], limited = [1], ...}

Comparisons of the mask become limits: `base + i < n` is `i < n - base`. What all lanes share, such as `k > 32`, limits
the first dim to all or nothing. An access stays as it is where its addresses are no sum, or a part of its mask is no
limit (one from below, say).
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.blockopt.forms import Form, Forms
from graphfuse.dialects import block, control
from graphfuse.ir.core import Builder, Func, Op, Value, attr_ints, attr_number
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Tile
from graphfuse.symbolic import Dim, ceildiv, minimum

Limit = tuple[int, Dim]
"""A dim, and the first index along it that is out."""

COMPARISONS = {"block.lt": (1, -1, 0), "block.le": (1, -1, 1), "block.gt": (-1, 1, 0), "block.ge": (-1, 1, 1)}
"""`a < b` as `sum > 0`: what a and b count, and what is added. For integers `a <= b` is `b - a + 1 > 0`."""


def find_views(func: Func) -> Func:
    """Make views of the accesses whose addresses and masks allow it."""
    if not any(op.kind in (block.load, block.store, control.for_) for op in func.walk()):
        return func
    return dead_code(_Finder(func).run())


class _Finder(Remaker):
    def __init__(self, func: Func) -> None:
        super().__init__(func)
        self.forms = Forms(func)

    def op(self, op: Op) -> None:
        if op.kind is control.for_:
            self._loop(op)
            return
        if op.kind not in (block.load, block.store) or not isinstance(op.operands[1].type, Tile):
            self.copy(op)
            return
        view = self._view(op)
        if view is None:
            self.copy(op)
            return
        form, limits = view
        self.builder.loc = op.loc
        base = self._emit(form.base)
        ends = [self._emit(limit) for _, limit in limits]
        strides, limited = form.strides, tuple(d for d, _ in limits)
        if op.kind is block.load:
            made = self.builder(
                block.load_view, self.new(op.operands[0]), base, *ends, shape=op.operands[1].type.shape,
                strides=strides, limited=limited, other=attr_number(op, "other"),
            )  # fmt: skip
            self.values[op.result] = made
            return
        operands = [self.new(op.operands[0]), base, self.new(op.operands[2]), *ends]
        self.builder.op(block.store_view, *operands, strides=strides, limited=limited)

    def _loop(self, op: Op) -> None:
        """Bounds as index arithmetic too: that says how often it runs."""
        for v in op.operands[:2]:
            form = self.forms.form(v)
            if form is not None and v.op is not None and v.op.kind not in (block.const, block.index):
                self.values[v] = self._emit(form.base)
        self.copy(op)

    def _emit(self, dim: Dim) -> Value:
        """A dim of old leaves, as a new value."""
        value = self.forms.emit(dim, scratch := Builder(self.builder.loc))
        for op in scratch.ops:
            self.copy(op)
        return self.new(value)

    def _view(self, op: Op) -> tuple[Form, list[Limit]] | None:
        form = self.forms.form(op.operands[1])
        if form is None or not all(self.forms.is_fixed(s) for s in form.strides):
            return None
        masks = op.operands[2 if op.kind is block.load else 3 :]
        limits = self._limits(masks[0]) if masks else []
        if limits is None:
            return None
        least: dict[int, Dim] = {}
        for d, limit in limits:
            least[d] = minimum(least[d], limit) if d in least else limit
        return form, list(least.items())

    def _limits(self, mask: Value) -> list[Limit] | None:
        """The limits that a tile of bools is the conjunction of."""
        op, tile = mask.op, mask.type
        assert isinstance(tile, Tile), "a mask of a tile"
        if op is None:
            return None
        if op.kind is block.const:
            return [] if op.attrs["value"] is True or op.attrs["value"] == 1 else None
        if op.kind is block.and_:
            a, b = (self._limits(v) for v in op.operands)
            return None if a is None or b is None else [*a, *(limit for limit in b if limit not in a)]
        if op.kind in (block.broadcast, block.trans, block.reshape):
            return self._moved(op, tile)
        if op.kind is block.splat:
            return self._uniform(op.operands[0], tile)
        return self._compared(op, tile.shape)

    def _compared(self, op: Op, shape: Sequence[int]) -> list[Limit] | None:
        if op.kind.name not in COMPARISONS:
            return None
        a, b = (self.forms.form(v) for v in op.operands)
        if a is None or b is None:
            return None
        p, q, plus = COMPARISONS[op.kind.name]
        # p and q say what -a and -b count: the sum must be positive
        base = -p * a.base - q * b.base + plus
        strides = [-p * s - q * t for s, t in zip(a.strides, b.strides, strict=True)]
        moving = [d for d, s in enumerate(strides) if s != 0]
        if not moving:
            return [(0, base * shape[0])] if shape else None
        if len(moving) > 1:
            return None
        (d,) = moving
        step = -1 * strides[d]
        if not isinstance(step, int) or step < 1:
            return None
        return [(d, base if step == 1 else ceildiv(base, step))]

    def _uniform(self, condition: Value, tile: Tile) -> list[Limit] | None:
        """All or nothing, by a scalar."""
        op = condition.op
        if op is not None and op.kind is block.and_:
            parts = [self._uniform(v, tile) for v in op.operands]
            return None if None in parts else [limit for part in parts if part is not None for limit in part]
        if op is None or op.kind.name not in COMPARISONS or not tile.shape:
            return None
        a, b = (self.forms.form(v) for v in op.operands)
        if a is None or b is None:
            return None
        p, q, plus = COMPARISONS[op.kind.name]
        return [(0, (-p * a.base - q * b.base + plus) * tile.shape[0])]

    def _moved(self, op: Op, tile: Tile) -> list[Limit] | None:
        """Limits of the operand, on the dims where its dims went."""
        (x,) = op.operands
        old = x.type
        assert isinstance(old, Tile), "checked by the type rule"
        found = self._limits(x)
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
