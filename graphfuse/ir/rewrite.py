"""Rewriting: rules are plain functions from an op to its replacement, or None to decline.

`rebuild` is the only function that makes new IR out of old. A replacement may be an expression tree of
ops that are not placed yet; `rebuild` places them, operands first, where the replaced op stood.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphfuse.ir.core import Attr, Block, Func, Op, OpDef, Params, Trait, Value, walk

log = logging.getLogger(__name__)

Replacement = Value | Op | tuple[Value, ...]
"""A value for the op's only result, an op to stand in its place, or one value per result."""

MAX_SWEEPS = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A named local rewrite, tried on ops of kind `root`. Its docstring is the equation it relies on."""

    root: OpDef
    apply: Callable[[Op], Replacement | None]

    @property
    def name(self) -> str:
        return self.apply.__name__


def rule(*roots: OpDef) -> Callable[[Callable[[Op], Replacement | None]], tuple[Rule, ...]]:
    """Make a `Rule` per root of a function."""
    return lambda apply: tuple(Rule(root, apply) for root in roots)


def rewrite(func: Func, rules: Sequence[Rule]) -> Func:
    """Apply `rules` until none fires, then drop dead code."""
    fired: list[str] = []
    for _ in range(MAX_SWEEPS):
        func, fired = sweep(func, rules)
        if not fired:
            return dead_code(func)
        func = dead_code(func)
    raise AssertionError(f"rules do not terminate on @{func.name}: {sorted(set(fired))} keep firing")


def sweep(func: Func, rules: Sequence[Rule]) -> tuple[Func, list[str]]:
    """Try the rules once on each op, operands first. Also returns the names of those that fired."""
    by_root: defaultdict[OpDef, list[Rule]] = defaultdict(list)
    for r in rules:
        by_root[r.root].append(r)
    fired: list[str] = []

    def visit(op: Op) -> Replacement | None:
        for r in by_root.get(op.kind, ()):
            if (got := r.apply(op)) is not None:
                log.debug("%s fired on %r", r.name, op)
                fired.append(r.name)
                return got
        return None

    return rebuild(func, visit), fired


def dead_code(func: Func) -> Func:
    """Drop pure ops that nothing live reads."""
    live: set[Value] = set()
    doomed: set[Op] = set()
    for op in reversed(list(func.walk())):
        if op.has(Trait.PURE) and live.isdisjoint(op.results):
            doomed.add(op)
            # ops inside a dead body come later in walk order, so they have been counted already;
            # they vanish with the body, and whatever only they read goes on the next call
        else:
            live.update(op.operands)
    return rebuild(func, keep=lambda op: op not in doomed) if doomed else func


def common_subexpressions(func: Func) -> Func:
    """Merge pure body-less ops that compute the same thing in the same or an enclosing block."""
    scopes: list[dict[object, Op]] = []

    def enter() -> None:
        scopes.append({})

    def leave() -> None:
        scopes.pop()

    def visit(op: Op) -> Replacement | None:
        if not op.has(Trait.PURE) or op.bodies:
            return None
        key = (op.kind, op.operands, _frozen(op.attrs), op.types)
        for scope in scopes:
            if key in scope:
                return scope[key].results
        scopes[-1][key] = op
        return None

    return rebuild(func, visit, enter=enter, leave=leave)


def _frozen(attrs: object) -> object:
    assert isinstance(attrs, dict)
    # 0.0 and -0.0, 1 and True compare equal in Python but are different constants
    return tuple(sorted((k, _exact(v)) for k, v in attrs.items()))


def _exact(value: Attr) -> object:
    if isinstance(value, tuple):
        return ("tuple", tuple(_exact(v) for v in value))
    return (type(value).__name__, _Ordered(value))


@dataclass(frozen=True)
class _Ordered:
    """Compares by exact value, and sorts (keys of equal name never get as far as comparing values)."""

    value: object

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Ordered):
            return NotImplemented
        if isinstance(self.value, float) and isinstance(other.value, float):
            return repr(self.value) == repr(other.value)
        return self.value == other.value

    def __hash__(self) -> int:
        return hash(repr(self.value)) if isinstance(self.value, float) else hash(self.value)


def _decline(_: Op) -> Replacement | None:
    return None


def _keep(_: Op) -> bool:
    return True


def _nothing() -> None:
    return None


def rebuild(
    func: Func,
    visit: Callable[[Op], Replacement | None] = _decline,
    keep: Callable[[Op], bool] = _keep,
    *,
    enter: Callable[[], None] = _nothing,
    leave: Callable[[], None] = _nothing,
) -> Func:
    """Copy `func`, leaving out ops not kept and replacing others: the only way to change IR.

    `keep` sees the old op. `visit` sees the op with its operands rebuilt, and declines with None.
    `enter` and `leave` are called around each block.
    """
    now: dict[Value, Value] = {}
    placed: set[Op] = set()

    def block(old: Block) -> Block:
        enter()
        params = replace(old.params)
        now.update(zip(old.params.values, params.values, strict=True))
        ops: list[Op] = []
        for op in old.ops:
            if keep(op):
                copy(op, ops)
        leave()
        return Block(params, tuple(ops))

    def copy(old: Op, out: list[Op]) -> None:
        bodies = tuple(block(b) for b in old.bodies)
        operands = tuple(now[v] for v in old.operands)
        new = Op(old.kind, operands, old.attrs, old.types, bodies, old.hints, old.loc)
        got = visit(new)
        if got is None:
            got = new
        elif isinstance(got, Op) and not got.hints and old.hints and len(got.types) == len(old.types):
            got = replace(got, hints=old.hints)
        results = got.results if isinstance(got, Op) else got if isinstance(got, tuple) else (got,)
        roots = [got] if isinstance(got, Op) else [v.owner for v in results if isinstance(v.owner, Op)]
        renamed: dict[Op, Op] = {}
        for root in roots:
            place(root, old, out, renamed)
        now.update(zip(old.results, (_renamed(v, renamed) for v in results), strict=True))

    def place(op: Op, origin: Op, out: list[Op], renamed: dict[Op, Op]) -> None:
        """Append `op` and whatever it needs that is not placed yet, giving each a location."""
        if op in placed or op in renamed:
            return
        for v in op.operands:
            if isinstance(v.owner, Op):
                place(v.owner, origin, out, renamed)
        operands = tuple(_renamed(v, renamed) for v in op.operands)
        if operands != op.operands or (op.loc is None and origin.loc is not None):
            new = replace(op, operands=operands, loc=op.loc or origin.loc)
            renamed[op] = new
            op = new
        placed.add(op)
        for body in op.bodies:
            placed.update(walk(body))
        out.append(op)

    return replace(func, body=block(func.body))


def _renamed(value: Value, renamed: dict[Op, Op]) -> Value:
    if isinstance(value.owner, Params) or value.owner not in renamed:
        return value
    return Value(renamed[value.owner], value.index)
