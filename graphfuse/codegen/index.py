"""Index arithmetic: polynomials of dims as i64 instructions, with what their bounds allow.

Terms are added outermost first, so that what does not change in a loop is computed before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.codegen.kernel import Kernel, integer, lowers, suffix, vector_type, width_of
from graphfuse.dialects import block
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.types import Tile
from graphfuse.llvm.module import FunctionText, Reg
from graphfuse.symbolic import INF, Atom, Call, Dim, Expr, Ranges, Sym, bounds, of_atom

_I32 = (-(1 << 31), (1 << 31) - 1)


class _Arithmetic:
    """Emits one polynomial. Every operand is a scalar or a vector of `width` lanes of `element`."""

    def __init__(self, kernel: Kernel, regs: Mapping[str, Reg], ranges: Ranges, element: str, width: int) -> None:
        self._kernel, self._text = kernel, kernel.text
        self._regs, self._ranges = regs, ranges
        self._element, self._width = element, width

    def dim(self, dim: Dim) -> Reg:
        """The value of a polynomial."""
        if isinstance(dim, int):
            return integer(dim, self._element)
        constant = 0
        terms: list[Reg] = []
        for monomial, c in dim.terms:
            if not monomial:
                constant = c
                continue
            factors = sorted(
                (self._atom(atom) for atom, power in monomial for _ in range(power)), key=lambda r: r.depth
            )
            product = factors[0]
            for f in factors[1:]:
                product = self._exact("mul", product, f)
            terms.append(self._scaled(product, c))
        terms.sort(key=lambda r: (width_of(r.type), r.depth))
        total = terms[0]
        for t in terms[1:]:
            total = self._exact("add", total, t)
        return self._exact("add", total, integer(constant, self._element)) if constant else total

    def _scaled(self, x: Reg, c: int) -> Reg:
        return x if c == 1 else self._exact("mul", x, integer(c, self._element))

    def _exact(self, name: str, a: Reg, b: Reg) -> Reg:
        """A sum or a product; of 32 bits it fits, so that constants can be added once it is widened."""
        return self._binary(name if self._element == "i64" else f"{name} nsw", a, b)

    def _atom(self, atom: Atom) -> Reg:
        if isinstance(atom, Sym):
            return self._symbol(atom.name)
        return self._call(atom)

    def _symbol(self, name: str) -> Reg:
        x = self._regs[name]
        return x if self._element == "i64" else _converted(self._text, "trunc", x, self._element)

    def _call(self, call: Call) -> Reg:
        if self._element == "i64" and self._divides_in_i32(call):
            narrow = _Arithmetic(self._kernel, self._regs, self._ranges, "i32", self._width)
            return _converted(self._text, "sext", narrow._call(call), "i64")
        a, b = (self.dim(d) for d in call.args)
        if call.fn in ("min", "max"):
            return self._intrinsic(f"s{call.fn}", a, b)
        if self._element == "i64" and self._ends_in_i32(call):
            if bounds(call.args[1], self._ranges)[1] > _I32[1]:  # more than is divided, however large
                b = self._intrinsic("smin", b, integer(_I32[1], self._element))
            narrow = _Arithmetic(self._kernel, self._regs, self._ranges, "i32", self._width)
            short = (_converted(self._text, "trunc", x, "i32") for x in (a, b))
            return _converted(self._text, "sext", narrow._divided(call, *short), "i64")
        return self._divided(call, a, b)

    def _divided(self, call: Call, a: Reg, b: Reg) -> Reg:
        """The quotient or remainder of the arguments' values."""
        low, _ = bounds(call.args[0], self._ranges)
        divisor = call.args[1]
        if isinstance(divisor, int) and divisor & (divisor - 1) == 0:
            if call.fn == "mod":
                return self._binary("and", a, integer(divisor - 1, self._element))
            name = "lshr" if low >= 0 else "ashr"
            return self._binary(name, a, integer(divisor.bit_length() - 1, self._element))
        if bounds(divisor, self._ranges)[0] < 1:  # may run ahead of the check that guards it
            b = self._intrinsic("smax", b, integer(1, self._element))
        if low >= 0:
            return self._binary("udiv" if call.fn == "floordiv" else "urem", a, b)
        rest = self._binary("srem", a, b)
        negative = self._binary("ashr", rest, integer(8 * (8 if self._element == "i64" else 4) - 1, self._element))
        if call.fn == "mod":
            return self._binary("add", rest, self._binary("and", negative, b))
        return self._binary("add", self._binary("sdiv", a, b), negative)

    def _divides_in_i32(self, call: Call) -> bool:
        """Whether a quotient or remainder of i64 should be one of i32: GPUs have 64-bit products only in parts."""
        wanted = not self._kernel.instructions.long_integers and call.fn in ("floordiv", "mod")
        return wanted and all(_fits_i32(d, self._ranges) for d in call.args)

    def _ends_in_i32(self, call: Call) -> bool:
        """Whether that is so for the arguments' values, if not on the way to them: a 64-bit division is a call.

        And `ptxas` lets no products overlap in a kernel with calls.
        """
        number, divisor = call.args
        power = isinstance(divisor, int) and divisor & (divisor - 1) == 0
        if power or self._kernel.instructions.long_integers:
            return False
        low, high = bounds(number, self._ranges)
        return low >= 0 and high < _I32[1] and bounds(divisor, self._ranges)[0] >= 1

    def _binary(self, name: str, a: Reg, b: Reg) -> Reg:
        a, b = self._fit(a, b)
        return self._text.pure(a.type, f"{name} {a}, {b.text}", a, b)

    def _intrinsic(self, name: str, a: Reg, b: Reg) -> Reg:
        a, b = self._fit(a, b)
        symbol = f"@llvm.{name}.{suffix(a.type)}"
        self._kernel.declare(a.type, symbol, (a, b))
        return self._text.pure(a.type, f"call {a.type} {symbol}({a}, {b})", a, b)

    def _fit(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        width = max(width_of(a.type), width_of(b.type))
        return self._widened(a, width), self._widened(b, width)

    def _widened(self, r: Reg, width: int) -> Reg:
        return r if width_of(r.type) == width else self._kernel.splat(r, width)


def _converted(text: FunctionText, name: str, x: Reg, element: str) -> Reg:
    """An integer of another width, made as far out as the integer itself."""
    type_ = vector_type(element, width_of(x.type))
    return x if x.type == type_ else text.pure(type_, f"{name} {x} to {type_}", x)


def emit_dim(kernel: Kernel, dim: Dim) -> Reg:
    """A dim over the kernel's own symbols, as an i64."""
    return _Arithmetic(kernel, kernel.symbols, kernel.ranges, "i64", 1).dim(dim)


@lowers(block.program_id)
def lower_program_id(kernel: Kernel, op: Op) -> None:
    """What the target says, and what that can be."""
    axis = attr_int(op, "axis", 0)
    kernel.set(op, [kernel.position(axis)])
    most = _programs(kernel, axis)
    kernel.bounds[op.result] = (0, INF) if most is None else numbers_below(kernel, most)


def numbers_below(kernel: Kernel, programs: Dim) -> tuple[int, int]:
    """What the number of a program can be; on a GPU a launch has no more programs than fit 31 bits."""
    high = max(0, bounds(programs, kernel.ranges)[1] - 1)
    most = kernel.instructions.most_programs
    return 0, high if most is None else min(high, most - 1)


@lowers(block.num_programs)
def lower_num_programs(kernel: Kernel, op: Op) -> None:
    """From the function's own grid, else what the target says."""
    axis = attr_int(op, "axis", 0)
    count = _programs(kernel, axis)
    kernel.set(op, [kernel.count(axis) if count is None else emit_dim(kernel, count)])
    kernel.bounds[op.result] = (0, INF) if count is None else bounds(count, kernel.ranges)


def _programs(kernel: Kernel, axis: int) -> Dim | None:
    """How many programs a function says there are along an axis; None if that is given at launch."""
    axes = block.grid_axes(kernel.func)
    return None if axes is None else axes[axis] if axis < len(axes) else 1


@lowers(block.index)
def lower_index(kernel: Kernel, op: Op) -> None:
    """Scalars in i64; tiles in i32 lanes when every partial result fits."""
    dim = op.attrs["expr"]
    names = op.attrs.get("names", ())
    assert isinstance(dim, int | Expr), "checked by the type rule"
    assert isinstance(names, tuple), "checked by the type rule"
    bound = dict(zip(map(str, names), op.operands, strict=True))
    ranges = kernel.ranges | {n: kernel.bounds.get(v, (-INF, INF)) for n, v in bound.items()}
    kernel.bounds[op.result] = bounds(dim, ranges)
    tiles = {n: kernel.registers(v) for n, v in bound.items()}
    type_ = op.types[0]
    if not isinstance(type_, Tile):
        regs = kernel.symbols | {n: t.vectors[0] for n, t in tiles.items()}
        kernel.set(op, [_Arithmetic(kernel, regs, ranges, "i64", 1).dim(dim)])
        return
    element = "i32" if _fits_i32(dim, ranges) else "i64"
    out: list[Reg] = []
    for i, (_, width) in enumerate(kernel.type_parts(type_)):
        regs = kernel.symbols | {n: t.vectors[i if t.shape else 0] for n, t in tiles.items()}
        x = _Arithmetic(kernel, regs, ranges, element, width).dim(dim)
        out.append(_converted(kernel.text, "sext", x if width_of(x.type) == width else kernel.splat(x, width), "i64"))
    kernel.set(op, out)


def _fits_i32(dim: Dim, ranges: Ranges) -> bool:
    """Whether every partial sum and product of the polynomial fits 32 bits, whatever the order."""
    if isinstance(dim, int):
        return _I32[0] <= dim <= _I32[1]
    low = high = 0
    for monomial, c in dim.terms:
        size = abs(c)
        for atom, power in monomial:
            if isinstance(atom, Call) and not all(_fits_i32(d, ranges) for d in atom.args):
                return False
            a_low, a_high = bounds(of_atom(atom), ranges)
            size *= max(1, abs(a_low), abs(a_high)) ** power
        low, high = low - size, high + size
    return _I32[0] <= low and high <= _I32[1]
