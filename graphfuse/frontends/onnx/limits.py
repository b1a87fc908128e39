"""How much a model may ask for: sizes, depths and counts above which it is refused before any work is done on it.

A file of a few hundred bytes can name a tensor of 2**80 elements, call functions 2**60 times or nest graphs until a
stack runs over. Each limit here is far above what models have, and below what makes a process fail.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import onnx
from onnx import AttributeProto

from graphfuse.errors import Loc, TooLargeError, UnsupportedError, VerifyError
from graphfuse.frontends.onnx.protos import domain_of
from graphfuse.ir.types import Tensor, Type
from graphfuse.symbolic import Dim, Expr

MOST_NESTED = 30
"""Graphs, or types, inside one another: protobuf reads 100 messages deep, and each graph is in a node's attribute."""

MOST_RANK = 64
"""Dims of a tensor, as in numpy."""

MOST_BYTES = 1 << 46
"""Of one tensor: what a plan can address."""

MOST_TABLE = 1 << 24
"""Elements of a table of indices or weights that is computed at compile time."""

MOST_OPERANDS = 1 << 14
"""Inputs, or outputs, of a node. Many take a kernel each, so their number is what compiling takes."""

MOST_NODES = 1 << 18
"""Nodes once all functions are inlined."""

MOST_CALLS = 256
"""Functions that call one another in turn: onnx inlines them by recursion."""

MOST_STEPS = 1 << 22
"""Iterations of a compiled loop, each of which is a launch or more."""

MOST_DIM_TEXT = 1 << 14
"""Characters of a symbolic dim: beyond that it is no shape that anything could have."""


TooLarge = Callable[[str], TooLargeError]
"""Makes the error of what is being looked at."""


# nested graphs and types


def check_depth(model: onnx.ModelProto, file: str) -> None:
    """Refuse graphs and types that are nested too deep; walks without recursion, which C++ code does not."""
    graphs = [(model.graph, 1)]
    for t in model.training_info:
        graphs += [(t.initialization, 1), (t.algorithm, 1)]
    nodes = [(n, 1) for f in model.functions for n in f.node]
    types = [v.type for f in model.functions for v in f.value_info]
    while graphs or nodes:
        if graphs:
            graph, depth = graphs.pop()
            if depth > MOST_NESTED:
                raise TooLargeError(f"expected graphs nested up to {MOST_NESTED} deep, found deeper ones", Loc(file))
            types += [v.type for v in (*graph.input, *graph.output, *graph.value_info)]
            nodes += [(n, depth) for n in graph.node if n.attribute]
            continue
        node, depth = nodes.pop()
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH or a.HasField("g"):
                graphs.append((a.g, depth + 1))
            graphs += [(g, depth + 1) for g in a.graphs]
            types += [*([a.tp] if a.HasField("tp") else []), *a.type_protos]
    for t in types:
        _check_type_depth(t, file)


_HELD = {"sequence_type": "elem_type", "optional_type": "elem_type", "map_type": "value_type"}
"""Where a type has the one of what it holds."""


def _check_type_depth(t: onnx.TypeProto, file: str) -> None:
    for _ in range(MOST_NESTED):
        kind = t.WhichOneof("value")
        if kind not in _HELD:
            return
        t = getattr(getattr(t, kind), _HELD[kind])
    raise TooLargeError(f"expected types nested up to {MOST_NESTED} deep, found a deeper one", Loc(file))


# local functions


Name = tuple[str, str, str]


class Size(NamedTuple):
    """Of nodes with all calls inlined: how many, how deep graphs are nested, how many functions call in turn."""

    nodes: int
    depth: int
    calls: int


def check_calls(model: onnx.ModelProto, file: str) -> None:
    """Refuse functions that call themselves, and calls that would make too many nodes or too deep graphs."""
    bodies: dict[Name, onnx.FunctionProto] = {}
    for f in model.functions:
        if bodies.setdefault(_key(f.domain, f.name, f.overload), f) is not f:
            raise VerifyError(f"function {f.domain}::{f.name} is defined twice", Loc(file))
    sizes: dict[Name, Size] = {}
    for name in _callees_first(bodies, file):
        sizes[name] = _size(bodies[name].node, sizes)
    whole = _size(model.graph.node, sizes)
    for found, most, what in (
        (whole.nodes, MOST_NODES, "nodes, once its functions are inlined"),
        (whole.depth, MOST_NESTED, "graphs nested in one another, once its functions are inlined"),
        (max((s.calls for s in sizes.values()), default=0), MOST_CALLS, "functions that call one another in turn"),
    ):
        if found > most:
            raise TooLargeError(f"expected up to {most} {what}, found {found}", Loc(file))


def _key(domain: str, name: str, overload: str) -> Name:
    return "" if domain == "ai.onnx" else domain, name, overload


def _callees_first(bodies: Mapping[Name, onnx.FunctionProto], file: str) -> list[Name]:
    called = {name: dict.fromkeys(c for c, _ in _calls(f.node, 0) if c in bodies) for name, f in bodies.items()}
    try:
        return list(TopologicalSorter(called).static_order())
    except CycleError as e:
        domain, name, _ = e.args[1][0]
        raise VerifyError(f"function {domain}::{name} calls itself", Loc(file)) from None


def _calls(nodes: Sequence[onnx.NodeProto], depth: int) -> Iterator[tuple[Name, int]]:
    """What nodes call, graphs in their attributes included, and how deep inside these it is."""
    for n in nodes:
        yield _key(n.domain, n.op_type, n.overload), depth
        for a in n.attribute:
            for g in (*([a.g] if a.type == AttributeProto.GRAPH else []), *a.graphs):
                yield from _calls(g.node, depth + 1)


def _size(nodes: Sequence[onnx.NodeProto], sizes: Mapping[Name, Size]) -> Size:
    count, deepest, longest = 0, 0, 0
    for name, depth in _calls(nodes, 0):
        inner = sizes.get(name, Size(1, 0, -1))
        count, deepest, longest = count + inner.nodes, max(deepest, depth + inner.depth), max(longest, inner.calls + 1)
    return Size(count, deepest, longest)


# versions


@functools.cache
def newest_versions() -> dict[str, int]:
    """The newest version of each domain that the installed onnx knows."""
    newest: dict[str, int] = {}
    for s in onnx.defs.get_all_schemas():
        newest[s.domain] = max(newest.get(s.domain, 0), s.since_version)
    return newest | {"": onnx.defs.onnx_opset_version()}


def check_imports(imports: Sequence[onnx.OperatorSetIdProto], file: str) -> None:
    """Refuse versions from the future, and a domain in two versions."""
    seen: dict[str, int] = {}
    for o in imports:
        domain = domain_of(o)
        most = newest_versions().get(domain, (1 << 31) - 1)
        if o.version > most:
            what = f"opset {o.version}" + (f" of {domain}" if domain else "")
            raise UnsupportedError(f"the model uses {what}, the installed onnx knows up to {most}", Loc(file))
        if seen.setdefault(domain, o.version) != o.version:
            raise VerifyError(
                f"the model imports {domain or 'ai.onnx'} twice, as {seen[domain]} and {o.version}", Loc(file)
            )


def check_operands(inputs: int, outputs: int, error: TooLarge) -> None:
    """Refuse a node, or a graph, of too many operands."""
    for what, count in (("inputs", inputs), ("outputs", outputs)):
        if count > MOST_OPERANDS:
            raise error(f"expected up to {MOST_OPERANDS} {what}, found {count}")


# tensors


def check_rank(rank: int, error: TooLarge) -> None:
    """Refuse a tensor of too many dims."""
    if rank > MOST_RANK:
        raise error(f"expected up to {MOST_RANK} dims, found {rank}")


_LONG_NUMBER = re.compile(r"(?<!\w)\d{15,}")
"""More than `MOST_BYTES`."""


def check_tensor(t: Type, error: TooLarge) -> None:
    """Refuse a tensor that no machine has the memory for, or whose dims have become too large to reason about."""
    if not isinstance(t, Tensor):
        return
    check_rank(t.rank, error)
    for d in t.shape:
        if isinstance(d, Expr) and len(str(d)) > MOST_DIM_TEXT:
            raise error(f"a dim is made of too much arithmetic: {str(d)[:100]}...")
        if isinstance(d, Expr) and _LONG_NUMBER.search(str(d)):  # kernels compute in 64 bits
            raise error(f"expected dims made of numbers up to {MOST_BYTES}, found {d}")
    nbytes: Dim = t.nbytes
    largest = max((d for d in t.shape if isinstance(d, int)), default=0)
    if largest > MOST_BYTES or (isinstance(nbytes, int) and nbytes > MOST_BYTES):
        raise error(f"expected up to {MOST_BYTES} bytes, a tensor of {t} is larger")
