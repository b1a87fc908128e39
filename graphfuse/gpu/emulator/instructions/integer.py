"""Integer arithmetic, logic, shifts, bit fields, comparisons and selection (PTX ISA 9.7.1, 9.7.2, 9.7.6 to 9.7.8)."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator.decode import Decoder, full, instruction
from graphfuse.gpu.emulator.floats import flush
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.types import REDUCTIONS, TYPES, Array, Binary, PtxType, Unary, by_parts

_LOGIC = ("and", "or", "xor")

# arithmetic


@instruction("add", "sub", mods="sat")
def add_sub(d: Decoder) -> Step:
    """add, sub."""
    kind = d.type()
    function: Binary = np.add if d.name == "add" else np.subtract
    if "sat" not in d.mods:
        return d.compute(by_parts(kind, function), kind, kind)
    if kind.name != "s32":
        raise d.error("unknown modifier '.sat'")
    limits = np.iinfo(np.int32)

    def saturated(a: Array, b: Array) -> Array:
        exact = function(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, limits.min, limits.max).astype(np.int32)

    return d.compute(saturated, kind, kind)


@instruction("add.cc", "sub.cc", "addc", "subc", mods="cc")
@instruction("mad.lo.cc", "mad.hi.cc", "madc", mods="lo hi cc")
def with_carry(d: Decoder) -> Step:
    """add, sub, mad of words of longer numbers: `.cc` keeps the carry (or borrow), and a final `c` takes it in."""
    kind, machine = TYPES[f"u{d.type().bits}"], d.machine
    put, reads = d.sink(d.ops[0]), [d.source(op, kind) for op in d.ops[1:]]
    name, keeps, takes = d.name[:3], "cc" in d.mods, d.name.endswith("c")
    if len(reads) != (3 if name == "mad" else 2):
        raise d.error(f"{len(d.ops)} operands: expected {4 if name == 'mad' else 3}")
    multiply: Binary = np.multiply if "lo" in d.mods else _high64 if kind.bits == 64 else _high

    def step(g: Gang) -> None:
        a, *more = [full(g, read(g)) for read in reads]
        if name == "mad":
            a = multiply(a, more.pop(0))
        b, before = more[0], machine.carry[g.rows] if takes else np.False_
        first = a - b if name == "sub" else a + b
        last = first - before if name == "sub" else first + before
        if keeps:
            after = (a < b) | (first < before) if name == "sub" else (first < a) | (last < first)
            machine.carry[g.rows] = np.where(g.mask, after, machine.carry[g.rows])
        put(g, last.astype(kind.dtype))

    return step


@instruction("mul", "mad", mods="lo hi wide")
def mul_mad(d: Decoder) -> Step:
    """mul, mad: `.lo`, `.hi`, `.wide`."""
    kind = result = d.type()
    multiply: Binary = np.multiply
    if "wide" in d.mods:
        result = TYPES[f"{kind.kind}{2 * kind.bits}"]
        wide = result.dtype

        def multiply_wide(x: Array, y: Array) -> Array:
            return np.multiply(x.astype(wide), y.astype(wide))

        multiply = multiply_wide
    elif "hi" in d.mods:
        multiply = _high64 if kind.bits == 64 else _high
    if d.name == "mul":
        return d.compute(multiply, kind, kind)
    return d.compute(lambda a, b, c: multiply(a, b) + c, kind, kind, result)


def _high(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
    return (np.multiply(a.astype(wide), b.astype(wide)) >> bits).astype(a.dtype)


def _high64(a: Array, b: Array) -> Array:
    """The upper half of a 128-bit product, by 32-bit limbs; signed by correcting the unsigned one."""
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    cross = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (cross >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(a.dtype)


@instruction("div", "rem")
def div_rem(d: Decoder) -> Step:
    """div, rem: truncating; by zero all ones, as unspecified as the ISA has it."""

    def quotient(a: Array, b: Array) -> Array:
        zero = b == 0
        safe = np.where(zero, b.dtype.type(1), b)
        q = np.floor_divide(a, safe)
        r = a - q * safe
        if a.dtype.kind == "i":
            fix = (r != 0) & ((a < 0) != (safe < 0))
            q, r = q + fix, np.where(fix, r - safe, r)
        ones = np.array(-1).astype(a.dtype)
        return np.where(zero, ones, q if d.name == "div" else r).astype(a.dtype)

    return d.compute(quotient, d.type(), d.type())


@instruction("min", "max", mods="relu")
def min_max(d: Decoder) -> Step:
    """min, max of integers and pairs; `.relu` makes negative results zero."""
    choose, kind, relu = REDUCTIONS[d.name], d.type(), "relu" in d.mods

    def chosen(a: Array, b: Array) -> Array:
        result = choose(a, b)
        return np.maximum(result, 0) if relu else result

    return d.compute(by_parts(kind, chosen), kind, kind)


_UNARY: dict[str, Unary] = {
    "abs": np.abs,
    "neg": np.negative,
    "not": np.invert,
    "cnot": lambda a: (a == 0).astype(a.dtype),
}


@instruction(*_UNARY)
def unary(d: Decoder) -> Step:
    """abs, neg, not, cnot of integers and predicates."""
    return d.compute(_UNARY[d.name], d.type())


@instruction(*_LOGIC)
def logic(d: Decoder) -> Step:
    """and, or, xor."""
    return d.compute(REDUCTIONS[d.name], d.type(), d.type())


@instruction("sad")
def sad(d: Decoder) -> Step:
    """sad: c + |a - b|."""
    return d.compute(lambda a, b, c: c + np.where(a < b, b - a, a - b), d.type(), d.type(), d.type())


@instruction("dp4a")
def dp4a(d: Decoder) -> Step:
    """dp4a: four 8-bit products added to a 32-bit sum."""
    kinds = [np.int8 if t.kind == "s" else np.uint8 for t in d.types]

    def dot(a: Array, b: Array, c: Array) -> Array:
        x = np.ascontiguousarray(a)[..., None].view(kinds[0]).astype(np.int64)
        y = np.ascontiguousarray(b)[..., None].view(kinds[1]).astype(np.int64)
        return (c.astype(np.int64) + (x * y).sum(-1)).astype(np.uint32)

    return d.compute(dot, "u32", "u32", "s32")


# shifts and bit fields


@instruction("shl", "shr")
def shift(d: Decoder) -> Step:
    """shl, shr: amounts beyond the width shift everything out."""
    kind = d.type()
    bits = kind.bits

    def left(a: Array, n: Array) -> Array:
        return np.where(n < bits, a << np.minimum(n, bits - 1).astype(a.dtype), a.dtype.type(0))

    def right(a: Array, n: Array) -> Array:
        moved = a >> np.minimum(n, bits - 1).astype(a.dtype)
        return moved if kind.kind == "s" else np.where(n < bits, moved, a.dtype.type(0))

    return d.compute(left if d.name == "shl" else right, kind, "u32")


@instruction("shf", mods="l r wrap clamp")
def funnel(d: Decoder) -> Step:
    """shf: 32 bits out of the 64 of b:a."""
    to_left, wrap = "l" in d.mods, "wrap" in d.mods

    def shifted(a: Array, b: Array, n: Array) -> Array:
        n = n & 31 if wrap else np.minimum(n, 32)
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        amount = n.astype(np.uint64)
        return ((both >> (np.uint64(32) - amount)) if to_left else (both >> amount)).astype(np.uint32)

    return d.compute(shifted, d.type(), d.type(), d.type())


@instruction("bfe")
def bit_extract(d: Decoder) -> Step:
    """bfe: signed fields take their sign from their last bit, at most the operand's."""
    kind = d.type()
    bits = kind.bits

    def unsigned_field(a: Array, start: Array, length: Array) -> Array:
        s, n = start & 255, length & 255
        field = np.where(s < 64, a.astype(np.uint64) >> np.minimum(s, 63).astype(np.uint64), np.uint64(0))
        return (field & _low_bits(n)).astype(kind.dtype)

    def signed_field(a: Array, start: Array, length: Array) -> Array:
        s, n = np.minimum(start & 255, bits - 1).astype(np.int64), (length & 255).astype(np.int64)
        spare = 64 - np.minimum(n, bits - s)
        field = ((a.astype(np.int64) >> s) << np.minimum(spare, 63)) >> np.minimum(spare, 63)
        return np.where(n == 0, 0, field).astype(kind.dtype)

    return d.compute(signed_field if kind.kind == "s" else unsigned_field, kind, "u32", "u32")


def _low_bits(count: Array) -> Array:
    """64-bit masks of so many ones."""
    return np.where(count < 64, (np.uint64(1) << np.minimum(count, 63).astype(np.uint64)) - np.uint64(1), ~np.uint64(0))


@instruction("bfi")
def bit_insert(d: Decoder) -> Step:
    """bfi: the low bits of a put into b."""
    kind = d.type()

    def insert(a: Array, b: Array, start: Array, length: Array) -> Array:
        s = np.minimum(start & 255, kind.bits).astype(np.uint64)
        ones, by = _low_bits(np.minimum(length & 255, kind.bits)), s & np.uint64(63)
        mask = np.where(s < 64, ones << by, np.uint64(0))
        moved = np.where(s < 64, a.astype(np.uint64) << by, np.uint64(0))
        return ((b.astype(np.uint64) & ~mask) | (moved & mask)).astype(kind.dtype)

    return d.compute(insert, kind, kind, "u32", "u32")


@instruction("prmt")
def permute(d: Decoder) -> Step:
    """prmt.b32, default mode: each nibble of c picks a byte of b:a, its top bit replicates that byte's sign."""

    def picked(a: Array, b: Array, c: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(np.broadcast_shapes(both.shape, c.shape), np.uint32)
        for k in range(4):
            selector = (c >> np.uint32(4 * k)) & np.uint32(15)
            by = (selector & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            byte = (both >> by).astype(np.uint32) & np.uint32(255)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            result |= np.where(selector & np.uint32(8), sign, byte) << np.uint32(8 * k)
        return result

    return d.compute(picked, d.type(), d.type(), d.type())


@instruction("lop3")
def lop3(d: Decoder) -> Step:
    """lop3.b32: any function of three bits, given by its table."""
    table = d.constant(d.operands(5)[4])

    def looked_up(x: Array, y: Array, z: Array, _: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.uint32)
        for k in range(8):
            if table >> k & 1:
                result |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
        return result

    return d.compute(looked_up, *["b32"] * 4)


@instruction("popc", "clz", "bfind", mods="shiftamt")
def counts(d: Decoder) -> Step:
    """popc, clz, bfind; the result has 32 bits."""
    bits = d.type().bits

    def leading_zeros(a: Array) -> Array:
        smeared = a.copy()
        for k in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
            smeared |= smeared >> a.dtype.type(k)
        return np.uint32(bits) - np.bitwise_count(smeared).astype(np.uint32)

    def find(a: Array) -> Array:
        x = np.where(a < 0, ~a, a).view(f"u{a.dtype.itemsize}") if a.dtype.kind == "i" else a
        zeros = leading_zeros(np.ascontiguousarray(x))
        position = zeros if "shiftamt" in d.mods else np.uint32(bits - 1) - zeros
        return np.where(zeros == bits, np.uint32(0xFFFFFFFF), position)

    functions: dict[str, Unary] = {
        "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
        "clz": leading_zeros,
        "bfind": find,
    }
    return d.compute(functions[d.name], d.type())


@instruction("brev")
def reverse(d: Decoder) -> Step:
    """brev: bits in the opposite order."""

    def reversed_bits(a: Array) -> Array:
        octets = np.ascontiguousarray(a)[..., None].view(np.uint8)
        bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1]
        return np.packbits(bits, axis=-1, bitorder="little").view(a.dtype)[..., 0]

    return d.compute(reversed_bits, d.type())


# comparison and selection

_ORDERED: dict[str, Binary] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMPARISONS = (*_ORDERED, *_UNSIGNED_ORDER, *(f"{c}u" for c in _ORDERED), "num", "nan")


def _comparison(d: Decoder, kind: PtxType) -> Binary:
    name = d.choice(_COMPARISONS)
    if not name:
        raise d.error("expected a comparison")
    name = _UNSIGNED_ORDER.get(name, name)
    if not kind.is_float:
        if name not in _ORDERED:
            raise d.error(f"no comparison of integers is {name!r}")
        return _ORDERED[name]
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    compare, unordered = _ORDERED[name[:2]], name.endswith("u")
    ftz = "ftz" in d.mods and kind.name == "f32"

    def compared(a: Array, b: Array) -> Array:
        holds = compare(flush(a), flush(b)) if ftz else compare(a, b)
        if unordered:
            return holds | np.isnan(a) | np.isnan(b)
        return holds & ~(np.isnan(a) | np.isnan(b)) if name == "ne" else holds

    return compared


@instruction("setp", "set", mods=" ".join((*_COMPARISONS, *_LOGIC, "ftz")))
def compare(d: Decoder) -> Step:
    """setp: `p|q = (a cmp b) op c`, q of the opposite. set: all ones (or 1.0) where the comparison holds."""
    kind = d.type()
    if kind.element and d.name == "setp":
        raise d.error("comparison of packed numbers is not emulated")
    ops, holds = d.operands(3, 4), _comparison(d, kind)
    a, b, c = d.source(ops[1], kind), d.source(ops[2], kind), d.source(ops[-1], "pred") if len(ops) == 4 else None
    combine = REDUCTIONS.get(d.choice(_LOGIC))
    puts = [d.sink(o) for o in (ops[0].items if ops[0].kind == "pair" else ops[:1])]
    sets, result = d.name == "set", d.types[0]
    false, true = (np.array(x).astype(result.dtype) for x in (0, 1 if result.is_float else -1))

    def step(g: Gang) -> None:
        held = holds(a(g), b(g))
        for put, value in zip(puts, (held, ~held), strict=False):
            combined = combine(value, c(g)) if combine and c else value
            put(g, np.where(combined, true, false) if sets else combined)

    return step


@instruction("selp")
def selp(d: Decoder) -> Step:
    """selp: a where c holds, else b."""
    return d.compute(lambda a, b, c: np.where(c, a, b), d.type(), d.type(), "pred")


@instruction("slct", mods="ftz")
def slct(d: Decoder) -> Step:
    """slct: a where c >= 0, else b."""
    kind, by = d.types
    return d.compute(lambda a, b, c: np.where(c >= 0, a, b), kind, kind, by)
