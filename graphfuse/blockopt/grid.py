"""A grid of up to three axes, given at launch, as one axis that the function knows.

    func @k(%x: ptr<f32>) { %p = program_id(); %q = program_id() {axis = 1} }

becomes, for launches with two axes,

    func @k(%x: ptr<f32>, %grid_x: i64, %grid_y: i64) {axes = [(grid_x), (grid_y)], grid = (grid_x*grid_y)} {
      %n = program_id(); %p = index(%n) {expr = mod(n, grid_x)}; %q = index(%n) {expr = floordiv(n, grid_x)}
    }

Programs are dealt out to threads, or to blocks of threads, by one number: nothing further on must know of axes. What is
printed begins with the ids that there were.
"""

from __future__ import annotations

from graphfuse.dialects import block, effects
from graphfuse.dialects.block import MOST_PROGRAMS
from graphfuse.ir.core import Block, Func, Op, Params, Value, attr_int
from graphfuse.ir.remake import Remaker
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, floordiv, mod, product, sym

AXES = ("grid_x", "grid_y", "grid_z")
"""The parameters that hold the sizes of the axes."""


def flat_grid(func: Func, axes: int) -> Func:
    """Give a function without a grid one of so many axes; axes it asks for beyond have one program."""
    if "grid" in func.attrs:
        return func
    return _Flattener(func, AXES[:axes]).flat()


class _Flattener(Remaker):
    def __init__(self, func: Func, names: tuple[str, ...]) -> None:
        super().__init__(func)
        self.sizes: tuple[Dim, ...] = tuple(sym(n) for n in names)
        self.names = names
        self.program: Value | None = None

    def flat(self) -> Func:
        """The function with its grid."""
        old = self.func.body.params
        params = Params((*old.types, *(I64 for _ in self.names)), (*old.hints, *self.names))
        self.values.update(zip(old.values, params.values, strict=False))
        if any(op.kind in (block.program_id, effects.print_) for op in self.func.walk()):
            self.program = self.builder(block.program_id)
        body = self.body(self.func.body, params)
        attrs = {**self.func.attrs, "grid": product(self.sizes)}
        if len(self.sizes) > 1:
            attrs["axes"] = self.sizes
        dims = (*self.func.dims, *((n, 1, MOST_PROGRAMS) for n in self.names))
        return Func(self.func.name, Block(params, (*self.builder.ops, *body.ops)), attrs, dims)

    def op(self, op: Op) -> None:
        """Positions and sizes are index arithmetic; other ops stay."""
        if op.kind is block.program_id:
            self.values[op.result] = self.position(attr_int(op, "axis", 0))
        elif op.kind is block.num_programs:
            axis = attr_int(op, "axis", 0)
            size = self.sizes[axis] if axis < len(self.sizes) else 1
            self.values[op.result] = self.builder(block.index, expr=size, names=())
        elif op.kind is effects.print_ and not attr_int(op, "ids", 0):
            ids = [self.position(axis) for axis in range(effects.IDS)]
            values = map(self.new, op.operands)
            self.builder.append(effects.print_(*ids, *values, text=op.attrs["text"], ids=effects.IDS, loc=op.loc))
        else:
            self.copy(op)

    def position(self, axis: int) -> Value:
        """Which program this is along an axis."""
        if axis >= len(self.sizes):
            return self.builder(block.index, expr=0, names=())
        expr: Dim = floordiv(sym("n"), product(self.sizes[:axis]))
        if axis < len(self.sizes) - 1:
            expr = mod(expr, self.sizes[axis])
        assert self.program is not None, "made where an op asks for it"
        return self.program if expr == sym("n") else self.builder(block.index, self.program, expr=expr, names=("n",))
