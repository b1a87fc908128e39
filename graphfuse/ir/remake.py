"""Functions and blocks made again op by op, for passes that move ops between blocks, which `rewrite.rebuild` cannot.

What stands for an op in its place is a rule's or a visitor's, and goes through `rebuild`. What decides where ops stand,
what the parameters of a block are or what a loop carries is a `Copier`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphfuse.ir.core import Block, Builder, Func, Op, Params, Value


class Copier:
    """Copies ops; a pass overrides `op`, and `end` where bodies give something else. `values` are new for old."""

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.builder = Builder()

    def new(self, value: Value) -> Value:
        """What stands for a value."""
        return self.values.get(value, value)

    def op(self, op: Op) -> None:
        """Place what stands for an op."""
        self.copy(op)

    def end(self, last: Op) -> None:
        """Place what stands for the terminator of a body."""
        self.copy(last)

    def copy(self, op: Op) -> Op:
        """Place the op on new operands, its bodies made again."""
        bodies = tuple(self.body(b, b.params) for b in op.bodies)
        operands = tuple(self.new(v) for v in op.operands)
        made = Op(op.kind, operands, op.attrs, op.types, bodies, op.hints, op.loc)
        self.values.update(zip(op.results, made.results, strict=True))
        return self.builder.append(made)

    def body(self, body: Block, params: Params) -> Block:
        """A block made again: under copies of its own parameters, or others that `values` has for them."""
        if params is body.params:
            params = Params(params.types, params.hints)
            self.values.update(zip(body.params.values, params.values, strict=True))
        outer, self.builder = self.builder, Builder(self.builder.loc)
        for op in body.ops[:-1]:
            self.op(op)
        self.end(body.terminator)
        done, self.builder = self.builder.block(params), outer
        return done


class Remaker(Copier):
    """Copies a function."""

    def __init__(self, func: Func) -> None:
        super().__init__()
        self.func = func

    def run(self) -> Func:
        """The new function, with the parameters of the old."""
        for op in self.func.body.ops:
            self.op(op)
        return Func(self.func.name, self.builder.block(self.func.body.params), self.func.attrs, self.func.dims)


def under(body: Block, params: Params, values: Mapping[Value, Value] | None = None) -> Block:
    """A block under other parameters: `values` stand for its own, by default these in their order."""
    copier = Copier()
    copier.values.update(values if values is not None else zip(body.params.values, params.values, strict=True))
    return copier.body(body, params)


def inlined(block: Block, given: Sequence[Value], into: Builder | None = None) -> tuple[Value, ...]:
    """What a block gives for these operands: a visitor's replacement, whose ops `rebuild` places, or placed `into`."""
    copier = Copier()
    copier.builder = into or copier.builder
    copier.values.update(zip(block.params.values, given, strict=True))
    for op in block.ops[:-1]:
        copier.op(op)
    return tuple(map(copier.new, block.terminator.operands))
