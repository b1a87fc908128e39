"""Typed kernels to block functions: statements, variables as SSA values, calls inlined."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from graphfuse.dialects import block, control
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_expr import roots
from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.kernel import Kernel, Parameter
from graphfuse.frontends.tc.liveness import Liveness, Variables, expression
from graphfuse.frontends.tc.lower_expr import ExprLowering, Lowered, PointerValue, pointee, scalar_of
from graphfuse.frontends.tc.structure import Structured, structured
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import Pointer
from graphfuse.ir.core import Attr, Block, Builder, Func, Params, Value
from graphfuse.ir.types import I64, Ptr

BODY_DEPTH = 4
"""What a nested body adds to the depth that is bounded."""


def lower_unit(unit: t.Unit, report: Reporter, *, debug: bool = False) -> tuple[Kernel, ...]:
    """The kernels of a checked file; those that cannot be lowered are reported and left out."""
    bodies: dict[t.FunctionDecl, Structured] = {}
    out: list[Kernel] = []
    for kernel in unit.kernels:
        try:
            out.append(_Lowering(report, bodies).kernel(kernel, unit.pools, debug=debug))
        except StopError:
            continue
    return tuple(out)


class _Lowering(ExprLowering):
    def __init__(self, report: Reporter, bodies: dict[t.FunctionDecl, Structured]) -> None:
        super().__init__(report)
        self._bodies = bodies
        self._liveness = Liveness()

    # functions

    def kernel(self, f: t.FunctionDecl, pools: Sequence[t.Variable], *, debug: bool) -> Kernel:
        used = (*f.params, *pools)
        types = [Ptr(pointee(v.type)) if isinstance(v.type, Pointer) else scalar_of(v.type) for v in used]
        params = Params(tuple(types), tuple(v.name for v in used))
        for v, value in zip(used, params.values, strict=True):
            self.env[v] = PointerValue(value) if isinstance(v.type, Pointer) else value
        self.statements(self._body_of(f).body, frozenset())
        self.code.append(control.return_(loc=self.loc(f.at)))
        # as a symbol of an object or of PTX
        name = f.name.encode("ascii", "backslashreplace").decode().replace("\\", "_")
        func = Func(name, self.code.block(params), _promises(f, debug=debug))
        return Kernel(func, tuple(Parameter(v.name, str(v.type), dict(v.attributes), v.pool_bytes) for v in used))

    def _body_of(self, f: t.FunctionDecl) -> Structured:
        if f not in self._bodies:
            self._bodies[f] = structured(f)
        return self._bodies[f]

    def call(self, x: t.Call) -> Lowered:
        """Bind the arguments, lower the body here, read its result."""
        args = [self.expr(a, p.name) for a, p in zip(x.args, x.function.params, strict=True)]
        hint, self.hint = self.hint, ""
        body = self._body_of(x.function)
        self.depth += BODY_DEPTH
        self.env.update(zip(x.function.params, args, strict=True))
        if body.result is not None:
            self.env.pop(body.result, None)
        self.statements(body.body, frozenset(() if body.result is None else (body.result,)))
        self.depth -= BODY_DEPTH
        self.hint = hint
        return self.const(0, I64, (), x.at) if body.result is None else self.current(body.result, x.at)

    # statements

    def statements(self, body: Sequence[t.Flat], live: Variables) -> None:
        """Lower statements; `live` is what is read after them."""
        for s, after in zip(body, self._liveness.live_after(body, live), strict=True):
            match s:
                case t.Eval():
                    self.expr(s.expr)
                case t.Branch():
                    self._branch(s, after)
                case t.While():
                    self._while(s, after)
                case t.Count():
                    self._count(s, after)

    @contextmanager
    def _nested(self) -> Generator[Builder]:
        """The code of a body of its own: its variables are forgotten after it."""
        env, code = dict(self.env), self.code
        self.code = Builder()
        self.depth += BODY_DEPTH
        yield self.code
        self.depth -= BODY_DEPTH
        self.env, self.code = env, code

    def _branch(self, s: t.Branch, live: Variables) -> None:
        condition = self.value(s.condition)
        changed = _ordered((self._liveness.sequence(s.then).may | self._liveness.sequence(s.other).may) & live)
        arms: list[tuple[Builder, list[Lowered]]] = []
        for arm in (s.then, s.other):
            with self._nested() as code:
                self.statements(arm, live)
                arms.append((code, [self.current(v, s.at) for v in changed]))
        slots = [_Slot(*ends) for ends in zip(changed, arms[0][1], arms[1][1], strict=True)]
        blocks: list[Block] = []
        for code, values in arms:
            outer, self.code = self.code, code
            flat = [x for slot, value in zip(slots, values, strict=True) for x in slot.parts(self, value, s.at)]
            code.append(control.yield_(*flat, loc=self.loc(s.at)))
            blocks.append(code.block(Params(())))
            self.code = outer
        if not slots and not blocks[1].ops[:-1]:
            del blocks[1]
        if not slots and len(blocks) == 1 and not blocks[0].ops[:-1]:
            return
        self._rebind(slots, self._place(control.if_, (condition,), tuple(blocks), s.at, _hints(slots)))

    def _place(
        self, kind: Any, operands: Sequence[Value], bodies: tuple[Block, ...], at: Token, hints: tuple[str, ...]
    ) -> tuple[Value, ...]:
        op = kind.build(tuple(operands), {}, loc=self.loc(at), bodies=bodies)
        return self.code.append(replace(op, hints=hints)).results

    def _rebind(self, slots: Sequence[_Slot], values: Sequence[Value]) -> None:
        rest = list(values)
        for slot in slots:
            self.env[slot.variable] = slot.take(rest)

    def _carried(self, changed: Variables, live: Variables, body: Sequence[t.Flat], at: Token) -> list[_Slot]:
        """The variables a loop hands from trip to trip."""
        slots: list[_Slot] = []
        sources: dict[t.Variable, tuple[list[t.Variable], bool]] | None = None
        for v in _ordered(changed & live):
            now = self.current(v, at)
            slot = _Slot(v, now, now)
            if isinstance(now, PointerValue):
                sources = _pointer_sources(body) if sources is None else sources
                slot.moves_root = not _stays_in_array(v, sources, self.env)
            slots.append(slot)
        return slots

    def _while(self, s: t.While, live: Variables) -> None:
        effect = self._liveness.statement(s)
        body_effect = self._liveness.sequence(s.body)
        # what the head sets and the body reads is handed from one to the other
        read = effect.gen | live | body_effect.gen
        slots = self._carried(effect.may, read, (*s.head, t.Eval(s.at, s.test), *s.body), s.at)
        first = self._handed(slots, s.at)
        types = tuple(x.type for x in first)
        around = effect.gen | live
        after_test = live | body_effect.gen | (around - body_effect.kill)
        hints = _hints(slots)
        head_params, body_params = Params(types, hints), Params(types, hints)
        with self._nested() as head:
            self._rebind(slots, head_params.values)
            self.statements(s.head, after_test | expression(s.test).gen)
            head.append(control.yield_(self.value(s.test), *self._handed(slots, s.at), loc=self.loc(s.at)))
        with self._nested() as body:
            self._rebind(slots, body_params.values)
            self.statements(s.body, around)
            body.append(control.yield_(*self._handed(slots, s.at), loc=self.loc(s.at)))
        bodies = (head.block(head_params), body.block(body_params))
        self._rebind(slots, self._place(control.while_, first, bodies, s.at, hints))

    def _handed(self, slots: Sequence[_Slot], at: Token) -> list[Value]:
        return [x for slot in slots for x in slot.parts(self, self.current(slot.variable, at), at)]

    def _count(self, s: t.Count, live: Variables) -> None:
        effect = self._liveness.sequence(s.body)
        start = self.value(t.Read(s.at, s.variable.type, s.variable))
        trips = self._trips(s, start)
        step = self.value(s.step)
        around = effect.gen | live
        slots = self._carried(effect.may, around, s.body, s.at)
        first = self._handed(slots, s.at)
        hints = _hints(slots)
        params = Params((I64, *(x.type for x in first)), ("trip", *hints))
        trip, *rest = params.values
        with self._nested() as body:
            self._rebind(slots, rest)
            self.env[s.variable] = self._counted(s, start, step, trip)
            self.statements(s.body, around)
            body.append(control.yield_(*self._handed(slots, s.at), loc=self.loc(s.at)))
        zero = self.const(0, I64, (), s.at)
        self._rebind(slots, self._place(control.for_, (zero, trips, *first), (body.block(params),), s.at, hints))
        if s.variable in live:
            done = self.emit(block.max_, trips, zero, at=s.at)
            self.env[s.variable] = self._counted(s, start, step, done)

    def _trips(self, s: t.Count, start: Value) -> Value:
        """How often a counting loop runs, as i64; what is not positive is never."""
        begin = start if start.type == I64 else self.emit(block.cast, start, at=s.at, to=I64)
        if s.down and isinstance(s.bound, t.Const) and s.bound.value == 0:
            distance = begin
        else:
            ends = (begin, self.wide(s.bound)) if s.down else (self.wide(s.bound), begin)
            distance = self.emit(block.sub, *ends, at=s.at, nsw=True)
        more = 1 if s.op in ("<=", ">=") else 0
        if isinstance(s.step, t.Const):
            more += int(s.step.value) - 1
            if more:
                distance = self.emit(block.add, distance, self.const(more, I64, (), s.at), at=s.at, nsw=True)
            if s.step.value == 1:
                return distance
            by = self.const(s.step.value, I64, (), s.at)
        else:
            # a step that is not positive would never end, or overflow
            one = self.const(1, I64, (), s.at)
            by = self.emit(block.max_, self.wide(s.step), one, at=s.at)
            distance = self.emit(block.add, distance, by, at=s.at, nsw=True)
            if not more:
                distance = self.emit(block.sub, distance, one, at=s.at, nsw=True)
        return self.emit(block.ELEMENTWISE["floordiv"], distance, by, at=s.at)

    def _counted(self, s: t.Count, start: Value, step: Value, trip: Value) -> Value:
        """The loop's variable after `trip` steps."""
        elem = scalar_of(s.variable.type)
        signed = elem.is_signed
        number = trip if elem == I64 else self.emit(block.cast, trip, at=s.at, to=elem)
        if not (isinstance(s.step, t.Const) and s.step.value == 1):
            number = self.emit(block.mul, number, step, at=s.at, nsw=signed)
        self.hint = s.variable.name
        out = self.emit(block.sub if s.down else block.add, start, number, at=s.at, nsw=signed)
        self.hint = ""
        return out


class _Slot:
    """A variable where control flow meets: a value, or of a pointer its offset and, if that may differ, its root."""

    def __init__(self, variable: t.Variable, then: Lowered, other: Lowered) -> None:
        self.variable, self.then = variable, then
        self.moves_root = False
        self._root: Value | None = None
        if isinstance(then, PointerValue) and isinstance(other, PointerValue):
            self._root = then.root
            self.moves_root = then.root != other.root

    def parts(self, lowering: ExprLowering, value: Lowered, at: Token) -> list[Value]:
        """What is handed on."""
        if isinstance(value, Value):
            return [value]
        offset = lowering.offset_of(value, self.variable.shape, at)
        if self.moves_root:
            return [value.root, offset]
        if value.root != self._root:
            lowering.unsupported(f"pointer {self.variable.name!r} changes its array in a loop", at)
        return [offset]

    def take(self, values: list[Value]) -> Lowered:
        """The variable's value out of what was handed on, which is used up."""
        if self._root is None:
            return values.pop(0)
        root = values.pop(0) if self.moves_root else self._root
        return PointerValue(root, values.pop(0))


def _hints(slots: Sequence[_Slot]) -> tuple[str, ...]:
    """A name for each part."""
    return tuple(slot.variable.name for slot in slots for _ in range(1 + slot.moves_root))


def _ordered(variables: Variables) -> list[t.Variable]:
    """In the order of the source, so that the same source gives the same code."""
    return sorted(variables, key=lambda v: v.serial)


def _stays_in_array(
    v: t.Variable, sources: dict[t.Variable, tuple[list[t.Variable], bool]], env: dict[t.Variable, Lowered]
) -> bool:
    """Whether all that is assigned to a pointer in a loop points into the array it points into before."""
    home = env.get(v)
    seen: set[t.Variable] = set()
    work = [v]
    while work:
        w = work.pop()
        if w in seen:
            continue
        seen.add(w)
        if w in sources:
            found, casts = sources[w]
            if casts:
                return False
            work += found
        before = env.get(w)
        if isinstance(before, PointerValue) and isinstance(home, PointerValue) and before.root != home.root:
            return False
    return True


def _pointer_sources(body: Sequence[t.Flat]) -> dict[t.Variable, tuple[list[t.Variable], bool]]:
    """For each pointer assigned in a loop: the variables it is made of, and whether a cast, a call or a load is too."""
    out: dict[t.Variable, tuple[list[t.Variable], bool]] = {}
    for node in t.walk(*body):
        if isinstance(node, t.Assign | t.Let) and isinstance(node.variable.elem, Pointer):
            found, casts = out.get(node.variable, ([], False))
            casts = casts or any(
                isinstance(x, t.PointerCast | t.Call) or (isinstance(x, t.Load) and isinstance(x.elem, Pointer))
                for x in t.walk(node.value)
            )
            out[node.variable] = ([*found, *roots(node.value)], casts)
    return out


def _promises(f: t.FunctionDecl, *, debug: bool) -> dict[str, Attr]:
    """The attributes of the block function: what the source promises of its parameters."""
    promised = [(v.name, n) for v in f.params for name, n in v.attributes.items() if name in ("multipleof", "aligned")]
    out: dict[str, Attr] = {"assume": tuple(promised)}
    for name in ("readonly", "writeonly", "noalias"):
        if listed := tuple(v.name for v in f.params if name in v.attributes):
            out[name] = listed
    tables = [(v.name, v.type.to) for v in f.params if isinstance(v.type, Pointer)]
    if entries := tuple((name, pointee(to)) for name, to in tables if isinstance(to, Pointer)):
        out["tables"] = entries
    return {**out, "debug": True} if debug else out
