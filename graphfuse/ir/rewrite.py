"""Rewriting: rules are plain functions from an op to its replacement, or None to decline.

`rebuild` is the only function that makes new IR out of old. A replacement may be an expression tree of
ops that are not placed yet; `rebuild` places them, operands first, where the replaced op stood.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from graphfuse.ir.core import Attr, Block, Func, Op, OpDef, Params, Trait, Value, walk
from graphfuse.ir.dense import Dense
from graphfuse.ir.limit import allows
from graphfuse.ir.passes import passing

log = logging.getLogger(__name__)

C = TypeVar("C")

Apply = TypeVar("Apply", bound="Callable[..., Replacement | None]")
Made = TypeVar("Made")

Replacement = Value | Op | tuple[Value, ...]
"""A value for the op's only result, an op to stand in its place, or one value per result."""

MAX_SWEEPS = 64
"""Real rules settle in a few: more means two that undo each other."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A named local rewrite, tried on ops of kind `root`. The docstring of `apply` is the equation it relies on."""

    name: str
    root: OpDef
    apply: Callable[[Op], Replacement | None]


@dataclass(frozen=True, slots=True)
class RuleWith(Generic[C]):
    """A rule that must know something of the whole function, such as how often each value is read."""

    name: str
    root: OpDef
    apply: Callable[[Op, C], Replacement | None]

    def given(self, context: C) -> Rule:
        """The rule for one function."""
        return Rule(self.name, self.root, lambda op: self.apply(op, context))


RULES: dict[str, Callable[..., Replacement | None]] = {}
"""Every function that `rule` or `rule_with` made a rule of, by name: what tests enumerate."""


def _made(kind: Callable[[str, OpDef, Apply], Made], roots: Sequence[OpDef]) -> Callable[[Apply], tuple[Made, ...]]:
    def make(apply: Apply) -> tuple[Made, ...]:
        name: str = apply.__name__
        assert name not in RULES, f"two rules are called {name}"
        RULES[name] = apply
        return tuple(kind(name, root, apply) for root in roots)

    return make


def rule(*roots: OpDef) -> Callable[[Callable[[Op], Replacement | None]], tuple[Rule, ...]]:
    """Make a `Rule` per root of a function."""
    return _made(Rule, roots)


def rule_with(*roots: OpDef) -> Callable[[Callable[[Op, C], Replacement | None]], tuple[RuleWith[C], ...]]:
    """Make a `RuleWith` per root of a function of an op and a context."""
    return _made(RuleWith, roots)


def given(rules: Sequence[RuleWith[C]], context: C) -> list[Rule]:
    """The rules for one function."""
    return [r.given(context) for r in rules]


def first_of(rules: Sequence[Rule], fired: list[str] | None = None) -> Callable[[Op], Replacement | None]:
    """What the first rule that does not decline puts in an op's place; its name is added to `fired`."""
    by_root: defaultdict[OpDef, list[Rule]] = defaultdict(list)
    for r in rules:
        by_root[r.root].append(r)

    def apply(op: Op) -> Replacement | None:
        for r in by_root.get(op.kind, ()):
            if (got := r.apply(op)) is not None and allows(r.name):
                log.debug("%s fired on %r", r.name, op)
                if fired is not None:
                    fired.append(r.name)
                return got
        return None

    return apply


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
    """Try the rules on each op once, operands first. Also returns the names of those that fired."""
    fired: list[str] = []
    once = first_of(rules, fired)

    def visit(op: Op) -> Replacement | None:
        # what a rule puts in place is tried again at once: most chains settle within one sweep
        got = once(op)
        for _ in range(MAX_SWEEPS):
            if not isinstance(got, Op) or (again := once(got)) is None:
                break
            got = again
        return got

    return rebuild(func, visit), fired


def use_counts(func: Func) -> dict[Value, int]:
    """How many times each value is read, in any block."""
    return Counter(v for op in func.walk() for v in op.operands)


def readers(func: Func) -> dict[Value, list[Op]]:
    """The ops that read each value, in any block, as often as they do."""
    found: dict[Value, list[Op]] = {}
    for op in func.walk():
        for v in op.operands:
            found.setdefault(v, []).append(op)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where an op stands."""

    block: Block
    index: int
    parent: Op | None


def places(func: Func) -> dict[Op, Place]:
    """Where every op stands, in textual order."""
    out: dict[Op, Place] = {}

    def visit(code: Block, parent: Op | None) -> None:
        for i, op in enumerate(code.ops):
            out[op] = Place(code, i, parent)
            for body in op.bodies:
                visit(body, op)

    visit(func.body, None)
    return out


@passing("any")
def dead_code(func: Func) -> Func:
    """Drop pure ops that nothing live reads."""
    live: set[Op | Params] = set()
    doomed: set[Op] = set()

    def mark(block: Block) -> None:
        # readers come first, so that a dead op keeps nothing alive: neither its operands nor what its bodies read
        for op in reversed(block.ops):
            if op not in live and op.has(Trait.PURE):
                doomed.add(op)
                continue
            live.update([v.owner for v in op.operands])
            for body in op.bodies:
                mark(body)

    mark(func.body)
    return rebuild(func, keep=lambda op: op not in doomed) if doomed else func


@passing("any")
def common_subexpressions(func: Func) -> Func:
    """Merge pure body-less ops that compute the same thing in the same block or in one that it sees."""
    scopes: list[tuple[dict[object, Op], bool]] = []

    def enter(isolated: bool) -> None:
        scopes.append(({}, isolated))

    def leave() -> None:
        scopes.pop()

    def visit(op: Op) -> Replacement | None:
        if not op.has(Trait.PURE) or op.bodies:
            return None
        key = (op.kind, op.operands, _frozen(op.attrs), op.types)
        for scope, isolated in reversed(scopes):
            if key in scope:
                return scope[key].results
            if isolated:
                break
        scopes[-1][0][key] = op
        return None

    return rebuild(func, visit, enter=enter, leave=leave)


def _frozen(attrs: Mapping[str, Attr]) -> object:
    # 0.0 and -0.0, 1 and True compare equal in Python but are different constants
    return tuple(sorted((k, _exact(v)) for k, v in attrs.items()))


def _exact(value: Attr) -> object:
    if isinstance(value, tuple):
        return ("tuple", tuple([_exact(v) for v in value]))
    if isinstance(value, float):
        return ("float", repr(value))
    return (type(value), _Weights(value) if isinstance(value, Dense) else value)


@dataclass(frozen=True)
class _Weights:
    """A few elements tell most weights of one shape apart, so that few are compared by digest."""

    value: Dense

    def __hash__(self) -> int:
        array: Any = self.value.array
        few = array.reshape(-1)[:8] if array.flags.c_contiguous else array[(slice(0, 2),) * array.ndim]
        return hash((self.value, few.tobytes()))


def _keep(_: Op) -> bool:
    return True


def _nothing(*_: bool) -> None:
    return None


def rebuild(
    func: Func,
    visit: Callable[[Op], Replacement | None] | None = None,
    keep: Callable[[Op], bool] = _keep,
    *,
    enter: Callable[[bool], None] = _nothing,
    leave: Callable[[], None] = _nothing,
    uses: dict[Value, int] | None = None,
    visit_pair: Callable[[Op, Op], Replacement | None] | None = None,
) -> Func:
    """Copy `func`, leaving out ops not kept and replacing others: the only way to change IR.

    `keep` sees the old op. `visit` sees the op with its operands rebuilt, and declines with None.
    `enter` and `leave` are called around each block; `enter` is told whether the block is isolated. An op that
    reads nothing new is not copied but shared with `func`. `uses` (from `use_counts`) is carried over to the
    new values, never too low; a value without an entry was made by `visit` and is read once.
    `visit_pair` is a `visit` that sees (the old op, the op with its operands rebuilt).
    """
    run = _Rebuild(_of_new(visit) if visit else visit_pair, keep, enter, leave, uses)
    body = run.block(func.body, isolated=True)
    return func if body is func.body else replace(func, body=body)


def _of_new(visit: Callable[[Op], Replacement | None]) -> Callable[[Op, Op], Replacement | None]:
    return lambda _, new: visit(new)


@dataclass
class _Rebuild:
    """One call of `rebuild`: which ops are placed, which of the old ones are not, and what stands for their results."""

    visit: Callable[[Op, Op], Replacement | None] | None
    keep: Callable[[Op], bool]
    enter: Callable[[bool], None]
    leave: Callable[[], None]
    uses: dict[Value, int] | None
    now: dict[Value, Value] = field(default_factory=dict[Value, Value])
    gone: set[Op | Params] = field(default_factory=set["Op | Params"])
    placed: set[Op] = field(default_factory=set[Op])

    def block(self, old: Block, *, isolated: bool) -> Block:
        self.enter(isolated)
        ops: list[Op] = []
        for op in old.ops:
            if self.keep(op):
                self.copy(op, ops)
            else:
                self.gone.add(op)
        self.leave()
        same = len(ops) == len(old.ops) and all(a is b for a, b in zip(ops, old.ops, strict=True))
        return old if same else Block(old.params, tuple(ops))

    def copy(self, old: Op, out: list[Op]) -> None:
        """Append `old` on rebuilt operands, or what `visit` puts in its place."""
        bodies = tuple(self.block(b, isolated=old.has(Trait.ISOLATED)) for b in old.bodies)
        gone = self.gone
        new, operands = old, old.operands
        if not gone.isdisjoint([v.owner for v in operands]):
            operands = tuple([self.now[v] if v.owner in gone else v for v in operands])
        if operands != old.operands or bodies != old.bodies:  # blocks are equal if they are the same
            new = Op(old.kind, operands, old.attrs, old.types, bodies, old.hints, old.loc)
        got = self.visit(old, new) if self.visit else None
        if got is not None:
            gone.add(old)
            self._replace(old, got, out)
            return
        self._append(new, out)
        if new is not old:
            gone.add(old)
            for before, after in zip(old.results, new.results, strict=True):
                self.now[before] = after
                if self.uses is not None:
                    self.uses[after] = self.uses.get(before, 0)

    def _append(self, op: Op, out: list[Op]) -> None:
        out.append(op)
        self.placed.add(op)
        for body in op.bodies:
            self.placed.update(walk(body))

    def _replace(self, old: Op, got: Replacement, out: list[Op]) -> None:
        if isinstance(got, Op) and not got.hints and old.hints and len(got.types) == len(old.types):
            got = replace(got, hints=old.hints)
        results = got.results if isinstance(got, Op) else got if isinstance(got, tuple) else (got,)
        roots = [got] if isinstance(got, Op) else [v.owner for v in results if isinstance(v.owner, Op)]
        renamed: dict[Op, Op] = {}
        for root in roots:
            self._place(root, old, out, renamed)
        for before, value in zip(old.results, results, strict=True):
            self.now[before] = after = _renamed(value, renamed)
            if self.uses is not None and after != before:
                self.uses[after] = self.uses.get(after, 0) + self.uses.get(before, 0)

    def _place(self, op: Op, origin: Op, out: list[Op], renamed: dict[Op, Op]) -> None:
        """Append `op` and whatever it needs that is not placed yet, giving each a location."""
        if op in self.placed or op in renamed:
            return
        for v in op.operands:
            if isinstance(v.owner, Op):
                self._place(v.owner, origin, out, renamed)
        operands = tuple(_renamed(v, renamed) for v in op.operands)
        if operands != op.operands or (op.loc is None and origin.loc is not None):
            new = replace(op, operands=operands, loc=op.loc or origin.loc)
            renamed[op] = new
            op = new
        self._append(op, out)


def _renamed(value: Value, renamed: dict[Op, Op]) -> Value:
    if isinstance(value.owner, Params) or value.owner not in renamed:
        return value
    return Value(renamed[value.owner], value.index)
