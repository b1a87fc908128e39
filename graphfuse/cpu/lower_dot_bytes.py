"""Products of bytes with sums in i32, four steps of k at a time.

Where a row of `a` is dense along k, and `b` holds four steps of k of one column side by side (`pack_weights` lays
weights out so), four bytes of each are one lane of 32 bits: an element of `a` is broadcast as such a lane, a vector of
`b` is loaded as lanes, and one instruction multiplies and adds what meets.

    acc[i, n] += a[i, 4k] b[4k, n] + a[i, 4k+1] b[4k+1, n] + a[i, 4k+2] b[4k+2, n] + a[i, 4k+3] b[4k+3, n]

On x86 that is `vpdpbusd` (AVX512-VNNI, AVX-VNNI), of unsigned by signed bytes; where both are of one kind, a moves to
the other, and what that adds to all sums of a column is taken off:

    a b = (a + 128) b - 128 b = (a - 128) b + 128 b

Elsewhere the even and the odd bytes as 16-bit halves, and `pmaddwd`, which adds pairs of products. Both are exact:
`pmaddubsw`, whose sums of two saturate at 16 bits, is used for unsigned bytes of at most 7 bits only. Sums wrap, as
those of i32 do.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.codegen.kernel import constant, integer, vector_type, width_of
from graphfuse.cpu.kernel import Kernel, Span, lowers
from graphfuse.cpu.lower_memory import View
from graphfuse.dialects import block
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.types import I32, Scalar
from graphfuse.llvm.module import Reg

FOUR = 4
"""Bytes of a lane."""
MIDDLES = -0x7F7F7F80
"""The bits 0x80 four times: by how much signed and unsigned bytes are apart."""
PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""Multiplication of 16-bit halves and addition of pairs, by the lanes of the result."""
PAIRS_NEED = {4: "sse2", 8: "avx2", 16: "avx512bw"}
BYTE_PAIRS = {4: "ssse3.pmadd.ub.sw.128", 8: "avx2.pmadd.ub.sw", 16: "avx512.pmaddubs.w.512"}
"""Multiplication of unsigned by signed bytes and addition of pairs."""


def in_fours(a: View | None, b: View | None, acc: Scalar, spans: Sequence[Span], depth: int) -> bool:
    """Whether the factors are bytes in memory of which four make a lane, all of them there."""
    if a is None or b is None or acc != I32 or depth % FOUR or any(s.valid != s.width for s in spans):
        return False
    if any(not v.elem.is_integer or v.elem.bits != 8 or v.elem.name == "bool" for v in (a, b)):
        return False
    return not a.limits and not b.limits and a.strides[1] == 1 and b.strides == (1, FOUR)


def multiply_in_fours(
    kernel: Kernel, a: View, b: View, sums: Sequence[Reg], spans: Sequence[Span], depth: int
) -> list[Reg]:
    """The sums [rows x spans] with the products of all of k."""
    out = list(sums)
    n = len(spans)
    signs = a.elem.is_signed, b.elem.is_signed
    for k in range(0, depth, FOUR):
        row = [_lanes(kernel, b, b.address((k, span.start)), span.width) for span in spans]
        factors = [_Factor(kernel, x, signs) for x in row]
        for i in range(len(out) // n):
            element = _lanes(kernel, a, a.address((i, k)), 1)
            splats = {factor.width: factor.splat(element) for factor in factors}
            for j, factor in enumerate(factors):
                out[i * n + j] = factor.multiply_add(splats[factor.width], out[i * n + j])
    return out


@lowers(block.dot_bytes)
def lower_dot_bytes(kernel: Kernel, op: Op) -> None:
    """Vector by vector."""
    unsigned, signed, sums = (kernel.tile(v).vectors for v in op.operands)
    factors = [_Factor(kernel, x, (True, False), attr_int(op, "bits", 8)) for x in unsigned]
    out = [f.multiply_add(a, acc) for f, a, acc in zip(factors, signed, sums, strict=True)]
    kernel.set(op, out)


def _lanes(kernel: Kernel, view: View, at: Reg, width: int) -> Reg:
    """Four bytes a lane."""
    type_ = vector_type("i32", width)
    return kernel.text.emit(type_, f"load {type_}, {at}, align 1{kernel.scopes(view.pointer.root)}")


class _Factor:
    """A vector of the right factor, taken apart once for all rows where that is needed."""

    def __init__(self, kernel: Kernel, x: Reg, signs: tuple[bool, bool], bits: int = 8) -> None:
        self.kernel = kernel
        self.x = x
        self.left_signed, self.right_signed = signs
        self.width = width_of(x.type)
        self.by_fours = _has_dot(kernel, self.width)
        self.by_pairs = kernel.target.arch == "x86_64" and _has_pairs(kernel, self.width)
        self.by_twos = self.by_pairs and bits < 8 and signs == (True, False) and kernel.target.has("ssse3")
        """Whether sums of two products fit in 16 bits."""
        if self.by_fours:
            zero, middles = (constant(str(n), "i32", self.width) for n in (0, MIDDLES))
            self.moved = self._dot(zero, middles) if self.left_signed == self.right_signed else None
        else:
            self.parts = [] if self.by_twos else self._parts(x, signed=self.right_signed)

    def splat(self, element: Reg) -> Reg:
        """Four bytes of a in every lane, of the kind that is multiplied."""
        if self.by_fours and self.moved is not None:  # as a scalar: LLVM 22 does not end where a splat is moved
            element = self.kernel.binary("xor", element, integer(MIDDLES, "i32"))
        return self.kernel.splat_here(element, self.width)

    def multiply_add(self, a: Reg, acc: Reg) -> Reg:
        """acc + the four products of each lane."""
        if self.by_fours:
            return self._dot(acc if self.moved is None else self.kernel.binary("sub", acc, self.moved), a)
        if self.by_twos:
            return self.kernel.binary("add", acc, self._by_twos(a))
        for left, right in zip(self._parts(a, signed=self.left_signed), self.parts, strict=True):
            acc = self.kernel.binary("add", acc, self._multiply(left, right))
        return acc

    def _dot(self, acc: Reg, a: Reg) -> Reg:
        """acc + the products with bytes of the kind that `b` is not."""
        factors = (a, self.x) if self.right_signed else (self.x, a)
        return self.kernel.call(acc.type, f"@llvm.x86.avx512.vpdpbusd.{32 * self.width}", (acc, *factors))

    def _by_twos(self, a: Reg) -> Reg:
        """The four products of each lane: of bytes by `pmaddubsw`, whose sums of two do not saturate here."""
        kernel, count = self.kernel, self.width
        x, y = (kernel.recast(v, vector_type("i8", 4 * count)) for v in (self.x, a))
        pairs = kernel.call(vector_type("i16", 2 * count), f"@llvm.x86.{BYTE_PAIRS[count]}", (x, y))
        return self._multiply(pairs, constant("1", "i16", 2 * count))

    def _multiply(self, left: Reg, right: Reg) -> Reg:
        if not self.by_pairs:
            return self.kernel.binary("mul", left, right)
        return self.kernel.call(vector_type("i32", self.width), f"@llvm.x86.{PAIRS[self.width]}", (left, right))

    def _parts(self, x: Reg, *, signed: bool) -> list[Reg]:
        """Even and odd bytes as halves, or each of the four as a lane of its own."""
        kernel = self.kernel
        bits, count = (16, 2) if self.by_pairs else (32, FOUR)
        if self.by_pairs:
            x = kernel.recast(x, vector_type("i16", 2 * self.width))
        shift = "ashr" if signed else "lshr"
        out: list[Reg] = []
        for i in range(count):
            up = bits - 8 - 8 * i
            moved = kernel.binary("shl", x, integer(up, x.type)) if up else x
            out.append(kernel.binary(shift, moved, integer(bits - 8, x.type)))
        return out


def _has_dot(kernel: Kernel, width: int) -> bool:
    target = kernel.target
    if target.arch != "x86_64" or width not in PAIRS:
        return False
    if target.has("avx512vnni"):
        return width == 16 or target.has("avx512vl")
    return target.has("avxvnni") and width <= 8


def _has_pairs(kernel: Kernel, width: int) -> bool:
    return width in PAIRS and kernel.target.has(PAIRS_NEED[width])
