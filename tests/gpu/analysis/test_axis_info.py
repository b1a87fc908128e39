"""Axis info never lies: what it claims holds of the values that the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.dialects import block, control
from graphfuse.gpu.analysis import axis_rules
from graphfuse.gpu.analysis.axis_facts import MAX_DIVISIBILITY, AxisInfo
from graphfuse.gpu.analysis.axis_info import access_info, axis_info
from graphfuse.interp.block import run_program
from graphfuse.ir.core import Builder, Func, Params
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import BOOL, I8, I32, I64, U8, U32, Scalar, Tile
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import floordiv, maximum, minimum, mod, sym

BINARY = ["add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr", "and", "or",
          "xor", "lt", "le", "gt", "ge", "eq"]  # fmt: skip
MUL, FLOORDIV = block.ELEMENTWISE["mul"], block.ELEMENTWISE["floordiv"]
LAWS = settings(max_examples=150, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))


def assert_holds(info, array):
    """Every claim of an info, checked element by element."""
    if info.value is not None:
        assert (array == info.value).all()
    if array.ndim == 0:
        array = array.reshape(1)
    bits = array.dtype.itemsize * 8
    for d in range(array.ndim):
        rows = np.moveaxis(array, d, -1).reshape(-1, array.shape[d])
        run, same, by = info.contiguity[d], info.constancy[d], info.divisibility[d]
        assert rows.shape[1] % run == 0
        assert rows.shape[1] % same == 0
        runs = rows.reshape(-1, run).astype(object)
        modulus = 1 << bits
        assert all((row[i] - row[0] - i) % modulus == 0 for row in runs for i in range(run)), f"dim {d}: runs of {run}"
        assert all(int(row[0]) % min(by, modulus) == 0 for row in runs), f"dim {d}: multiples of {by}"
        equal = rows.reshape(-1, same)
        assert (equal == equal[:, :1]).all(), f"dim {d}: equal runs of {same}"


def check(func, symbols, assume, program=0):
    """Run a function that returns all it computes, and hold each result against its facts."""
    verify(func)
    facts = axis_info(func, assume)
    results = run_program(func, [], symbols, program)
    for value, array in zip(func.outputs, results, strict=True):
        assert_holds(facts[value], array)
    return facts


def integer(v):
    return block.elem_of(v.type).is_integer


class Program:
    """Draws ops over a growing pool of values."""

    def __init__(self, draw, builder, pool):
        self.draw, self.b, self.pool = draw, builder, pool

    def pick(self, accept=lambda _: True):
        found = [v for v in self.pool if accept(v)]
        return self.draw(st.sampled_from(found)) if found else None

    def add(self, kind, *operands, **attrs):
        value = self.b(kind, *operands, **attrs)
        self.pool.append(value)
        return value

    def constant(self, t):
        elem = block.elem_of(t)
        values = [0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 64, -1, -8] if elem.is_signed else [0, 1, 3, 4, 8, 15]
        return self.add(
            block.const,
            value=self.draw(st.sampled_from(values)),
            elem=elem,
            **({"shape": t.shape} if isinstance(t, Tile) else {}),
        )

    def step(self):
        steps = [self.arange, self.splat, self.reshape, self.broadcast, self.trans, self.index, self.cast, self.select]
        self.draw(st.sampled_from([*steps, self.binary, self.binary, self.binary]))()

    def arange(self):
        start = self.draw(st.sampled_from([0, 0, 1, 4, 16, 96]))
        size = self.draw(st.sampled_from([4, 8, 12, 16, 256]))
        elem = self.draw(st.sampled_from([I64, I64, I32, U32, I8, U8]))
        self.add(block.arange, start=start, end=start + size, elem=elem)

    def splat(self):
        x = self.pick(lambda v: isinstance(v.type, Scalar))
        self.add(block.splat, x, shape=self.draw(st.sampled_from([(8,), (16,), (4, 8), (8, 1)])))

    def broadcast(self):
        if x := self.pick(lambda v: isinstance(v.type, Tile) and 1 in v.type.shape):
            self.add(block.broadcast, x, shape=tuple(4 if n == 1 else n for n in x.type.shape))

    def trans(self):
        if x := self.pick(lambda v: isinstance(v.type, Tile) and len(v.type.shape) == 2):
            self.add(block.trans, x, perm=(1, 0))

    def cast(self):
        if x := self.pick(integer):
            self.add(block.cast, x, to=self.draw(st.sampled_from([I64, I32, U32, I8, U8])))

    def select(self):
        c = self.pick(lambda v: block.elem_of(v.type) == BOOL)
        if c and (a := self.pick(lambda v: integer(v) and block.with_elem(v.type, BOOL) == c.type)):
            self.add(block.select, c, a, self.pick(lambda v: v.type == a.type))

    def binary(self):
        a = self.pick(integer)
        b = self.constant(a.type) if self.draw(st.booleans()) else self.pick(lambda v: v.type == a.type)
        if self.draw(st.booleans()):
            a, b = b, a
        self.add(block.ELEMENTWISE[self.draw(st.sampled_from(BINARY))], a, b)

    def reshape(self):
        if not (x := self.pick(lambda v: isinstance(v.type, Tile))):
            return
        n = x.type.elements
        inner = [d for d in (1, 2, 4, 8, 16) if n % d == 0]
        d = self.draw(st.sampled_from(inner))
        shape = self.draw(st.sampled_from([(n // d, d), (d, n // d), (n,), (1, n), (n, 1), (n // d, 1, d)]))
        self.add(block.reshape, x, shape=shape)

    def index(self):
        first = self.pick(lambda v: block.elem_of(v.type) == I64)
        second = self.pick(
            lambda v: v.type == I64 or (v.type == first.type) or (first.type == I64 and block.elem_of(v.type) == I64)
        )
        a, b, n = sym("a"), sym("b"), sym("n")
        exprs = [
            a + b, 4 * a + b, n * a + b, 16 * n * a + 8 * b + 4, floordiv(a, 8), mod(a + 4 * b, 12), floordiv(a, n) + b,
            mod(a, 16 * n), minimum(a, 8 * n), maximum(a, b) * 4, a - b, a * a, 3 * a - 2 * b + 1,
            floordiv(a, sym("q")), n, 8 * n + sym("q"), mod(a, b * b + 1),
        ]  # fmt: skip
        expr = self.draw(st.sampled_from(exprs))
        self.add(block.index, first, second, expr=expr, names=("a", "b"))


@st.composite
def programs(draw):
    params = Params((I64, I64), ("n", "q"))
    p = Program(draw, Builder(), [*params.values])
    p.add(block.program_id)
    p.add(block.arange, start=0, end=16)
    for _ in range(draw(st.integers(2, 14))):
        p.step()
    p.b.op(control.return_, *p.pool)
    declared = draw(st.sampled_from([(), (("n", 1, 4096),), (("q", 3, 3),)]))
    return Func("f", p.b.block(params), {}, declared)


@LAWS
@given(programs(), st.sampled_from([1, 4, 16]), st.integers(1, 20), st.integers(1, 9), st.sampled_from([0, 5]))
def test_never_lies(func, by, n, q, program):
    """For every program, symbol value and op: claims hold of the interpreted values."""
    symbols = {"n": n * by, "q": 3 if ("q", 3, 3) in func.dims else q}
    check(func, symbols, {"n": by}, program)


@LAWS
@given(st.data())
def test_never_lies_about_loops(data):
    """Facts of carried values hold after any number of iterations, and those of the induction variable in each."""
    start, step = data.draw(st.sampled_from([0, 8, 3])), data.draw(st.sampled_from([1, 4, 16]))
    count = data.draw(st.integers(0, 4))
    carried = Params((I64, Tile((16,), I64), I64), ("i", "x", "last"))
    inner = Program(data.draw, Builder(), [*carried.values])
    for _ in range(data.draw(st.integers(1, 6))):
        inner.step()
    tile = inner.pick(lambda v: v.type == Tile((16,), I64))
    inner.b.op(control.yield_, tile, carried.values[0])
    params = Params((I64, I64), ("n", "q"))
    b = Builder()
    first = data.draw(st.sampled_from([0, 4, 64]))
    x = b(block.arange, start=first, end=first + 16)
    lower = b(block.const, value=start, elem=I64)
    upper = b(block.const, value=start + step * count, elem=I64)
    loop = b.op(control.for_, lower, upper, x, lower, step=step, bodies=(inner.b.block(carried),))
    b.op(control.return_, *loop.results)
    check(Func("f", b.block(params)), {"n": data.draw(st.integers(1, 9)) * 4, "q": 5}, {"n": 4})


@pytest.mark.parametrize("elem", [I64, I32, I8, U8])
def test_every_pair(elem):
    """Each operation on each pair of telling operands: runs, multiples, constants of both signs, equal runs."""
    b = Builder()
    signed = elem.is_signed
    tiles = [b(block.arange, start=s, end=s + 16, elem=elem) for s in ((0, 4, 3, -8) if signed else (0, 4, 3))]
    values = (0, 1, 3, 4, 7, 8, 12, -8, -1) if signed else (0, 1, 3, 4, 7, 8, 12)
    constants = [b(block.const, value=c, elem=elem, shape=(16,)) for c in values]
    tiles += [b(MUL, tiles[0], constants[3]), b(FLOORDIV, tiles[1], constants[3])]
    out = [b(block.ELEMENTWISE[name], x, y) for name in BINARY for x in tiles for y in (*tiles, *constants)]
    out += [b(block.ELEMENTWISE[name], y, x) for name in BINARY for x in tiles for y in constants]
    masks = [b(block.lt, tiles[0], c) for c in constants[:6]] + [b(block.le, tiles[0], constants[5])]
    out += [b(block.select, m, x, y) for m in masks for x in tiles for y in tiles]
    b.op(control.return_, *out)
    check(Func("f", b.block(Params(()))), {}, {})


def facts_of(text, assume=None):
    func = parse(text)
    verify(func)
    facts = axis_info(func, assume)
    return func, {op.hints[0]: facts[op.result] for op in func.walk() if op.types and op.hints}


OFFSETS = """func @f(%p: ptr<f32>, %n: i64) {
  %pid = block.program_id() : i64
  %lane = block.arange() {end = 1024, start = 0} : tile<1024xi64>
  %at = block.index(%pid, %lane) {expr = (lane + 1024*pid), names = ["pid", "lane"]} : tile<1024xi64>
  %limit = block.splat(%n) {shape = [1024]} : tile<1024xi64>
  %mask = block.lt(%at, %limit) : tile<1024xbool>
  %v = block.load(%p, %at, %mask) : tile<1024xf32>
  block.store(%p, %at, %v, %mask)
  return()
}
"""


def test_the_offsets_of_a_kernel():
    """A program's chunk is contiguous and aligned; its mask moves in runs of what divides n."""
    func, facts = facts_of(OFFSETS, {"n": 16, "p": 16})
    assert facts["at"] == AxisInfo((1024,), (1024,), (1,))
    assert facts["mask"].constancy == (16,)
    everything = axis_info(func, {"n": 16, "p": 16})
    load, store = (op for op in func.walk() if op.kind in (block.load, block.store))
    for op in (load, store):
        access = access_info(func, op, everything)
        assert access.vector(0, 4) == 4
        assert (access.contiguity, access.alignment) == ((1024,), (16,))


@pytest.mark.parametrize(("assume", "width"), [({}, 1), ({"p": 16}, 1), ({"n": 16}, 1), ({"n": 2, "p": 16}, 2)])
def test_what_is_not_known_is_not_used(assume, width):
    """A misaligned pointer, or an n of unknown divisibility, means narrower accesses."""
    func, _ = facts_of(OFFSETS)
    load = next(op for op in func.walk() if op.kind is block.load)
    assert access_info(func, load, axis_info(func, assume)).vector(0, 4) == width


def test_facts_can_be_declared_in_text():
    text = OFFSETS.replace(") {\n  %pid", ') {assume = [["n", 4], ["p", 16]]} {\n  %pid')
    func = parse(text)
    assert to_text(func) == text
    load = next(op for op in func.walk() if op.kind is block.load)
    assert access_info(func, load, axis_info(func)).vector(0, 4) == 4


def test_views():
    """A strided view: contiguous along stride 1, aligned as base and strides are, masked by limits."""
    text = """func @f(%p: ptr<f16>, %n: i64, %m: i64) {
  %pid = block.program_id() : i64
  %base = block.index(%pid) {expr = (64*n*pid), names = ["pid"]} : i64
  %q = block.offset(%p, %base) : ptr<f16>
  %zero = block.const() {elem = i64, value = 0} : i64
  %v = block.load_view(%q, %zero, %m) {limited = [1], shape = [64, 32], strides = [(n), 1]} : tile<64x32xf16>
  %w = block.load_view(%q, %zero) {shape = [64, 32], strides = [0, (n)]} : tile<64x32xf16>
  block.store_view(%q, %zero, %v, %m) {limited = [1], strides = [(n), 1]}
  return()
}
"""
    func, facts = facts_of(text, {"n": 8, "p": 16, "m": 4})
    everything = axis_info(func, {"n": 8, "p": 16, "m": 4})
    views = [op for op in func.walk() if op.kind in (block.load_view, block.store_view)]
    first, second, store = (access_info(func, op, everything) for op in views)
    assert (first.contiguity, first.alignment, first.mask) == ((1, 32), (2, 16), (64, 4))
    assert (first.vector(1, 2), first.vector(0, 2)) == (4, 1)
    assert store == first
    assert second.contiguity == (1, 1)
    assert facts["w"].constancy == (64, 1)
    assert facts["q"].divisibility == (16,)


def test_two_dims_in_one_expression():
    """Row-major offsets of a 2-d tile: contiguous along columns, equal nowhere."""
    text = """func @f(%n: i64) {
  %i = block.arange() {end = 16, start = 0} : tile<16xi64>
  %r = block.reshape(%i) {shape = [16, 1]} : tile<16x1xi64>
  %rows = block.broadcast(%r) {shape = [16, 32]} : tile<16x32xi64>
  %j = block.arange() {end = 32, start = 0} : tile<32xi64>
  %c = block.reshape(%j) {shape = [1, 32]} : tile<1x32xi64>
  %cols = block.broadcast(%c) {shape = [16, 32]} : tile<16x32xi64>
  %at = block.index(%rows, %cols) {expr = (i*n + j), names = ["i", "j"]} : tile<16x32xi64>
  %half = block.index(%cols) {expr = (floordiv(j, 8)), names = ["j"]} : tile<16x32xi64>
  %low = block.index(%cols) {expr = (mod(j, 8)), names = ["j"]} : tile<16x32xi64>
  return()
}
"""
    _, facts = facts_of(text, {"n": 8})
    assert facts["at"].contiguity == (1, 32)
    assert facts["at"].divisibility[1] == 8
    assert facts["half"].constancy == (16, 8)
    assert facts["low"].contiguity == (1, 8)
    assert facts["rows"] == AxisInfo((16, 1), (MAX_DIVISIBILITY, 1), (1, 32))


# planted bugs: the law bites

LIES = {
    "sum": ("add", lambda a, b: AxisInfo(a.contiguity, a.divisibility, a.constancy)),
    "product": ("mul", lambda a, b: AxisInfo(a.contiguity, a.divisibility, b.constancy)),
    "difference": ("sub", AxisInfo.__add__),
}


@pytest.mark.parametrize("name", LIES)
def test_wrong_rules_are_noticed(name, monkeypatch):
    op, lie = LIES[name]
    kind = block.ELEMENTWISE[op]
    monkeypatch.setitem(axis_rules.RULES, kind, lambda _op, operands: lie(*operands))
    params = Params((I64, I64), ("n", "q"))
    b = Builder()
    x = b(block.arange, start=0, end=16)
    three = b(block.const, value=3, elem=I64, shape=(16,))
    b.op(control.return_, b(kind, x, three), b(kind, three, x), b(kind, x, x))
    with pytest.raises(AssertionError):
        check(Func("f", b.block(params)), {"n": 1, "q": 1}, {})


def test_narrow_integers_wrap():
    """Runs that wrap in 8 bits are not runs in 64, and do not keep comparisons constant."""
    text = """func @f() {
  %x = block.arange() {elem = i8, end = 512, start = 0} : tile<512xi8>
  %y = block.const() {elem = i8, shape = [512], value = 0} : tile<512xi8>
  %m = block.lt(%x, %y) : tile<512xbool>
  %w = block.cast(%x) {to = i64} : tile<512xi64>
  return(%x, %m, %w)
}
"""
    facts = check(parse(text), {}, {})
    assert [i.contiguity for i in facts.values()] == [(128,), (1,), (1,), (128,)]


def test_flattening_keeps_only_whole_rows_together():
    """Equal runs along rows do not join when columns differ."""
    text = """func @f() {
  %i = block.arange() {end = 16, start = 0} : tile<16xi64>
  %r = block.reshape(%i) {shape = [16, 1]} : tile<16x1xi64>
  %b = block.broadcast(%r) {shape = [16, 4]} : tile<16x4xi64>
  %t = block.trans(%b) {perm = [1, 0]} : tile<4x16xi64>
  %both = block.index(%b) {expr = (floordiv(i, 4)), names = ["i"]} : tile<16x4xi64>
  %flat = block.reshape(%both) {shape = [64]} : tile<64xi64>
  %mixed = block.reshape(%t) {shape = [64]} : tile<64xi64>
  %again = block.reshape(%both) {shape = [2, 8, 4]} : tile<2x8x4xi64>
  return(%both, %flat, %mixed, %again)
}
"""
    both, flat, mixed, again = list(check(parse(text), {}, {}).values())[-4:]
    assert both.constancy == (4, 4)
    assert (flat.constancy, mixed.constancy, mixed.contiguity) == ((16,), (1,), (16,))
    assert again.constancy == (1, 4, 4)
