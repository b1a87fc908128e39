"""Control flow: branches with a known condition, loops with a known count.

A branch whose condition is known at run time only computes both sides and selects.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import onnx

from graphfuse.constraints import decided
from graphfuse.dialects import control, graph
from graphfuse.frontends.emit import Emitter, shape_of, tensor
from graphfuse.frontends.host_values import Host, Tracked, host
from graphfuse.frontends.onnx.declared import BODY, OWN
from graphfuse.frontends.onnx.limits import MOST_STEPS
from graphfuse.frontends.onnx.node import Node, onnx_op
from graphfuse.frontends.onnx.protos import all_nodes
from graphfuse.frontends.watched import Found, Watched
from graphfuse.ir.core import Params, Value
from graphfuse.ir.types import BOOL, I64
from graphfuse.symbolic import Dim, Expr, sym
from graphfuse.value_checks import FINE

Scope: TypeAlias = ChainMap[str, Tracked]
"""What the names of a graph stand for, and behind that what those of the graphs around it do."""


class Walker(Protocol):
    """What control flow needs of the importer."""

    e: Emitter
    watched: Watched
    steps: int
    """How often what is being imported runs, for the loops around it."""
    copies: int
    """How often those of them that are unrolled import it."""

    def graph(self, graph: onnx.GraphProto, scope: Scope) -> tuple[Tracked, ...]:
        """Import a nested graph in a scope."""
        ...


Control: TypeAlias = "Callable[[Walker, Node, Scope], tuple[Tracked | None, ...]]"


def _if(w: Walker, node: Node, scope: Scope) -> tuple[Tracked | None, ...]:
    """One branch when the condition is known; both, and a choice per output, when it is not."""
    branches = (node.attributes["then_branch"], node.attributes["else_branch"])
    known = node.known(0)
    if known is not None and known.dtype != object:
        if known.size != 1:
            raise node.error(f"expected a condition of one element, found {known.size}")
        return w.graph(branches[0 if bool(known.reshape(-1)[0]) else 1], scope.new_child())
    before = dict(w.e.unproved)
    condition = w.e.reshape(node.value(w.e, 0), ())
    first, second = (_branch(w, b, scope, condition, side=i) for i, b in enumerate(branches))
    if needed := [c for key, c in w.e.unproved.items() if key not in before]:
        w.e.unproved = before  # a branch that is not taken needs nothing
        raise node.unsupported(f"a branch of a run-time condition needs dims to fit: {needed[0]}")
    out: list[Tracked | None] = []
    for a, b in zip(first, second, strict=True):
        if a.type != b.type:  # dims that only may be equal are not: one branch may well be a transpose of the other
            raise node.unsupported(f"the branches of a run-time condition give {a.type} and {b.type}")
        out.append(w.e.select(condition, w.e.value(a), w.e.value(b)))
    return tuple(out)


def _branch(w: Walker, branch: onnx.GraphProto, scope: Scope, condition: Value, *, side: int) -> tuple[Tracked, ...]:
    """What a branch gives. What is wrong with values in it matters where it is the one that the condition takes."""
    with w.watched.apart() as found:
        out = w.graph(branch, scope.new_child())
    if found:
        numbers, fine = w.watched.numbers(found), w.e.full((len(found),), I64, FINE)
        w.watched.join(found, w.e.select(condition, *((fine, numbers) if side else (numbers, fine))))
    return out


def _imported(w: Walker, body: onnx.GraphProto, scope: Scope, *inputs: Tracked) -> tuple[Tracked, ...]:
    """What a body gives for these inputs."""
    return w.graph(body, scope.new_child(dict(zip((p.name for p in body.input), inputs, strict=True))))


MAX_UNROLLED = 64
"""Iterations of a loop that is unrolled, which makes numbers of its indices; each is compiled, so longer ones stay."""
MOST_UNROLLED = 1 << 13
"""Nodes that a loop inside an unrolled one is unrolled to in all."""

_TRUE = Host(np.ones((), dtype=np.bool_), BOOL)


def _loop(w: Walker, node: Node, scope: Scope) -> tuple[Tracked | None, ...]:
    """A loop with a known trip count: unrolled when it is short and its condition known, else a `graph.loop`."""
    body: onnx.GraphProto = node.attributes["body"]
    count = node.known(0)
    keep_going = node.known(1)
    if keep_going is not None and keep_going.dtype != object and not bool(keep_going.reshape(-1)[0]):
        count = np.array(0)
    if count is None and not node.has(0):
        raise node.unsupported("a loop that only its condition ends is not compiled")
    if count is None:
        raise node.unknown(0, "the trip count must be known at compile time")
    trips = count.reshape(-1)[0]
    trips = trips if isinstance(trips, Expr) else int(trips)
    steps, copies = w.steps, w.copies
    times = max(trips, 1) if isinstance(trips, int) else 1
    unrolls = isinstance(trips, int) and trips <= MAX_UNROLLED
    if unrolls and copies > 1 and copies * times * sum(1 for _ in all_nodes(body.node)) > MOST_UNROLLED:
        unrolls = False
    if steps * times > MOST_STEPS and (keep_going is not None or not node.has(1)):
        raise node.too_large(f"expected up to {MOST_STEPS} iterations, found {times} in each of {steps}")
    w.steps, w.copies = steps * times, copies * times if unrolls else copies
    try:
        if unrolls and isinstance(trips, int):
            return _unrolled(w, node, scope, body, trips)
        return _rolled(w, node, scope, body, trips)
    finally:
        w.steps, w.copies = steps, copies


def _unrolled(w: Walker, node: Node, scope: Scope, body: onnx.GraphProto, trips: int) -> tuple[Tracked | None, ...]:
    carried = [node.input(i) for i in range(2, len(node.inputs))]
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    condition: Tracked = node.input(1) if node.has(1) else _TRUE
    for i in range(trips):
        if not isinstance(condition, Host) or condition.symbolic:
            raise node.unsupported("a condition that data decides is not supported")
        if not bool(condition.array.reshape(-1)[0]):
            break
        condition, *rest = _imported(w, body, scope, host(np.array(i), I64), condition, *carried)
        carried = rest[: len(carried)]
        for out, v in zip(scans, rest[len(carried) :], strict=True):
            out.append(w.e.unsqueeze(w.e.value(v), 0))
    if scans and not scans[0]:
        raise node.unsupported("scan outputs of a loop that never runs have no known type")
    return (*carried, *(w.e.concat(s, 0) for s in scans))


def _rolled(w: Walker, node: Node, scope: Scope, body: onnx.GraphProto, trips: Dim) -> tuple[Tracked | None, ...]:
    e = w.e
    starts = [node.value(e, i) for i in range(2, len(node.inputs))]

    def step(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        condition, *rest = _imported(w, body, scope, host(np.array(at, dtype=object), I64), _TRUE, *carried)
        if not isinstance(condition, Host) or condition.symbolic or not bool(condition.array.reshape(-1)[0]):
            raise node.unsupported("a condition that data decides is not supported")
        out = [e.value(v) for v in rest]
        for before, after in zip(carried, out, strict=False):
            if not _keeps_shape(e, before, after):
                raise node.unsupported(f"a loop carries {before.type}, and next {after.type}")
        return out

    return _watching(w, trips, starts, step)


def _keeps_shape(e: Emitter, x: Value, y: Value) -> bool:
    """Whether all dims are known to be equal: what a Loop carries may change its shape, and not only once."""
    if tensor(x).rank != tensor(y).rank:
        return False
    return all(
        decided("equal", a, b, e.ranges) or not e.unproved.keys().isdisjoint({("equal", a, b), ("equal", b, a)})
        for a, b in zip(shape_of(x), shape_of(y), strict=True)
    )


def _watching(
    w: Walker, count: Dim, starts: list[Value], step: Callable[[Dim, tuple[Value, ...]], list[Value]]
) -> tuple[Value, ...]:
    """`loop_of` a step that reads indices: a number for each check is stacked besides."""
    found: Found = {}

    def watched(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        nonlocal found
        with w.watched.apart() as found:
            out = step(at, carried)
            return [*out, w.watched.numbers(found)] if found else out

    *results, last = loop_of(w.e, count, starts, watched)
    if not found:
        return (*results, last)
    w.watched.join(found, w.e.reduce(last, "max", [0], keepdims=False))
    return tuple(results)


def loop_of(
    e: Emitter, count: Dim, starts: list[Value], step: Callable[[Dim, tuple[Value, ...]], list[Value]]
) -> tuple[Value, ...]:
    """Build a `graph.loop`: `step` gets the index and the carried values, gives the next ones and what to stack."""
    symbol = e.fresh_symbol("t")
    low_high = (0, (1 << 31) if isinstance(count, Expr) else max(count - 1, 0))
    e.ranges[symbol] = low_high
    e.loop_counts[symbol] = count
    params = Params(tuple(v.type for v in starts))
    with e.body() as block:
        out = step(sym(symbol), params.values)
        carried = [e.aligned(v, shape_of(s)) for v, s in zip(out, starts, strict=False)]
        e.op(control.yield_, *carried, *out[len(starts) :])
    return e.op(graph.loop, *starts, count=count, symbol=symbol, bodies=(block.block(params),)).results


def _scan(w: Walker, node: Node, scope: Scope) -> tuple[Tracked | None, ...]:
    """A loop over slices of its inputs."""
    e, body = w.e, node.attributes["body"]
    scanned = node.attr_int("num_scan_inputs")
    if not 0 < scanned <= len(node.inputs):
        raise node.error(f"num_scan_inputs: expected 1..{len(node.inputs)}, found {scanned}")
    states = len(node.inputs) - scanned
    outs = len(body.output) - states
    starts = [node.value(e, i) for i in range(states)]
    xs = [node.value(e, states + i) for i in range(scanned)]
    given = node.attr_ints("scan_input_axes", (0,) * scanned)
    axes = [node.axis(a, tensor(x).rank) for a, x in zip(given, xs, strict=True)]
    directions = node.attr_ints("scan_input_directions", (0,) * scanned)
    xs = [e.move_axis(x, a, 0) for x, a in zip(xs, axes, strict=True)]
    xs = [e(graph.flip, x, axes=(0,)) if d else x for x, d in zip(xs, directions, strict=True)]
    count = shape_of(xs[0])[0]
    for x in xs[1:]:
        e.require("equal", shape_of(x)[0], count, "slices")
    if isinstance(count, int) and count > MOST_STEPS:
        raise node.too_large(f"expected up to {MOST_STEPS} slices, found {count}")

    def step(at: Dim, carried: tuple[Value, ...]) -> list[Value]:
        slices = [e.squeeze(e.slice(x, 0, at, 1), 0) for x in xs]
        out = [e.value(v) for v in _imported(w, body, scope, *carried, *slices)]
        kept = [
            e.equalled(after, shape_of(before), f"next state {i}")
            for i, (before, after) in enumerate(zip(carried, out, strict=False))
        ]
        return [*kept, *out[states:]]

    results = list(_watching(w, count, starts, step))
    out_axes = node.attr_ints("scan_output_axes", (0,) * outs)
    out_directions = node.attr_ints("scan_output_directions", (0,) * outs)
    for i in range(outs):
        x = results[states + i]
        x = e(graph.flip, x, axes=(0,)) if out_directions[i] else x
        results[states + i] = e.move_axis(x, 0, node.axis(out_axes[i], tensor(x).rank))
    return tuple(results)


@onnx_op(BODY, domain=OWN)
def body_dims(e: Emitter, node: Node) -> Tracked:
    """Its input, which a body takes or gives: of the dims that it declares."""
    x, dims, what = node.input(0), node.attr_ints("dims"), node.attr_str("what")
    shape, hint = node.type(0).shape, node.attr_int("hint")
    if len(dims) != len(shape):
        if hint:
            return x
        raise node.error(f"{what}: expected {len(dims)} dims, found {x.type}")
    for i, (d, want) in enumerate(zip(shape, dims, strict=True)):
        if want < 0 or (hint and isinstance(d, int)):
            continue
        if not e.same(d, want, f"dim {i} of {what}"):
            raise node.error(f"{what}: expected dim {i} to be {want}, found {x.type}")
    return x


CONTROL: dict[str, Control] = {"If": _if, "Loop": _loop, "Scan": _scan}
