"""Instructions by family: each file has a table from opcode to the function that builds a step."""

from __future__ import annotations

from collections.abc import Callable

from graphfuse.gpu.emulator.decode import Decoder
from graphfuse.gpu.emulator.gang import Step
from graphfuse.gpu.emulator.instructions import (
    asynchronous,
    atomics,
    barrier,
    calls,
    cluster,
    control,
    convert,
    floating,
    integer,
    memory,
    mma,
    shuffle,
    tma,
    wgmma,
)
from graphfuse.gpu.emulator.machine import Machine

Builder = Callable[[Decoder], Step]

TABLE: dict[str, Builder] = {
    **integer.TABLE,
    **convert.TABLE,
    **memory.TABLE,
    **control.TABLE,
    **shuffle.TABLE,
    **atomics.TABLE,
    **barrier.TABLE,
    **asynchronous.TABLE,
    **mma.TABLE,
    **wgmma.TABLE,
    **cluster.TABLE,
    **calls.TABLE,
    **{name: build for name, build in floating.TABLE.items() if name not in integer.TABLE},
}


def build(d: Decoder) -> Step:
    """The step that executes an instruction, guard included."""
    builder, types = TABLE.get(d.name), d.types
    if d.name in floating.TABLE and types and (types[-1].is_float or types[-1].element in ("f16", "bf16", "f32")):
        builder = floating.TABLE[d.name]
    if d.name == "st" and "async" in d.mods:
        builder = tma.st_async
    if builder is None:
        raise d.error("unknown instruction")
    step = builder(d)
    if d.name not in control.OWN_GUARD and not (d.name == "mbarrier" and d.mods[0].endswith("wait")):
        step = d.guarded(step)
    return wgmma.watched(d, step)


def leave(machine: Machine, warp: int) -> None:
    """A warp ends: what it left in flight must not matter, and barriers expect fewer."""
    asynchronous.leave(machine, warp)
    control.recount(machine, machine.layout.slot_of(warp))
