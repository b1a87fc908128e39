"""Loops that carry less."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from graphfuse.dialects import control
from graphfuse.ir.core import Builder, Op, Params, Value
from graphfuse.ir.remake import Copier


def without_carried(
    copier: Copier, loop: Op, dropped: Collection[int], instead: Callable[[Value], Mapping[int, Value]]
) -> None:
    """Copy a loop that carries some values no more; `instead(counter)` emits what they are at the top of the body."""
    old, carried = loop.body.params, loop.operands[2:]
    kept = [i for i in range(len(carried)) if i not in dropped]
    places = [0, *(i + 1 for i in kept)]
    params = Params(tuple(old.types[p] for p in places), tuple(old.hints[p] for p in places if old.hints))
    copier.values.update((old.values[p], v) for p, v in zip(places, params.values, strict=True))
    outer, copier.builder = copier.builder, Builder(copier.builder.loc)
    copier.values.update((old.values[i + 1], v) for i, v in instead(params.values[0]).items())
    for inner in loop.body.ops[:-1]:
        copier.op(inner)
    last = loop.body.terminator.operands
    copier.builder.op(control.yield_, *(copier.new(last[i]) for i in kept))
    body, copier.builder = copier.builder.block(params), outer
    operands = [copier.new(v) for v in (*loop.operands[:2], *(carried[i] for i in kept))]
    made = copier.builder.append(control.for_.build(operands, loop.attrs, loc=loop.loc, bodies=(body,)))
    copier.values.update((loop.results[i], v) for i, v in zip(kept, made.results, strict=True))
