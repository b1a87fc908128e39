"""What a loop carries and changes by the same amount each time round is computed from the counter instead.

    for %i = 0 to %n carrying %p from %p0: { ...; %q = add(%p, %step); yield(%q) }

becomes

    for %i = 0 to %n: { %p = add(%p0, mul(%i, %step)); ... }

so that addresses are functions of the counter, which one can see through (`views.py`).

Requires: `invariants.py` ran. Ensures: no carried integer is its old value plus something invariant.
"""

from __future__ import annotations

from graphfuse.blockopt.carried import without_carried
from graphfuse.blockopt.uniform import is_uniform, number_of
from graphfuse.dialects import block, control
from graphfuse.ir.core import Func, Op, OpDef, Value, attr_int
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.types import I64, Scalar, Tile, Type
from graphfuse.symbolic import floordiv, maximum, sym

Part = tuple[Value, OpDef]
"""An amount, and whether it is added or subtracted."""


@passing("kernel")
def count_by_trips(func: Func) -> Func:
    """Replace carried integers, scalars or tiles, that grow by invariant amounts."""
    return _Counter(func).run() if any(op.kind is control.for_ for op in func.walk()) else func


class _Counter(Remaker):
    def op(self, op: Op) -> None:
        if op.kind is not control.for_ or not (steps := _steps(op)):
            self.copy(op)
            return
        lower, upper, *carried = op.operands
        step = attr_int(op, "step", 1)
        ends = [self.new(v) for v in (lower, upper)]

        def advanced(counter: Value) -> dict[int, Value]:
            trip = self._trip(counter, ends[0], step)
            return {i: self._advanced(self.new(carried[i]), trip, parts) for i, parts in steps.items()}

        without_carried(self, op, steps, advanced)
        trips = self.builder(
            block.index, *ends, names=("low", "high"),
            expr=maximum(floordiv(sym("high") - sym("low") + step - 1, step), 0),
        )  # fmt: skip
        for i, parts in steps.items():
            self.values[op.results[i]] = self._advanced(self.new(carried[i]), trips, parts)

    def _trip(self, counter: Value, lower: Value, step: int) -> Value:
        """How often the loop has come round."""
        if lower.op is not None and lower.op.kind is block.const:
            low = attr_int(lower.op, "value")
            if (low, step) == (0, 1):
                return counter
            return self.builder(block.index, counter, names=("at",), expr=floordiv(sym("at") - low, step))
        expr = floordiv(sym("at") - sym("low"), step)
        return self.builder(block.index, counter, lower, names=("at", "low"), expr=expr)

    def _advanced(self, init: Value, trips: Value, parts: list[Part]) -> Value:
        """`init + trips * (sum of parts)`."""
        out = init
        for part, combine in parts:
            by = self.new(part)
            elem = block.elem_of(init.type)
            times = trips if elem == I64 else self.builder(block.cast, trips, to=elem)
            if is_uniform(by):
                one = self._combined(block.mul, times, number_of(by, self.builder))
                total = self._filled(one, init.type)
            else:
                total = self._combined(block.mul, self._filled(times, init.type), by)
            out = self._combined(combine, out, total)
        return out

    def _combined(self, kind: OpDef, a: Value, b: Value) -> Value:
        """Arithmetic on what did not wrap does not wrap."""
        return self.builder(kind, a, b, nsw=True)

    def _filled(self, x: Value, type_: Type) -> Value:
        return self.builder(block.splat, x, shape=type_.shape) if isinstance(type_, Tile) else x


def _steps(loop: Op) -> dict[int, list[Part]]:
    """Carried integers that grow or shrink: which they are, and the invariant amounts of it."""
    inside = {v for op in loop.body.ops for v in op.results} | set(loop.body.params.values)
    out: dict[int, list[Part]] = {}
    for i, last in enumerate(loop.body.terminator.operands):
        param = loop.body.params.values[i + 1]
        elem = last.type.elem if isinstance(last.type, Tile) else last.type
        if not isinstance(elem, Scalar) or not elem.is_signed:
            continue
        parts: list[Part] = []
        while last != param and (op := last.op) is not None and op in loop.body.ops and _is_safe(op, elem):
            a, b = op.operands
            if b not in inside:
                parts.insert(0, (b, op.kind))
                last = a
            elif a not in inside and op.kind is block.add:
                parts.insert(0, (a, op.kind))
                last = b
            else:
                break
        if last == param and parts:
            out[i] = parts
    return out


def _is_safe(op: Op, elem: Scalar) -> bool:
    """Whether adding n times is adding n times as much: in 64 bits, as index arithmetic is, or where nothing wraps."""
    return op.kind in (block.add, block.sub) and (elem == I64 or op.attrs.get("nsw", False) is True)
