"""What runs on a GPU as a CUDA graph: torch's trees of graphs record it, and share one pool of memory between them.

Recording needs one GPU, and inputs that stay where they are, or are copied: parameters are told apart by
`static_input_indices` of AOTAutograd's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from graphfuse.runtime.gpu.arrays import ALIGNMENT
from graphfuse.torch.compiled_part import keeps_graph

Boxed = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Recording:
    """How a graph is recorded."""

    device: int
    static: tuple[int, ...]
    """Inputs that keep their addresses."""
    mutated: tuple[int, ...]
    is_backward: bool
    is_inference: bool
    outputs: int
    numbers: tuple[int, ...]
    """Inputs that are numbers: there is a recording for each set of values."""
    overwrites: bool = False
    """Whether it destroys what the forward kept, unless the backward may run again: that is not recorded then."""


def recording_of(
    gm: fx.GraphModule, kind: str, static: Sequence[int], externs: Iterable[fx.Node]
) -> tuple[Recording | None, str]:
    """How a graph is recorded of which torch runs `externs`; else None, and why it is not."""
    values = [n.meta.get("val") for n in gm.graph.nodes]
    devices = {v.device for v in values if isinstance(v, torch.Tensor)}
    if len(devices) != 1 or (device := next(iter(devices))).type != "cuda":
        return None, f"its tensors are on {', '.join(sorted(map(str, devices))) or 'no device'}"
    if name := unsafe(externs) or chosen(gm.graph.nodes):
        return None, f"{name} cannot be recorded"
    mutated = _mutated(gm)
    if not set(mutated) <= set(static):
        return None, "it changes an input that may lie elsewhere in the next call"
    (outputs,) = next(n for n in gm.graph.nodes if n.op == "output").args
    index = torch.cuda.current_device() if device.index is None else device.index
    places = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    numbers = tuple(i for i, v in enumerate(places) if isinstance(v, (int, torch.SymInt)))
    return Recording(index, tuple(static), mutated, kind == "bw", kind == "inference", len(outputs), numbers), ""


def unsafe(externs: Iterable[fx.Node]) -> str:
    """An operator that cannot be captured: its result's size depends on data, or torch says so."""
    tags = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    tags.add(getattr(torch.Tag, "cudagraph_unsafe", torch.Tag.dynamic_output_shape))  # not every torch has it
    for node in externs:
        if not isinstance(node.target, torch._ops.OpOverload) or tags.isdisjoint(node.target.tags):
            continue
        if node.target in _INDEXED and not any(n.meta["val"].dtype in _MASKS for n in _indices(node)):
            continue  # its size depends on data for masks only
        return node.name
    return ""


_INDEXED = (torch.ops.aten.index.Tensor, torch.ops.aten._unsafe_index.Tensor)
_MASKS = (torch.bool, torch.uint8)


def _indices(node: fx.Node) -> Iterator[fx.Node]:
    _, indices = node.args
    assert isinstance(indices, (list, tuple))
    return (n for n in indices if isinstance(n, fx.Node))


_CHOOSE = ("cond", "while_loop", "while_loop_stack_output")
"""Operators that choose what runs by what is computed: a recording would always do as the first run did."""


def chosen(nodes: Iterable[fx.Node]) -> str:
    """One of them that chooses."""
    return next((n.name for n in nodes if getattr(n.target, "__name__", "") in _CHOOSE), "")


def _mutated(gm: fx.GraphModule) -> tuple[int, ...]:
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    written = {n.args[0] for n in gm.graph.nodes if n.target is torch.ops.aten.copy_.default}
    return tuple(i for i, n in enumerate(places) if n in written)


def recorded(run: Boxed, recording: Recording, count: int) -> Boxed:
    """A boxed function of `count` inputs that runs once, then is recorded and replayed, for each set of numbers.

    The first run loads code and takes memory that stays, which a recording must not see. Before it replays,
    torch copies inputs that are not aligned; where one of them is changed, nothing is replayed: the copy would change.
    """
    from torch._inductor.cudagraph_trees import cudagraphify_impl  # it imports much of inductor
    from torch._inductor.cudagraph_utils import PlaceholderInfo

    is_number = set(recording.numbers)
    made = cudagraphify_impl(
        run,
        [1 if i in is_number else None for i in range(count)],
        recording.static,
        device_index=recording.device,
        is_backward=recording.is_backward,
        is_inference=recording.is_inference,
        stack_traces=[None] * recording.outputs,
        placeholders=tuple(PlaceholderInfo(f"input {i}", None, [], None) for i in range(count)),
        mutated_input_idxs=recording.mutated,
    )
    ready: set[tuple[int, ...]] = set()

    def call(inputs: list[Any]) -> Any:
        numbers = tuple(inputs[i] for i in recording.numbers)
        kept = recording.overwrites and keeps_graph()
        if numbers in ready and not kept and not any(inputs[i].data_ptr() % ALIGNMENT for i in recording.mutated):
            return made(inputs)
        ready.add(numbers)
        if recording.is_backward:
            begin_backward(recording.device)
        return run(inputs)

    return call


def begin_backward(device: int) -> None:
    """Tell the recordings of forwards that a backward runs that is none itself."""
    from torch._inductor.cudagraph_trees import get_manager

    manager = get_manager(device, create_if_none_exists=False)
    if manager is not None:
        manager.set_to_running_backward()


def telling(run: Boxed, device: int) -> Boxed:
    """A backward that is not recorded, behind a forward that may be."""

    def call(inputs: list[Any]) -> Any:
        begin_backward(device)
        return run(inputs)

    return call
