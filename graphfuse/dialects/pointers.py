"""Where pointers of a block function come from, and what is done through them."""

from __future__ import annotations

from collections.abc import Iterator

from graphfuse.dialects import block, effects
from graphfuse.ir.core import Func, Op, Trait, Value
from graphfuse.ir.types import Ptr

READS = (block.load, block.load_view, block.load_box)
WRITES = (block.store, block.store_view, effects.atomic, effects.atomic_cas)


def accesses(func: Func) -> Iterator[tuple[Op, frozenset[str]]]:
    """Every op that reads or writes memory, with the parameters that its pointer may have come from."""
    of = roots(func)
    for op in func.walk():
        if op.kind in READS or op.kind in WRITES:
            yield op, of.get(op.operands[0], frozenset())


def entries(name: str) -> str:
    """What stands for the memory at the addresses that a parameter points at."""
    return f"{name}[]"


def roots(func: Func) -> dict[Value, frozenset[str]]:
    """The parameters that each pointer may have come from. Any that control flow takes may be any that it gives.

    What an address is at that was read through a parameter is called `entries` of it, and is not known otherwise.
    """
    of = {v: frozenset((v.hint,)) for v in func.params if isinstance(v.type, Ptr)}
    ops = list(func.walk())
    before = -1
    while before != (before := sum(map(len, of.values()))):  # loops hand pointers back to where they begin
        for op in ops:
            if op.kind is block.pointer_at:
                table = op.operands[0].op
                names = of.get(table.operands[0], ()) if table is not None and table.kind in READS else ()
                of[op.result] = frozenset(map(entries, names))
                continue
            taken = [*op.operands, *(v for b in op.bodies for v in b.terminator.operands)]
            given = [*op.results, *(v for b in op.bodies for v in b.params.values)]
            if not (op.bodies or op.has(Trait.PURE)) or not any(isinstance(v.type, Ptr) for v in given):
                continue
            found = frozenset[str]().union(*(of.get(v, ()) for v in taken))
            of.update((v, of.get(v, frozenset()) | found) for v in given if isinstance(v.type, Ptr))
    return of
