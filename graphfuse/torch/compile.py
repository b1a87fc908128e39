"""One functional graph to something that runs: cut, import each part, compile, rewrite.

compiled = compile_graph(gm, options)      compiled(args) -> outputs, boxed: the list is ours to clear
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torch import fx

from graphfuse.errors import GraphfuseError
from graphfuse.frontends.fx.importer import PartError, import_part
from graphfuse.knobs import Options
from graphfuse.torch.build import build_part
from graphfuse.torch.compiled_part import CompiledPart
from graphfuse.torch.cut import Cut, Region, cut
from graphfuse.torch.options import TorchOptions
from graphfuse.torch.rewrite import rewritten

log = logging.getLogger(__name__)


@dataclass
class CompiledGraph:
    """A graph that runs, and what became of its nodes."""

    module: fx.GraphModule
    cut: Cut
    parts: list[CompiledPart]


def compile_graph(gm: fx.GraphModule, options: TorchOptions, returned: int | None = None) -> CompiledGraph:
    """Compile what can be compiled. Raises nothing that torch could still compute.

    The first `returned` outputs are the caller's, those after them are kept for the backward.
    """
    declined: dict[fx.Node, str] = {}
    while True:
        found = cut(gm.graph, declined, returned)
        before = len(declined)
        parts = [_compiled(region, options, declined) for region in found.regions]
        if len(declined) == before:
            break
    made = [p for p in parts if p is not None]
    module = rewritten(gm, found, made)
    for node, reason in found.reasons.items():
        log.info("extern %s (%s): %s", node.name, node.target, reason)
    return CompiledGraph(module, found, made)


def _compiled(region: Region, options: TorchOptions, declined: dict[fx.Node, str]) -> CompiledPart | None:
    """A region's part; None after a node was added to `declined`, whereupon the graph is cut again."""
    try:
        func = import_part(region.part)
    except PartError as e:
        declined[e.node] = str(e)
        return None
    try:
        executable = build_part(func, region.device, Options(numerics=options.numerics))
    except GraphfuseError as e:
        if options.strict:
            raise
        log.warning("a part of %d operators is left to torch: %s", len(region.part.nodes), e)
        declined.update(dict.fromkeys(region.part.nodes, f"the part cannot be compiled: {e.message}"))
        return None
    return CompiledPart(region.part, func, executable)
