"""The order in which tensors are stored that are only kept for the backward: that of the part which computes them.

Images come out of convolutions with their channels last. Where the backward reads them in parts only, nobody is owed
the order that torch has traced: they are neither turned when they are stored nor when they are read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from graphfuse.dialects import graph
from graphfuse.frontends.fx.importer import Part, order_of
from graphfuse.ir.core import Func, Params, attr_ints
from graphfuse.torch.cut import ANY_ORDER, Cut, Kind, cut, readers


def note_any_order(forward: fx.GraphModule, backward: fx.GraphModule) -> None:
    """Mark what the forward keeps and the backward reads in parts only, be it with its channels last."""
    found = cut(backward.graph, {})
    given = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    for node in next(n for n in forward.graph.nodes if n.op == "output").all_input_nodes:
        if (kept := given.get(node.name)) is not None and is_row_major(fake := kept.meta.get("val")) and fake.dim() > 2:
            is_read_in_parts = all(found.kinds[u] is Kind.COMPUTE for u in readers(kept, found))
            node.meta[ANY_ORDER] = is_read_in_parts and _has_views(kept, channels_last(fake), found)


def _has_views(node: fx.Node, fake: Any, found: Cut) -> bool:
    """Whether the views of a tensor are views of one that lies as `fake` does."""
    for user in node.users:
        if found.kinds[user] is Kind.VIEW:
            try:
                if not _has_views(user, user.target(fake, *user.args[1:], **user.kwargs), found):  # type: ignore[operator]
                    return False
            except (RuntimeError, TypeError, ValueError):  # it is no view, or its sizes are nodes
                return False
    return True


def is_dense(fake: Any) -> bool:
    """Whether a fake tensor is of known size, without gaps."""
    is_known = isinstance(fake, torch.Tensor) and fake.layout == torch.strided and not fake._has_symbolic_sizes_strides
    return is_known and order_of(fake) is not None


def is_row_major(fake: Any) -> bool:
    """Whether a fake tensor is of known size, without gaps, and in the order of its axes."""
    return is_dense(fake) and order_of(fake) == tuple(range(fake.dim()))


def channels_last(fake: Any) -> Any:
    """A fake tensor like another, with its channels last in memory."""
    return fake.movedim(1, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 1)


def kept_as_made(part: Part, func: Func, any_order: Collection[fx.Node]) -> Part:
    """The part of a function; outputs that may lie in any order do as they are made, if that is channels last."""
    numbers = [i for i, n in enumerate(part.outputs) if n in any_order]
    if not numbers or not any(op.kind is graph.conv for op in func.walk()):
        return part
    # takes long to import
    from graphfuse.fusion.passes import GRAPH_PIPELINE
    from graphfuse.fusion.simplify.layout import layout
    from graphfuse.ir.passes import run

    laid = run(func, GRAPH_PIPELINE[: GRAPH_PIPELINE.index(layout) + 1], "kept")
    nodes = [part.outputs[i] for i in numbers if _is_turned(laid, i)]
    return replace(part, laid={n: channels_last(n.meta["val"]) for n in nodes})


def _is_turned(func: Func, number: int) -> bool:
    """Whether an output is computed with its channels last and turned when it is returned."""
    op = func.outputs[number].op
    if op is None or op.kind is not graph.permute or isinstance(op.operands[0].owner, Params):
        return False
    perm = attr_ints(op, "perm")
    return perm == (0, len(perm) - 1, *range(1, len(perm) - 1))


def kept_otherwise(given: Collection[fx.Node]) -> dict[fx.Node, tuple[int, ...]]:
    """The strides of what a backward is given that lies in another order than that of its axes, without gaps."""
    fakes = [(n, n.meta["val"]) for n in given if is_dense(n.meta["val"])]
    return {n: fake.stride() for n, fake in fakes if not is_row_major(fake)}


class AsKept(torch.nn.Module):
    """Gives what the forward kept its strides: hooks of the program may have stored it otherwise."""

    def __init__(self, strides: tuple[int, ...]) -> None:
        super().__init__()
        self.strides = strides

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, or a copy with the strides."""
        if tensor.stride() == self.strides:
            return tensor
        return torch.empty_strided(tensor.shape, self.strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
