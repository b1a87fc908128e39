"""Which kernels a GPU launches together: those whose blocks are alike, and those that are shorter than a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.blockgen.together import ATTRS
from graphfuse.dialects import block, control, graph
from graphfuse.fusion.regions.dataflow import root_of
from graphfuse.fusion.regions.traffic import bytes_read_by, stored
from graphfuse.ir.core import Func, Op, Trait, attr_int, tensor_of
from graphfuse.symbolic import Ranges, typical
from graphfuse.targets.machine import Machine

KINDS = frozenset({"pointwise", "reduction", "contraction", "scatter"})
"""Of regions that may be made of loads, arithmetic and stores alone."""
TINY, SHORT, LONG = 1, 8, 64
"""Launches that a kernel takes. Tiny ones go with any that have as many warps, short ones with those of about as
many, others with their like up to the long ones, for which a launch is nothing. By hand, with `benchmarks.decode`."""
KEPT_BYTES = 4 << 20
"""Of what a kernel makes, and reads of what others made: kernels move to each other, and these are kept meanwhile."""
MOVES = frozenset({block.load, block.load_view, block.store, block.store_view})
PLAIN = MOVES | {control.for_, control.if_, control.return_, control.yield_}
"""What such kernels consist of, beside what has no effects."""
MOST = 8
"""Kernels of a launch: their code is loaded by all multiprocessors."""


def groups_of(machine: Machine, ranges: Ranges) -> Callable[[Sequence[Op]], Sequence[Sequence[Op]]]:
    """For a machine: of regions that do not wait for each other, those that are better launched together."""
    return _Groups(machine, ranges).of


@dataclass(frozen=True)
class _Blocks:
    op: Op
    launches: float
    """How long it takes."""
    warps: int

    def goes_with(self, other: _Blocks) -> bool:
        """Whether it may be launched with one that takes no less, or no fewer warps."""
        if self.launches <= TINY:
            return self.warps <= 2 * other.warps
        if not self.warps <= 2 * other.warps <= 4 * self.warps:
            return False
        return other.launches <= SHORT or self.op.attrs["kind"] == other.op.attrs["kind"]


class _Groups:
    def __init__(self, machine: Machine, ranges: Ranges) -> None:
        self.machine, self.ranges = machine, ranges
        self._funcs: dict[str, Func] = {}

    def of(self, regions: Sequence[Op]) -> list[list[Op]]:
        """Long ones first, to which tiny ones are added; of several tiny ones, those with most warps."""
        launch = self.machine.kernels.launch
        timed = [(op, ns / launch) for op in regions if (ns := self._ns(op)) <= LONG * launch]
        if len(timed) < 2:
            return []
        blocks = [_Blocks(op, ns, warps) for op, ns in timed if (warps := self._warps(op)) is not None]
        groups: list[list[_Blocks]] = []
        for b in sorted(blocks, key=lambda b: (-b.launches if b.launches > TINY else 0, -b.warps)):
            group = next((g for g in groups if len(g) < MOST and b.goes_with(g[0])), None)
            if group is None:
                groups.append([b])
            else:
                group.append(b)
        return [[b.op for b in g] for g in groups if len(g) > 1]

    def _ns(self, op: Op) -> float:
        """How long it takes to move what a region reads and writes; infinity for what is never launched together."""
        written = sum((tensor_of(stored(v)).nbytes for v in op.body.terminator.operands), 0)
        made = [v for v in op.operands if (root := root_of(v).op) is not None and root.kind is graph.region]
        kept = written + sum((tensor_of(v).nbytes for v in made), 0)
        if op.attrs["kind"] not in KINDS or typical(kept, self.ranges) > KEPT_BYTES:
            return float("inf")
        return typical(bytes_read_by(op, self.ranges) + written, self.ranges) * self.machine.kernels.byte

    def _warps(self, op: Op) -> int | None:
        """Of a block; None if blocks do more than to load, compute and store, or all of the launch counts."""
        name = str(op.attrs["kernel"])
        if name not in self._funcs:
            self._funcs[name] = lower_region(op, name, self.ranges, self.machine, GPU_EMITTERS)
        func = self._funcs[name]
        is_plain = all(op.has(Trait.PURE) or op.kind in PLAIN for op in func.walk())
        return attr_int(func, "warps", 4) if is_plain and func.attrs.keys() <= ATTRS else None
