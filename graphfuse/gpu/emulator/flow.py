"""Where control goes and where it comes together: immediate post-dominators of branches."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from graphfuse.gpu.emulator.parse import Instruction, Kernel


def targets(kernel: Kernel, instruction: Instruction) -> list[int]:
    """Where a branch may go when taken."""
    name = instruction.operands[-1].name
    labels = kernel.branch_targets.get(name, (name,))
    return [kernel.labels[label] for label in labels]


def loops(kernel: Kernel) -> list[int]:
    """The branches that may go back."""
    return [pc for pc, i in enumerate(kernel.code) if i.name in ("bra", "brx") and min(targets(kernel, i)) <= pc]


def reconvergence(kernel: Kernel) -> dict[int, int]:
    """For each branch the instruction where its sides meet again; -1 where only the kernel's end is common."""
    end = len(kernel.code)
    successors = [_successors(kernel, pc, end) for pc in range(end)]
    jumps = [pc for pc in range(end) if successors[pc] != [pc + 1]]
    leaders = sorted({0, end, *(s for pc in jumps for s in (*successors[pc], pc + 1))})
    last = {leader: following - 1 for leader, following in pairwise(leaders)}
    # which blocks are on every way to the end, a bit for each; more than all where nothing has been found to end
    bit = {leader: 1 << i for i, leader in enumerate(leaders)}
    behind = {**dict.fromkeys(leaders, (2 << len(leaders)) - 1), end: bit[end]}
    before: dict[int, int] = {}
    while behind != before:
        before = dict(behind)
        for leader, pc in reversed(last.items()):
            behind[leader] = bit[leader] | reduce(int.__and__, (behind[s] for s in successors[pc]))
    # the first of those behind a block is the one that has all the others behind it
    first = {found: leader for leader, found in behind.items()}
    branches = {leader: pc for leader, pc in last.items() if kernel.code[pc].name in ("bra", "brx")}
    return {
        pc: meet if (meet := first.get(behind[leader] ^ bit[leader], end)) < end else -1
        for leader, pc in branches.items()
    }


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
