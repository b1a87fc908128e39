"""How a graph for training becomes a forward and a backward: torch's least cut of what is kept, told what fuses here.

torch knows what Inductor fuses once it has decomposed it. Operators that have a lowering here stay whole, and what
such an operator reads would always be kept: a tanh for its detached self, f32 copies of halves for a group norm.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._functorch import partitioners
from torch.utils._ordered_set import OrderedSet

from graphfuse.torch.kept import note_any_order

aten = torch.ops.aten

VIEWS = (aten.alias, aten.detach, aten.transpose, aten.t, aten.unbind)
ELEMENTWISE = (
    aten.elu_backward, aten.floor_divide, aten.hardsigmoid_backward, aten.hardswish, aten.hardswish_backward,
    aten.hardtanh_backward, aten.leaky_relu_backward, aten.ones_like, aten.tril,
)  # fmt: skip
"""Done again by what reads them, rather than kept."""
FUSED = (
    aten._batch_norm_with_update_functional, aten._fused_rms_norm, aten._fused_rms_norm_backward,
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten.batch_norm_backward,
    aten.linalg_vector_norm, aten.logsumexp, aten.max_pool2d_with_indices_backward,
    aten.max_pool3d_with_indices_backward, aten.native_batch_norm, aten.native_batch_norm_backward,
    aten.native_group_norm, aten.native_group_norm_backward, aten.native_layer_norm, aten.native_layer_norm_backward,
    aten.nll_loss2d_backward, aten.nll_loss2d_forward, aten.nll_loss_backward, aten.nll_loss_forward,
)  # fmt: skip
"""Kept, but what they read may be computed as they read it."""
BATCH_NORMS = (
    aten._native_batch_norm_legit_functional.default, aten._batch_norm_with_update_functional.default,
    aten._native_batch_norm_legit.no_stats,
)  # fmt: skip
"""Operators that return a batch normalised, its mean and its inverse deviation."""
MAX_POOLS = {
    aten.max_pool2d_with_indices.default: aten.max_pool2d_with_indices_backward.default,
    aten.max_pool3d_with_indices.default: aten.max_pool3d_with_indices_backward.default,
}
"""Operators that return the largest of windows and their positions, with those that take these."""


def partition(joint: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward of a graph for both."""
    for node in list(joint.graph.nodes):
        if node.target in BATCH_NORMS:
            _normalise_by_itself(node)
        elif node.target in MAX_POOLS:
            _narrow_positions(node)
    joint.graph.lint()
    with _what_fuses():
        forward, backward = partitioners.min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **how)
    note_any_order(forward, backward)
    return forward, backward


def _normalise_by_itself(norm: Any) -> None:
    """Make of a batch and its statistics what a batch norm returns first: a backward may do that again."""
    given = dict(zip((a.name for a in norm.target._schema.arguments), norm.args, strict=False)) | norm.kwargs
    x, outs = given["input"], {n.args[1]: n for n in norm.users if n.target is operator.getitem}
    vals, wide = norm.meta["val"], torch.promote_types(x.meta["val"].dtype, torch.float32)
    if not given.get("training", True) or 0 not in outs or {v.dtype for v in vals[1:3]} != {wide}:
        return

    def call(fn: Any, *args: Any, **kwargs: Any) -> Any:
        val = fn(*(a.meta["val"] if isinstance(a, fx.Node) else a for a in args), **kwargs)
        node = norm.graph.call_function(fn, args, kwargs)
        node.meta = {**norm.meta, "val": val}
        return node

    def by_channel(v: Any) -> Any:
        v = v if v.meta["val"].dtype == wide else call(aten._to_copy.default, v, dtype=wide)
        return call(aten.view.default, v, [-1, *(1,) * (x.meta["val"].dim() - 2)])

    for i in outs.keys() & {1, 2}:
        outs[0].prepend(outs[i])
    with norm.graph.inserting_before(outs[0]):
        # in the order that the operator rounds in
        x = x if x.meta["val"].dtype == wide else call(aten._to_copy.default, x, dtype=wide)
        mean, inverse = (by_channel(outs.get(i) or call(operator.getitem, norm, i)) for i in (1, 2))
        y = call(aten.mul.Tensor, call(aten.sub.Tensor, x, mean), inverse)
        for fn, name in ((aten.mul.Tensor, "weight"), (aten.add.Tensor, "bias")):
            y = y if given[name] is None else call(fn, y, by_channel(given[name]))
        y = y if vals[0].dtype == wide else call(aten._to_copy.default, y, dtype=vals[0].dtype)
    outs[0].replace_all_uses_with(y)
    norm.graph.erase_node(outs[0])


def _narrow_positions(pool: Any) -> None:
    """Let a gradient take the positions of a pool's maxima from half the bytes, which may be kept instead."""
    backward, positions = MAX_POOLS[pool.target], [n for n in pool.users if n.args[1] == 1]
    size = pool.args[0].meta["val"].numel()
    has_few = isinstance(size, int) and size <= torch.iinfo(torch.int32).max
    for node in positions:
        if not has_few or any(n.target is not backward for n in node.users):
            continue
        of_node = node
        for dtype in (torch.int32, torch.int64):
            with pool.graph.inserting_after(of_node):
                made = pool.graph.call_function(aten._to_copy.default, (of_node,), {"dtype": dtype})
            made.meta = {**node.meta, "val": node.meta["val"].to(dtype)}
            of_node = made
        node.replace_all_uses_with(of_node, lambda user: user.target is backward)


@contextmanager
def _what_fuses() -> Generator[None]:
    """torch's lists of operators with those that are fused here."""
    given = partitioners.get_default_op_list

    def lists() -> partitioners.OpTypes:
        known, again = given(), OrderedSet([*VIEWS, *ELEMENTWISE])
        return replace(
            known,
            fusible_ops=known.fusible_ops | again | OrderedSet(FUSED),
            recomputable_ops=known.recomputable_ops | again,
            view_ops=known.view_ops | OrderedSet(VIEWS),
        )

    partitioners.get_default_op_list = lists
    try:
        yield
    finally:
        partitioners.get_default_op_list = given
