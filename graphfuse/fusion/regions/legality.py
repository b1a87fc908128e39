"""Whether an op may join a region: each predicate gives the reason why not, or None."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import Dataflow, Source, is_in_place
from graphfuse.fusion.regions.group import Group, axes_of, domain_of
from graphfuse.fusion.regions.rules import WhyNotGraft
from graphfuse.ir.core import Op, Trait, Value, tensor_of
from graphfuse.symbolic import Dim, exact_div, product

MAX_OPS = 96
"""Larger regions are cut: registers run out and compile time grows with no traffic left to save."""
TOO_MANY = f"together they have more than {MAX_OPS} ops"

PRODUCTS = frozenset({graph.contract, graph.contract_parts, graph.contract_blocks, graph.contract_packed, graph.conv})

_GATHERS = frozenset({graph.take, graph.take_along, graph.gather_nd})
_NEEDS_BOUNDS = _GATHERS | {graph.concat, graph.pad, graph.reduce_window}
_CHEAP = frozenset({
    graph.select, graph.cast, *(graph.ELEMENTWISE[n] for n in ("add", "sub", "mul", "neg", "abs", "max", "min"))
})  # fmt: skip
_REORDERED = frozenset({graph.reshape, graph.slice_, graph.permute, graph.flip})
"""Views that read no element twice."""


def is_simple(group: Group) -> bool:
    """Whether a group is elementwise work, joining and looking up of tensors only."""
    return group.kind == "pointwise" and all(
        op.has(Trait.ELEMENTWISE) or op.kind in (graph.concat, graph.pad, *_GATHERS) for op in group.ops
    )


def is_reduction(op: Op) -> bool:
    """Whether an op reduces any dims."""
    return op.kind is graph.reduce and bool(axes_of(op))


def may_follow(group: Group) -> bool:
    """Whether a group is such work as goes on with what another kernel has at hand."""
    return group.kind in ("pointwise", "reduction") and all(
        op.has(Trait.ELEMENTWISE) or op.kind in _GATHERS or is_reduction(op) for op in group.ops
    )


def why_not_follow(flow: Dataflow, group: Group, region: Group, why_not_graft: WhyNotGraft) -> str | None:
    """The first reason why the ops of a group that `may_follow` may not join a region, in their order."""
    if len(group.ops) + len(region.ops) > MAX_OPS:
        return TOO_MANY
    if region.kind == "call":
        return _why_not_after_call(flow, group, region, why_not_graft)
    *before, last = group.ops
    for op in before:
        if (reason := _why_not_join(flow, op, region)) is not None:
            return reason
        region = region.with_(op)
    return _why_not_join(flow, last, region)


def _why_not_join(flow: Dataflow, op: Op, region: Group) -> str | None:
    domain = domain_of(op)
    if region.kind == "scatter" and not any(map(is_in_place, region.ops)):
        return _why_not_after_whole(flow, op, domain, region)
    if region.kind in ("scan", "scatter", "topk", "loop", "stack"):
        return f"a {region.kind} region takes no epilogue"
    if op.kind is graph.reduce:
        return _why_not_reduce(flow, op, domain, region)
    if region.kind == "reduction":
        return _why_not_row(flow, op, region)
    if op.kind in _GATHERS:
        return f"a {region.kind} would look it up for each of its tiles"
    if not _is_as_large(domain, region.domain):
        return f"shapes differ: {_text(domain)} against {_text(region.domain)}"
    return _why_not_aligned(flow, op, region)


def why_not_lead(flow: Dataflow, group: Group, consumer: Group, alone: bool, why_not_graft: WhyNotGraft) -> str | None:
    """The first reason why a simple group may not become part of a consumer over the same domain.

    `alone` says that the group has no other consumer.
    """
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return TOO_MANY
    if consumer.kind == "call":
        return _why_not_before_call(flow, group, consumer, alone, why_not_graft)
    if consumer.kind == "scatter":
        return _why_not_before_scatter(flow, group, consumer, alone)
    if consumer.kind == "reduction":
        return _why_not_lead_rows(flow, group, consumer)
    if consumer.kind == "scan":
        return _why_not_before_scan(flow, group, consumer, alone)
    if consumer.kind not in ("pointwise", "contraction"):
        return f"a {consumer.kind} region computes its operands once per pass"
    if consumer.kind == "contraction" and not alone:
        return "a contraction would have to write it as well"
    if group.domain != consumer.domain:
        return f"shapes differ: {_text(group.domain)} against {_text(consumer.domain)}"
    if consumer.kind == "contraction" and any(op.kind in _NEEDS_BOUNDS for op in (*group.ops, *consumer.ops)):
        return "a contraction would look it up for each of its tiles"
    for op in consumer.ops:
        if _reads_elsewhere(flow, op, group):
            return "the consumer reads it at other places"
        if (reason := _why_not_aligned(flow, op, group)) is not None:
            return reason
        if op.kind in PRODUCTS and any(_read_of(flow, op, group)):
            return f"{op.kind} reads it more than once"
    return None


def _reads_elsewhere(flow: Dataflow, op: Op, group: Group) -> bool:
    """Whether an op reads a group at other places than that of its result."""
    if op.kind is graph.take_along:
        return any(source.op in group.inside for source, _ in flow.sources(op.operands[0]))
    return op.kind in _NEEDS_BOUNDS and any(_read_of(flow, op, group))


def _why_not_lead_rows(flow: Dataflow, group: Group, consumer: Group) -> str | None:
    """A row region may begin with what it only reads once it is done with the row, one element of each."""
    for op in consumer.ops:
        if any(_read_of(flow, op, group)):
            if op.kind is graph.reduce or not _is_as_large(tensor_of(op.results[0]).shape, consumer.rows):
                return "a reduction region computes its operands once per pass"
            if _reads_elsewhere(flow, op, group):
                return "the consumer reads it at other places"
            if (reason := _why_not_aligned(flow, op, group)) is not None:
                return reason
    return None if _is_as_large(group.domain, consumer.rows) else "it has other elements than one for each row"


def call_of(region: Group) -> Op:
    """The call of a region of that kind."""
    return next(op for op in region.ops if op.kind is graph.call)


def _why_not_after_call(flow: Dataflow, group: Group, region: Group, why_not_graft: WhyNotGraft) -> str | None:
    ops, domain = group.ops, group.domain
    if any(not op.has(Trait.ELEMENTWISE) for op in ops):
        return "only elementwise work follows a call"
    sources = {s for op in ops for s, _ in _read_of(flow, op, region)}
    results = {r for s in sources for r in _results_behind(flow, s, region)}
    if not results:
        return "it reads what is computed before the call"
    if len(results) > 1:
        return "it reads several results of the call"
    (result,) = results
    shape = tensor_of(result).shape
    if not _is_as_large(domain, shape):
        return f"shapes differ: {_text(domain)} against {_text(shape)}"
    for op in ops:
        if (reason := _why_not_aligned(flow, op, region)) is not None:
            return reason
    return why_not_graft(call_of(region), result.index, before=False)


def _results_behind(flow: Dataflow, value: Value, region: Group) -> set[Value]:
    """The results of a region's call that one of its values is made of."""
    op = value.op
    assert op is not None, "it is computed in the region"
    if op.kind is graph.call:
        return {value}
    return {r for s, _ in _read_of(flow, op, region) for r in _results_behind(flow, s, region)}


def _why_not_before_call(
    flow: Dataflow, group: Group, region: Group, alone: bool, why_not_graft: WhyNotGraft
) -> str | None:
    call = call_of(region)
    if not alone or any(reader not in {*group.ops, call} for reader in _readers(flow, group)):
        return "it has to be written as well"
    if any(not op.has(Trait.ELEMENTWISE) for op in group.ops):
        return "only elementwise work goes before a call"
    for i, v in enumerate(call.operands):
        for source, path in flow.sources(v):
            if source.op not in group.inside:
                continue
            if path:
                return f"{path[0].kind} lies between"
            if (reason := why_not_graft(call, i, before=True)) is not None:
                return reason
    return None


def _why_not_before_scatter(flow: Dataflow, group: Group, region: Group, alone: bool) -> str | None:
    """Updates are each read once, and indices of elements."""
    if not alone or any(reader not in {*group.ops, *region.ops} for reader in _readers(flow, group)):
        return "it has to be written as well"
    joins = (graph.concat,) if flow.computes_places else ()  # each thread asks its place whose it is
    if any(not (op.has(Trait.ELEMENTWISE) or op.kind in joins) for op in group.ops):
        return "only elementwise work is done to what is scattered"
    for op in region.ops:
        for v in _scattered_from_memory(flow, op):
            if any(source.op in group.inside for source, _ in flow.sources(v)):
                return "the scatter needs it in memory"
        for _, path in _read_of(flow, op, group):
            if (repeating := next((o for o in path if o.kind not in _REORDERED), None)) is not None:
                return f"{repeating.kind} lies between"
    return None


def _why_not_after_whole(flow: Dataflow, op: Op, domain: tuple[Dim, ...], region: Group) -> str | None:
    """What a scatter makes of an element is gone on with where it is."""
    if not op.has(Trait.ELEMENTWISE):
        return "only elementwise work follows a scatter"
    if domain != region.domain:
        return f"shapes differ: {_text(domain)} against {_text(region.domain)}"
    between = (path[0] for _, path in _read_of(flow, op, region) if path)
    return next((f"{o.kind} lies between" for o in between), None)


def _why_not_before_scan(flow: Dataflow, group: Group, region: Group, alone: bool) -> str | None:
    """What is scanned is read once, and where it is; the totals before parts are read for each element."""
    if not alone or any(reader not in {*group.ops, *region.ops} for reader in _readers(flow, group)):
        return "it has to be written as well"
    if any(not op.has(Trait.ELEMENTWISE) for op in group.ops):
        return "only elementwise work is done to what is scanned"
    if group.domain != region.domain:
        return f"shapes differ: {_text(group.domain)} against {_text(region.domain)}"
    scan = next(op for op in region.ops if op.kind is graph.cumulate)
    if any(source.op in group.inside for v in scan.operands[1:] for source, _ in flow.sources(v)):
        return "the scan needs it in memory"
    return next((reason for op in region.ops if (reason := _why_not_aligned(flow, op, group)) is not None), None)


def _scattered_from_memory(flow: Dataflow, op: Op) -> Sequence[Value]:
    """The operands that an op needs in memory: what it changes, and indices of slices or where order counts."""
    if op.kind not in graph.SCATTERS:
        return ()
    target, indices, updates = op.operands
    first = (target,) if is_in_place(op) else ()
    lead = tensor_of(indices).shape if op.kind is graph.scatter_along else tensor_of(indices).shape[:-1]
    is_computed = flow.computes_places and not op.attrs.get("ordered", False)
    return first if is_computed and product(lead) == product(tensor_of(updates).shape) else (*first, indices)


def products_of(region: Group) -> list[Op]:
    """The products that a region makes."""
    return [op for op in region.ops if op.kind in PRODUCTS]


def why_not_share(flow: Dataflow, group: Group, consumer: Group, alone: bool) -> str | None:
    """The first reason why a contraction may not be made in the loop of another that reads its results.

    Both multiply the same value, which is what makes them candidates; `alone` says that there is no other consumer.
    """
    if not alone or any(reader not in {*group.ops, *consumer.ops} for reader in _readers(flow, group)):
        return "its results are read elsewhere"
    if form_of(group) is None or form_of(group) != form_of(consumer):
        return "the products are of different forms"
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return TOO_MANY
    for op in consumer.ops:
        if (reason := _why_not_aligned(flow, op, group)) is not None:
            return reason
        if op.kind is graph.contract and any(_read_of(flow, op, group)):
            return "one product is an operand of the other"
    return None


def _read_of(flow: Dataflow, op: Op, region: Group) -> Iterator[Source]:
    """The values of a region that an op reads, each with the transparent ops passed."""
    return ((source, path) for v in op.operands for source, path in flow.sources(v) if source.op in region.inside)


def _readers(flow: Dataflow, group: Group) -> Iterator[Op]:
    return (reader for op in group.ops for r in op.results for reader in flow.readers(r))


def form_of(region: Group) -> object | None:
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


def why_not_absorb(flow: Dataflow, group: Group, consumer: Group, alone: bool) -> str | None:
    """The first reason why a simple group may not be computed inside its one consumer, which reads it elsewhere."""
    if consumer.kind != "pointwise" or not alone:
        return "it is not the only consumer"
    if len(group.ops) + len(consumer.ops) > MAX_OPS:
        return TOO_MANY
    if any(reader not in {*group.ops, *consumer.ops} for reader in _readers(flow, group)):
        return "it has results of its own, over another domain"
    return None if _reads_few_times(flow, group, consumer) else "its elements are read more than once"


FEW_TIMES = 4
"""So often work is done again rather than stored and read: images of twice the height and width."""
MOST_CHEAP = 4
"""Ops of such work, each of which may read another operand as often."""


def is_cheap(group: Group) -> bool:
    """Whether doing its work a few times takes no longer than to store and read what it gives.

    Work that itself is done several times for each result is not: times would be multiplied.
    """
    size = product(group.domain)
    return len(group.ops) <= MOST_CHEAP and all(
        op.kind in _CHEAP and product(tensor_of(op.result).shape) == size for op in group.ops
    )


def _reads_few_times(flow: Dataflow, group: Group, consumer: Group) -> bool:
    """Whether each element of the group is asked for at most once; of cheap work a few times, by views."""
    times = FEW_TIMES if is_cheap(group) else 1
    seen: set[Value] = set()
    for op in consumer.ops:
        for source, path in _read_of(flow, op, group):
            joins = op.kind in (graph.concat, graph.pad) or op.has(Trait.ELEMENTWISE)
            repeats = [o for o in path if o.kind is graph.broadcast]
            if not joins or source in seen or any(o.kind not in _REORDERED for o in path if o not in repeats):
                return False
            if repeats:
                often = exact_div(product(consumer.domain), product(tensor_of(source).shape))
                if not isinstance(often, int) or often > times:
                    return False
            seen.add(source)
    return bool(seen)


def _why_not_reduce(flow: Dataflow, op: Op, domain: tuple[Dim, ...], region: Group) -> str | None:
    if region.kind not in ("pointwise", "reduction"):
        return f"a reduction does not follow a {region.kind}"
    if domain != region.domain and (region.kind == "reduction" or not _is_as_large(domain, region.domain)):
        return f"shapes differ: {_text(domain)} against {_text(region.domain)}"
    axes = axes_of(op)
    if region.kind == "reduction" and axes != region.axes:
        return f"rows are along dims {list(axes)}, the region's along {list(region.axes)}"
    rows = tuple(d for i, d in enumerate(domain) if i not in axes)
    if any(o.kind in _NEEDS_BOUNDS and not _is_as_large(tensor_of(o.result).shape, rows) for o in region.ops):
        return "each pass over the row would repeat a gather"
    if any(o.kind is graph.permute for o in region.ops):
        return "each pass over the row would turn it again"
    return _why_not_aligned(flow, op, region)


def _why_not_row(flow: Dataflow, op: Op, region: Group) -> str | None:
    """Row regions take elementwise ops on the whole domain or with one element per row."""
    shape = tensor_of(op.result).shape
    if op.kind in _GATHERS and not _is_as_large(shape, region.rows):
        return "each pass over the row would repeat a gather"
    if _is_as_large(shape, region.domain):
        for source, path in _read_of(flow, op, region):
            if _is_as_large(tensor_of(source).shape, region.domain):
                if any(o.kind is not graph.reshape for o in path):
                    return f"{path[0].kind} lies between"
            elif (reason := _why_not_row_broadcast(path, region)) is not None:
                return reason
        return None
    if _is_as_large(shape, region.rows):
        if _reads_elsewhere(flow, op, region):
            return "it reads the region's results at other places"
        return _why_not_aligned(flow, op, region)
    return f"shapes differ: {_text(shape)} against {_text(region.domain)}"


def _why_not_row_broadcast(path: tuple[Op, ...], region: Group) -> str | None:
    """A row value must come back as itself along each row: a broadcast of its dims only."""
    for op in path:
        if op.kind is graph.broadcast:
            before, after = tensor_of(op.operands[0]).shape, tensor_of(op.result).shape
            padded = (1,) * (len(after) - len(before)) + before
            grown = [i for i, (a, b) in enumerate(zip(padded, after, strict=True)) if a != b]
            if after != region.domain or any(i not in region.axes for i in grown):
                return "a row value is broadcast along other dims than the row"
        elif op.kind is not graph.reshape:
            return f"{op.kind} lies between"
    return None


def _why_not_aligned(flow: Dataflow, op: Op, region: Group) -> str | None:
    """Values of the region must reach `op` unmoved: element i of the domain needs element i."""
    for _, path in _read_of(flow, op, region):
        if (moving := next((o for o in path if _moves(o)), None)) is not None:
            return f"{moving.kind} lies between"
    return None


def _is_as_large(shape: tuple[Dim, ...], other: tuple[Dim, ...]) -> bool:
    return shape == other or product(shape) == product(other)


def _moves(op: Op) -> bool:
    """Whether an op that is passed through may read another element than its own."""
    return op.kind is not graph.reshape and not op.has(Trait.ELEMENTWISE)


def _text(shape: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
