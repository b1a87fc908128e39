"""Where control goes and where it comes together: immediate post-dominators of branches."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import networkx as nx

from graphfuse.gpu.emulator.parse import Instruction, Kernel


def targets(kernel: Kernel, instruction: Instruction) -> list[int]:
    """Where a branch may go when taken."""
    name = instruction.operands[-1].name
    labels = kernel.branch_targets.get(name, (name,))
    return [kernel.labels[label] for label in labels]


def reconvergence(kernel: Kernel) -> dict[int, int]:
    """For each branch the instruction where its sides meet again; -1 where only the kernel's end is common."""
    end = len(kernel.code)
    successors = [_successors(kernel, pc, end) for pc in range(end)]
    jumps = [pc for pc in range(end) if successors[pc] != [pc + 1]]
    leaders = sorted({0, end, *(s for pc in jumps for s in (*successors[pc], pc + 1))})
    last = {leader: following - 1 for leader, following in pairwise(leaders)}
    backwards: nx.DiGraph[int] = nx.DiGraph([(s, leader) for leader, pc in last.items() for s in successors[pc]])
    backwards.add_node(end)
    # the end's dominators are post-dominators; what never ends has none
    meets = cast("dict[int, int]", nx.immediate_dominators(backwards, end))
    branches = {leader: pc for leader, pc in last.items() if kernel.code[pc].name in ("bra", "brx")}
    return {pc: meet if (meet := meets.get(leader, end)) < end else -1 for leader, pc in branches.items()}


def _successors(kernel: Kernel, pc: int, end: int) -> list[int]:
    instruction = kernel.code[pc]
    following = [min(pc + 1, end)]
    match instruction.name:
        case "bra":
            taken = targets(kernel, instruction)
            return taken if not instruction.guard else [*taken, *following]
        case "brx":
            return targets(kernel, instruction)
        case "ret" | "exit" | "trap":
            return [end] if not instruction.guard else [end, *following]
        case _:
            return following
