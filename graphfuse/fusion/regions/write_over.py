"""Lets a region write a result over an operand that nobody reads afterwards.

    %y = graph.region(%x, %b) {kernel = "pointwise_0", kind = "pointwise"} do (...) { ... } : tensor<4096x4096xbf16>

becomes, where %x is what another region computed, or a parameter that may be written over, and is read for the last
time,

    %y = graph.region(%x, %b) {kernel = "pointwise_0", kind = "pointwise", over = [[0, 0]]} do (...) { ... } : ...

The region reads an element of such an operand for the element of the result at its place alone, or for sums of its
row, which are done before any of the row is written. So both have one buffer in the plan, and a chain of large
elementwise kernels takes the memory of one tensor.

Requires: regions. Ensures: the same values, in less memory. Cost: one walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import root_of
from graphfuse.fusion.regions.plan import dies_in, last_readers
from graphfuse.ir.core import Block, Func, Op, Trait, Value, attr_ints, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild

LEAST_BYTES = 1 << 20
"""Of a tensor whose memory is worth having twice."""

Pairs = tuple[tuple[int, int], ...]
"""Numbers of operands, each with that of the result that may lie where it does."""


@passing("regions")
def write_over(func: Func) -> Func:
    """Say which results may lie where an operand does. The numbers `donated` of the function are such parameters."""
    chosen = dict(_chosen(func))
    if not chosen:
        return func
    names: dict[str, dict[Pairs, str]] = {}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind is not graph.region:
            return None
        pairs, kernel = chosen.get(old, ()), str(old.attrs["kernel"])
        known = names.setdefault(kernel, {})
        name = known.setdefault(pairs, f"{kernel}_over{len(known)}" if known else kernel)
        over = {"over": pairs} if pairs else {}
        return replace(new, attrs={**new.attrs, "kernel": name, **over})

    return rebuild(func, visit_pair=visit)


def _chosen(func: Func) -> Iterator[tuple[Op, Pairs]]:
    """The regions that write over operands."""
    ops = func.body.ops
    last, inside = last_readers(func.body), set(ops)
    free = {func.params[i] for i in attr_ints(func, "donated", ())}
    # what has a place already
    placed = {root_of(v) for v in func.outputs}
    placed |= {root_of(v) for op in ops if op.kind is graph.concat for v in (op.result, *op.operands)}
    for op in ops:
        written = attr_ints(op, "in_place", ())
        placed |= {root_of(op.operands[i]) for i in written} | set(op.results[: len(written)])
    for op in ops:
        if op.kind is not graph.region or "in_place" in op.attrs:
            continue
        pairs: dict[int, int] = {}
        for number, result in _alike(op):
            root = root_of(op.operands[number])
            made = root.op in inside and root.op.kind is graph.region
            may = (made or root in free) and placed.isdisjoint((root, op.results[result])) and dies_in(root, op, last)
            if may and number not in pairs and result not in pairs.values():
                pairs[number] = result
        if pairs:
            yield op, tuple(pairs.items())


def _alike(region: Op) -> Iterator[tuple[int, int]]:
    """Large operands and results with one element for each place, of which a result reads only those at its place."""
    if region.attrs["kind"] not in ("pointwise", "reduction"):
        return
    yielded = region.body.terminator.operands
    for number, param in enumerate(region.body.params.values):
        t = tensor_of(param)
        if not isinstance(t.nbytes, int) or t.nbytes < LEAST_BYTES:
            continue
        if (reached := _in_place(region.body, param, rows=region.attrs["kind"] == "reduction")) is not None:
            for result, value in enumerate(yielded):
                made = tensor_of(value)
                if value in reached and (made.elem, made.nbytes) == (t.elem, t.nbytes):
                    yield number, result


def _in_place(body: Block, param: Value, *, rows: bool) -> set[Value] | None:
    """What is made of a parameter place by place; None where anything else, but for sums of rows, is made of it."""
    readers: dict[Value, list[Op]] = {}
    for op in body.ops:
        for v in dict.fromkeys(op.operands):
            readers.setdefault(v, []).append(op)
    reached, stack = {param}, [param]
    while stack:
        for op in readers.get(stack.pop(), ()):
            if op.has(Trait.ELEMENTWISE) or op.kind is graph.reshape:
                stack += [v for v in op.results if v not in reached]
                reached.update(op.results)
            elif op is not body.terminator and not (rows and op.kind is graph.reduce):
                return None
    return reached
