"""Whether an op may join a region: each predicate gives the reason why not, or None."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.regions.rules import WhyNotGraft
from graphfuse.ir.core import Op, Trait, Value, dims_of
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim, product


class Region(Protocol):
    """What the predicates need to know of a group (see `partition.Group`)."""

    kind: str
    domain: tuple[Dim, ...]
    split: int
    ops: list[Op]


MAX_OPS = 96
"""Larger regions are cut: registers run out and compile time grows with no traffic left to save."""

PRODUCTS = frozenset({graph.contract, graph.contract_parts, graph.contract_blocks, graph.conv})

_NEEDS_BOUNDS = frozenset({graph.concat, graph.pad, graph.take, graph.take_along, graph.gather_nd, graph.reduce_window})


def why_not_join(flow: Dataflow, op: Op, domain: tuple[Dim, ...], region: Region) -> str | None:
    """The first reason why `op`, which works over `domain`, may not join `region`."""
    if len(region.ops) >= MAX_OPS:
        return f"the region has {MAX_OPS} ops already"
    if region.kind in ("scan", "scatter", "topk", "loop", "stack"):
        return f"a {region.kind} region takes no epilogue"
    if op.kind is graph.reduce:
        return _why_not_reduce(flow, op, domain, region)
    if region.kind == "reduction":
        return _why_not_row(flow, op, region)
    if product(domain) != product(region.domain):
        return f"shapes differ: {_text(domain)} against {_text(region.domain)}"
    return _why_not_aligned(flow, op, region)


def why_not_merge(flow: Dataflow, group: Region, consumer: Region, alone: bool) -> str | None:
    """The first reason why a pointwise group may not become part of a consumer over the same domain.

    `alone` says that the group has no other consumer.
    """
    if consumer.kind not in ("pointwise", "contraction"):
        return f"a {consumer.kind} region computes its operands once per pass"
    if consumer.kind == "contraction" and not alone:
        return "a contraction would have to write it as well"
    if group.domain != consumer.domain:
        return f"shapes differ: {_text(group.domain)} against {_text(consumer.domain)}"
    if any(op.kind in _NEEDS_BOUNDS for op in (*group.ops, *consumer.ops)):
        return "the consumer reads it at other places"
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    for op in consumer.ops:
        if (reason := _why_not_aligned(flow, op, group)) is not None:
            return reason
        if (op.kind in PRODUCTS or op.kind is graph.reduce) and any(
            source.op in group.ops for v in op.operands for source, _ in flow.sources(v)
        ):
            return f"{op.kind} reads it more than once"
    return None


def why_not_follow(flow: Dataflow, group: Region, product_: Region) -> str | None:
    """The first reason why a pointwise group may not become the epilogue of a contraction that it reads."""
    if product(group.domain) != product(product_.domain):
        return f"shapes differ: {_text(group.domain)} against {_text(product_.domain)}"
    if len(group.ops) + len(product_.ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    if any(op.kind in _NEEDS_BOUNDS for op in group.ops):
        return "it reads it at other places"
    return next((r for op in group.ops if (r := _why_not_aligned(flow, op, product_)) is not None), None)


def call_of(region: Region) -> Op:
    """The call of a region of that kind."""
    return next(op for op in region.ops if op.kind is graph.call)


def why_not_after_call(
    flow: Dataflow, ops: Sequence[Op], domain: tuple[Dim, ...], region: Region, why_not_graft: WhyNotGraft
) -> str | None:
    """The first reason why elementwise ops over `domain` may not be the epilogue of a called kernel."""
    if len(region.ops) + len(ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    if any(not op.has(Trait.ELEMENTWISE) for op in ops):
        return "only elementwise work follows a call"
    sources = {s for op in ops for v in op.operands for s, _ in flow.sources(v) if s.op in region.ops}
    results = {r for s in sources for r in _results_behind(flow, s, region)}
    if not results:
        return "it reads what is computed before the call"
    if len(results) > 1:
        return "it reads several results of the call"
    (result,) = results
    if product(domain) != product(_shape(result)):
        return f"shapes differ: {_text(domain)} against {_text(_shape(result))}"
    if (reason := next((r for op in ops if (r := _why_not_aligned(flow, op, region)) is not None), None)) is not None:
        return reason
    return why_not_graft(call_of(region), result.index, before=False)


def _results_behind(flow: Dataflow, value: Value, region: Region) -> set[Value]:
    """The results of a region's call that one of its values is made of."""
    op = value.op
    if op is None or op not in region.ops:
        return set()
    if op.kind is graph.call:
        return {value}
    return {r for v in op.operands for s, _ in flow.sources(v) for r in _results_behind(flow, s, region)}


def why_not_before_call(
    flow: Dataflow, group: Region, region: Region, alone: bool, why_not_graft: WhyNotGraft
) -> str | None:
    """The first reason why a pointwise group may not be computed where a called kernel loads its results."""
    call = call_of(region)
    if len(group.ops) + len(region.ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    if not alone or any(reader not in {*group.ops, call} for reader in _readers(flow, group)):
        return "it has to be written as well"
    if any(not op.has(Trait.ELEMENTWISE) for op in group.ops):
        return "only elementwise work goes before a call"
    for i, v in enumerate(call.operands):
        for source, path in flow.sources(v):
            if source.op not in group.ops:
                continue
            if path:
                return f"{path[0].kind} lies between"
            if (reason := why_not_graft(call, i, before=True)) is not None:
                return reason
    return None


def products_of(region: Region) -> list[Op]:
    """The products that a region makes."""
    return [op for op in region.ops if op.kind in PRODUCTS]


def why_not_share(flow: Dataflow, group: Region, consumer: Region, alone: bool) -> str | None:
    """The first reason why a contraction may not be made in the loop of another that reads its results.

    Both multiply the same value, which is what makes them candidates; `alone` says that there is no other consumer.
    """
    if not alone or any(reader not in {*group.ops, *consumer.ops} for reader in _readers(flow, group)):
        return "its results are read elsewhere"
    if form_of(group) is None or form_of(group) != form_of(consumer):
        return "the products are of different forms"
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    for op in consumer.ops:
        if (reason := _why_not_aligned(flow, op, group)) is not None:
            return reason
        if op.kind is graph.contract and any(s.op in group.ops for v in op.operands for s, _ in flow.sources(v)):
            return "one product is an operand of the other"
    return None


def _readers(flow: Dataflow, group: Region) -> Iterator[Op]:
    return (reader for op in group.ops for r in op.results for reader in flow.readers(r))


def form_of(region: Region) -> object | None:
    """What contractions of one loop have in common; None if the region makes something else."""
    products = products_of(region)
    forms = {
        (p.operands[0], p.kind, standard_spec(str(p.attrs.get("spec"))), p.result.type, p.operands[1].type)
        for p in products
    }
    return forms.pop() if len(forms) == 1 and products[0].kind is graph.contract else None


def standard_spec(spec: str) -> str:
    """A spec with its letters renamed in order of appearance."""
    names: dict[str, str] = {}
    return "".join(names.setdefault(c, chr(ord("a") + len(names))) if c.isalpha() else c for c in spec)


def why_not_absorb(flow: Dataflow, group: Region, consumer: Region, alone: bool) -> str | None:
    """The first reason why a group may not be computed inside the one consumer that joins or pads its results."""
    if consumer.kind != "pointwise" or not alone:
        return "it is not the only consumer"
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return f"together they have more than {MAX_OPS} ops"
    inside = {*group.ops, *consumer.ops}
    if any(reader not in inside for op in group.ops for r in op.results for reader in flow.readers(r)):
        return "it has results of its own, over another domain"
    return None if _reads_once(flow, group, consumer) else "its elements are read more than once"


def _reads_once(flow: Dataflow, group: Region, consumer: Region) -> bool:
    """Whether each element of the group is asked for at most once: by concats or pads, through reshapes and slices."""
    seen: set[Value] = set()
    for op in consumer.ops:
        for v in op.operands:
            for source, path in flow.sources(v):
                if source.op not in group.ops:
                    continue
                plain = all(o.kind in (graph.reshape, graph.slice_) for o in path)
                if op.kind not in (graph.concat, graph.pad) or not plain or source in seen:
                    return False
                seen.add(source)
    return bool(seen)


def _why_not_reduce(flow: Dataflow, op: Op, domain: tuple[Dim, ...], region: Region) -> str | None:
    if region.kind not in ("pointwise", "reduction"):
        return f"a reduction does not follow a {region.kind}"
    if domain != region.domain:
        return f"shapes differ: {_text(domain)} against {_text(region.domain)}"
    split = len(domain) - len(dims_of(op.attrs["axes"]))
    if region.kind == "reduction" and split != region.split:
        return f"rows begin at dim {split}, the region's at {region.split}"
    if any(o.kind in _NEEDS_BOUNDS or (o.kind is graph.reduce and region.kind == "pointwise") for o in region.ops):
        return "each pass over the row would repeat a gather"
    return _why_not_aligned(flow, op, region)


def _why_not_row(flow: Dataflow, op: Op, region: Region) -> str | None:
    """Row regions take elementwise ops on the whole domain or with one element per row."""
    shape = _shape(op.result)
    rows, whole = product(region.domain[: region.split]), product(region.domain)
    if product(shape) == whole:
        for v in op.operands:
            for source, path in flow.sources(v):
                if source.op not in region.ops:
                    continue
                if product(_shape(source)) == whole:
                    if any(o.kind is not graph.reshape for o in path):
                        return f"{path[0].kind} lies between"
                elif (reason := _why_not_row_broadcast(path, region)) is not None:
                    return reason
        return None
    if product(shape) == rows:
        return _why_not_aligned(flow, op, region)
    return f"shapes differ: {_text(shape)} against {_text(region.domain)}"


def _why_not_row_broadcast(path: tuple[Op, ...], region: Region) -> str | None:
    """A row value must come back as itself along each row: a broadcast of the trailing dims only."""
    for op in path:
        if op.kind is graph.broadcast:
            before, after = _shape(op.operands[0]), _shape(op.result)
            padded = (1,) * (len(after) - len(before)) + before
            grown = [i for i, (a, b) in enumerate(zip(padded, after, strict=True)) if a != b]
            if after != region.domain or any(i < region.split for i in grown):
                return "a row value is broadcast along other dims than the row"
        elif op.kind is not graph.reshape:
            return f"{op.kind} lies between"
    return None


def _why_not_aligned(flow: Dataflow, op: Op, region: Region) -> str | None:
    """Values of the region must reach `op` unmoved: element i of the domain needs element i."""
    for v in op.operands:
        for source, path in flow.sources(v):
            if source.op in region.ops and (moving := next((o for o in path if _moves(o)), None)) is not None:
                return f"{moving.kind} lies between"
    return None


def _moves(op: Op) -> bool:
    """Whether an op that is passed through may read another element than its own."""
    return op.kind is not graph.reshape and not op.has(Trait.ELEMENTWISE)


def _shape(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, Tensor)
    return value.type.shape


def _text(shape: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
