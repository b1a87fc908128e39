"""Which keys a query may see, as far as indices alone decide: causal masks, windows, limits.

    z = add(mul(s, 0.125), select(le(key, query), 0, -inf))

A mask that is added is made a choice, and what scales all scores is taken out in front:

    z = 0.125 * select(le(key, query), s, -inf)

The condition then holds only where `query - key >= 0`: blocks of keys without such a pair need not be visited, and in
blocks that have nothing else the condition is true, which leaves `s`. Masks of large negative numbers in place of -inf
are taken for -inf where every query provably sees some key, as they then round to the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from graphfuse.blockgen.index import Index, IndexSpace, coefficient
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.movement import shape_of, sources
from graphfuse.dialects import graph
from graphfuse.dialects.softmax import number
from graphfuse.ir.core import Op, Trait, Value, attr_int, made_of
from graphfuse.ir.types import F32
from graphfuse.symbolic import Atom, Call, Dim, Expr, maximum, minimum, of_atom, substitute, symbols, with_atoms

Condition = Value | bool
"""A tensor of bools, or one that is the same everywhere."""

MASK = "mask"
"""The attribute of a function that says why its mask bounds no walk over keys."""
NEVER = -65504.0
"""The lowest f16, which masks of halves have: scores with it vanish beside any that are nearer to each other."""
_LT, _LE, _GT, _GE, _NOT = (graph.ELEMENTWISE[n] for n in ("lt", "le", "gt", "ge", "not"))
_ADD, _SUB, _MUL, _DIV, _AND, _OR = (graph.ELEMENTWISE[n] for n in ("add", "sub", "mul", "div", "and", "or"))


@dataclass(frozen=True)
class Scores:
    """`z = scale * tile`; `whole` is `tile` where all of `limits` hold for a whole block."""

    tile: Value
    whole: Value
    scale: float
    limits: tuple[Dim, ...]
    """Dims over a query and a key that are not negative where the query may see the key."""
    reason: str
    """Why nothing is known of a mask that is there; else nothing."""
    is_near: bool
    """Whether finite scores are products and what is made of each: no mask has moved them to the end of f32."""


def analyse(z: Value, scores: Value, index: Index, space: IndexSpace, at: tuple[str, str], *, unscale: bool) -> Scores:
    """What is known of `z`, computed from `scores`, at an index over the variables `at`: query and key.

    The scale is 1 unless `unscale`, which costs `z` a rounding.
    """
    chosen = _as_choice(z, -math.inf, scores)
    limits = _limits_of(chosen, index, space)
    if not limits:
        every = _as_choice(z, NEVER, scores)
        found = _limits_of(every, index, space)
        if found and _each_sees_one(every, index, space, at):
            chosen, limits = every, found
    tile, scale = _unscaled(chosen) if unscale else (chosen, 1.0)
    limits = tuple(d for d in limits if _is_usable(d, at))
    reason = "" if limits or not _reads_mask(z, scores) else "no mask by indices is among what is added or chosen"
    whole = _Assuming(index, space, limits).value(tile)
    return Scores(tile, whole, scale, limits, reason, _is_near(tile, scores))


def _is_near(v: Value, scores: Value) -> bool:
    op = v.op
    if v == scores or op is None:
        return v == scores
    if op.kind is graph.select:
        return number(op.operands[2]) == -math.inf and _is_near(op.operands[1], scores)
    factors = op.operands[1:] if op.kind in (_MUL, _DIV) else ()
    is_alone = len(op.operands) == 1 or (len(factors) == 1 and number(factors[0]) is not None)
    return is_alone and op.has(Trait.ELEMENTWISE) and _is_near(op.operands[0], scores)


def _is_usable(limit: Dim, at: tuple[str, str]) -> bool:
    query, key = at
    return all(coefficient(d, key) in (1, -1) and isinstance(coefficient(d, query), int) for d in _ends(limit, query))


def _ends(limit: Dim, query: str) -> tuple[Dim, Dim]:
    """The limit with 0 for remainders of the query, and with the largest ones.

    Where heads that share keys are rows of one tile, what is left of a row's number is the query's.
    """

    def end(atom: Atom, *, largest: bool) -> Dim:
        if isinstance(atom, Call) and atom.fn == "mod" and query in symbols(atom.args[0]):
            return atom.args[1] - 1 if largest else 0
        return of_atom(atom)

    return with_atoms(limit, partial(end, largest=False)), with_atoms(limit, partial(end, largest=True))


def _reads_mask(z: Value, scores: Value) -> bool:
    """Whether anything but numbers is added to the scores, or chosen in their place."""
    stack, seen = [z], set[Value]()
    while stack:
        v = stack.pop()
        if v in seen or v == scores:
            continue
        seen.add(v)
        if not isinstance(v.owner, Op):
            return True
        stack += v.owner.operands
    return False


# masks that are added


def _as_choice(v: Value, never: float, scores: Value) -> Value:
    """`v` with masks, added or chosen, as `select(visible, x, -inf)`; numbers up to `never` are masks."""
    op = v.op
    if op is None or v == scores:
        return v
    if op.kind is _ADD:
        for x, mask in (op.operands, op.operands[::-1]):
            if scores in made_of(x) and (seen := _visible(mask, never)) is not None:
                return _choice(seen, _as_choice(x, never, scores))
    elif op.kind is graph.select:
        condition, a, b = op.operands
        if (n := number(b)) is not None and n <= never:
            return _choice(condition, _as_choice(a, never, scores))
        if (n := number(a)) is not None and n <= never:
            return _choice(_not(condition), _as_choice(b, never, scores))
    elif op.kind in (_MUL, _DIV) and scores in made_of(op.operands[0]) and (number(op.operands[1]) or 0) > 0:
        new = _as_choice(op.operands[0], never, scores)
        return v if new == op.operands[0] else op.kind.build([new, op.operands[1]], op.attrs).result
    return v


def _choice(seen: Condition, x: Value) -> Value:
    if seen is True:
        return x
    lowest = graph.full(value=-math.inf, shape=shape_of(x), elem=element_of(x)).result
    return lowest if seen is False else graph.select(seen, x, lowest).result


def _visible(mask: Value, never: float) -> Condition | None:
    """Where a mask is 0 rather than `never` or less; None where it may be anything else."""
    op = mask.op
    if op is None:
        return None
    if (n := number(mask)) is not None:
        return True if n == 0 else False if n <= never else None
    if op.kind is graph.select:
        condition, a, b = op.operands
        then, other = _visible(a, never), _visible(b, never)
        if then is None or other is None:
            return None
        return _or(_and(condition, then), _and(_not(condition), other))
    if op.kind is graph.cast and element_of(op.operands[0]).is_float:
        return _visible(op.operands[0], never)
    if op.has(Trait.MOVEMENT) and len(op.operands) == 1 and op.kind is not graph.pad:
        inner = _visible(op.operands[0], never)
        return op.kind.build([inner], op.attrs).result if isinstance(inner, Value) else inner
    return None


def _and(a: Condition, b: Condition) -> Condition:
    if isinstance(a, bool):
        return b if a else False
    return (a if b else False) if isinstance(b, bool) else _AND(a, b).result


def _or(a: Condition, b: Condition) -> Condition:
    return _not(_and(_not(a), _not(b))) if isinstance(a, bool) or isinstance(b, bool) else _OR(a, b).result


def _not(a: Condition) -> Condition:
    if isinstance(a, bool):
        return not a
    return a.op.operands[0] if a.op is not None and a.op.kind is _NOT else _NOT(a).result


# scales


def _unscaled(v: Value) -> tuple[Value, float]:
    """`v / scale` and the scale: a positive number that all scores are multiplied with, through masks."""
    op = v.op
    if op is None or element_of(v) != F32:
        return v, 1.0
    if op.kind in (_MUL, _DIV):
        pairs = (op.operands, op.operands[::-1]) if op.kind is _MUL else (op.operands,)
        for x, c in pairs:
            n = number(c)
            if n is not None and math.isfinite(n) and n > 0:
                return x, n if op.kind is _MUL else 1 / n
    if op.kind is graph.select and number(op.operands[2]) == -math.inf:
        condition, a, b = op.operands
        inner, scale = _unscaled(a)
        return (graph.select(condition, inner, b).result, scale) if scale != 1 else (v, scale)
    return v, 1.0


# what indices decide


@dataclass(frozen=True)
class _Facts:
    """A condition implies that all of `limits` are at least 0; it is nothing else if `exact`."""

    limits: tuple[Dim, ...] = ()
    exact: bool = False
    never: bool = False
    """The condition holds nowhere."""


def _limits_of(v: Value, index: Index, space: IndexSpace) -> tuple[Dim, ...]:
    """Dims that are not negative where `v`, made of choices, is not -inf."""
    op = v.op
    if op is None:
        return ()
    if op.kind is graph.select and number(op.operands[2]) == -math.inf:
        here = _facts(op.operands[0], index, space, holds=True)
        return tuple(dict.fromkeys((*here.limits, *_limits_of(op.operands[1], index, space))))
    if op.kind in (_MUL, _DIV):
        return _limits_of(op.operands[0], index, space)
    return ()


def _each_sees_one(v: Value, index: Index, space: IndexSpace, at: tuple[str, str]) -> bool:
    """Whether indices alone decide what is masked, and every query sees the first key, or the one at its own place."""
    op = v.op
    limits: list[Dim] = []
    while op is not None and op.kind in (graph.select, _MUL, _DIV):
        if op.kind is graph.select:
            facts = _facts(op.operands[0], index, space, holds=True)
            if not facts.exact or facts.never:
                return False
            limits += facts.limits
        op = op.operands[1 if op.kind is graph.select else 0].op
    query, key = at
    keys = space.var_bounds[key][1]
    places: list[Dim] = [0]
    if isinstance(own := index[[str(i) for i in index].index(query)], Expr) and space.nonnegative(keys - own):
        places.append(own)
    return any(all(space.nonnegative(substitute(d, {key: p})) for d in limits) for p in places)


def _facts(v: Value, index: Index, space: IndexSpace, *, holds: bool) -> _Facts:
    """What a condition, or its opposite, says about indices."""
    op = v.op
    if op is None:
        return _Facts()
    if (n := number(v)) is not None:
        return _Facts(exact=True, never=bool(n) != holds)
    if op.kind is _NOT:
        return _facts(op.operands[0], index, space, holds=not holds)
    if op.kind in (_AND, _OR):
        both = [_facts(o, index, space, holds=holds) for o in op.operands]
        return _joined(*both) if (op.kind is _AND) == holds else _either(*both)
    if op.kind in (_LT, _LE, _GT, _GE):
        limit = _compared(op, index, space)
        return _Facts() if limit is None else _Facts((limit if holds else limit * -1 - 1,), exact=True)
    moved = _moved(op, index, space)
    return _Facts() if moved is None else _facts(*moved, space, holds=holds)


def _joined(a: _Facts, b: _Facts) -> _Facts:
    """Both hold."""
    limits = tuple(dict.fromkeys((*a.limits, *b.limits)))
    opposed = any(isinstance(s := x + y, int) and s < 0 for x in a.limits for y in b.limits)
    return _Facts(limits, a.exact and b.exact, a.never or b.never or opposed)


def _either(a: _Facts, b: _Facts) -> _Facts:
    """One of both holds."""
    if a.never or b.never:
        return b if a.never else a
    kept = [x for x in a.limits if _implied(x, b.limits)] + [y for y in b.limits if _implied(y, a.limits)]
    weakest = tuple(dict.fromkeys(kept))
    exact = a.exact and b.exact and len(a.limits) == len(b.limits) == 1 and len(weakest) == 1
    return _Facts(weakest, exact)


def _implied(limit: Dim, by: Sequence[Dim]) -> bool:
    """Whether one of `by` being at least 0 means that `limit` is."""
    return any(isinstance(more := limit - d, int) and more >= 0 for d in by)


def _compared(op: Op, index: Index, space: IndexSpace) -> Dim | None:
    """A dim that is at least 0 exactly where a comparison of integers holds."""
    a, b = (_integer(v, index, space) for v in op.operands)
    if a is None or b is None:
        return None
    less, strict = (b - a, op.kind is _LT) if op.kind in (_LT, _LE) else (a - b, op.kind is _GT)
    return less - 1 if strict else less


def _integer(v: Value, index: Index, space: IndexSpace) -> Dim | None:
    """An integer tensor's element as a dim over the variables of the index."""
    op = v.op
    if op is None or not element_of(v).is_integer:
        return None
    if op.kind is graph.full:
        value = op.attrs["value"]
        return value if isinstance(value, int | Expr) else None
    if op.kind is graph.iota:
        return index[attr_int(op, "axis")]
    if op.kind in (_ADD, _SUB, _MUL):
        a, b = (_integer(o, index, space) for o in op.operands)
        if a is None or b is None:
            return None
        return a + b if op.kind is _ADD else a - b if op.kind is _SUB else a * b
    if op.kind is graph.cast and element_of(v).bits >= 32:
        return _integer(op.operands[0], index, space)
    moved = _moved(op, index, space)
    return None if moved is None else _integer(*moved, space)


def _moved(op: Op, index: Index, space: IndexSpace) -> tuple[Value, Index] | None:
    """What and where the one element is that a movement op has at an index; None if that depends."""
    found = sources(op, index, space)
    return None if found is None or len(found) != 1 or found[0].where else (found[0].value, found[0].index)


class _Assuming:
    """Values made again where limits hold."""

    def __init__(self, index: Index, space: IndexSpace, limits: tuple[Dim, ...]) -> None:
        self.index, self.space, self.limits = index, space, limits

    def value(self, v: Value) -> Value:
        """`v` without the choices that the limits decide."""
        op = v.op
        if op is None or not self.limits:
            return v
        if op.kind is graph.select and number(op.operands[2]) == -math.inf:
            seen = self.condition(op.operands[0])
            return _choice(seen, self.value(op.operands[1]))
        return v

    def condition(self, v: Value) -> Condition:
        """A condition without the parts that the limits decide."""
        op = v.op
        if op is None:
            return v
        yes, no = (_facts(v, self.index, self.space, holds=h) for h in (True, False))
        if yes.exact and not yes.never and all(_implied(d, self.limits) for d in yes.limits):
            return True
        if no.exact and not no.never and all(_implied(d, self.limits) for d in no.limits):
            return False
        if op.kind is _NOT:
            return _not(self.condition(op.operands[0]))
        if op.kind in (_AND, _OR):
            return (_and if op.kind is _AND else _or)(*(self.condition(o) for o in op.operands))
        moved = _moved(op, self.index, self.space) if op.kind in (graph.broadcast, graph.reshape) else None
        if moved is not None:
            inner = _Assuming(moved[1], self.space, self.limits).condition(moved[0])
            return op.kind.build([inner], op.attrs).result if isinstance(inner, Value) else inner
        return v


# blocks of keys


@dataclass(frozen=True)
class Span:
    """For rows `first..last` of queries: keys from `begin` to before `end` may be seen, those between all are."""

    begin: Dim
    all_from: Dim
    all_to: Dim
    end: Dim


def span(limits: Sequence[Dim], at: tuple[str, str], rows: tuple[Dim, Dim], keys: Dim, space: IndexSpace) -> Span:
    """Bounds of the keys that rows `rows[0]..rows[1]` (inclusive) see, for dims that must not be negative."""
    query, key = at
    begin: Dim = 0
    all_from: Dim = 0
    all_to, end = keys, keys
    for limit in limits:
        ends = _ends(limit, query)
        slope = coefficient(ends[0], query)
        assert isinstance(slope, int)
        lows, highs = (
            [substitute(d, {query: r, key: 0}) for d in ends] for r in (rows if slope >= 0 else rows[::-1])
        )  # fmt: skip
        low, high = minimum(*lows), maximum(*highs)
        if coefficient(ends[0], key) == -1:  # key <= low .. high
            all_to, end = minimum(all_to, low + 1), minimum(end, high + 1)
        else:  # key >= -high .. -low
            begin, all_from = maximum(begin, high * -1), maximum(all_from, low * -1)
    return Span(*(space.simplify(d) for d in (begin, all_from, all_to, end)))
