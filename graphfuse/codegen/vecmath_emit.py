"""Straight-line vector code as LLVM IR text: owns types, constants and operators of `vecmath`.

It knows no mathematics. A `Value` is one SSA value with Python's operators; a `Code` is the
function being written. Lanes are uniform: each value has as many as its function, one being a
scalar type. Elements: f32 f64 i32 i64 i1, and in scalar functions any type as LLVM has it.
"""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

_LLVM_ELEM: Final = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "i1": "i1"}
INTEGER_OF: Final = {"f32": "i32", "f64": "i64"}
_FLOAT_OF: Final = {"i32": "f32", "i64": "f64"}
INLINED: Final = "alwaysinline nounwind willreturn memory(none)"
_FLOAT_OPS: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _binary(op: str) -> Callable[["Value", "Operand"], "Value"]:
    return lambda left, right: left.code.binary(op, left, right)


def _comparison(predicate: str) -> Callable[["Value", "Operand"], "Value"]:
    return lambda left, right: left.code.compare(predicate, left, right)


@dataclass(frozen=True)
class Value:
    """An SSA value of `code`; the operators append the instruction they stand for."""

    code: "Code"
    ref: str
    elem: str

    __add__ = _binary("add")
    __sub__ = _binary("sub")
    __mul__ = _binary("mul")
    __truediv__ = _binary("div")
    __and__ = _binary("and")
    __or__ = _binary("or")
    __xor__ = _binary("xor")
    __lshift__ = _binary("shl")
    __rshift__ = _binary("lshr")  # zeros come in
    # comparisons are ordered (false on nan), except `is_not`
    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")

    def __rsub__(self, other: float) -> "Value":
        return self.code.binary("sub", self.code.constant(other, self.elem), self)

    def __rtruediv__(self, other: float) -> "Value":
        return self.code.binary("div", self.code.constant(other, self.elem), self)

    def __neg__(self) -> "Value":
        return self.code.emit(self.elem, f"fneg {self.typed}")

    def is_(self, other: "Operand") -> "Value":
        """Lanes that are equal."""
        return self.code.compare("eq", self, other)

    def is_not(self, other: "Operand") -> "Value":
        """Lanes that differ, or of which one is nan."""
        return self.code.compare("ne", self, other)

    def __invert__(self) -> "Value":
        return self.code.binary("xor", self, -1)

    @property
    def typed(self) -> str:
        """The operand with its type, as instructions take it."""
        return f"{self.code.type(self.elem)} {self.ref}"

    def bits(self) -> "Value":
        """The same bits as integers."""
        return self.code.cast("bitcast", self, INTEGER_OF[self.elem])

    def as_float(self) -> "Value":
        """The same bits as floating point numbers."""
        return self.code.cast("bitcast", self, _FLOAT_OF[self.elem])

    def abs(self) -> "Value":
        """The magnitude."""
        return self.code.intrinsic("fabs", self)

    def sqrt(self) -> "Value":
        """The square root, correctly rounded."""
        return self.code.intrinsic("sqrt", self)

    def trunc(self) -> "Value":
        """Rounded towards zero."""
        return self.code.intrinsic("trunc", self)

    def with_sign_of(self, other: "Value") -> "Value":
        """The magnitude with the sign of another."""
        return self.code.intrinsic("copysign", self, other)


Operand = Value | float


@dataclass(frozen=True)
class VectorFunction:
    """A function's symbol, its definition, and the lines it needs once per module.

    `declarations` are whole top-level entities (intrinsics; for sin, cos and tan also the slow
    reduction and its table), equal texts being the same entity: merge by text.
    """

    symbol: str
    definition: str
    declarations: tuple[str, ...]


@dataclass
class Code:
    """A function being written: its lines so far, and what they need declared."""

    symbol: str
    elem: str
    lanes: int
    lines: list[str] = field(default_factory=list[str])
    declarations: dict[str, None] = field(default_factory=dict[str, None])
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def type(self, elem: str) -> str:
        """The LLVM type of all lanes of an element."""
        name = _LLVM_ELEM.get(elem, elem)
        return name if self.lanes == 1 else f"<{self.lanes} x {name}>"

    def suffix(self, elem: str) -> str:
        """The mangling of an overloaded intrinsic on this element."""
        return elem if self.lanes == 1 else f"v{self.lanes}{elem}"

    def name(self) -> str:
        """A fresh SSA name."""
        return f"%v{next(self._numbers)}"

    @property
    def scalars(self) -> "Code":
        """The same function, for values that are scalars."""
        return replace(self, lanes=1)

    def emit(self, elem: str, instruction: str) -> Value:
        """Append an instruction and return its result."""
        ref = self.name()
        self.lines.append(f"  {ref} = {instruction}")
        return Value(self, ref, elem)

    def constant(self, number: float, elem: str) -> Value:
        """Return a constant; a float is rounded to the element first, as the text must be exact."""
        if elem in INTEGER_OF:
            if elem == "f32" and abs(number) != float("inf"):
                number = struct.unpack("<f", struct.pack("<f", number))[0]
            literal = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        else:
            literal = str(int(number))
        if self.lanes > 1:
            literal = f"splat ({_LLVM_ELEM.get(elem, elem)} {literal})"
        return Value(self, literal, elem)

    def operand(self, other: Operand, elem: str) -> Value:
        """The value itself, or the number as a constant."""
        return other if isinstance(other, Value) else self.constant(other, elem)

    def binary(self, op: str, left: Value, right: Operand) -> Value:
        """An arithmetic or bitwise operation, by the integer mnemonic."""
        right = self.operand(right, left.elem)
        assert left.elem == right.elem, f"{op} of {left.elem} and {right.elem}"
        mnemonic = _FLOAT_OPS[op] if left.elem in INTEGER_OF else op
        return self.emit(left.elem, f"{mnemonic} {left.typed}, {right.ref}")

    def compare(self, predicate: str, left: Value, right: Operand) -> Value:
        """A comparison; integers are signed."""
        right = self.operand(right, left.elem)
        if left.elem in INTEGER_OF:
            word = f"fcmp {'u' if predicate == 'ne' else 'o'}{predicate}"
        else:
            word = f"icmp {predicate if predicate in ('eq', 'ne') else 's' + predicate}"
        return self.emit("i1", f"{word} {left.typed}, {right.ref}")

    def cast(self, word: str, value: Value, elem: str) -> Value:
        """A conversion by its mnemonic."""
        return self.emit(elem, f"{word} {value.typed} to {self.type(elem)}")

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """Lane by lane; two numbers are of the function's element."""
        elem = next((v.elem for v in (yes, no) if isinstance(v, Value)), self.elem)
        yes, no = self.operand(yes, elem), self.operand(no, elem)
        return self.emit(elem, f"select {condition.typed}, {yes.typed}, {no.typed}")

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """Call `llvm.<name>`, overloaded on the element of the operands, and declare it."""
        elem = operands[0].elem
        callee = f"@llvm.{name}.{self.suffix(elem)}"
        types = ", ".join(self.type(v.elem) for v in operands)
        self.declarations[f"declare {self.type(elem)} {callee}({types})"] = None
        arguments = ", ".join(v.typed for v in operands)
        return self.emit(elem, f"call {self.type(elem)} {callee}({arguments})")

    def fma(self, a: Value, b: Operand, c: Operand) -> Value:
        """a * b + c, rounded once."""
        return self.intrinsic("fma", a, self.operand(b, a.elem), self.operand(c, a.elem))

    def poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Horner's rule; the lowest order comes first."""
        result = self.constant(coefficients[-1], x.elem)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(x, result, coefficient)
        return result

    def paired_poly(self, x: Value, square: Value, coefficients: Sequence[float]) -> Value:
        """As `poly`, by Horner's rule in x^2 over pairs of terms: half the latency for no more instructions."""
        pairs: list[Operand] = [
            self.fma(x, odd, even) for even, odd in zip(coefficients[::2], coefficients[1::2], strict=False)
        ]
        if len(coefficients) % 2:
            pairs.append(self.constant(coefficients[-1], x.elem))
        result = self.operand(pairs[-1], x.elem)
        for pair in reversed(pairs[:-1]):
            result = self.fma(result, square, pair)
        return result

    def at_least(self, x: Value, low: float) -> Value:
        """max(x, low), nan kept: the operand order is the one that is a single x86 instruction."""
        return self.select(self.constant(low, x.elem) > x, low, x)

    def at_most(self, x: Value, high: float) -> Value:
        """min(x, high), nan kept."""
        return self.select(self.constant(high, x.elem) < x, high, x)

    # blocks

    def start(self, label: str) -> None:
        """Begin a block, which what is before it goes on to."""
        self.lines += [f"  br label %{label}", f"{label}:"]

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """To the block `yes`, which begins here, if the condition holds in any lane; else to `no`."""
        if self.lanes > 1:
            callee = f"@llvm.vector.reduce.or.{self.suffix('i1')}"
            self.declarations[f"declare i1 {callee}({self.type('i1')})"] = None
            condition = self.scalars.emit("i1", f"call i1 {callee}({condition.typed})")
        self.lines += [f"  br i1 {condition.ref}, label %{yes}, label %{no}", f"{yes}:"]

    def repeat(
        self, inits: Sequence[Value], holds: Callable[[Value], Value], step: Callable[..., Sequence[Value]]
    ) -> list[Value]:
        """Values that change as long as a condition on the first of them holds in any lane: a loop behind the entry.

        `step` gets the condition and the values, and says what they are next.
        """
        self.start("loop")
        at, values = len(self.lines), [Value(self, self.name(), v.elem) for v in inits]
        goes_on = holds(values[0])
        self.branch(goes_on, "step", "done")
        rows = zip(values, inits, step(goes_on, *values), strict=True)
        self.lines[at:at] = [
            f"  {v.ref} = phi {self.type(v.elem)} [ {first.ref}, %entry ], [ {new.ref}, %step ]"
            for v, first, new in rows
        ]
        self.lines += ["  br label %loop", "done:"]
        return values

    def function(self, parameters: Sequence[str], result: Value, attributes: str = INLINED) -> VectorFunction:
        """What was written, with all it needs."""
        return VectorFunction(self.symbol, self.definition(parameters, result, attributes), tuple(self.declarations))

    def definition(self, parameters: Sequence[str], result: Value, attributes: str = INLINED) -> str:
        """The finished function, `internal`, by default inlined wherever it is called."""
        listed = ", ".join(f"{self.type(self.elem)} %{name}" for name in parameters)
        head = f"define internal {self.type(result.elem)} @{self.symbol}({listed}) {attributes} {{"
        return "\n".join([head, "entry:", *self.lines, f"  ret {result.typed}", "}"]) + "\n"
