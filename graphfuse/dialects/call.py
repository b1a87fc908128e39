"""`graph.call` and block functions: the function that an op calls, and the op that calls a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphfuse.dialects import control, graph
from graphfuse.ir.core import Attr, Block, Func, Op, Params, Value, attr_dims, attr_strs, tensor_of
from graphfuse.ir.remake import under
from graphfuse.ir.types import Ptr, Tensor
from graphfuse.symbolic import Dim


def function_of(op: Op) -> Func:
    """The block function, its parameters under the names that its index arithmetic has for them."""
    pointers = [f"in{i}" for i in range(len(op.operands))] + [f"out{i}" for i in range(len(op.types))]
    names = attr_strs(op, "symbols", ())
    params = Params(op.body.params.types, (*pointers, *names))
    body = under(op.body, params)
    last = control.return_(loc=body.terminator.loc)
    attrs: dict[str, Attr] = {n: op.attrs[n] for n in ("warps", "stages") if op.attrs.get(n)}
    return Func(str(op.attrs["name"]), Block(params, (*body.ops[:-1], last)), attrs)


def arguments_of(op: Op) -> dict[str, Dim]:
    """What the function's symbols are."""
    if "symbols" not in op.attrs:
        return {}
    return dict(zip(attr_strs(op, "symbols"), attr_dims(op, "args"), strict=True))


def call_of(
    func: Func, operands: Sequence[Value], results: Sequence[Tensor], grid: Sequence[Dim], args: Sequence[Dim]
) -> Op:
    """A call of a block function whose parameters are pointers to operands and results, then integers."""
    names = tuple(v.hint for v in func.params if not isinstance(v.type, Ptr))
    terminator = control.yield_(loc=func.body.terminator.loc)
    body = replace(func.body, ops=(*func.body.ops[:-1], terminator))
    attrs: dict[str, Attr] = {
        "name": func.name, "grid": tuple(grid), "shapes": tuple(t.shape for t in results),
        "elems": tuple(t.elem for t in results),
        **{n: func.attrs[n] for n in ("warps", "stages") if n in func.attrs},
    }  # fmt: skip
    if names:
        attrs |= {"symbols": names, "args": tuple(args)}
    return graph.call.build(operands, attrs, bodies=(body,))


def call_like(op: Op, func: Func, grid: Sequence[Dim], args: Sequence[Dim]) -> Op:
    """The same call of another function."""
    made = call_of(func, op.operands, [tensor_of(v) for v in op.results], grid, args)
    return replace(made, hints=op.hints, loc=op.loc)
