"""A tile that is loaded at the end of a round for the next one is loaded at the beginning of that instead.

    %a0 = load_view(%p, %0)
    for %i = 0 to %n carrying %a from %a0: { use(%a); %b = load_view(%p, 64*%i + 64); yield(%b) }

becomes

    for %i = 0 to %n: { %a = load_view(%p, 64*%i); use(%a) }

Loading ahead by hand fixes how far ahead, and keeps tiles in registers; how far loads run ahead, and through which
memory, is for the machine to decide. What the last round loads, which nobody reads, is not loaded at all.

Requires: `views.py` ran. Ensures: no tile is carried that could as well be loaded where it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.blockopt.carried import without_carried
from graphfuse.blockopt.forms import Forms
from graphfuse.dialects import block, control
from graphfuse.dialects.pointers import READS
from graphfuse.ir.core import Func, Op, Value, attr_int, attr_ints
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import places, rebuild
from graphfuse.symbolic import Call, Dim, Expr, bounds, substitute, sym, symbols

SAME = ("shape", "strides", "other")
"""What both loads must agree on besides the pointer."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a round loads: `load` is the one at the end of the round before."""

    load: Op
    base: Dim
    limits: tuple[tuple[int, Dim], ...]


@passing("kernel")
def load_where_used(func: Func) -> Func:
    """Load carried tiles in the round that reads them."""
    if not any(op.kind is control.for_ for op in func.walk()):
        return func
    moved = _Mover(func).run()
    used = {v for op in moved.walk() for v in op.operands}
    return rebuild(moved, keep=lambda op: op.kind not in READS or op.result in used)


class _Mover(Remaker):
    def __init__(self, func: Func) -> None:
        super().__init__(func)
        self.forms = Forms(func)
        self.used = {v for op in func.walk() for v in op.operands}
        self.places = places(func)

    def op(self, op: Op) -> None:
        """Loops that carry such tiles are made again."""
        if op.kind is not control.for_ or not (moved := self._moved(op)):
            self.copy(op)
            return
        without_carried(self, op, moved, lambda _: {i: self._loaded(view) for i, view in moved.items()})

    def _loaded(self, view: _View) -> Value:
        self.builder.loc = view.load.loc
        operands = [
            self.new(view.load.operands[0]),
            self.forms.emit_in(self, view.base),
            *(self.forms.emit_in(self, n) for _, n in view.limits),
        ]
        attrs = {**view.load.attrs, "limited": tuple(d for d, _ in view.limits)}
        return self.builder.append(block.load_view.build(operands, attrs, loc=view.load.loc)).result

    # which tiles

    def _moved(self, loop: Op) -> dict[int, _View]:
        if any(map(block.may_write, loop.body.ops)):
            return {}
        found = {i: self._view(loop, i) for i, v in enumerate(loop.results) if v not in self.used}
        return {i: view for i, view in found.items() if view is not None}

    def _view(self, loop: Op, i: int) -> _View | None:
        first, ahead = loop.operands[2 + i].op, loop.body.terminator.operands[i].op
        if first is None or ahead is None or not (first.kind is ahead.kind is block.load_view):
            return None
        place, begun_at = self.places[loop], self.places[first]
        if begun_at.block is not place.block or self.places[ahead].block is not loop.body:
            return None
        if any(map(block.may_write, place.block.ops[begun_at.index + 1 : place.index])):
            return None  # memory may change on the way
        if first.operands[0] != ahead.operands[0] or any(first.attrs.get(k) != ahead.attrs.get(k) for k in SAME):
            return None
        counter, step = loop.body.params.values[0], attr_int(loop, "step", 1)
        ends = [self.forms.form(v) for v in (counter, *loop.operands[:2])]
        (base, limits), (begun, first_limits) = self._parts(ahead), self._parts(first)
        if base is None or begun is None or limits is None or first_limits is None or None in ends:
            return None
        now, low, high = (end.base for end in ends if end is not None)
        (name,) = symbols(now)
        inside = {v for op in loop.body.ops for v in op.results}
        names = symbols(base).union(*map(symbols, limits.values())) & set(self.forms.leaves)
        if not inside.isdisjoint(self.forms.leaves[n] for n in names):
            return None

        def moved(dim: Dim, to: Dim = now) -> Dim:
            return substitute(dim, {name: to - step})

        if moved(base, low) != begun:
            return None
        kept: list[tuple[int, Dim]] = []
        shape = attr_ints(ahead, "shape")
        for d in sorted({*limits, *first_limits}):
            if d in limits and d in first_limits and moved(limits[d], low) == first_limits[d]:
                kept.append((d, moved(limits[d])))
            elif d in first_limits or not self._never_cuts(moved(limits[d]), shape[d], name, high):
                return None
        return _View(ahead, moved(base), tuple(kept))

    def _parts(self, load: Op) -> tuple[Dim | None, dict[int, Dim] | None]:
        """Where a view begins, and its limits by dim."""
        base, *limits = (self.forms.form(v) for v in load.operands[1:])
        limited = attr_ints(load, "limited", ())
        known = {d: f.base for d, f in zip(limited, limits, strict=True) if f is not None}
        return (base.base if base else None), (known if len(known) == len(limits) else None)

    def _never_cuts(self, limit: Dim, extent: int, counter: str, high: Dim) -> bool:
        """Whether a limit that shrinks from round to round still leaves all in the last one."""
        change = substitute(limit, {counter: sym(counter) + 1}) - limit
        if not isinstance(change, int) or change > 0:
            return False
        last = _without_quotients(substitute(limit, {counter: high - 1}))
        return bounds(last, self.forms.ranges)[0] >= extent


def _without_quotients(dim: Dim) -> Dim:
    """Something no larger: `-128*floordiv(n, 64)` is at least `-2*n`."""
    if isinstance(dim, int):
        return dim
    out: Dim = 0
    for monomial, c in dim.terms:
        term: Dim = Expr(((monomial, c),)) if monomial else c
        if len(monomial) == 1 and c < 0:
            ((atom, power),) = monomial
            if isinstance(atom, Call) and atom.fn == "floordiv" and power == 1:
                n, by = atom.args
                if isinstance(by, int) and by > 0 and c % by == 0:
                    term = n * (c // by)
        out = out + term
    return out
