"""Masks of attention on a GPU that lie as none of torch's fused kernels reads them are copied so that one does.

`scaled_dot_product_attention` chooses its kernel while it is traced. A mask of floats that is one number repeated, as
transformers 4 makes it of a batch without padding, has a stride of 0 and leaves only the choice of its mathematics in
f32: two products with a softmax between them, where one operator says what is meant. The copy costs nothing here: it is
made in the attention's own kernel, or folded away (`fusion/products/own_masks.py`).
"""

from __future__ import annotations

import torch
from torch import fx

from graphfuse.torch.whole_attention import attention_calls


def lay_out_masks(gm: fx.GraphModule) -> None:
    """Make masks of Dynamo's graph dense along the keys where a GPU multiplies."""
    changed = False
    for node, given in attention_calls(gm):
        mask = given.get("attn_mask")
        if not isinstance(mask, fx.Node) or not _is_scattered(mask.meta.get("example_value")):
            continue
        with gm.graph.inserting_before(node):
            dense = gm.graph.call_method("contiguous", (mask,))
        fake = mask.meta["example_value"]
        with fake.fake_mode:
            value = torch.empty(fake.shape, dtype=fake.dtype, device=fake.device)
        dense.meta = {**mask.meta, "example_value": value}
        node.replace_input_with(mask, dense)
        changed = True
    if changed:
        gm.recompile()


def _is_scattered(mask: object) -> bool:
    """Whether neighbouring keys are not neighbours in a GPU's memory, as far as is known."""
    if not isinstance(mask, torch.Tensor) or mask.device.type != "cuda" or mask.dim() < 2:
        return False
    stride = mask.stride(-1)
    return isinstance(stride, int) and stride != 1
