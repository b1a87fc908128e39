"""Launches that overlap (programmatic dependent launch).

`griddepcontrol.wait` returns at once in a launch that nobody let begin early, and `launch_dependents` does nothing if
the next launch waits for the end of this one anyway. So the same code serves launches of both kinds.
"""

from __future__ import annotations

from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import Kernel, lowers
from graphfuse.ir.core import Op


@lowers(gpu.wait_launches)
def lower_wait_launches(kernel: Kernel, op: Op) -> None:
    """One instruction, which keeps every access of memory on its side."""
    kernel.assembly("griddepcontrol.wait;")


@lowers(gpu.next_launch)
def lower_next_launch(kernel: Kernel, op: Op) -> None:
    """Once is enough for a block, and again does nothing."""
    kernel.assembly("griddepcontrol.launch_dependents;")
