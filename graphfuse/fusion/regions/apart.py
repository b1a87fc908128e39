"""A region as two: its product, and what is done with the product. The other choice, for those who time both.

Fusion keeps a product's elementwise work with it, as a way through memory costs more. Where that work leaves too few
registers to the product, or is done again by several tiles, two kernels may still be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.ir.core import Block, Func, Op, Params, Trait, Value
from graphfuse.ir.remake import Copier
from graphfuse.ir.rewrite import dead_code

PRODUCTS = (graph.contract, graph.conv)


def apart(region: Op, rules: Rules) -> Block | None:
    """What computes a region by others: a block that takes its operands. None where nothing is done with one product.

    Kernels have the region's name and a number.
    """
    ops = region.body.ops[:-1]
    products = [op for op in ops if op.kind in PRODUCTS]
    if region.attrs.get("in_place") or len(products) != 1:
        return None
    (product,) = products
    behind = {product.result}
    for op in ops:
        if any(v in behind for v in op.operands):
            behind.update(op.results)
    work = [op for op in ops if op is not product and op.results[0] in behind and not op.has(Trait.MOVEMENT)]
    if not work:
        return None
    given = region.body.params.values
    first = _outlined(given, ops, (product.result,), rules)
    rest = _outlined((*given, product.result), ops, region.body.terminator.operands, rules)
    return _one_after_the_other(first, rest, str(region.attrs["kernel"]))


def _outlined(given: Sequence[Value], ops: Sequence[Op], results: Sequence[Value], rules: Rules) -> Block:
    """Regions that compute `results` of what is `given`, by those of `ops` that it takes."""
    copier, params = Copier(), Params(tuple(v.type for v in given))
    copier.values.update(zip(given, params.values, strict=True))
    for op in ops:
        if op.results[0] not in copier.values:
            copier.op(op)
    copier.builder.append(control.return_(*map(copier.new, results)))
    func = dead_code(Func("main", copier.builder.block(params), {}, ()))
    return outline(func, rules)[0].body


def _one_after_the_other(first: Block, rest: Block, name: str) -> Block:
    """The regions of both; `rest` takes what `first` takes, then its result."""
    params = Params(first.params.types, first.params.hints)
    copier, numbers = Copier(), count()

    def place(block: Block, given: Sequence[Value]) -> list[Value]:
        copier.values.update(zip(block.params.values, given, strict=True))
        for op in block.ops[:-1]:
            made = copier.copy(op)
            if op.kind is graph.region:
                copier.builder.ops[-1] = named = replace(made, attrs={**op.attrs, "kernel": f"{name}_{next(numbers)}"})
                copier.values.update(zip(op.results, named.results, strict=True))
        return [copier.new(v) for v in block.terminator.operands]

    product = place(first, params.values)
    copier.builder.append(control.return_(*place(rest, (*params.values, *product))))
    return copier.builder.block(params)
