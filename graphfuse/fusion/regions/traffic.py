"""Bytes that work reads: of a slice, a look-up or what is scattered to what it takes, of anything else all."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import IN_MEMORY, Dataflow, is_in_place, root_of
from graphfuse.ir.core import Op, Trait, Value
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim, Ranges, is_at_most, minimum, symbols

_LOOK_UPS = frozenset({graph.take, graph.take_along, graph.gather_nd})
"""What reads of its first operand no more than it makes."""


def is_work(flow: Dataflow, op: Op) -> bool:
    """Whether an op would be a kernel by itself."""
    return op.kind not in (*IN_MEMORY, graph.loop) and not op.has(Trait.TERMINATOR) and not flow.is_transparent(op)


def bytes_read(flow: Dataflow, ops: Sequence[Op], ranges: Ranges) -> dict[Value, Dim]:
    """What a kernel of these ops reads of each value that it does not compute.

    Reshapes, permutes, broadcasts and fills are free, and what is read through several ways counts for each, up to
    the whole value.
    """
    found: dict[Value, list[Dim]] = {}
    inside = {r for op in ops for r in op.results}
    for op in ops:
        for source, ways in passed(flow, op):
            if source not in inside:
                found.setdefault(source, []).append(_least(map(_nbytes, ways), ranges))
    return {v: n[0] if len(n) == 1 else _least((sum(n), _nbytes(v)), ranges) for v, n in found.items()}


def passed(flow: Dataflow, op: Op) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """The values in memory that an op reads, with those on the way, of the least of which it reads all."""
    for i, operand in enumerate(op.operands):
        first = op.results[0] if i == 0 and op.kind in _LOOK_UPS else operand
        if i == 0 and is_in_place(op):
            if op.attrs.get("kind", "set") == "set":
                continue
            first = stored(op.result)
        for source, path in flow.sources(operand):
            ways = (v for p in path for v in (p.results if p.kind in _LOOK_UPS else p.operands))
            yield source, (first, *ways, source)


def stored(result: Value) -> Value:
    """What a kernel stores of a result: the updates of a scatter, else all."""
    if result.op is not None and result.op.kind is graph.region:
        return stored(result.op.body.terminator.operands[result.index])
    return result.op.operands[-1] if result.op is not None and is_in_place(result.op) else result


def bytes_read_by(region: Op, ranges: Ranges) -> Dim:
    """What a `graph.region` reads of its operands; all of one where only a loop's symbol says how much."""
    if region.attrs["kind"] == graph.TOGETHER:
        return sum((bytes_read_by(op, ranges) for op in region.body.ops[:-1]), 0)
    flow = Dataflow(region.body)
    work = [op for op in region.body.ops if op.has(Trait.TERMINATOR) or is_work(flow, op)]
    found = bytes_read(flow, work, ranges)
    only_written = {root_of(op.operands[0]) for op in work if is_in_place(op)} - found.keys()
    total: Dim = 0
    for v in region.body.params.values:
        if isinstance(v.type, Tensor) and flow.uses.get(v) and v not in only_written:
            read = found.get(v, v.type.nbytes)  # in a body of an op, nobody knows how much
            total += read if symbols(read) <= ranges.keys() else v.type.nbytes
    return total


def _nbytes(value: Value) -> Dim:
    return value.type.nbytes if isinstance(value.type, Tensor) else 0


def _least(dims: Iterable[Dim], ranges: Ranges) -> Dim:
    """The minimum, without what is nowhere less than another."""
    least: list[Dim] = []
    for d in dict.fromkeys(dims):
        if not any(_at_most(m, d, ranges) for m in least):
            least = [*(m for m in least if not _at_most(d, m, ranges)), d]
    return functools.reduce(minimum, least)


def _at_most(a: Dim, b: Dim, ranges: Ranges) -> bool:
    return symbols(a) | symbols(b) <= ranges.keys() and is_at_most(a, b, ranges)
