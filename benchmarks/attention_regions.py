"""Attention as the compiler makes it: a graph as models have it, the block function of the compiler's choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphfuse.compiler import Options, stages
from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.dataflow import regions_of
from graphfuse.ir.core import Builder, Func, Op, Params, Value
from graphfuse.ir.types import F32, I64, Scalar, Tensor, scalar
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import Dim, evaluate, sym
from graphfuse.targets import Target

LAYOUTS = {"bhsd": "bhsd", "bshd": "bshd", "packed": "bshd"}
"""Of queries, keys and values in memory; `packed` is [batch, sequence, 3, heads, depth], one tensor."""


@dataclass(frozen=True)
class Attention:
    """softmax(q k' / sqrt(depth) + masks) v in f32, operands, probabilities and result in `elem`."""

    batch: int
    heads: int
    queries: Dim
    keys: Dim
    depth: int
    elem: str = "f16"
    causal: bool = False
    """Query i sees keys up to i + keys - queries."""
    window: int = 0
    """And if not 0, no key further back."""
    table: bool = False
    """A mask [queries, keys] of `elem` is added."""
    padding: bool = False
    """Bools [batch, keys] say which keys there are; rows that see none are 0, as exporters guard them."""
    layout: str = "bhsd"
    values: int = 0
    """Depth of the values, if another."""
    symbolic: bool = False
    """Queries and keys are the symbols q and k."""

    @property
    def inputs(self) -> tuple[tuple[str, str, tuple[Dim, ...]], ...]:
        """Name, element and shape of every tensor read, in the order of the kernel's parameters."""
        b, h, q, k, d, dv = self.batch, self.heads, self.queries, self.keys, self.depth, self.values or self.depth
        if self.layout == "packed":
            out = [("qkv", self.elem, (b, q, 3, h, d))]
        else:
            sides = (("q", q, d), ("k", k, d), ("v", k, dv))
            swapped = self.layout == "bshd"
            out = [(n, self.elem, (b, s, h, w) if swapped else (b, h, s, w)) for n, s, w in sides]
        last = out[2:]
        out = out[:2]
        if self.table:
            out.append(("mask", self.elem, (q, k)))
        if self.padding:
            out.append(("real", "bool", (b, k)))
        return (*out, *last)

    @property
    def output(self) -> tuple[Dim, ...]:
        """The result's shape."""
        b, h, q, dv = self.batch, self.heads, self.queries, self.values or self.depth
        return (b, h, q, dv) if self.layout == "bhsd" else (b, q, h, dv)

    @property
    def flops(self) -> float:
        """Of both products, without what a causal mask leaves out."""
        rows, keys = (evaluate(d, {}) for d in (self.queries, self.keys))
        pairs = rows * (rows + 1) // 2 if self.causal and rows == keys else rows * keys
        return 2.0 * self.batch * self.heads * pairs * (self.depth + (self.values or self.depth))


def compiled(attention: Attention, target: str = "cuda:sm_90a") -> tuple[Func, Op]:
    """The block function and its region."""
    done = stages(graph_of(attention), Target.parse(target), Options())
    regions = {str(op.attrs["kernel"]): op for op in regions_of(done.regions.body)}
    kinds = {name: str(op.attrs["kind"]) for name, op in regions.items()}
    assert list(kinds.values()) == ["attention"], f"one region of attention, not {kinds}"
    ((name, region),) = regions.items()  # that for any number of queries
    names = [v.hint for v in region.operands]
    assert names == [n for n, _, _ in attention.inputs], f"the kernel takes {names}"
    return done.kernels[name], region


def graph_of(a: Attention) -> Func:
    """The graph."""
    rows, keys = (sym("q"), sym("k")) if a.symbolic else (a.queries, a.keys)
    types = tuple(Tensor(s, scalar(e)) for _, e, s in replace(a, queries=rows, keys=keys).inputs)
    params = Params(types, tuple(n for n, _, _ in a.inputs))
    values = dict(zip(params.hints, params.values, strict=True))
    b = Builder()
    shape = (a.batch, a.heads, rows, keys)

    def number(value: float, elem: Scalar = F32) -> Value:
        return b(graph.full, shape=shape, value=value, elem=elem)

    if a.layout == "packed":
        part = [
            b(
                graph.slice_,
                values["qkv"],
                starts=(0, 0, i, 0, 0),
                sizes=(a.batch, rows, 1, a.heads, a.depth),
                steps=(1,) * 5,
            )
            for i in range(3)
        ]
        query, key, value = (b(graph.reshape, p, shape=(a.batch, rows, a.heads, a.depth)) for p in part)
    else:
        query, key, value = values["q"], values["k"], values["v"]
    s = LAYOUTS[a.layout]
    order = {"bhsd": ("bhqd", "bhkd"), "bshd": ("bqhd", "bkhd")}[s]
    x = b(graph.contract, query, key, spec=f"{order[0]},{order[1]}->bhqk", elem=F32)
    x = b(graph.mul, x, number(a.depth**-0.5))
    if a.table:
        x = b(graph.add, x, b(graph.cast, b(graph.broadcast, values["mask"], shape=shape), to=F32))
    seen: list[Value] = []
    if a.causal or a.window:
        i, j = (b(graph.iota, shape=shape, elem=I64, axis=axis) for axis in (2, 3))
        last = b(graph.add, i, number(keys - rows, I64))
        if a.causal:
            seen.append(b(graph.ELEMENTWISE["le"], j, last))
        if a.window:
            first = b(graph.sub, last, number(a.window, I64))
            seen.append(b(graph.ELEMENTWISE["ge"], j, first))
    if a.padding:
        there = b(graph.reshape, values["real"], shape=(a.batch, 1, 1, keys))
        seen.append(b(graph.broadcast, there, shape=shape))
    if seen:
        both = seen[0]
        for more in seen[1:]:
            both = b(graph.ELEMENTWISE["and"], both, more)
        x = b(graph.add, x, b(graph.select, both, number(0.0), number(float("-inf"))))
    largest = b(graph.reduce, x, axes=(3,), kind="max", keepdims=True)
    e = b(graph.exp, b(graph.sub, x, b(graph.broadcast, largest, shape=shape)))
    total = b(graph.reduce, e, axes=(3,), kind="sum", keepdims=True)
    p = b(graph.div, e, b(graph.broadcast, total, shape=shape))
    if a.padding:
        p = b(graph.select, b(graph.ELEMENTWISE["isnan"], p), number(0.0), p)
    p = b(graph.cast, p, to=scalar(a.elem))
    out = "bhqd" if s == "bhsd" else "bqhd"
    y = b(graph.contract, p, value, spec=f"bhqk,{order[1]}->{out}", elem=F32)
    b.append(control.return_(b(graph.cast, y, to=scalar(a.elem))))
    dims = (("q", 1, 4096), ("k", 1, 4096)) if a.symbolic else ()
    func = Func("main", b.block(params), {}, dims)
    verify(func)
    return func
