"""Gives every reader of cheap work on an input work of its own: the input is no more to read than the result.

    %c = graph.cast(%x) {to = f32} : tensor<8x512xf32>      // x: an input, bf16
    %d = graph.sub(%c, %mean) : tensor<8x512xf32>           // mean: a number for each column
    %q = graph.mul(%d, %d) : tensor<8x512xf32>              // is summed
    %n = graph.mul(%d, %scale) : tensor<8x512xf32>          // waits for the sum

%c and %d are made again for %n, from %x. So the kernel that sums stores neither, and may be that of columns.

Requires: nothing runs after it that finds equal values. Ensures: the same values. Cost: one walk.
"""

from __future__ import annotations

from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Op, Trait, Value, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, readers, rebuild
from graphfuse.symbolic import product

CHEAP = (graph.cast, graph.add, graph.sub, graph.neg, graph.max_, graph.min_)
"""No products: `fast` would round them once with what is added in one copy, and by themselves in another."""
MOST_OPS = 4
"""Ops between an input and what is made again."""
SMALL = 8
"""Elements for each of what is broadcast to them: reading that is nothing beside the input."""


@passing("graph")
def repeat_cheap(func: Func) -> Func:
    """Copies of cheap elementwise work on an input for all that read it."""
    shared = {v for v, users in readers(func).items() if len(users) > 1 and all(map(_joins, users)) and _length(v)}
    if not shared:
        return func

    def visit(old: Op, new: Op) -> Replacement | None:
        if not _joins(old) or not shared.intersection(old.operands):
            return None
        made: dict[Value, Value] = {}
        return remade(
            new, *(_copied(v, made) if o in shared else v for o, v in zip(old.operands, new.operands, strict=True))
        )

    return dead_code(rebuild(func, visit_pair=visit))


def _joins(op: Op) -> bool:
    """Whether an op computes in the kernel what it reads, once."""
    return op.has(Trait.ELEMENTWISE) or op.kind is graph.reduce


def _length(v: Value) -> int:
    """Cheap ops that make `v` of one input, no smaller; 0 if it is made otherwise."""
    op = v.op
    if op is None or op.kind not in CHEAP or len(op.types) != 1:
        return 0
    large = {u for u in op.operands if not _is_small(u)}
    if len(large) != 1:
        return 0
    (root,) = large
    if tensor_of(root).elem.bytes > tensor_of(v).elem.bytes:
        return 0
    before = 0 if root.op is None else _length(root)
    return before + 1 if (before or root.op is None) and before < MOST_OPS else 0


def _is_small(v: Value) -> bool:
    """Whether a value is a number, or broadcast from few."""
    if v.op is None or v.op.kind is graph.full:
        return v.op is not None
    if v.op.kind is not graph.broadcast:
        return False
    before, after = (product(tensor_of(u).shape) for u in (v.op.operands[0], v))
    return before == 1 or (isinstance(before, int) and isinstance(after, int) and SMALL * before <= after)


def _copied(v: Value, made: dict[Value, Value]) -> Value:
    """`v` made again, as far back as the input."""
    if v not in made:
        op = v.op
        again = op is not None and op.kind in CHEAP and not _is_small(v)
        made[v] = remade(op, *(_copied(u, made) for u in op.operands)).result if again and op is not None else v
    return made[v]
