"""Ops that are one instruction, without operands.

Launches that overlap (programmatic dependent launch): `griddepcontrol.wait` returns at once in a launch that nobody let
begin early, and `launch_dependents` does nothing if the next launch waits for the end of this one anyway. So the same
code serves launches of both kinds. The wait keeps every access of memory on its side; to let go once is enough for a
block, and again does nothing.
"""

from __future__ import annotations

from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.ir.core import Op

INSTRUCTIONS = {
    gpu.commit: "cp.async.commit_group;",  # groups are a thread's own
    gpu.tma_flush: "cp.async.bulk.wait_group.read 0;",  # every thread waits for its own; most have none
    gpu.wait_launches: "griddepcontrol.wait;",
    gpu.next_launch: "griddepcontrol.launch_dependents;",
}


@lowers(*INSTRUCTIONS)
def lower_instruction(kernel: Kernel, op: Op) -> None:
    """As the table says."""
    kernel.assembly(INSTRUCTIONS[op.kind])
