"""Scalar functions as LLVM IR for NVIDIA GPUs: division, clamps and the special function unit as the GPU has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphfuse.codegen.vecmath_emit import Code, Operand, Value

_UNIT: Final = {
    "ex2": "ex2.approx.f",
    "ex2.ftz": "ex2.approx.ftz.f",
    "lg2": "lg2.approx.f",
    "rcp.ftz": "rcp.approx.ftz.f",
    "rsqrt": "rsqrt.approx.f",
    "sqrt": "sqrt.approx.f",
    "tanh": "tanh.approx.f32",
    "div": "div.full",
    "fma.sat": "fma.rn.sat.f",
}


def symbol(name: str) -> str:
    """The LLVM intrinsic of an f32 instruction; `.ftz` ones take and give zeros for subnormals."""
    return f"@llvm.nvvm.{_UNIT[name]}"


@dataclass
class GpuCode(Code):
    """A function being written for one f32 or f64; `precise` keeps divisions correctly rounded."""

    precise: bool = False

    def unit(self, name: str, *operands: Value) -> Value:
        """An instruction of `_UNIT`."""
        types = ", ".join(["float"] * len(operands))
        self.declarations[f"declare float {symbol(name)}({types})"] = None
        return self.emit("f32", f"call float {symbol(name)}({', '.join(v.typed for v in operands)})")

    def binary(self, op: str, left: Value, right: Operand) -> Value:
        """As `Code.binary`; quotients of f32 to 2 ulp."""
        if op == "div" and left.elem == "f32" and not self.precise:
            return self.unit("div", left, self.operand(right, "f32"))
        return super().binary(op, left, right)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """As `Code.intrinsic`; LLVM makes six instructions of the sign of an f32 that was a half."""
        if name == "copysign" and operands[0].elem == "f32":
            magnitude, sign = operands
            template = '"copysign.f32 $0, $1, $2;", "=f,f,f"'
            return self.emit("f32", f"call float asm {template}({sign.typed}, {magnitude.typed})")
        return super().intrinsic(name, *operands)

    def upper_half(self, a: Value, b: Value) -> Value:
        """Of the product of two i64 without signs."""
        self.declarations["declare i64 @llvm.nvvm.mulhi.ull(i64, i64)"] = None
        return self.emit("i64", f"call i64 @llvm.nvvm.mulhi.ull({a.typed}, {b.typed})")

    def at_least(self, x: Value, low: float) -> Value:
        """max(x, low), nan kept."""
        return self.intrinsic("maximum", x, self.constant(low, x.elem)) if x.elem == "f32" else super().at_least(x, low)

    def at_most(self, x: Value, high: float) -> Value:
        """min(x, high), nan kept."""
        if x.elem != "f32":
            return super().at_most(x, high)
        return self.intrinsic("minimum", x, self.constant(high, x.elem))
