"""How a graph for training becomes a forward and a backward: torch's least cut of what is kept, told what fuses here.

torch knows what Inductor fuses once it has decomposed it. Operators that have a lowering here stay whole, and what
such an operator reads would always be kept: a tanh for its detached self, f32 copies of halves for a group norm.
"""

from __future__ import annotations

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
    aten.linalg_vector_norm, aten.logsumexp, aten.native_batch_norm, aten.native_batch_norm_backward,
    aten.native_group_norm, aten.native_group_norm_backward, aten.native_layer_norm, aten.native_layer_norm_backward,
    aten.nll_loss2d_backward, aten.nll_loss2d_forward, aten.nll_loss_backward, aten.nll_loss_forward,
)  # fmt: skip
"""Kept, but what they read may be computed as they read it."""


def partition(joint: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward of a graph for both."""
    with _what_fuses():
        forward, backward = partitioners.min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **how)
    note_any_order(forward, backward)
    return forward, backward


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
