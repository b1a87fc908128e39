"""Cuts a functional FX graph into parts that are compiled and operators that torch runs.

Every node is one of these:

compute   has a lowering: it is in the one part of its level
view      only says where elements are: parts read through it, torch makes it where torch needs it. One with gaps
          that is only kept for the backward is computed instead, without gaps, and so is what an input becomes
size      arithmetic on sizes, done by Python
extern    anything else: torch runs it as it is

The level of a node is the largest number of externs on a path to it; what is cheap to compute and read later alone is
of its first reader's level, where less is kept until then. All compute nodes of a level and a device are one part, so
there are as few as can be. Level by level, parts run before externs; externs keep their order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import fx

from graphfuse.frontends.fx.importer import Part, order_of, results_of, why_not
from graphfuse.frontends.fx.lowering import LOWERINGS
from graphfuse.frontends.fx.sizes import dims_of

aten = torch.ops.aten


class Kind(Enum):
    """What becomes of a node."""

    COMPUTE = "compute"
    VIEW = "view"
    SIZE = "size"
    EXTERN = "extern"
    INPUT = "input"
    COPY_BACK = "copy back"
    """Writes the new value of an input into it, after everything else."""


ANY_ORDER = "graphfuse_any_order"
"""The key of a node's metadata that says that the backward does not ask how its result lies."""

VIEWS = frozenset({aten._unsafe_view.default, *(op for op in LOWERINGS if op.is_view)})
"""Operators whose results share their operand's memory."""


@dataclass
class Region:
    """A part, where it runs, and the level it is of."""

    level: int
    device: torch.device
    part: Part


@dataclass
class Cut:
    """What becomes of a graph. `reasons` says why a node is an extern."""

    kinds: dict[fx.Node, Kind]
    levels: dict[fx.Node, int]
    compacted: set[fx.Node] = field(default_factory=set[fx.Node])
    """Views that are computed."""
    any_order: set[fx.Node] = field(default_factory=set[fx.Node])
    """What is computed and may lie in any order, since only its part and the backward's read it."""
    regions: list[Region] = field(default_factory=list[Region])
    reasons: dict[fx.Node, str] = field(default_factory=dict[fx.Node, str])


def cut(graph: fx.Graph, declined: Mapping[fx.Node, str], returned: int | None = None) -> Cut:
    """Decide for every node. `declined` are nodes that cannot be compiled, with the reason.

    The first `returned` outputs are the caller's, those after them are kept for the backward.
    """
    out = Cut({}, {})
    last_extern_with_effects = -1
    for node in graph.nodes:
        kind, reason = _kind(node, declined, out.kinds)
        out.kinds[node] = kind
        if reason:
            out.reasons[node] = reason
        level = max((_level_after(out, n, kind) for n in node.all_input_nodes), default=0)
        if kind is Kind.EXTERN and _has_effects(node):
            level = last_extern_with_effects = max(level, last_extern_with_effects)
        out.levels[node] = level
    _sink(graph, out)
    if returned is not None:
        out.compacted = _compacted(graph, out, returned)
        out.any_order = _any_order(graph, out, returned)
    out.compacted |= _written_through(graph, out)
    out.regions = _regions(graph, out)
    return out


def _sink(graph: fx.Graph, out: Cut) -> None:
    """Raise levels of elementwise nodes to that of what first reads them, where what they read is no larger.

    A backward that does work of the forward again would else do all of it first, and keep it for layers to come.
    Nothing waits where an operator of torch's writes: it might be into what is read.
    """
    if any(out.kinds[n] is Kind.EXTERN and _writes(n) for n in graph.nodes):
        return
    for node in reversed(graph.nodes):
        if not _is_elementwise(node, out):
            continue
        reading = list(readers(node, out))
        later = min((out.levels[u] for u in reading), default=0)
        if later <= out.levels[node] or any(u.op == "output" or out.kinds[u] is Kind.COPY_BACK for u in reading):
            continue
        kept = {n for n in _sources(node, later, out) if all(out.levels[u] < later for u in readers(n, out))}
        if sum(map(_nbytes, kept)) <= _nbytes(node):
            out.levels[node] = later


def _writes(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return "mutation" in str(node.target)  # a kernel of Triton's


def _is_elementwise(node: fx.Node, out: Cut) -> bool:
    if out.kinds.get(node) is not Kind.COMPUTE or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in node.target.tags or node.target in (aten._to_copy.default, aten.clone.default)


def _sources(node: fx.Node, later: int, out: Cut) -> set[fx.Node]:
    """What an elementwise node would be computed of at a later level, with those before it that can be there too."""
    found: set[fx.Node] = set()
    pending, seen = [node], {node}
    while pending:
        for n in {base_of(n, out) for n in pending.pop().all_input_nodes} - seen:
            seen.add(n)
            if _is_elementwise(n, out) and all(
                _is_elementwise(u, out) or out.levels[u] >= later for u in readers(n, out)
            ):
                pending.append(n)
            elif _is_tensor(n):
                found.add(n)
    return found


def _nbytes(node: fx.Node) -> int:
    """Of one whose size is known; a large number of any other."""
    value = node.meta["val"]
    size = dims_of(value.shape)
    return value.itemsize * math.prod(d if isinstance(d, int) else 1 << 20 for d in size)


def _compacted(graph: fx.Graph, out: Cut, returned: int) -> set[fx.Node]:
    """Views with gaps of what is computed, where only the part that computes them and the backward read them."""
    (outputs,) = next(n for n in graph.nodes if n.op == "output").args
    mine = {o for o in outputs[:returned] if isinstance(o, fx.Node)}
    return {
        o
        for o in outputs[returned:]
        if isinstance(o, fx.Node)
        and out.kinds[o] is Kind.VIEW
        and o not in mine
        and order_of(o.meta["val"]) is None
        and out.kinds[base_of(o, out)] is Kind.COMPUTE
        and all(_is_in_part_of(u, base_of(o, out), out) for u in readers(o, out) if u.op != "output")
    }


def _written_through(graph: fx.Graph, out: Cut) -> set[fx.Node]:
    """Views of what is computed that inputs become, and nothing else: `x.view(-1)[at] = y` is written into x.

    They lie as the inputs do, whatever was traced.
    """
    found: set[fx.Node] = set()
    for copy in graph.nodes:
        target, view = copy.args[:2] if out.kinds[copy] is Kind.COPY_BACK else (None, None)
        if not isinstance(target, fx.Node) or not isinstance(view, fx.Node) or out.kinds[view] is not Kind.VIEW:
            continue
        base, value, want = base_of(view, out), view.meta["val"], target.meta.get("val")
        if out.kinds[base] is not Kind.COMPUTE or want is None or order_of(want) is None:
            continue
        is_alike = value.dtype == want.dtype and dims_of(value.shape) == dims_of(want.shape)
        if is_alike and all(u is copy or _is_in_part_of(u, base, out) for u in readers(base, out)):
            view.meta["val"] = want.new_empty_strided(want.shape, want.stride())
            found.add(view)
    return found


def _any_order(graph: fx.Graph, out: Cut, returned: int) -> set[fx.Node]:
    """What is computed, kept, read by its own part besides, and by parts of the backward."""
    last = next(n for n in graph.nodes if n.op == "output")
    (outputs,) = last.args
    mine = {o for o in outputs[:returned] if isinstance(o, fx.Node)}
    return {
        o
        for o in outputs[returned:]
        if isinstance(o, fx.Node)
        and o.meta.get(ANY_ORDER)
        and out.kinds[o] is Kind.COMPUTE
        and o not in mine
        and not any(last in readers(u, out) for u in o.users if out.kinds[u] is Kind.VIEW)
        and all(_is_in_part_of(u, o, out) for u in readers(o, out) if u is not last)
    }


def readers(node: fx.Node, out: Cut) -> Iterator[fx.Node]:
    """What reads a node, itself or through views that are not computed."""
    for user in node.users:
        if out.kinds[user] is not Kind.VIEW:
            yield user
        elif user not in out.compacted:
            yield from readers(user, out)


def _is_in_part_of(reader: fx.Node, node: fx.Node, out: Cut) -> bool:
    """Whether one part computes both."""
    return (
        out.kinds[reader] is Kind.COMPUTE
        and out.levels[reader] == out.levels[node]
        and device_of(reader) == device_of(node)
    )


def base_of(node: fx.Node, out: Cut) -> fx.Node:
    """What a view is of."""
    while out.kinds[node] is Kind.VIEW:
        of = node.args[0]
        assert isinstance(of, fx.Node)
        node = of
    return node


def _kind(node: fx.Node, declined: Mapping[fx.Node, str], kinds: Mapping[fx.Node, Kind]) -> tuple[Kind, str]:
    if node.op in ("placeholder", "get_attr", "output"):
        return Kind.EXTERN if node.op == "output" else Kind.INPUT, ""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        return kinds[node.args[0]], ""
    written = node.args[0] if node.target is aten.copy_.default else None
    if isinstance(written, fx.Node) and kinds[written] is Kind.INPUT and not _is_read(node):
        return Kind.COPY_BACK, ""
    if node.op == "call_function" and _is_size(node.meta.get("val")):
        if isinstance(node.target, torch._ops.OpOverload) and node.target is not aten.sym_size.int:
            return Kind.EXTERN, "its result is a number that is known only when it runs"
        return Kind.SIZE, ""
    if (reason := declined.get(node) or why_not(node) or _why_not_there(node)) is not None:
        return Kind.EXTERN, reason
    return Kind.VIEW if node.target in VIEWS else Kind.COMPUTE, ""


def _why_not_there(node: fx.Node) -> str | None:
    """Why no kernel runs where a node's tensors are."""
    devices = _devices(node)
    if len(devices) > 1:
        return "its operands are on several devices"
    other = {d.type for d in devices} - {"cpu", "cuda"}
    return f"no kernels for the device {other.pop()}" if other else None


def _is_read(node: fx.Node) -> bool:
    return any(u.op != "output" for u in node.users)


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def _has_effects(node: fx.Node) -> bool:
    """Whether the order of a call counts: random numbers, collectives, anything that writes."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target is not operator.getitem
    if "c10d" in target.namespace:
        return True  # processes meet in the order of their calls
    return torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable or node.is_impure()


def _devices(node: fx.Node) -> set[torch.device]:
    values = [n.meta.get("val") for n in node.all_input_nodes] + [*results_of(node)]
    return {v.device for v in values if isinstance(v, torch.Tensor)}


def _level_after(out: Cut, node: fx.Node, reader: Kind) -> int:
    """The level that a reader of `node` is at least of."""
    level = out.levels[node]
    return level + (out.kinds[node] is Kind.EXTERN and reader is not Kind.EXTERN)


def device_of(node: fx.Node) -> torch.device:
    """Where a node's results are."""
    return next(v.device for v in results_of(node) if isinstance(v, torch.Tensor))


def _regions(graph: fx.Graph, out: Cut) -> list[Region]:
    members: dict[tuple[int, torch.device], list[fx.Node]] = {}
    for node in graph.nodes:
        if out.kinds[node] is Kind.COMPUTE and node.target is not operator.getitem:
            members.setdefault((out.levels[node], device_of(node)), []).append(node)
    regions: list[Region] = []
    for (level, device), nodes in sorted(members.items(), key=lambda m: (m[0][0], str(m[0][1]))):
        regions.append(Region(level, device, part_of(graph, out, nodes)))
    return regions


DONATED = "donated"
"""Metadata of inputs that nobody needs after the graph has run."""


def part_of(graph: fx.Graph, out: Cut, nodes: list[fx.Node]) -> Part:
    """The nodes with the views they read through, what they read, and what others read of them."""
    inside = set(nodes)
    for node in nodes:
        inside |= {u for u in node.users if u.target is operator.getitem}
    compacted = {v for v in out.compacted if base_of(v, out) in inside}
    inside |= compacted
    inputs: dict[fx.Node, None] = {}
    pending = [*nodes, *compacted]
    while pending:
        for n in pending.pop().all_input_nodes:
            if n in inside or out.kinds[n] is Kind.SIZE:
                continue
            if out.kinds[n] is Kind.VIEW:
                inside.add(n)
                pending.append(n)
            elif _is_tensor(n):
                inputs[n] = None
    outputs = [n for n in graph.nodes if n in inside and _is_tensor(n) and _is_output(n, inside, out)]
    ordered = [n for n in graph.nodes if n in inside]
    given = [n for n in graph.nodes if n in inputs]
    donated = [i for i, n in enumerate(given) if n.meta.get(DONATED) and all(u in inside for u in readers(n, out))]
    return Part(ordered, tuple(given), outputs, _shared(given, outputs, inside, out), donated)


def _shared(
    inputs: Sequence[fx.Node], outputs: Sequence[fx.Node], inside: set[fx.Node], out: Cut
) -> tuple[tuple[int, int], ...]:
    """Outputs that are copied into an input which nobody else reads, and do not leave the graph otherwise."""
    pairs: list[tuple[int, int]] = []
    for number, node in enumerate(outputs):
        copies = [u for u in node.users if out.kinds[u] is Kind.COPY_BACK]
        target = copies[0].args[0] if len(copies) == 1 and copies[0].args[1] is node else None
        if not isinstance(target, fx.Node) or target not in inputs:
            continue
        alone = all(u in inside or u is copies[0] for u in readers(target, out))
        stays = all(u is copies[0] or _makes_its_own(u, out) for u in readers(node, out))
        if alone and stays and _lies_like(node.meta["val"], target.meta["val"]):
            pairs.append((number, inputs.index(target)))
    return tuple(pairs)


def _makes_its_own(reader: fx.Node, out: Cut) -> bool:
    """Whether results of a node are no views of what it reads, and it returns nothing of it."""
    if out.kinds[reader] is not Kind.EXTERN:
        return out.kinds[reader] is not Kind.COPY_BACK
    target = reader.target
    return isinstance(target, torch._ops.OpOverload) and all(
        a.alias_info is None for a in (*target._schema.arguments, *target._schema.returns)
    )


def _lies_like(a: Any, b: Any) -> bool:
    """Whether two tensors have one element, shape and order in memory, without gaps."""
    return (
        a.dtype == b.dtype
        and order_of(a) is not None
        and (dims_of(a.shape), dims_of(a.stride())) == (dims_of(b.shape), dims_of(b.stride()))
    )


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_output(node: fx.Node, inside: set[fx.Node], out: Cut) -> bool:
    """Whether a computed tensor is read outside, itself or through a view."""
    if node in out.compacted:
        return True
    return out.kinds[node] is Kind.COMPUTE and any(user not in inside for user in readers(node, out))
