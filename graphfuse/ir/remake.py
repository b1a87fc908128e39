"""A function made again op by op, for passes that move ops between blocks, which `rewrite.rebuild` cannot."""

from __future__ import annotations

from graphfuse.ir.core import Block, Builder, Func, Op, Params, Value


class Remaker:
    """Copies a function; a pass overrides `op`. `values` are new for old."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.values: dict[Value, Value] = {}
        self.builder = Builder()

    def run(self) -> Func:
        """The new function, with the parameters of the old."""
        for op in self.func.body.ops:
            self.op(op)
        return Func(self.func.name, self.builder.block(self.func.body.params), self.func.attrs, self.func.dims)

    def new(self, value: Value) -> Value:
        """What stands for a value."""
        return self.values.get(value, value)

    def op(self, op: Op) -> None:
        """Place what stands for an op."""
        self.copy(op)

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
        last = body.terminator
        operands = tuple(self.new(v) for v in last.operands)
        self.builder.append(Op(last.kind, operands, last.attrs, last.types, (), last.hints, last.loc))
        done, self.builder = self.builder.block(params), outer
        return done
