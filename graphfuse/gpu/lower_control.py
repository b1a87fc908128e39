"""Loops and branches: as everywhere, and what memory they leave unordered."""

from __future__ import annotations

from graphfuse.codegen import control as shared
from graphfuse.dialects import block, control, effects, gpu, moves
from graphfuse.gpu.kernel import STAGING, Kernel, lowers
from graphfuse.ir.core import Block, Op, Value, attr_dim, attr_dims, attr_int, attr_strs, tile_of, walk
from graphfuse.ir.types import Ptr
from graphfuse.symbolic import substitute, sym

ATOMICS = (effects.atomic, effects.atomic_cas)
STAGED = (gpu.convert_layout, moves.sort, block.reduce, block.scan, block.dot)
"""Ops that may pass data between threads through staging memory."""
MOVED = (block.offset, block.pointer_cast)
"""What gives a pointer into the memory of its operand."""


def touched(kernel: Kernel, body: Block, loop: Op | None = None) -> dict[str, str]:
    """What a body may leave unordered: memory it accesses, each with `r`, `w` or `rw`.

    Of a loop's body, without memory that only one store touches, each time elsewhere: no iteration meets another.
    """
    out: dict[str, set[str]] = {}
    accesses: dict[str, list[Op]] = {}
    for op in walk(body):
        if op.kind in STAGED:
            for root in STAGING:
                out.setdefault(root, set()).update("rw")
        if op.kind is gpu.load_shared and op.operands[0] in kernel.values:
            out.setdefault(kernel.pointer(op.operands[0]).root, set()).add("r")
        for v in op.operands:
            if isinstance(v.type, Ptr) and (root := _root(kernel, v)) is not None:
                kind = "w" if op.kind in (block.store, block.store_view) else "a" if op.kind in ATOMICS else "r"
                out.setdefault(root, set()).add(kind)
                if kind == "a":
                    out.update((place, {"r", "w"}) for place in STAGING)
                accesses.setdefault(root, []).append(op)
    for root, ops in accesses.items():
        if loop and root and len(ops) == 1 and ops[0] in body.ops and _moves_on(ops[0], loop):
            del out[root]
    return {root: "".join(sorted(kinds)) for root, kinds in out.items()}


def _root(kernel: Kernel, pointer: Value) -> str | None:
    """Which memory a pointer points into; of one that a body has yet to make, what is known of it by then."""
    while pointer not in kernel.values and pointer.op is not None and pointer.op.kind in MOVED:
        pointer = pointer.op.operands[0]
    if pointer in kernel.values:
        return kernel.pointer(pointer).root
    return None if pointer.op is not None and pointer.op.kind is block.alloc else ""


def _moves_on(op: Op, loop: Op) -> bool:
    """Whether a store writes past, or before, all that it wrote in the iterations before."""
    if op.kind is not block.store_view:
        return False
    start, tile = op.operands[1].owner, tile_of(op.operands[2])
    strides = attr_dims(op, "strides")
    counter = loop.body.params.values[0]
    if not isinstance(start, Op) or start.kind is not block.index or counter not in start.operands:
        return False
    inside = {v for other in walk(loop.body) for v in other.results}
    inside |= {v for other in walk(loop.body) for b in other.bodies for v in b.params.values}
    inside |= set(loop.body.params.values[1:])
    if not inside.isdisjoint(start.operands):
        return False
    names = attr_strs(start, "names")
    step, expr = attr_int(loop, "step", 1), attr_dim(start, "expr")
    moved = substitute(expr, {n: sym(n) + step for n, v in zip(names, start.operands, strict=True) if v == counter})
    advance, span = moved - expr, 1
    for n, stride in zip(tile.shape, strides, strict=True):
        if not isinstance(stride, int):
            return False
        span += (n - 1) * abs(stride)
    return isinstance(advance, int) and abs(advance) >= span


def _merge(*states: dict[str, str]) -> dict[str, str]:
    roots = {r for s in states for r in s}
    return {r: "".join(sorted({c for s in states for c in s.get(r, "")})) for r in sorted(roots)}


@lowers(control.for_)
def lower_for(kernel: Kernel, op: Op) -> None:
    """An iteration follows another one, or what came before the loop."""
    before = dict(kernel.dirty)
    kernel.dirty = _merge(before, touched(kernel, op.body, op))
    shared.lower_for(kernel, op)
    kernel.dirty = _merge(before, kernel.dirty)


@lowers(control.while_)
def lower_while(kernel: Kernel, op: Op) -> None:
    """As `lower_for`: the condition follows what came before the loop, or the body."""
    before = dict(kernel.dirty)
    kernel.dirty = _merge(before, *(touched(kernel, b) for b in op.bodies))
    shared.lower_while(kernel, op)
    kernel.dirty = _merge(before, kernel.dirty, *(touched(kernel, b) for b in op.bodies))


@lowers(control.if_)
def lower_if(kernel: Kernel, op: Op) -> None:
    """Either side follows what came before the branch; after it, what either left is unordered."""
    before = dict(kernel.dirty)

    def begin() -> None:
        kernel.dirty = dict(before)

    shared.emit_if(kernel, op, begin)
    kernel.dirty = _merge(before, kernel.dirty, *(touched(kernel, b) for b in op.bodies))
