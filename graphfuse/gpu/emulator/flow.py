"""Where control goes and where it comes together: immediate post-dominators of branches."""

from __future__ import annotations

import functools

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
    leaders = sorted({0, *(s for pc in range(end) if successors[pc] != [pc + 1] for s in (*successors[pc], pc + 1))})
    leaders = [b for b in leaders if b < end]
    block_of = {b: i for i, b in enumerate(leaders)}
    count = len(leaders)
    last = [(leaders[i + 1] if i + 1 < count else end) - 1 for i in range(count)]
    edges = [[block_of.get(s, count) for s in successors[last[i]]] for i in range(count)]
    dominator = _post_dominators(edges, count)
    result: dict[int, int] = {}
    for i in range(count):
        if kernel.code[last[i]].name in ("bra", "brx"):
            meet = dominator[i]
            result[last[i]] = leaders[meet] if 0 <= meet < count else -1
    return result


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


def _post_dominators(edges: list[list[int]], count: int) -> list[int]:
    """Immediate post-dominator of each block (Cooper, Harvey, Kennedy); `count` is the exit, -1 for no way there."""
    order = _postorder_from_exit(edges, count)
    rank = {block: i for i, block in enumerate(order)}
    dominator = [-1] * (count + 1)
    dominator[count] = count

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = dominator[a]
            while rank[b] < rank[a]:
                b = dominator[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == count:
                continue
            known = [s for s in edges[block] if dominator[s] >= 0]
            if known and dominator[block] != (found := functools.reduce(meet, known)):
                dominator[block], changed = found, True
    return dominator


def _postorder_from_exit(edges: list[list[int]], count: int) -> list[int]:
    """Blocks that reach the exit, exit last."""
    predecessors: list[list[int]] = [[] for _ in range(count + 1)]
    for block, nexts in enumerate(edges):
        for following in nexts:
            predecessors[following].append(block)
    order: list[int] = []
    seen = {count}
    stack = [(count, iter(predecessors[count]))]
    while stack:
        block, rest = stack[-1]
        following = next((p for p in rest if p not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(predecessors[following])))
    return order
