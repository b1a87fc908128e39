"""A graph that cannot be recorded as a whole: stretches of it are, between what torch or a CPU has to run.

    part_0 = self.part_0(x)                     recorded_0, = self.recorded_0([x])
    y = part_0[0]                               places = aten.nonzero(recorded_0)
    places = aten.nonzero(y)            ->      recorded_1, = self.recorded_1([recorded_0])
    part_1 = self.part_1(y)                     return places, recorded_1
    return places, part_1[0]

Views and constants belong to whatever reads them, so that a stretch reads weights where they are. Numbers are
computed between stretches: a stretch has a recording for each set of those it reads.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.cuda_graphs import Recording, chosen, unsafe
from graphfuse.torch.cut import VIEWS

log = logging.getLogger(__name__)

LEAST_LAUNCHES = 4
"""Fewer are launched as they are: a replay copies what it reads. By `python -m benchmarks.gpu_stretches`."""


def in_stretches(
    module: fx.GraphModule, kind: str, static: Collection[int], device: torch.device
) -> tuple[fx.GraphModule, dict[str, Recording]]:
    """A rewritten graph with submodules for what is recorded on a GPU, and how each is.

    Args:
        module: The graph, with the metadata of its nodes.
        kind: `fw`, `bw` or `inference`.
        static: The inputs that never move.
        device: The GPU.
    """
    given = [n for n in module.graph.nodes if n.op == "placeholder"]
    return _Splitter(module, device, {given[i] for i in static}).run(kind)


@dataclass
class _Stretch:
    """What is recorded together."""

    members: list[fx.Node] = field(default_factory=list[fx.Node])
    inputs: list[fx.Node] = field(default_factory=list[fx.Node])


class _Splitter:
    def __init__(self, module: fx.GraphModule, device: torch.device, static: Collection[fx.Node]) -> None:
        self.module, self.device, self.static = module, device, static
        self.nodes: list[fx.Node] = list(module.graph.nodes)
        self.given = [n for n in self.nodes if n.op == "placeholder"]
        self.home: dict[fx.Node, _Stretch] = {}
        self.ends: dict[fx.Node, _Stretch] = {}
        """The last node of a stretch, behind which it is called."""
        for stretch in self._stretches():
            if sum(map(self._launches, stretch.members)) >= LEAST_LAUNCHES:
                self.ends[stretch.members[-1]] = stretch
                for node in stretch.members:
                    self.home |= dict.fromkeys((node, *_elements(node)), stretch)

    def run(self, kind: str) -> tuple[fx.GraphModule, dict[str, Recording]]:
        """The graph of calls, and how each stretch is recorded."""
        out, env = fx.Graph(), dict[fx.Node, fx.Node]()
        recordings: dict[str, Recording] = {}

        def at(node: fx.Node) -> fx.Node:
            if node not in env:
                env[node] = out.node_copy(node, at)
            return env[node]

        for node in self.nodes:
            if node.op == "placeholder" or not (node in self.home or _is_free(node)):
                at(node)
            elif stretch := self.ends.get(node):
                name = f"recorded_{len(recordings)}"
                body, results = self._body(stretch)
                call = out.call_module(name, tuple(map(at, stretch.inputs)))
                env |= {n: out.call_function(operator.getitem, (call, i)) for i, n in enumerate(results)}
                self.module.add_submodule(name, fx.GraphModule(self.module, body))
                recordings[name] = self._recording(stretch, kind, len(results))
        out.lint()
        return fx.GraphModule(self.module, out), recordings

    def _stretches(self) -> Iterator[_Stretch]:
        """What lies one behind the other and can be recorded."""
        now = _Stretch()
        for node in self.nodes:
            if node.op == "output":
                yield now
                return
            if _is_number(node):
                ends = not {_base(n) for n in node.all_input_nodes}.isdisjoint(now.members)
            elif node.op == "placeholder" or node.target is operator.getitem or _is_free(node):
                continue
            elif ends := bool(why := self._why_not(node)):
                log.debug("%s is not recorded: %s", node.name, why)
            else:
                now.members.append(node)
            if ends:
                yield now
                now = _Stretch()

    def _why_not(self, node: fx.Node) -> str:
        """Why a node cannot be recorded; nothing if it can."""
        if name := unsafe([node]) or chosen([node]):
            return f"{name} cannot be recorded"
        around = [v for n in (node, *node.all_input_nodes, *_elements(node)) for v in _tensors(n)]
        if any(v.device != self.device for v in around):
            return "it is not on the GPU alone"
        if any(map(free_unbacked_symbols, around)):
            return "its sizes depend on data"
        if any(isinstance(n.meta.get("val"), (float, torch.SymFloat, torch.SymBool)) for n in node.all_input_nodes):
            return "it reads a number that is no size"
        if any(n.op == "placeholder" and n not in self.static for n in self._written(node)):
            return "it changes an input that may lie elsewhere in the next call"
        return ""

    def _written(self, node: fx.Node) -> list[fx.Node]:
        """What a node writes into."""
        if node.target is torch.ops.aten.copy_.default:
            return [_base(n) for n in node.all_input_nodes[:1]]
        part = self._part(node)
        return [] if part is None else [_base(node.all_input_nodes[number]) for _, number in part.shared]

    def _part(self, node: fx.Node) -> CompiledPart | None:
        made = getattr(self.module, str(node.target)) if node.op == "call_module" else None
        return made if isinstance(made, CompiledPart) else None

    def _launches(self, node: fx.Node) -> int:
        part = self._part(node)
        return 1 if part is None else part.launches

    def _body(self, stretch: _Stretch) -> tuple[fx.Graph, list[fx.Node]]:
        """The graph of a stretch, whose inputs are now known, and which of its nodes it returns."""
        body, env = fx.Graph(), dict[fx.Node, fx.Node]()

        def at(node: fx.Node) -> fx.Node:
            if node not in env:
                if self.home.get(node) is stretch or _is_free(node):
                    env[node] = body.node_copy(node, at)
                    env[node].meta.clear()
                else:
                    stretch.inputs.append(node)
                    env[node] = body.placeholder(node.name)
            return env[node]

        for node in filter(_is_number, self.given):
            at(node)  # sizes of tensors may depend on them without a word
        for node in stretch.members:
            at(node)
        made = [n for member in stretch.members for n in _elements(member) or [member]]
        results = [n for n in made if self._is_read_outside(n, stretch)]
        body.output(tuple(map(at, results)))
        body.lint()
        return body, results

    def _is_read_outside(self, node: fx.Node, stretch: _Stretch) -> bool:
        return any(
            self._is_read_outside(u, stretch) if _is_free(u) else self.home.get(u) is not stretch for u in node.users
        )

    def _recording(self, stretch: _Stretch, kind: str, outputs: int) -> Recording:
        written = {w for n in stretch.members for w in self._written(n)}
        return Recording(
            self.device.index or 0,
            static=tuple(i for i, n in enumerate(stretch.inputs) if n in self.static),
            mutated=tuple(i for i, n in enumerate(stretch.inputs) if n in written),
            is_backward=kind == "bw",
            is_inference=kind == "inference",
            outputs=outputs,
            numbers=tuple(i for i, n in enumerate(stretch.inputs) if _is_number(n)),
            overwrites=any(part.overwrites for n in stretch.members if (part := self._part(n)) is not None),
        )


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    """What a node is, or gives several of."""
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(v, torch.Tensor)]


def _elements(node: fx.Node) -> list[fx.Node]:
    """The results of a node that has several."""
    return [u for u in node.users if u.target is operator.getitem and not _is_number(node)]


def _is_number(node: fx.Node) -> bool:
    """Whether a node is a number, or computes with numbers."""
    if node.op == "placeholder" or "val" in node.meta:
        return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))
    if isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return node.target is torch.ops.aten.sym_size.int
    return node.op == "call_function" and node.target is not operator.getitem


def _is_free(node: fx.Node) -> bool:
    """Whether a node costs nothing, and is made where it is read: a view, one of several, or a constant."""
    of = node.args[0] if node.target is operator.getitem else node
    return isinstance(of, fx.Node) and (of.op == "get_attr" or of.target in VIEWS)


def _base(node: fx.Node) -> fx.Node:
    """What a view, or an element of several results, is of."""
    while node.target in VIEWS or node.target is operator.getitem:
        of = node.args[0]
        assert isinstance(of, fx.Node)
        node = of
    return node
