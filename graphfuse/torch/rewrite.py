"""The graph that runs: each region is one call of its compiled part, all other nodes are torch's own."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from graphfuse.frontends.fx.sizes import dim_of, expressions
from graphfuse.symbolic import Dim, Expr, Sym, sym
from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.cut import Cut, Kind
from graphfuse.torch.kept import AsKept


def rewritten(
    gm: fx.GraphModule,
    cut: Cut,
    parts: Sequence[CompiledPart],
    bodies: Mapping[str, fx.GraphModule] | None = None,
    kept: Mapping[fx.Node, tuple[int, ...]] | None = None,
    turned: Collection[fx.Node] = (),
) -> fx.GraphModule:
    """A module with the same inputs and outputs as `gm`. `bodies` take the place of graphs that are attributes.

    Parts read inputs in `kept` with these strides; torch reads those that are `turned` as they were traced.
    """
    writer = _Writer(gm, cut, kept or {}, turned)
    for i, (region, part) in enumerate(zip(cut.regions, parts, strict=True)):
        writer.externs_before(region.level)
        writer.part(f"part_{i}", region.part.inputs, region.part.outputs, part)
    writer.externs_before(None)
    writer.finish()
    writer.graph.lint()
    return fx.GraphModule(
        {**dict(gm.named_children()), **_attributes(gm), **(bodies or {}), **writer.given, **writer.parts}, writer.graph
    )


def _attributes(gm: fx.GraphModule) -> dict[str, Any]:
    """What `get_attr` nodes of the graph name."""
    names = [str(n.target) for n in gm.graph.nodes if n.op == "get_attr"]
    return {name: getattr(gm, name) for name in names if "." not in name}


class _Writer:
    def __init__(
        self, gm: fx.GraphModule, cut: Cut, kept: Mapping[fx.Node, tuple[int, ...]], turned: Collection[fx.Node]
    ) -> None:
        self.cut, self.graph, self.turned = cut, fx.Graph(), turned
        self.nodes = list(gm.graph.nodes)
        self.env: dict[fx.Node, fx.Node] = {}
        self.parts: dict[str, CompiledPart] = {}
        self.externs = [n for n in self.nodes if cut.kinds[n] is Kind.EXTERN and n.op != "output" and not _is_check(n)]
        # a message of torch's own tells less than one of the program
        self.checks = sorted(filter(_is_check, self.nodes), key=lambda n: str(n.args[1]).startswith(_TORCHS_WORDS))
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.env[node] = self.graph.node_copy(node, self._new)
        self.given = {f"kept_{i}": AsKept(strides) for i, strides in enumerate(kept.values())}
        self.kept = {n: self.graph.call_module(name, (self.env[n],)) for n, name in zip(kept, self.given, strict=True)}
        for node in turned:
            del self.env[node]
        self.sizes = _size_sources(self.nodes)
        self.expressions = _expressions(self.nodes)

    def _new(self, node: fx.Node) -> fx.Node:
        """The node in the new graph; views and sizes are placed where they are first needed."""
        if node in self.turned and node not in self.env:
            self.env[node] = self.graph.call_method("contiguous", (self.kept[node],))
            self.env[node].meta = dict(node.meta)
        if node not in self.env:
            assert self.cut.kinds[node] in (Kind.VIEW, Kind.SIZE, Kind.EXTERN), f"{node} is not computed yet"
            self.env[node] = self.graph.node_copy(node, self._new)
        return self.env[node]

    def externs_before(self, level: int | None) -> None:
        """Place the externs of lower levels; all for None."""
        self._checks()
        while self.externs and (level is None or self.cut.levels[self.externs[0]] < level):
            self._new(self.externs.pop(0))
            self._checks()

    def _checks(self) -> None:
        """Place the checks of sizes that are known by now: before anything is computed with them."""
        for node in [n for n in self.checks if all(map(self._is_known, n.all_input_nodes))]:
            self.checks.remove(node)
            self._new(node)

    def _is_known(self, node: fx.Node) -> bool:
        if node in self.env:
            return True
        return self.cut.kinds[node] in (Kind.VIEW, Kind.SIZE) and all(map(self._is_known, node.all_input_nodes))

    def part(self, name: str, inputs: Sequence[fx.Node], outputs: Sequence[fx.Node], part: CompiledPart) -> None:
        """Place the call of a compiled part."""
        self.parts[name] = part
        args = [self.kept.get(n) or self._new(n) for n in inputs] + [self._size(s) for s in part.symbols]
        call = self.graph.call_module(name, tuple(args))
        for i, node in enumerate(outputs):
            got = self.graph.call_function(operator.getitem, (call, i))
            got.meta = dict(node.meta)
            self.env[node] = got

    def _size(self, symbol: str) -> fx.Node:
        """A node with the value of a symbol."""
        source = self.sizes.get(symbol)
        if isinstance(source, fx.Node):
            return self._new(source)
        if source is not None:
            node, axis = source
            return self.graph.call_function(torch.ops.aten.sym_size.int, (self._new(node), axis))
        # nothing in the graph is this number: it is computed of others
        expr = self.expressions[symbol]
        known = {s: fx.Proxy(self._size(str(s))) for s in expr.free_symbols}
        made: Any = sympy_interp(_Calls, known, expr)
        return made.node

    def finish(self) -> None:
        """Write mutated inputs back, and return."""
        for node in self.nodes:
            if self.cut.kinds[node] is Kind.COPY_BACK:
                self.env[node] = self.graph.node_copy(node, self._new)
        output = self.nodes[-1]
        self.graph.output(map_arg(output.args[0], self._new)).meta = dict(output.meta)


def _as_call(function: Callable[..., Any]) -> Any:
    return staticmethod(lambda x, *_: x.tracer.create_proxy("call_function", function, (x,), {}))


class _Calls(PythonReferenceAnalysis):
    """Writes what an expression computes; Python's own functions of numbers, which refuse proxies, as calls."""

    floor_to_int = _as_call(math.floor)
    ceil_to_int = _as_call(math.ceil)
    trunc_to_int = _as_call(math.trunc)
    round_to_int = _as_call(round)


_TORCHS_WORDS = "Runtime assertion failed for expression"


def _is_check(node: fx.Node) -> bool:
    return node.target is torch.ops.aten._assert_scalar.default


SizeSource = fx.Node | tuple[fx.Node, int]


def _size_sources(nodes: Sequence[fx.Node]) -> Mapping[str, SizeSource]:
    """For each symbol a node that is its value, or a tensor and the axis that has it as its size."""
    out: dict[str, SizeSource] = {}
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            if name := symbol_of(dim_of(value)):
                out.setdefault(name, node)
        elif node.op == "placeholder":
            for axis, size in _open_sizes(value):
                if name := symbol_of(dim_of(size)):
                    out.setdefault(name, (node, axis))
    for node in nodes:  # sizes that depend on data: of what externs return
        for axis, size in _open_sizes(node.meta.get("val")):
            # a number that dims have no words for is computed of others: the tensor may be, with it
            if size.node.expr.is_Symbol:
                out.setdefault(symbol_of(dim_of(size)), (node, axis))
    return out


def _open_sizes(value: Any) -> Iterator[tuple[int, torch.SymInt]]:
    """The axes of a tensor whose size is no number, and that size."""
    sizes = value.shape if isinstance(value, torch.Tensor) else ()
    return ((axis, size) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt))


def _expressions(nodes: Sequence[fx.Node]) -> Mapping[str, Any]:
    """What each symbol of the graph stands for."""
    return {name: expr for size in sizes_of(nodes) for name, expr in expressions(size).items()}


def sizes_of(nodes: Iterable[fx.Node]) -> Iterator[Any]:
    """The sizes of what nodes compute where that is a tensor, else itself, which may be a size."""
    for node in nodes:
        value = node.meta.get("val")
        yield from value.shape if isinstance(value, torch.Tensor) else (value,)


def symbol_of(dim: Dim) -> str:
    """The name of a dim that is one symbol, else nothing."""
    if not isinstance(dim, Expr) or len(dim.terms) != 1:
        return ""
    (atom, power), *rest = dim.terms[0][0]
    return atom.name if isinstance(atom, Sym) and not rest and dim == sym(atom.name) and power == 1 else ""
