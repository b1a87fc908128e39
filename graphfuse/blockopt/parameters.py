"""Integer parameters become i64 symbols, so that strides and limits may name them.

    func @k(%x: ptr<f32>, %n: i32) { %m = add(%n, %n) }
    func @k(%x: ptr<f32>, %n: i64) dims (n in -2147483648..2147483647) { %c = cast(%n) {to = i32}; %m = add(%c, %c) }

The caller passes 64 bits of a number that fits the old type.
"""

from __future__ import annotations

from graphfuse.dialects import block
from graphfuse.ir.core import Block, Func, Params
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.types import I64, Scalar


@passing("kernel")
def symbolic_parameters(func: Func) -> Func:
    """Pass every signed integer of at most 32 bits, and every unsigned one below, as a symbol."""
    types = func.body.params.types
    narrow = [i for i, t in enumerate(types) if isinstance(t, Scalar) and t.is_integer and 8 <= t.bits < 64]
    if not narrow:
        return func
    hints = func.body.params.hints
    params = Params(tuple(I64 if i in narrow else t for i, t in enumerate(types)), hints)
    maker = Remaker(func)
    maker.values.update(zip(func.params, params.values, strict=True))
    ranges = dict.fromkeys(func.dims)
    for i in narrow:
        old = types[i]
        assert isinstance(old, Scalar), "a narrow integer"
        maker.values[func.params[i]] = maker.builder(block.cast, params.values[i], to=old)
        ranges[hints[i], *old.limits] = None
    body = maker.body(func.body, params)
    return Func(func.name, Block(body.params, (*maker.builder.ops, *body.ops)), func.attrs, tuple(ranges))
