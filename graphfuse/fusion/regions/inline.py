"""Undoes outlining: every region's body takes the place of the region, which gives plain graph IR again.

`inline_regions(outline(f))` computes what f computes. Artifacts are rebuilt for another machine this way: constant
folding turns packed weights back into the originals.
"""

from __future__ import annotations

from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.ir.core import Block, Func, Op, Value


def inline_regions(func: Func) -> Func:
    """A function without `graph.region` ops."""
    return replace(func, body=_block(func.body, {}))


def _block(block: Block, outside: dict[Value, Value]) -> Block:
    params = replace(block.params)
    now = outside | dict(zip(block.params.values, params.values, strict=True))
    ops: list[Op] = []
    for op in block.ops:
        _place(op, now, ops)
    return Block(params, tuple(ops))


def _place(op: Op, now: dict[Value, Value], out: list[Op]) -> None:
    operands = tuple(now[v] for v in op.operands)
    if op.kind is graph.region:
        inner = dict(zip(op.body.params.values, operands, strict=True))
        for inside in op.body.ops[:-1]:
            _place(inside, inner, out)
        now.update(zip(op.results, (inner[v] for v in op.body.terminator.operands), strict=True))
        return
    new = replace(op, operands=operands, bodies=tuple(_block(b, now) for b in op.bodies))
    out.append(new)
    now.update(zip(op.results, new.results, strict=True))
