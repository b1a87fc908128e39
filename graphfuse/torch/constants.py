"""Numbers that torch holds as tensors become `full`, so that what follows from them is known when compiling.

A copy of `torch.tensor(1.0)` becomes `full([], 1.0)` on the device of all that read it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

aten = torch.ops.aten
_COPIES = (aten.lift_fresh_copy.default, aten.lift_fresh.default)


def inline_numbers(gm: fx.GraphModule) -> None:
    """Replace the copies of constant tensors of one element, which nothing writes to in a functional graph."""
    copies = [n for n in gm.graph.nodes if n.op == "call_function" and n.target in _COPIES]
    found = [(n, held) for n in copies if (held := _number(gm, n)) is not None]
    for node, held in found:
        fake, device = node.meta["val"], _device_of_readers(node)
        with unset_fake_temporarily():
            value = held.item()
        with gm.graph.inserting_before(node), fake.fake_mode:
            attrs: dict[str, Any] = {"dtype": fake.dtype, "device": device, "pin_memory": False}
            number = gm.graph.call_function(aten.full.default, (list(fake.shape), value), attrs)
            number.meta = {**node.meta, "val": torch.empty_strided(fake.shape, fake.stride(), **attrs)}
        source = node.all_input_nodes[0]
        node.replace_all_uses_with(number)
        gm.graph.erase_node(node)
        if not source.users:
            gm.graph.erase_node(source)
    if found:
        gm.recompile()


def _number(gm: fx.GraphModule, copy: fx.Node) -> torch.Tensor | None:
    """The tensor of one element that is copied."""
    source = copy.args[0]
    if not isinstance(source, fx.Node) or source.op != "get_attr" or not isinstance(copy.meta.get("val"), FakeTensor):
        return None
    held = getattr(gm, str(source.target), None)
    if not isinstance(held, torch.Tensor) or isinstance(held, FakeTensor) or held.numel() != 1:
        return None
    return held if held.device.type == "cpu" and not held.is_complex() else None


def _device_of_readers(node: fx.Node) -> torch.device:
    """The device that a number of no dims is needed on: operators take it from a CPU to wherever they compute."""
    fake = node.meta["val"]
    values = [r.meta.get("val") for r in node.users]
    devices = {v.device if isinstance(v, torch.Tensor) else None for v in values}
    if fake.dim() or len(devices) != 1 or None in devices:
        return fake.device
    (device,) = devices
    assert device is not None
    return device
