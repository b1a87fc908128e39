"""What `numerics` means inside a kernel, as passes over block functions (docs/numerics.md).

precise_functions    strict: functions that are off by more than 2 ulp in f32 are computed in f64
keep_wide            fast: a chain of ops on halves is computed in f32 and rounded where it is stored
fuse_multiply_add    fast: a product that is only added is not rounded first

    %p = block.mul(%a, %b) : tile<8xf16>
    %s = block.add(%p, %c) : tile<8xf16>

becomes under `keep_wide`

    %v0 = block.cast(%a) {to = f32} : tile<8xf32>
    %v1 = block.cast(%b) {to = f32} : tile<8xf32>
    %v2 = block.mul(%v0, %v1) : tile<8xf32>
    %v3 = block.cast(%c) {to = f32} : tile<8xf32>
    %v4 = block.add(%v2, %v3) : tile<8xf32>
    %s = block.cast(%v4) {to = f16} : tile<8xf16>
"""

from __future__ import annotations

from dataclasses import replace

from graphfuse.dialects import block
from graphfuse.ir.core import Func, Op, OpDef, Value, remade
from graphfuse.ir.passes import Level, Pass, passing, run
from graphfuse.ir.rewrite import (
    Replacement,
    common_subexpressions,
    dead_code,
    first_of,
    given,
    rebuild,
    rule,
    rule_with,
    use_counts,
)
from graphfuse.ir.types import BF16, F16, F32, F64
from graphfuse.knobs import Numerics

ON_ANY_MACHINE: Level = "gpu"
"""Schedules for a GPU have ops of its own among the block dialect's: a sort of lanes."""
_HALVES = (F16, BF16)
_FUNCTIONS: tuple[OpDef, ...] = tuple(block.ELEMENTWISE.values())
COARSE = ("tan", "asin", "asinh", "acosh", "atanh", "erfc", "erfinv")
"""Functions whose f32 form is off by more than 2 ulp (`codegen.vecmath.ULP`)."""


# functions to 2 ulp


@rule(*(block.ELEMENTWISE[name] for name in COARSE))
def coarse_in_f64(op: Op) -> Replacement | None:
    """f(x) = round(f(x in f64)) for elements up to f32."""
    (x,) = op.operands
    elem = block.elem_of(x.type)
    if elem == F64:
        return None
    return _rounded(op.kind(block.cast(x, to=F64), loc=op.loc), op)


@passing(ON_ANY_MACHINE)
def precise_functions(func: Func) -> Func:
    """Compute every elementwise function to 2 ulp."""
    return dead_code(rebuild(func, first_of(coarse_in_f64)))


# a chain of halves is rounded once


def _wide(x: Value) -> Value:
    """`x` in f32, as it was before it was rounded if it was."""
    return _before_rounding(x) or block.cast(x, to=F32).result


def _before_rounding(x: Value) -> Value | None:
    """The f32 value that the half `x` is rounded from."""
    if x.op is None or x.op.kind is not block.cast or block.elem_of(x.type) not in _HALVES:
        return None
    (source,) = x.op.operands
    return source if block.elem_of(source.type) == F32 else None


def _rounded(wide: Op, like: Op) -> Op:
    """The result of `wide` as the element of `like`."""
    elem = block.elem_of(like.result.type)
    return wide if block.elem_of(wide.result.type) == elem else block.cast(wide, to=elem, loc=like.loc)


@rule(*_FUNCTIONS)
def map_in_f32(op: Op) -> Replacement | None:
    """f(x) = round(f(x in f32)) for halves; comparisons need no rounding."""
    if block.elem_of(op.operands[0].type) not in _HALVES:
        return None
    return _rounded(op.kind(*(_wide(v) for v in op.operands), loc=op.loc), op)


@rule(block.select)
def select_in_f32(op: Op) -> Replacement | None:
    """c ? round(x) : y = round(c ? x : y in f32)."""
    c, x, y = op.operands
    if _before_rounding(x) is None and _before_rounding(y) is None:
        return None
    return _rounded(block.select(c, _wide(x), _wide(y), loc=op.loc), op)


@rule(block.splat, block.broadcast, block.reshape, block.trans)
def move_in_f32(op: Op) -> Replacement | None:
    """Move first, round after."""
    x = _before_rounding(op.operands[0])
    return None if x is None else _rounded(remade(op, x), op)


@rule(block.cast)
def cast_without_rounding(op: Op) -> Replacement | None:
    """A half that goes back to f32 or f64 is not rounded at all."""
    x = _before_rounding(op.operands[0])
    if x is None or op.attrs["to"] not in (F32, F64):
        return None
    return x if op.attrs["to"] == F32 else remade(op, x)


@passing(ON_ANY_MACHINE)
def keep_wide(func: Func) -> Func:
    """Round chains of ops on halves once, at their end."""
    rules = [*map_in_f32, *select_in_f32, *move_in_f32, *cast_without_rounding]
    return dead_code(common_subexpressions(rebuild(func, first_of(rules))))


# products that are only added


def _product(x: Value, uses: dict[Value, int]) -> tuple[Value, Value] | None:
    """The factors when `x` is a product that nothing else reads."""
    if x.op is None or x.op.kind is not block.mul or uses[x] != 1:
        return None
    a, b = x.op.operands
    return a, b


@rule_with(block.add, block.sub)
def contract_product(op: Op, uses: dict[Value, int]) -> Replacement | None:
    """a b + c = fma(a, b, c); a b - c = fma(a, b, -c); c - a b = fma(-a, b, c)."""
    x, y = op.operands
    if block.elem_of(x.type) not in (F32, F64):
        return None
    negate = block.ELEMENTWISE["neg"]
    is_sum = op.kind is block.add
    if (factors := _product(x, uses)) is not None:
        return block.fma(*factors, y if is_sum else negate(y), loc=op.loc)
    if (factors := _product(y, uses)) is not None:
        a, b = factors
        return block.fma(a if is_sum else negate(a), b, x, loc=op.loc)
    return None


@passing(ON_ANY_MACHINE)
def fuse_multiply_add(func: Func) -> Func:
    """One rounding for a product and the sum that it goes into."""
    uses = use_counts(func)
    return dead_code(rebuild(func, first_of(given(contract_product, uses)), uses=uses))


BLOCK_PASSES: dict[Numerics, tuple[Pass, ...]] = {
    "strict": (precise_functions,),
    "eager": (),
    "fast": (keep_wide, fuse_multiply_add),
}


def apply_numerics(func: Func, numerics: Numerics, *, has_fma: bool) -> Func:
    """Run the passes of `numerics` over a block function; `has_fma`: the machine has an instruction for it.

    `strict` is also told to code generators, which have approximations and instructions that flush subnormals.
    """
    passes = [p for p in BLOCK_PASSES[numerics] if p is not fuse_multiply_add or has_fma]
    rounded = run(func, passes, "numerics")
    return replace(rounded, attrs={**rounded.attrs, "numerics": "strict"}) if numerics == "strict" else rounded
