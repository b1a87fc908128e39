"""Batched products, arg-reductions, reductions that ignore NaN, scans from behind, machine functions; odd shapes."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.dialects.elementwise import MACHINE_FUNCTIONS, accepts
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, SM_90A, numbers
from tests.gpu.programs import check, emulate, same
from tests.gpu.test_dot import near

TARGETS = pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)


def product(batch, shape, elems, warps=4):
    (m, n, k), (ea, eb, ec) = shape, elems
    strides = [int(np.prod(batch[i + 1 :], dtype=int)) for i in range(len(batch))]

    def view(name, rows, columns, elem):
        steps = [s * rows * columns for s in strides] + [columns, 1]
        dims = "x".join(map(str, (*batch, rows, columns)))
        attrs = f"{{shape = {[*batch, rows, columns]}, strides = {steps}}}"
        return f"block.load_view(%{name}, %z) {attrs} : tile<{dims}x{elem}>"

    dims = "x".join(map(str, (*batch, m, n)))
    return f"""func @f(%x: ptr<{ea}>, %y: ptr<{eb}>, %c: ptr<{ec}>) {{grid = 1, warps = {warps}}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %a = {view("x", m, k, ea)}
  %b = {view("y", k, n, eb)}
  %s = {view("c", m, n, ec)}
  %d = block.dot(%a, %b, %s) : tile<{dims}x{ec}>
  block.store_view(%c, %z, %d) {{strides = {[s * m * n for s in strides] + [n, 1]}}}
  return()
}}"""


BATCHED = [
    ((2,), (16, 16, 16), ("f16", "f16", "f32")), ((8,), (16, 8, 32), ("i8", "i8", "i32")),
    ((2, 2), (32, 16, 16), ("bf16", "bf16", "f32")), ((4,), (16, 16, 32), ("f8e4m3", "f8e5m2", "f32")),
    ((3,), (20, 9, 16), ("f16", "f16", "f16")), ((4,), (8, 8, 8), ("f32", "f32", "f32")),
    ((2,), (4, 4, 4), ("f64", "f64", "f64")), ((2, 3), (5, 3, 2), ("i32", "i32", "i32")),
    ((16,), (1, 1, 1), ("f16", "f16", "f32")), ((2,), (2, 4, 16), ("i8", "i8", "i32")),
]  # fmt: skip


@TARGETS
@pytest.mark.parametrize(("batch", "shape", "elems"), BATCHED, ids=str)
def test_batched_products(batch, shape, elems, target):
    rng = np.random.default_rng(0)
    (m, n, k), (ea, eb, ec) = shape, elems
    arrays = [numbers(rng, (*batch, m, k), ea), numbers(rng, (*batch, k, n), eb), numbers(rng, (*batch, m, n), ec)]
    check(product(batch, shape, elems), [a.reshape(-1) for a in arrays], target=target, equal=near(ec))


def test_tensor_cores_make_batched_products():
    text = product((4,), (32, 32, 32), ("f16", "f16", "f32"))
    rng = np.random.default_rng(1)
    arrays = [numbers(rng, 4096, "f16"), numbers(rng, 4096, "f16"), numbers(rng, 4096, "f32")]
    report, _ = emulate(text, arrays)
    made = sum(n for name, n in report.instructions.items() if name.startswith("mma.sync"))
    assert made == 4 * 2 * 4 * 2, "each warp has a matrix of its own: no product is made twice"


SMALL = [((1, 1, 1), "f32"), ((1, 8, 3), "f16"), ((2, 2, 2), "f64"), ((8, 8, 8), "f16"), ((4, 16, 4), "i8"),
         ((16, 8, 8), "f16"), ((3, 5, 7), "bf16"), ((16, 1, 16), "f8e4m3")]  # fmt: skip


@pytest.mark.parametrize(("shape", "elem"), SMALL, ids=str)
def test_products_smaller_than_an_instruction(shape, elem):
    rng = np.random.default_rng(2)
    m, n, k = shape
    acc = {"f64": "f64", "i8": "i32"}.get(elem, "f32")
    arrays = [numbers(rng, m * k, elem), numbers(rng, k * n, elem), numbers(rng, m * n, acc)]
    check(product((), shape, (elem, elem, acc)), arrays, equal=near(acc))


def reduction(op, shape, elem, axis, result, attrs):
    dims, n = "x".join(map(str, shape)), int(np.prod(shape))
    kept = [d for i, d in enumerate(shape) if i != axis]
    strides = [int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape))]
    out_strides = [int(np.prod(kept[i + 1 :], dtype=int)) for i in range(len(kept))]
    type_ = f"tile<{'x'.join(map(str, kept))}x{result}>" if kept else result
    store = f"block.store_view(%o, %z, %r) {{strides = {out_strides}}}" if kept else "block.store(%o, %z, %r)"
    text = f"""func @f(%x: ptr<{elem}>, %o: ptr<{result}>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %t = block.load_view(%x, %z) {{shape = {list(shape)}, strides = {strides}}} : tile<{dims}x{elem}>
  %r = block.{op}(%t) {{axis = {axis}, {attrs}}} : {type_}
  {store}
  return()
}}"""
    return text, n, max(1, int(np.prod(kept, dtype=int)))


SHAPES = [((5,), 0), ((1000,), 0), ((3, 7), 1), ((8, 64), 1), ((48, 10), 0), ((2, 5, 16), 1)]


def with_nans(rng, n, elem):
    x = numbers(rng, n, elem)
    if Scalar(elem).is_float:
        x[rng.random(n) < 0.2] = np.nan
    return x


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("elem", ["f16", "f64"])
@pytest.mark.parametrize("kind", ["maxnum", "minnum"])
def test_extremes_that_ignore_nan(kind, elem, shape, axis):
    text, n, m = reduction("reduce", shape, elem, axis, elem, f'kind = "{kind}"')
    x = with_nans(np.random.default_rng(3), n, elem)
    if len(shape) > 1:
        x.reshape(shape).take([0], axis)[...] = np.nan
    check(text, [x, np.zeros(m, numpy_dtype(Scalar(elem)))])
    check(text, [np.full_like(x, np.nan), np.zeros(m, numpy_dtype(Scalar(elem)))])


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("elem", ["i8", "i32", "u64"])
@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_bits(kind, elem, shape, axis):
    text, n, m = reduction("reduce", shape, elem, axis, elem, f'kind = "{kind}"')
    check(text, [numbers(np.random.default_rng(4), n, elem), np.zeros(m, numpy_dtype(Scalar(elem)))])


@pytest.mark.some(24)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("elem", ["i8", "u32", "f16", "f64"])
@pytest.mark.parametrize(("kind", "to"), [("max", "i64"), ("min", "i32")])
def test_where_the_extreme_is(kind, to, elem, shape, axis):
    text, n, m = reduction("arg_reduce", shape, elem, axis, to, f'elem = {to}, kind = "{kind}"')
    rng = np.random.default_rng(5)
    few = rng.integers(0, 4, n).astype(numpy_dtype(Scalar(elem)))
    for x in (few, with_nans(rng, n, elem)):
        check(text, [x, np.zeros(m, numpy_dtype(Scalar(to)))])


def scan(shape, elem, axis, kind, *, exclusive, reverse):
    """A tile scanned in place, and how many elements it has."""
    dims, n = "x".join(map(str, shape)), int(np.prod(shape))
    strides = [int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape))]
    flags = f"exclusive = {str(exclusive).lower()}, reverse = {str(reverse).lower()}"
    text = f"""func @f(%x: ptr<{elem}>) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
  %t = block.load_view(%x, %z) {{shape = {list(shape)}, strides = {strides}}} : tile<{dims}x{elem}>
  %r = block.scan(%t) {{axis = {axis}, kind = "{kind}", {flags}}} : tile<{dims}x{elem}>
  block.store_view(%x, %z, %r) {{strides = {strides}}}
  return()
}}"""
    return text, n


@pytest.mark.some(24)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "elem"), [("sum", "i32"), ("prod", "u64"), ("max", "f32"), ("min", "i8")])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scans_from_behind(exclusive, kind, elem, shape, axis):
    text, n = scan(shape, elem, axis, kind, exclusive=exclusive, reverse=True)
    check(text, [numbers(np.random.default_rng(6), n, elem)])


def machine(fn, elem, n):
    """A function of one tile or two, and memory for it."""
    rng = np.random.default_rng(7)
    call = f"block.{fn.name}(%a{', %b' if fn.arity == 2 else ''})"
    text = f"""func @f(%x: ptr<{elem}>, %y: ptr<{elem}>, %o: ptr<{elem}>) {{grid = 1}} {{
  %i = block.arange() {{end = {n}, start = 0}} : tile<{n}xi64>
  %a = block.load(%x, %i) : tile<{n}x{elem}>
  %b = block.load(%y, %i) : tile<{n}x{elem}>
  %r = {call} : tile<{n}x{elem}>
  block.store(%o, %i, %r)
  return()
}}"""
    x, y = with_nans(rng, n, elem), with_nans(rng, n, elem)
    x[:4] = [0, 1, 2, 3]
    return text, [abs(x) if fn.name == "rsqrt" else x, y, np.zeros(n, x.dtype)]


def close(name, elem):
    """Exact, but for what is made of several functions, or has an instruction's error."""
    allowed = {
        "rsqrt": {"f32": 2e-7, "f64": 1e-15},
        "logaddexp": {"f16": 1e-3, "bf16": 8e-3, "f32": 2e-6, "f64": 4e-15},
        # an ulp of halves, four of the others
        **{
            name: {"f16": 1e-3, "bf16": 8e-3, "f32": 5e-7, "f64": 9e-16}
            for name in ("log10", "exp10", "cbrt", "hypot", "erfc", "erfinv", "lgamma")
        },
    }
    return near(elem, allowed[name].get(elem, 0.0)) if name in allowed else same


@pytest.mark.parametrize("elem", ["i8", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"])
def test_machine_functions(elem):
    for fn in MACHINE_FUNCTIONS:
        if accepts(fn.takes, Scalar(elem)):
            text, arrays = machine(fn, elem, 200)
            check(text, arrays, equal=close(fn.name, elem))
