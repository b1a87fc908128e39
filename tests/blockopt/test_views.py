"""Kernels as a programmer writes them: tiles of addresses that loops advance, masks compared element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphfuse.blockopt.grid import flat_grid
from graphfuse.blockopt.parameters import symbolic_parameters
from graphfuse.blockopt.pipeline import optimized
from graphfuse.dialects import block, control
from graphfuse.gpu.code import gpu_code
from graphfuse.interp.block import launch
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.types import BOOL, F16, F32, I32, I64, Ptr, Tile
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import sym
from graphfuse.targets import Target


class Kernel(Builder):
    """A few words for writing kernels."""

    def number(self, value: int, shape: tuple[int, ...] | None = None, elem: Any = I32) -> Value:
        return self(block.const, value=value, elem=elem) if shape is None else self(
            block.const, value=value, elem=elem, shape=shape
        )  # fmt: skip

    def add(self, a: Value, b: Value) -> Value:
        return self(block.add, a, b, nsw=True)

    def mul(self, a: Value, b: Value) -> Value:
        return self(block.mul, a, b, nsw=True)

    def along(self, x: Value, axis: int, shape: tuple[int, int]) -> Value:
        """A vector along one dim of a matrix."""
        n = shape[axis]
        column = self(block.reshape, x, shape=(n, 1) if axis == 0 else (1, n))
        return self(block.broadcast, column, shape=shape)

    def all(self, x: Value, shape: tuple[int, ...]) -> Value:
        return self(block.splat, x, shape=shape)

    def wide(self, x: Value) -> Value:
        return self(block.cast, x, to=I64)


def matmul(tm: int = 16, tn: int = 16, tk: int = 8, *, masked: bool = True, elem: Any = F32) -> Func:
    """c = a @ b; int parameters, pointer tiles that are advanced, masks on every side."""
    params = Params((Ptr(elem), Ptr(elem), Ptr(F32), I32, I32, I32), ("a", "b", "c", "M", "N", "K"))
    a, b, c, m, n, k = params.values
    e = Kernel()
    pm, pn = (e(block.cast, e(block.program_id, axis=x), to=I32) for x in (0, 1))
    rm = e.add(e.all(e.mul(pm, e.number(tm)), (tm,)), e(block.arange, start=0, end=tm, elem=I32))
    rn = e.add(e.all(e.mul(pn, e.number(tn)), (tn,)), e(block.arange, start=0, end=tn, elem=I32))
    rk = e(block.arange, start=0, end=tk, elem=I32)
    pa = e.wide(e.add(e.mul(e.along(rm, 0, (tm, tk)), e.all(k, (tm, tk))), e.along(rk, 1, (tm, tk))))
    pb = e.wide(e.add(e.mul(e.along(rk, 0, (tk, tn)), e.all(n, (tk, tn))), e.along(rn, 1, (tk, tn))))
    zero, one = e.number(0, elem=I64), e.number(tk - 1)
    trips = e.wide(e(block.ELEMENTWISE["truncdiv"], e.add(k, one), e.number(tk)))
    acc = e.number(0, (tm, tn), F32)
    carried = (Tile((tm, tn), F32), Tile((tm, tk), I64), Tile((tk, tn), I64), I32)
    loop = Params((I64, *carried), ("i", "acc", "pa", "pb", "k"))
    _, s, qa, qb, left = loop.values
    inner = Kernel()
    if masked:
        here = inner.along(inner(block.lt, rk, inner.all(left, (tk,))), 1, (tm, tk))
        rows = inner.along(inner(block.lt, rm, inner.all(m, (tm,))), 0, (tm, tk))
        below = inner.along(inner(block.lt, rk, inner.all(left, (tk,))), 0, (tk, tn))
        x = inner(block.load, a, qa, inner(block.and_, rows, here))
        columns = inner.along(inner(block.ELEMENTWISE["gt"], inner.all(n, (tn,)), rn), 1, (tk, tn))
        y = inner(block.load, b, qb, inner(block.and_, columns, below))
    else:
        x, y = inner(block.load, a, qa), inner(block.load, b, qb)
    d = inner(block.dot, x, y, s)
    step = inner.number(tk)
    qa = inner(block.add, qa, inner.wide(inner.all(step, (tm, tk))))
    qb = inner(block.add, qb, inner.wide(inner.all(inner.mul(n, step), (tk, tn))))
    inner.op(control.yield_, d, qa, qb, inner(block.sub, left, step, nsw=True))
    total, *_ = e.op(control.for_, zero, trips, acc, pa, pb, k, bodies=(inner.block(loop),)).results
    pc = e.wide(e.add(e.mul(e.along(rm, 0, (tm, tn)), e.all(n, (tm, tn))), e.along(rn, 1, (tm, tn))))
    inside = e(block.and_, e.along(e(block.lt, rm, e.all(m, (tm,))), 0, (tm, tn)),
               e.along(e(block.le, rn, e.all(e(block.sub, n, e.number(1), nsw=True), (tn,))), 1, (tm, tn)))  # fmt: skip
    e.op(block.store, c, pc, total, *([inside] if masked else []))
    e.op(control.return_)
    return Func("matmul", e.block(params), {"grid": (3, 4)} if elem == F32 else {})


def kinds(func: Func) -> list[str]:
    return [op.kind.name.removeprefix("block.") for op in func.walk()]


def run(func: Func, arrays: list[Any], symbols: dict[str, int]) -> list[Any]:
    out = [a.copy() for a in arrays]
    launch(func, out, symbols)
    return out


@pytest.mark.parametrize(("m", "n", "k", "masked"), [(48, 64, 24, False), (45, 51, 19, True), (33, 64, 1, True)])
def test_matmul_of_pointer_tiles_becomes_one_of_views(m: int, n: int, k: int, masked: bool) -> None:
    func = matmul(masked=masked)
    verify(func)
    better = optimized(func)
    verify(better)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n))]
    symbols = {"M": m, "N": n, "K": k}
    want = run(func, arrays, symbols)
    got = run(better, arrays, symbols)
    np.testing.assert_array_equal(want[2], got[2])
    np.testing.assert_allclose(got[2], arrays[0] @ arrays[1], atol=1e-4)
    assert kinds(better).count("load_view") == 2
    assert "load" not in kinds(better)
    assert "store" not in kinds(better)
    (loop,) = [op for op in better.walk() if op.kind is control.for_]
    assert len(loop.results) == 1, "addresses and counters are not carried"
    if masked:
        (x, y) = [op for op in loop.body.ops if op.kind is block.load_view]
        assert sorted(x.attrs["limited"]) == sorted(y.attrs["limited"]) == [0, 1]  # type: ignore[arg-type]


def access(build: Any, elem: Any = I32) -> Func:
    """y[i] = x[...] for i in 0..32, addresses and mask as `build` makes them."""
    params = Params((Ptr(F32), Ptr(F32), I32), ("x", "y", "n"))
    x, y, n = params.values
    e = Kernel()
    r = e(block.arange, start=0, end=32, elem=elem)
    offsets, *mask = build(e, r, n)
    value = e(block.load, x, offsets if offsets.type == Tile((32,), I64) else e.wide(offsets), *mask)
    e.op(block.store, y, e(block.arange, start=0, end=32), value)
    e.op(control.return_)
    return Func("k", e.block(params), {"grid": 1})


@pytest.mark.parametrize(
    ("build", "view"),
    [
        (lambda e, r, n: (e.mul(r, e.number(3, (32,))),), True),
        (lambda e, r, n: (e.mul(r, e.all(n, (32,))),), True),
        (lambda e, r, n: (r, e(block.lt, e.mul(r, e.number(3, (32,))), e.all(n, (32,)))), True),
        (lambda e, r, n: (r, e.all(e(block.lt, e.number(5), n), (32,))), True),
        (lambda e, r, n: (r, e(block.lt, e.all(n, (32,)), r)), False),  # a limit from below
        (lambda e, r, n: (r, e(block.eq, e.all(n, (32,)), r)), False),
        (lambda e, r, n: (e.mul(r, r),), False),
        (lambda e, r, n: (e(block.add, r, e.all(n, (32,))),), False),  # may wrap
        (lambda e, r, n: (e(block.and_, r, e.number(7, (32,))),), False),
        (lambda e, r, n: (r, e(block.and_, e(block.lt, r, e.all(n, (32,))), e(block.lt, r, e.number(9, (32,))))), True),
    ],
)
@pytest.mark.parametrize("n", [1, 6, 20])
def test_what_is_a_view(build: Any, view: bool, n: int) -> None:
    func = access(build)
    better = optimized(func)
    verify(better)
    assert ("load_view" in kinds(better)) == view
    arrays = [np.arange(2000, dtype=np.float32) + 1, np.zeros(32, np.float32)]
    np.testing.assert_array_equal(run(func, arrays, {"n": n})[1], run(better, arrays, {"n": n})[1])


@pytest.mark.parametrize("n", [-3, 0, 1, 40, 64, 99])
def test_any_and_all_of_a_limit_are_comparisons(n: int) -> None:
    params = Params((Ptr(BOOL), I64), ("out", "n"))
    e = Kernel()
    lanes = e(block.arange, start=0, end=64, elem=I64)
    mask = e(block.ELEMENTWISE["lt"], lanes, e.all(params.values[1], (64,)))
    for i, kind in enumerate(("any", "all")):
        found = e(block.reduce, mask, axis=0, kind=kind)
        e.op(block.store, params.values[0], e.number(i, elem=I64), found)
    e.op(control.return_)
    func = Func("k", e.block(params), {"grid": 1, "assume": ()}, (("n", -99, 99),))
    made = optimized(func)
    verify(made)
    assert not any(isinstance(t, Tile) for op in made.walk() for t in op.types)
    for f in (func, made):
        launch(f, [out := np.zeros(2, np.bool_)], {"n": n})
        assert out.tolist() == [n > 0, n >= 64]


def test_a_mask_that_is_constant() -> None:
    def masked(*, value: bool) -> Func:
        return optimized(access(lambda e, r, n: (r, e(block.const, value=value, elem=BOOL, shape=(32,)))))

    assert "load" not in kinds(masked(value=True))
    assert "load" in kinds(masked(value=False))


def test_a_kernel_written_by_hand_gets_tensor_cores_and_boxes() -> None:
    """Masks on every side, addresses that a loop advances: and still TMA and wgmma, once the sizes are positive."""
    func = flat_grid(matmul(128, 128, 64, elem=F16), 2)
    func = symbolic_parameters(func)
    dims = tuple((n, 1, hi) if n in "MNK" else (n, lo, hi) for n, lo, hi in func.dims)
    assume = tuple((n, 16) for n in ("a", "b", "c", "M", "N", "K"))
    better = optimized(Func(func.name, func.body, {**func.attrs, "assume": assume}, dims))
    made = gpu_code([better], Target.parse("cuda:sm_90a"))
    (info,) = made.launches.values()
    assert [m.dims for m in info.tensor_maps] == [(sym("N"), sym("M")), (sym("K"), sym("M")), (sym("N"), sym("K"))]
    assert "wgmma.mma_async" in made.code.ptx
    assert "mma.sync" not in made.code.ptx
