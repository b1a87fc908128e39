"""Reductions that do not wait for one another stand side by side, so that one walk over the windows makes them all.

    %s = reduce(%x); %m = div(%s, %n); %q = mul(%x, %y); %t = reduce(%q)

becomes

    %q = mul(%x, %y); %s = reduce(%x); %t = reduce(%q); %m = div(%s, %n)

What a reduction is made of goes in front of the first one, loads only if nothing between can change what they read.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.cpu.windows.plan import MOST, is_virtual, overwrites, tiles, walks_along
from graphfuse.dialects import block
from graphfuse.dialects.pointers import READS
from graphfuse.ir.core import Block, Func, Op, Params, Trait, Value
from graphfuse.ir.remake import Remaker


def side_by_side(func: Func) -> Func:
    """The same ops in another order."""
    if sum(op.kind is block.reduce for op in func.walk()) < 2:
        return func
    return _Gatherer(func).run()


class _Gatherer(Remaker):
    def __init__(self, func: Func) -> None:
        body = Block(func.body.params, self._gathered(func, func.body.ops))
        super().__init__(Func(func.name, body, func.attrs, func.dims))

    def body(self, body: Block, params: Params) -> Block:
        return super().body(Block(body.params, self._gathered(self.func, body.ops)), params)

    def _gathered(self, func: Func, ops: Sequence[Op]) -> tuple[Op, ...]:
        left, at = list(ops), 0
        while at < len(left):
            if left[at].kind is block.reduce:
                at = self._gather(func, left, at)
            at += 1
        return tuple(left)

    def _gather(self, func: Func, ops: list[Op], first: int) -> int:
        """Move to the reduction at `first` those that can be; where the last of them is."""
        last = first
        for at in range(first + 1, len(ops)):
            if last + 1 - first == MOST:
                break
            if not walks_along(ops[first], ops[at]):
                continue
            between = ops[first:at]
            made_of = _made_of(func, between, ops[at])
            if made_of is None:
                continue
            group = between[: last + 1 - first]
            rest = [op for op in between[len(group) :] if op not in made_of]
            ops[first : at + 1] = [*made_of, *group, ops[at], *rest]
            first, last = first + len(made_of), last + len(made_of) + 1
        return last


def _made_of(func: Func, between: Sequence[Op], op: Op) -> list[Op] | None:
    """Those ops between two reductions that the second needs; None if one of them cannot be moved in front."""
    needed: set[Value] = set(op.operands)
    out: list[Op] = []
    for i in reversed(range(len(between))):
        other = between[i]
        if needed.isdisjoint(other.results):
            continue
        is_load = other.kind in READS
        if is_load and any(overwrites(func, o, other) for o in between[:i]):
            return None
        plain = is_virtual(other) or (other.has(Trait.PURE) and not any(True for _ in tiles(other.operands)))
        if other.bodies or not (plain or is_load):
            return None
        needed.update(other.operands)
        out.insert(0, other)
    return out
