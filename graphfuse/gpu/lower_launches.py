"""Launches that overlap (programmatic dependent launch), and the L2 cache filled meanwhile.

`griddepcontrol.wait` returns at once in a launch that nobody let begin early, and `launch_dependents` does nothing if
the next launch waits for the end of this one anyway. So the same code serves launches of both kinds.
"""

from __future__ import annotations

from graphfuse.dialects import block, gpu
from graphfuse.gpu.kernel import GLOBAL, Kernel, lowers
from graphfuse.gpu.lower_hopper import flag_of, when
from graphfuse.gpu.lower_memory import view_accesses
from graphfuse.ir.core import Op
from graphfuse.ir.types import Tile


@lowers(gpu.wait_launches)
def lower_wait_launches(kernel: Kernel, op: Op) -> None:
    """One instruction, which keeps every access of memory on its side."""
    kernel.assembly("void", "griddepcontrol.wait;", "")


@lowers(gpu.next_launch)
def lower_next_launch(kernel: Kernel, op: Op) -> None:
    """Once is enough for a block, and again does nothing."""
    kernel.assembly("void", "griddepcontrol.launch_dependents;", "")


@lowers(gpu.prefetch)
def lower_prefetch(kernel: Kernel, op: Op) -> None:
    """As the load, an instruction for each of its vectors."""
    load = block.load_view.build(op.operands, op.attrs)
    type_ = load.result.type
    assert isinstance(type_, Tile)
    for access in view_accesses(kernel, load, type_, load.operands[2:], stores=False):
        assert access.address.type == GLOBAL, "what other launches use is global"
        fetch = f"prefetch.global.L2 [$0+{access.displacement}];"
        if access.predicate is None:
            kernel.assembly("void", fetch, "l", access.address)
        else:
            kernel.assembly("void", when(fetch, 1), "l,r", access.address, flag_of(kernel, access.predicate))
