"""One functional graph to something that runs: cut, import each part, compile, rewrite.

compiled = compile_graph(gm, options)      compiled(args) -> outputs, boxed: the list is ours to clear
"""

from __future__ import annotations

import logging
import operator
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import fx

from graphfuse.errors import GraphfuseError, UnsupportedError
from graphfuse.frontends.fx.importer import Part, PartError, import_part, loc_of
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.targets.sharing import shared_kernels
from graphfuse.torch.build import build_part, tuning_on
from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.constants import inline_numbers
from graphfuse.torch.cut import Cut, Kind, Region, cut, part_of
from graphfuse.torch.kept import kept_as_made
from graphfuse.torch.options import TorchOptions
from graphfuse.torch.rewrite import rewritten

log = logging.getLogger(__name__)

MOST_CULPRITS = 4
"""How many operators of a graph are looked for because the compiler fails at them; then their parts are left whole."""


class LeftToTorch(UserWarning):
    """The compiler failed at an operator, which torch computes instead. The message begins with the user's line."""


@dataclass
class CompiledGraph:
    """A graph that runs, and what became of its nodes."""

    module: fx.GraphModule
    cut: Cut
    parts: list[CompiledPart]
    seconds: float = 0.0
    """How long it took to compile."""
    bodies: dict[str, CompiledGraph] = field(default_factory=dict[str, "CompiledGraph"])
    """Graphs that operators of this one call, such as the branches of a cond."""


def compile_graph(
    gm: fx.GraphModule,
    options: TorchOptions,
    returned: int | None = None,
    kept: Mapping[fx.Node, tuple[int, ...]] | None = None,
    turned: Collection[fx.Node] = (),
) -> CompiledGraph:
    """Compile what can be compiled. Raises nothing that torch could still compute, unless `options.strict`.

    The first `returned` outputs are the caller's, those after them are kept for the backward. Inputs in `kept` are
    read with these strides; those that are `turned` too were traced without gaps in the order of their axes.
    """
    begun = time.perf_counter()
    inline_numbers(gm)
    with shared_kernels():
        bodies = _bodies(gm, options)
        found, made = _Work(gm, options, returned).run()
    found.reasons = {n: r for n, r in found.reasons.items() if not _calls(n, bodies)}
    if options.strict:
        _refuse_externs(found)
    module = rewritten(gm, found, made, {name: g.module for name, g in bodies.items()}, kept, turned)
    for node, reason in found.reasons.items():
        log.info("extern %s (%s): %s", node.name, node.target, reason)
    seconds = time.perf_counter() - begun
    nodes, parts, externs = len(found.kinds), len(made), len(found.reasons)
    log.info("graph of %d nodes: %d parts, %d externs, %.2f s", nodes, parts, externs, seconds)
    log.debug("runs as\n%s", module.code)
    return CompiledGraph(module, found, made, seconds, bodies)


class _Work:
    """Cuts a graph until every part of it can be compiled."""

    def __init__(self, gm: fx.GraphModule, options: TorchOptions, returned: int | None) -> None:
        self.gm, self.options, self.returned = gm, options, returned
        self.declined: dict[fx.Node, str] = {}
        self.culprits = 0

    def run(self) -> tuple[Cut, list[CompiledPart]]:
        """The cut and its parts."""
        while True:
            found = cut(self.gm.graph, self.declined, self.returned)
            before = len(self.declined)
            funcs = [self._imported(region, found) for region in found.regions]
            if len(self.declined) > before:
                continue
            parts = [self._built(r, f, found) for r, f in zip(found.regions, funcs, strict=True) if f is not None]
            if len(self.declined) == before:
                return found, [p for p in parts if p is not None]

    def _imported(self, region: Region, found: Cut) -> Func | None:
        """The function of a region; None after nodes were added to `declined`."""
        try:
            func = import_part(region.part)
            region.part = kept_as_made(region.part, func, found.any_order)
            return import_part(region.part) if region.part.laid else func
        except PartError as e:
            for d in e.declined:
                if d.bug is not None:
                    self._failed(d.node, d.bug)
                self.declined[d.node] = d.reason
        except Exception as e:  # noqa: BLE001 - the program runs whatever fails here
            self._blame(region, found, e, import_part)
        return None

    def _built(self, region: Region, func: Func, found: Cut) -> CompiledPart | None:
        """A region's part; None after nodes were added to `declined`."""
        tuning = tuning_on(region.device) if self.options.tune else None
        options = Options(numerics=self.options.numerics, check_indices=self.options.check_indices, tuning=tuning)
        try:
            return CompiledPart(region.part, func, build_part(func, region.device, options), found.compacted)
        except Exception as e:  # noqa: BLE001 - the program runs whatever fails here
            self._blame(region, found, e, lambda part: build_part(import_part(part), region.device, options))
            return None

    def _blame(self, region: Region, found: Cut, error: Exception, attempt: Callable[[Part], object]) -> None:
        """Decline the operator that a part cannot be compiled with; all of the part if there are many of them."""
        nodes = [n for n in region.part.nodes if found.kinds[n] is Kind.COMPUTE and n.target is not operator.getitem]
        self.culprits += 1
        if self.culprits > MOST_CULPRITS:
            self._failed(nodes[0], error, also=len(nodes) - 1)
            self.declined.update(dict.fromkeys(nodes, f"the part cannot be compiled: {_message(error)}"))
            return
        # the shortest start of the part that fails ends with the culprit
        low, high = 1, len(nodes)
        while low < high:
            middle = (low + high) // 2
            try:
                attempt(part_of(self.gm.graph, found, nodes[:middle]))
                low = middle + 1
            except Exception as e:  # noqa: BLE001
                high, error = middle, e
        self._failed(nodes[low - 1], error)
        self.declined[nodes[low - 1]] = f"it cannot be compiled: {_message(error)}"

    def _failed(self, node: fx.Node, error: Exception, also: int = 0) -> None:
        """Warn of a node that torch computes, and of as many `also`."""
        if self.options.strict:
            raise error
        if (name := str(node.target)) not in _told:
            _told.add(name)
            where = f"{loc.file}:{loc.line}: " if (loc := loc_of(node)) else ""
            others = f" and {also} operators with it" if also else ""
            warnings.warn(
                f"{where}graphfuse leaves {name}{others} to torch: {_message(error)}", LeftToTorch, stacklevel=2
            )
        log.info("%s cannot be compiled", node.name, exc_info=error)


_told: set[str] = set()
"""Operators that there was a warning of. Python's own registry of them is forgotten whenever torch changes filters."""


def _message(error: Exception) -> str:
    return error.message if isinstance(error, GraphfuseError) else f"{type(error).__name__}: {error}"


_TOKENS = (torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default)
"""They compute nothing: they are what keeps effects in order."""


def _refuse_externs(found: Cut) -> None:
    for node, reason in found.reasons.items():
        if node.target in _TOKENS:
            continue
        expected = "expected an operator that is compiled, found one that is left to torch"
        raise UnsupportedError(f"{node.target}: {expected}: {reason}", loc_of(node))


# graphs that operators call

_HOPS = ("cond", "while_loop", "while_loop_stack_output", "scan", "map_impl", "invoke_subgraph", "hints_wrapper")
"""Operators that call their graphs as they are, on tensors."""


def _bodies(gm: fx.GraphModule, options: TorchOptions) -> dict[str, CompiledGraph]:
    """The graphs that operators of `gm` call, compiled, by attribute. The same graph is compiled once."""
    out: dict[str, CompiledGraph] = {}
    done: dict[int, CompiledGraph] = {}
    for node in gm.graph.nodes:
        body = getattr(gm, str(node.target), None) if node.op == "get_attr" else None
        if not isinstance(body, fx.GraphModule) or not all(_is_hop(u) for u in node.users) or not _is_traced(body):
            continue
        if id(body) not in done:
            done[id(body)] = compile_graph(body, options)
        out[str(node.target)] = done[id(body)]
    return out


def _is_hop(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name() in _HOPS


def _is_traced(body: fx.GraphModule) -> bool:
    """Whether the fake values of its inputs, and so of all that is computed, are known."""
    return all("val" in n.meta for n in body.graph.nodes if n.op == "placeholder")


def _calls(node: fx.Node, bodies: Mapping[str, CompiledGraph]) -> bool:
    """Whether an operator does no more than to call graphs that are compiled."""
    attributes = [n for n in node.all_input_nodes if n.op == "get_attr"]
    return _is_hop(node) and any(str(n.target) in bodies for n in attributes)
