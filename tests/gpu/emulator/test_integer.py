"""Integer instructions against numpy or Python integers."""

import numpy as np
import pytest

from tests.gpu.emulator.ptx import apply

RNG = np.random.default_rng(0)
EDGES = np.array([0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)


def u32(n=64):
    x = RNG.integers(0, 1 << 32, n, np.uint32)
    x[: len(EDGES)] = EDGES
    return x


def u64(n=64):
    x = RNG.integers(0, 1 << 64, n, np.uint64)
    x[:4] = [0, 1, 1 << 63, (1 << 64) - 1]
    return x


def pairs(make):
    a, b = make(), make()
    return a, np.roll(b, 3)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("add.s", np.add),
        ("sub.s", np.subtract),
        ("mul.lo.s", np.multiply),
        ("and.b", np.bitwise_and),
        ("or.b", np.bitwise_or),
        ("xor.b", np.bitwise_xor),
        ("min.u", np.minimum),
        ("max.u", np.maximum),
    ],
)
def test_binary(op, function, bits):
    a, b = (x.astype(f"u{bits // 8}") for x in pairs(u64))
    got = apply(f"{op}{bits} {{d}}, {{0}}, {{1}};", [a, b], a.dtype)
    assert (got == function(a, b)).all()


@pytest.mark.parametrize("op", ["min", "max"])
def test_signed_min_max(op):
    a, b = (x.view(np.int32) for x in pairs(u32))
    want = np.minimum(a, b) if op == "min" else np.maximum(a, b)
    assert (apply(f"{op}.s32 {{d}}, {{0}}, {{1}};", [a, b], np.int32) == want).all()


def test_relu_and_pairs():
    a, b = (x.view(np.int32) for x in pairs(u32))
    assert (apply("min.relu.s32 {d}, {0}, {1};", [a, b], np.int32) == np.maximum(np.minimum(a, b), 0)).all()
    low, high = a.view(np.int16), b.view(np.int16)
    assert (apply("max.s16x2 {d}, {0}, {1};", [a, b], np.int32).view(np.int16) == np.maximum(low, high)).all()
    assert (apply("add.u16x2 {d}, {0}, {1};", [a, b], np.int32).view(np.int16) == low + high).all()


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_multiply_high_and_wide(kind):
    dtype = np.dtype(kind.replace("s", "i").replace("32", "4").replace("64", "8"))
    a, b = (x.view(dtype) for x in pairs(u32 if dtype.itemsize == 4 else u64))
    bits = 8 * dtype.itemsize
    high = [(int(x) * int(y)) >> bits for x, y in zip(a, b, strict=True)]
    assert apply(f"mul.hi.{kind} {{d}}, {{0}}, {{1}};", [a, b], dtype).tolist() == high
    if bits == 32:
        wide = np.dtype(f"{dtype.kind}8")
        got = apply(f"mad.wide.{kind} {{d}}, {{0}}, {{1}}, 5;", [a, b], wide)
        assert (got == a.astype(wide) * b.astype(wide) + wide.type(5)).all()
    got = apply(f"mad.lo.{kind} {{d}}, {{0}}, {{1}}, {{0}};", [a, b], dtype)
    assert (got == a * b + a).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_carries(bits):
    """Of numbers of three words: a + b, a - b, and a + the product of two words."""
    word = np.dtype(f"u{bits // 8}")
    a, b = ([RNG.permutation(x.astype(word)) for x in (u64(), u64(), u64())] for _ in range(2))
    a[1][:8], b[1][:8] = ~word.type(0), 0
    whole = [sum(int(x) << (bits * i) for i, x in enumerate(words)) for n in (a, b) for words in zip(*n, strict=True)]
    left, right = whole[: len(a[0])], whole[len(a[0]) :]

    def found(text):
        got = apply(text.replace("W", str(bits)), [*a, *b], word, outs=3)
        return [sum(int(x) << (bits * i) for i, x in enumerate(words)) for words in zip(*got, strict=True)]

    limit = 1 << (3 * bits)
    added = "add.cc.uW {d0}, {0}, {3}; addc.cc.sW {d1}, {1}, {4}; addc.uW {d2}, {2}, {5};"
    assert found(added) == [(x + y) % limit for x, y in zip(left, right, strict=True)]
    taken = "sub.cc.uW {d0}, {0}, {3}; subc.cc.uW {d1}, {1}, {4}; subc.uW {d2}, {2}, {5};"
    assert found(taken) == [(x - y) % limit for x, y in zip(left, right, strict=True)]
    product = "mad.lo.cc.uW {d0}, {3}, {4}, {0}; madc.hi.cc.uW {d1}, {3}, {4}, {1}; addc.uW {d2}, {2}, 0;"
    products = [int(x) * int(y) for x, y in zip(b[0], b[1], strict=True)]
    assert found(product) == [(x + y) % limit for x, y in zip(left, products, strict=True)]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16"])
def test_division_truncates(kind):
    dtype = np.dtype(kind[0].replace("s", "i") + str(int(kind[1:]) // 8))
    a, b = (x.astype(f"u{dtype.itemsize}").view(dtype) for x in pairs(u64))
    b = np.where((b == 0) | (b == -1 if dtype.kind == "i" else False), dtype.type(7), b)
    q = [int(abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)) for x, y in zip(a, b, strict=True)]
    assert apply(f"div.{kind} {{d}}, {{0}}, {{1}};", [a, b], dtype).tolist() == q
    r = [int(x) - int(y) * k for x, y, k in zip(a, b, q, strict=True)]
    assert apply(f"rem.{kind} {{d}}, {{0}}, {{1}};", [a, b], dtype).tolist() == r


def test_unary():
    a = u32().view(np.int32)
    assert (apply("neg.s32 {d}, {0};", [a], np.int32) == -a).all()
    assert (apply("abs.s32 {d}, {0};", [a], np.int32) == np.abs(a)).all()
    assert (apply("not.b32 {d}, {0};", [a], np.int32) == ~a).all()
    assert (apply("cnot.b32 {d}, {0};", [a], np.int32) == (a == 0)).all()
    assert (
        apply("sad.s32 {d}, {0}, {1}, 7;", [a >> 1, a[::-1] >> 1], np.int32) == 7 + np.abs((a >> 1) - (a[::-1] >> 1))
    ).all()
    assert (
        apply("add.sat.s32 {d}, {0}, {0};", [a], np.int32) == np.clip(2 * a.astype(np.int64), -(1 << 31), (1 << 31) - 1)
    ).all()


@pytest.mark.parametrize(("kind", "bits"), [("b", 32), ("b", 64), ("s", 32), ("s", 64), ("u", 16)])
def test_shifts(kind, bits):
    a = u64().astype(f"u{bits // 8}")
    n = RNG.integers(0, 80, 64, np.uint32)
    mask = (1 << bits) - 1
    left = [(int(x) << int(s)) & mask for x, s in zip(a, n, strict=True)]
    assert apply(f"shl.b{bits} {{d}}, {{0}}, {{1}};", [a, n], a.dtype).tolist() == left
    signed = a.view(f"i{bits // 8}") if kind == "s" else a
    right = [(int(x) >> int(s)) & mask for x, s in zip(signed, n, strict=True)]
    assert apply(f"shr.{kind}{bits} {{d}}, {{0}}, {{1}};", [a, n], a.dtype).tolist() == right


@pytest.mark.parametrize("mode", ["l.wrap", "l.clamp", "r.wrap", "r.clamp"])
def test_funnel_shift(mode):
    (a, b), n = pairs(u32), RNG.integers(0, 70, 64, np.uint32)
    want = []
    for low, high, by in zip(a.tolist(), b.tolist(), n.tolist(), strict=True):
        by = by & 31 if "wrap" in mode else min(by, 32)
        both = high << 32 | low
        want.append((both << by >> 32 if mode[0] == "l" else both >> by) & 0xFFFFFFFF)
    assert apply(f"shf.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}};", [a, b, n], np.uint32).tolist() == want


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(kind):
    size = int(kind[1:]) // 8
    a = u64().astype(f"u{size}")
    start, length = RNG.integers(0, 70, (2, 64), np.uint32)
    want = []
    for x, s, n in zip(a.tolist(), start.tolist(), length.tolist(), strict=True):
        msb = 8 * size - 1
        sign = x >> min(s + n - 1, msb) & 1 if kind[0] == "s" and n else 0
        field = 0
        for i in range(8 * size):
            bit = (x >> (s + i) & 1) if i < n and s + i <= msb else sign
            field |= bit << i
        want.append(field)
    assert apply(f"bfe.{kind} {{d}}, {{0}}, {{1}}, {{2}};", [a, start, length], a.dtype).tolist() == want


@pytest.mark.parametrize("size", [4, 8])
def test_bit_field_insert(size):
    a, b = (x.astype(f"u{size}") for x in pairs(u64))
    start, length = RNG.integers(0, 70, (2, 64), np.uint32)
    want = []
    for x, y, s, n in zip(a.tolist(), b.tolist(), start.tolist(), length.tolist(), strict=True):
        for i in range(n):
            if s + i < 8 * size:
                y = y & ~(1 << (s + i)) | ((x >> i & 1) << (s + i))
        want.append(y)
    got = apply(f"bfi.b{8 * size} {{d}}, {{0}}, {{1}}, {{2}}, {{3}};", [a, b, start, length], a.dtype)
    assert got.tolist() == want


def test_permute():
    a, b = pairs(u32)
    c = RNG.integers(0, 1 << 16, 64, np.uint32)
    want = []
    for x, y, s in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        source = (y << 32 | x).to_bytes(8, "little")
        out = 0
        for k in range(4):
            byte = source[s >> 4 * k & 7]
            out |= (0xFF * (byte >> 7) if s >> 4 * k & 8 else byte) << 8 * k
        want.append(out)
    assert apply("prmt.b32 {d}, {0}, {1}, {2};", [a, b, c], np.uint32).tolist() == want


def test_lop3():
    (a, b), c = pairs(u32), u32()[::-1].copy()
    for table, want in ((0x96, a ^ b ^ c), (0xE8, a & b | c & (a | b)), (0xC0, a & b), (0x1A, (a & b | c) ^ a)):
        assert (apply(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table:#x};", [a, b, c], np.uint32) == want).all()


@pytest.mark.parametrize("make", [u32, u64])
def test_counts(make):
    a = make()
    bits = 8 * a.dtype.itemsize
    assert apply(f"popc.b{bits} {{d}}, {{0}};", [a], np.uint32).tolist() == [int(x).bit_count() for x in a]
    assert apply(f"clz.b{bits} {{d}}, {{0}};", [a], np.uint32).tolist() == [bits - int(x).bit_length() for x in a]
    find = [(int(x).bit_length() - 1) % (1 << 32) for x in a]
    assert apply(f"bfind.u{bits} {{d}}, {{0}};", [a], np.uint32).tolist() == find
    reversed_ = [int(f"{int(x):0{bits}b}"[::-1], 2) for x in a]
    assert apply(f"brev.b{bits} {{d}}, {{0}};", [a], a.dtype).tolist() == reversed_


def test_dp4a():
    a, b = pairs(u32)
    dot = (a.view(np.int8).astype(int) * b.view(np.uint8)).reshape(-1, 4).sum(1)
    assert apply("dp4a.s32.u32 {d}, {0}, {1}, 9;", [a, b], np.int32).tolist() == (dot + 9).tolist()


@pytest.mark.parametrize("kind", ["s32", "u32", "u64", "s16"])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_setp(kind, op):
    dtype = np.dtype(kind[0].replace("s", "i") + str(int(kind[1:]) // 8))
    a, b = (x.astype(f"u{dtype.itemsize}").view(dtype) for x in pairs(u64))
    b[::3] = a[::3]
    function = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    got = apply(f"setp.{op}.{kind} {{d}}, {{0}}, {{1}};", [a, b], np.bool_)
    assert (got == function[op](a, b)).all()


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize(
    "op", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)
def test_setp_float(kind, op):
    import ml_dtypes

    dtype = np.dtype({"f32": "f4", "f64": "f8", "f16": "f2", "bf16": ml_dtypes.bfloat16}[kind])
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0]).astype(dtype)
    a, b = np.repeat(values, 8), np.tile(values, 8)
    unordered = np.isnan(a) | np.isnan(b)
    plain = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    if op in ("num", "nan"):
        want = unordered if op == "nan" else ~unordered
    else:
        with np.errstate(invalid="ignore"):
            want = plain[op[:2]](a, b) & ~unordered
        want = want | unordered if len(op) == 3 else want
    assert (apply(f"setp.{op}.{kind} {{d}}, {{0}}, {{1}};", [a, b], np.bool_) == want).all()


def test_setp_combines():
    a, b = pairs(u32)
    c = u32() & 1
    text = "setp.ne.u32 %q1, {{2}}, 0;\n\tsetp.lt.{}.u32 {{d0}}|{{d1}}, {{0}}, {{1}}, {}%q1;"
    for name, function in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        p, q = apply(text.format(name, "!"), [a, b, c], np.bool_, outs=2)
        assert (p == function(a < b, c == 0)).all()
        assert (q == function(a >= b, c == 0)).all()


def test_selection():
    (a, b), c = pairs(u32), u32()
    got = apply("setp.lt.u32 %q1, {0}, {1};\n\tselp.b32 {d}, {0}, {2}, %q1;", [a, b, c], np.uint32)
    assert (got == np.where(a < b, a, c)).all()
    assert (
        apply("slct.u32.s32 {d}, {0}, {1}, {2};", [a, b, c], np.uint32) == np.where(c.view(np.int32) >= 0, a, b)
    ).all()
    assert (apply("set.lt.u32.u32 {d}, {0}, {1};", [a, b], np.uint32) == np.where(a < b, 0xFFFFFFFF, 0)).all()
    assert (apply("set.lt.f32.u32 {d}, {0}, {1};", [a, b], np.float32) == (a < b)).all()


def test_predicate_logic():
    (a, b) = pairs(u32)
    body = "setp.lt.u32 %q1, {0}, {1};\n\tsetp.gt.u32 %q2, {0}, 99;\n\t"
    p, q = a < b, a > 99
    assert (apply(body + "and.pred {d}, %q1, %q2;", [a, b], np.bool_) == (p & q)).all()
    assert (apply(body + "xor.pred {d}, %q1, %q2;", [a, b], np.bool_) == (p ^ q)).all()
    assert (apply(body + "not.pred {d}, %q1;", [a, b], np.bool_) == ~p).all()
    assert (apply(body + "mov.pred {d}, %q2;", [a, b], np.bool_) == q).all()
