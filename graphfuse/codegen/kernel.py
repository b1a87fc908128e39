"""What lowering block ops to LLVM IR needs on every target: registers of values, instructions, lowerings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from graphfuse.codegen.vecmath_emit import VectorFunction
from graphfuse.errors import UnsupportedError
from graphfuse.ir.core import Func, Op, OpDef, Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar, Type
from graphfuse.llvm.lines import LineTable
from graphfuse.llvm.module import FunctionText, Reg
from graphfuse.targets import Target

AnyLowering: TypeAlias = Callable[[Any, Op], None]
"""A lowering for one target's kernels."""
Lowering = TypeVar("Lowering", bound=AnyLowering)
Function: TypeAlias = Callable[[Any, Scalar, Sequence[Reg]], Reg | None]
"""One target's own form of a function of floats, from the kernel, the operands' element and the operands, if any."""
LOWERINGS: dict[OpDef, AnyLowering] = {}
"""How ops of the block dialect become LLVM IR when it is the same on every target."""


def lowers_into(table: dict[OpDef, AnyLowering], *kinds: OpDef) -> Callable[[Lowering], Lowering]:
    """Register a lowering of some kinds of ops in a table."""

    def register(fn: Lowering) -> Lowering:
        table.update(dict.fromkeys(kinds, fn))
        return fn

    return register


lowers = partial(lowers_into, LOWERINGS)


class Registers:
    """A tile, or a scalar (shape `()`), in registers; which register holds which elements is the target's matter.

    Tiles of one type pair up register by register.
    """

    __slots__ = ("elem", "shape", "vectors")

    def __init__(self, shape: tuple[int, ...], elem: Scalar, vectors: Sequence[Reg]) -> None:
        self.shape, self.elem, self.vectors = shape, elem, tuple(vectors)


class PointerValue(NamedTuple):
    """An address and the memory it is known to point into (empty: any)."""

    reg: Reg
    root: str


KernelValue = Registers | PointerValue

_LLVM_FLOATS = {"f32": "float", "f64": "double"}
_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def register_type(elem: Scalar) -> str:
    """The LLVM type of an element in a register.

    Floats narrower than f32 are their bits: where a processor lacks them, LLVM moves even a `half` or `bfloat`
    through library calls.
    """
    if elem.name == "bool":
        return "i1"
    return _LLVM_FLOATS.get(elem.name, f"i{max(8, elem.bits)}")


def memory_type(elem: Scalar) -> str:
    """The LLVM type of an element in memory."""
    return "i8" if elem.name == "bool" else register_type(elem)


def vector_type(element: str, width: int) -> str:
    """The LLVM type of `width` lanes."""
    return element if width == 1 else f"<{width} x {element}>"


def element_type(type_: str) -> str:
    """The element of an LLVM vector type; a scalar is its own."""
    return type_.rpartition(" ")[2].rstrip(">")


def width_of(type_: str) -> int:
    """The lanes of an LLVM type."""
    return int(type_[1:].partition(" ")[0]) if type_.startswith("<") else 1


def suffix(type_: str) -> str:
    """How an intrinsic's name spells a type."""
    element = element_type(type_)
    name = "p0" if element == "ptr" else _SUFFIX.get(element, element)
    return f"v{width_of(type_)}{name}" if type_.startswith("<") else name


def literal(value: bool | float, elem: Scalar) -> str:
    """A constant of `elem` as LLVM spells it."""
    if elem.name == "bool":
        return "true" if value else "false"
    if elem.is_integer:
        bits = max(8, elem.bits)
        whole = int(value) & ((1 << elem.bits) - 1)
        if elem.is_signed and whole >> (elem.bits - 1):
            whole -= 1 << elem.bits
        return str(whole - (1 << bits) if whole >> (bits - 1) else whole)
    with np.errstate(over="ignore"):
        stored = np.asarray(float(value)).astype(numpy_dtype(elem))
    if elem.name in _LLVM_FLOATS:
        return float_text(float(stored.astype(np.float64)))
    return str(int.from_bytes(stored.tobytes(), "little", signed=True))


def float_text(value: float) -> str:
    """An f32 or f64 constant."""
    return f"0x{int.from_bytes(np.float64(value).tobytes(), 'little'):016X}"


def constant(text: str, element: str, width: int = 1) -> Reg:
    """A constant, splatted over `width` lanes."""
    if width == 1:
        return Reg(text, element)
    return Reg(f"splat ({element} {text})", vector_type(element, width))


Operand: TypeAlias = Reg | float
"""A register, or a number of the type of the register that stands beside it."""


def operand(value: Operand, type_: str) -> Reg:
    """A register as it is; a number as a constant of a scalar or vector type."""
    if isinstance(value, Reg):
        return value
    element = element_type(type_)
    text = float_text(value) if element in ("float", "double") else str(value)
    return constant(text, element, width_of(type_))


def integer(value: int, type_: str = "i64") -> Reg:
    """An integer constant of a scalar or vector type."""
    return constant(str(value), element_type(type_), width_of(type_))


class Kernel(ABC):
    """The state of lowering one function. A target says what registers a type has (`type_parts`, `make`)."""

    lowerings: ClassVar[dict[OpDef, AnyLowering]] = {}
    """The target's own lowerings; they come before the shared ones."""
    functions: ClassVar[dict[str, Function]] = {}
    """The target's own forms of elementwise functions (and `fma`) of floats; they come before the shared ones."""
    helpers: ClassVar[str] = "noinline"
    """The attribute of functions with loops, which a target without calls must inline."""

    def __init__(self, func: Func, target: Target, text: FunctionText) -> None:
        self.func, self.target, self.text = func, target, text
        self.instructions = target.instructions
        self.values: dict[Value, KernelValue] = {}
        self.bounds: dict[Value, tuple[int, int]] = {}
        """What is known of i64 values."""
        self.symbols: dict[str, Reg] = {}
        self.ranges: dict[str, tuple[int, int]] = dict(func.ranges)
        self.program: Reg | None = None
        self.lines: LineTable | None = None
        """Where asked for, what says where instructions come from."""

    # programs

    def position(self, axis: int) -> Reg:
        """Which program this is along an axis of the grid, as an i64."""
        assert axis == 0, "the target says more"
        assert self.program is not None, "set before the body"
        return self.program

    @abstractmethod
    def count(self, axis: int) -> Reg:
        """How many programs there are along an axis of the grid, as an i64."""

    # values

    @abstractmethod
    def type_parts(self, type_: Type) -> list[tuple[str, int]]:
        """The LLVM element and lanes of each register of an IR type."""

    @abstractmethod
    def make(self, type_: Type, vectors: Sequence[Reg]) -> KernelValue:
        """A value of an IR type that is not a pointer."""

    def registers(self, value: Value) -> Registers:
        """A tile or a scalar."""
        found = self.values[value]
        assert isinstance(found, Registers), f"{value} is a pointer"
        return found

    def scalar(self, value: Value) -> Reg:
        """A scalar's register."""
        found = self.registers(value)
        assert found.shape == (), f"{value} is not a scalar"
        return found.vectors[0]

    def pointer(self, value: Value) -> PointerValue:
        """A pointer."""
        found = self.values[value]
        assert isinstance(found, PointerValue), f"{value} is not a pointer"
        return found

    def set(self, op: Op, vectors: Sequence[Reg]) -> None:
        """Define an op's only result."""
        self.values[op.result] = self.make(op.types[0], vectors)

    def bound_alike(self, op: Op) -> None:
        """What is known of an op's first operand holds of its result."""
        if op.operands[0] in self.bounds:
            self.bounds[op.result] = self.bounds[op.operands[0]]

    # instructions

    def to_float8(self, xs: Sequence[Reg], to: Scalar, *, saturate: bool) -> list[Reg] | None:
        """Rounds f32 registers by the target's own instructions, neighbours together; None if it has none."""
        return None

    def from_float8(self, xs: Sequence[Reg], source: Scalar) -> list[Reg] | None:
        """Widens to f32 by the target's own instructions, neighbours together; None if it has none."""
        return None

    def truncated(self, x: Reg) -> Reg | None:
        """f32 as i32 by an instruction that makes the least value of what does not fit; None if there is none."""
        return None

    def intrinsic(self, name: str, type_: str, *operands: Operand, overload: str = "") -> Reg:
        """Call `llvm.<name>.<overload>`, by default overloaded on `type_`, its result."""
        symbol = f"@llvm.{name}.{overload or suffix(type_)}"
        return self.call(type_, symbol, [operand(x, type_) for x in operands])

    def call(self, type_: str, symbol: str, operands: Sequence[Reg]) -> Reg:
        """Call an external function, which is declared from this use of it."""
        self.declare(type_, symbol, operands)
        return self.text.emit(type_, f"call {type_} {symbol}({', '.join(map(str, operands))})")

    def declare(self, type_: str, symbol: str, operands: Sequence[Reg]) -> None:
        """Declare an external symbol from a use of it."""
        self.text.module.entity(f"declare {type_} {symbol}({', '.join(r.type for r in operands)})")

    def binary(self, name: str, a: Reg, b: Operand) -> Reg:
        """An instruction on two operands of one type."""
        return self.text.emit(a.type, f"{name} {a}, {operand(b, a.type).text}")

    def compare(self, name: str, a: Reg, b: Operand) -> Reg:
        """`icmp` or `fcmp` with its predicate."""
        return self.text.emit(vector_type("i1", width_of(a.type)), f"{name} {a}, {operand(b, a.type).text}")

    def choose(self, condition: Reg, a: Operand, b: Operand) -> Reg:
        """Lanewise `condition ? a : b`; one of the two is a register."""
        type_ = next(x.type for x in (a, b) if isinstance(x, Reg))
        return self.text.emit(type_, f"select {condition}, {operand(a, type_)}, {operand(b, type_)}")

    def convert(self, name: str, x: Reg, element: str) -> Reg:
        """A conversion to another element."""
        type_ = vector_type(element, width_of(x.type))
        return x if type_ == x.type else self.text.emit(type_, f"{name} {x} to {type_}")

    def recast(self, x: Reg, type_: str) -> Reg:
        """The same bits as another type."""
        return x if x.type == type_ else self.text.emit(type_, f"bitcast {x} to {type_}")

    def joined(self, xs: Sequence[Reg]) -> Reg:
        """Registers of one type side by side in a vector."""
        out = Reg("poison", f"<{len(xs)} x {xs[0].type}>")
        for i, x in enumerate(xs):
            out = self.text.emit(out.type, f"insertelement {out}, {x}, i32 {i}")
        return out

    def elements(self, vector: Reg) -> list[Reg]:
        """The elements of a vector, each in a register."""
        element = element_type(vector.type)
        return [self.text.emit(element, f"extractelement {vector}, i32 {i}") for i in range(width_of(vector.type))]

    def splat(self, x: Reg, width: int) -> Reg:
        """A scalar in every lane."""
        if width == 1:
            return x
        if not x.text.startswith("%"):
            return constant(x.text, x.type, width)
        type_ = vector_type(x.type, width)
        first = self.text.pure(type_, f"insertelement {type_} poison, {x}, i64 0", x)
        return self.text.pure(type_, f"shufflevector {first}, {type_} poison, <{width} x i32> zeroinitializer", first)

    # ops

    def lower_ops(self, ops: Sequence[Op]) -> None:
        """Lower a block's ops but its terminator."""
        for op in ops:
            lower = self.lowerings.get(op.kind) or LOWERINGS.get(op.kind)
            if lower is None:
                raise UnsupportedError(f"{op.kind.name} cannot be compiled for {self.target}", op.loc)
            before = self.text.mark
            if self.lines is not None and op.loc is not None:
                self.text.mark = self.lines.mark(op.loc) or before
            lower(self, op)
            self.text.mark = before


def call(kernel: Kernel, fn: VectorFunction, xs: Sequence[Reg]) -> Reg:
    """A function that this module defines on first use."""
    for text in (*fn.declarations, fn.definition):
        kernel.text.module.entity(text)
    return kernel.text.emit(xs[0].type, f"call {xs[0].type} @{fn.symbol}({', '.join(map(str, xs))})")
