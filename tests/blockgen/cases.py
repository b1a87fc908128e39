"""Every kind of region with the shapes that trip schedules: 1, non-multiples, symbols, strides, groups, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.blockgen.support import Case, graph_func, in_one_region

ELEMS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
Sizes = Sequence[Mapping[str, int]]


def case(
    kinds: str, name: str, params: str, body: str, dims: str = "", sizes: Sizes = ({},), **options: Any
) -> Case:
    """One case; `kinds` are the regions expected, in order."""
    func = graph_func(params, body, dims)
    return Case(name, tuple(kinds.split()), func, tuple(sizes), **options)


def fused(kind: str, name: str, params: str, body: str, dims: str = "", sizes: Sizes = ({},), **options: Any) -> Case:
    """One case whose ops are one region, though fusion would make several."""
    func = in_one_region(graph_func(params, body, dims), kind)
    return Case(name, (kind,), func, tuple(sizes), whole=True, **options)


def over(*names: str, values: Sequence[int] = (1, 5)) -> Sizes:
    """The same values for all symbols, one set per value; each further symbol one larger."""
    return tuple({n: v + i for i, n in enumerate(names)} for v in values)


N = "n in 0..512"
NM = "n in 0..512, m in 0..512"

POINTWISE = (
    case("pointwise", "bias_relu", "x: (n)x8xf32, w: 8xf32", """
        b = broadcast(w) {shape = [(n), 8]}; s = add(x, b)
        z = full() {shape = [(n), 8], elem = f32, value = 0.0}; r = max(s, z); return(r)""", N, over("n", values=(0, 1, 5))),
    case("pointwise", "one_element", "x: 1x1xf32", "y = exp(x); return(y)"),
    case("pointwise", "scalar", "x: f32, y: f32", "s = add(x, y); return(s)"),
    case("pointwise", "odd", "x: 3x7xf32", "y = tanh(x); return(y)"),
    case("pointwise", "several_widths", "x: 151xf32", "y = sqrt(x); z = neg(y); return(z)"),
    case("pointwise", "long", "x: (n)xf32", "y = mul(x, x); return(y)", "n in 0..10000", over("n", values=(0, 1, 37, 4096, 4133))),
    case("pointwise", "both_symbolic", "x: (n)x(m)xf32, w: (m)xf32", """
        b = broadcast(w) {shape = [(n), (m)]}; s = sub(x, b); return(s)""", NM,
        [{"n": 1, "m": 1}, {"n": 3, "m": 21}, {"n": 0, "m": 3}, {"n": 3, "m": 0}]),
    case("pointwise", "transposed", "x: 5x9xf32, y: 9x5xf32", "t = permute(x) {perm = [1, 0]}; s = add(t, y); return(s)"),
    case("pointwise", "along_rows", "x: 4x1xf32, y: 4x19xf32", "b = broadcast(x) {shape = [4, 19]}; s = mul(b, y); return(s)"),
    case("pointwise", "through_reshape", "x: 6x4xf32, y: 4x6xf32", """
        p = permute(y) {perm = [1, 0]}; a = add(x, p); r = reshape(a) {shape = [3, 8]}; e = exp(r); return(e, a)"""),
    case("pointwise", "split_dims", "x: (n)x12xf32, y: (n)x3x4xf32", """
        r = reshape(x) {shape = [(n), 3, 4]}; p = permute(r) {perm = [0, 2, 1]}
        q = permute(y) {perm = [0, 2, 1]}; s = add(p, q); return(s)""", N, over("n")),
    case("pointwise", "iota", "x: 4x(n)xf32", """
        i = iota() {shape = [4, (n)], elem = i32, axis = 1}; f = cast(i) {to = f32}
        l = full() {shape = [4, (n)], elem = f32, value = (2*n + 1)}; g = add(f, l); s = mul(x, g); return(s)""",
        N, over("n", values=(1, 17))),
    case("pointwise", "causal_mask", "x: (n)x(n)xf32", """
        i = iota() {shape = [(n), (n)], elem = i64, axis = 0}; j = iota() {shape = [(n), (n)], elem = i64, axis = 1}
        c = ge(i, j); z = full() {shape = [(n), (n)], elem = f32, value = -inf}; s = select(c, x, z); return(s)""",
        N, over("n", values=(1, 18))),
    case("pointwise", "bools", "x: 37xbool, y: 37xbool, z: 37xf32", """
        a = and(x, y); o = xor(a, x); n = not(o); e = eq(n, y); q = isnan(z); r = or(e, q); return(r)"""),
    case("pointwise", "special_numbers", "x: 40xf32, y: 40xf32", """
        a = max(x, y); b = min(x, y); c = sign(a); d = floormod(x, y); e = truncmod(x, y); return(a, b, c, d, e)""", special=True),
    case("pointwise", "bits", "x: 21xi32", "f = bitcast(x) {to = f32}; g = bitcast(f) {to = u32}; return(g)"),
    case("pointwise", "several_outputs", "x: 9x5xf32", "a = exp(x); b = neg(a); c = reshape(b) {shape = [45]}; return(a, c)"),
    case("pointwise", "only_generated", "x: f32", """
        i = iota() {shape = [3, 5], elem = f32, axis = 0}; z = full() {shape = [3, 5], elem = f32, value = 2.5}
        y = mul(i, z); return(y)"""),
    case("pointwise", "column_sums", "x: (n)x9xf32", 's = reduce(x) {axes = [0], kind = "sum"}; return(s)', N, over("n", values=(0, 1, 6))),
    case("pointwise", "middle_max", "x: 3x(n)x5xf32", 's = reduce(x) {axes = [1], kind = "max", keepdims = true}; return(s)',
         N, over("n", values=(0, 1, 7))),
    case("pointwise", "outer_two", "x: 3x4x9xf32", 's = reduce(x) {axes = [0, 1], kind = "min"}; return(s)'),
    *(case("pointwise", f"arg_{kind}_{'last' if last else 'first'}_{axis}", "x: 5x9xf32",
           f'a = arg_reduce(x) {{axis = {axis}, kind = "{kind}", last = {str(last).lower()}}}; return(a)', special=True)
      for kind in ("max", "min") for last in (False, True) for axis in (0, 1)),
    case("pointwise", "arg_ties", "x: 4x6xi32", 'a = arg_reduce(x) {axis = 1, kind = "max", keepdims = true}; return(a)',
         inputs={"x": np.array([[1, 3, 3, 0, 3, 2], [0] * 6, [5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5]], np.int32)}),
    case("pointwise", "padded_conv", "x: 1x3x6x7xf32, w: 4x3x3x3xf32", """
        y = conv(x, w) {strides = [1, 2], low = [1, 1], high = [1, 0], dilation = [1, 1], input_dilation = [1, 1]}; return(y)"""),
    case("pointwise", "transposed_conv", "x: 1x4x5xf32, w: 6x2x3xf32", """
        y = conv(x, w) {strides = [1], low = [2], high = [1], dilation = [1], input_dilation = [2], groups = 2}; return(y)"""),
)  # fmt: skip

MOVEMENT = (
    *(case("pointwise", f"pad_{mode}", "x: 3x5xf32", f'y = pad(x) {{low = [1, 2], high = [0, 4], mode = "{mode}", value = -1.5}}; return(y)')
      for mode in ("constant", "edge", "wrap", "reflect")),
    case("pointwise", "pad_reflect_of_one", "x: (n)xf32", 'y = pad(x) {low = [3], high = [2], mode = "reflect"}; return(y)', N, over("n", values=(1, 2, 9))),
    case("pointwise", "pad_symbolic", "x: (n)x4xf32", "y = pad(x) {low = [0, 1], high = [(n), 0], value = 2}; z = exp(y); return(z)",
         "n in 1..64", over("n", values=(1, 5))),
    case("pointwise", "concat_rows", "x: (n)x4xf32, y: 3x4xf32", "c = concat(x, y) {axis = 0}; return(c)", N, over("n", values=(0, 1, 6))),
    case("pointwise", "concat_columns", "x: 3x7xf32, y: 3x1xf32, z: 3x12xf32", "c = concat(x, y, z) {axis = 1}; d = neg(c); return(d)"),
    case("pointwise", "concat_cache", "p: 2x(n)x4xf32, x: 2x(m)x4xf32", """
        c = concat(p, x) {axis = 1}; t = permute(c) {perm = [0, 2, 1]}; return(c, t)""", NM, [{"n": 0, "m": 1}, {"n": 5, "m": 2}]),
    case("pointwise", "slice_steps", "x: 9x11xf32", "s = slice(x) {starts = [1, 0], sizes = [4, 4], steps = [2, 3]}; t = abs(s); return(t)"),
    case("pointwise", "slice_symbolic", "x: (n)x8xf32", """
        a = slice(x) {starts = [(n - 1), 0], sizes = [1, 8], steps = [1, 1]}; b = slice(x) {starts = [0, 4], sizes = [(n), 4], steps = [1, 1]}
        return(a, b)""".replace("return(a, b)", "c = exp(a); d = exp(b); return(c, d)"), "n in 1..64", over("n", values=(1, 9))),
    case("pointwise", "flip", "x: 4x13xf32", "f = flip(x) {axes = [0, 1]}; s = add(f, x); return(s)"),
    case("pointwise", "permute_3", "x: 2x3x17xf32", "p = permute(x) {perm = [2, 0, 1]}; return(p)"),
    case("pointwise", "rotate_half", "x: (n)x8xf32", """
        a = slice(x) {starts = [0, 0], sizes = [(n), 4], steps = [1, 1]}; b = slice(x) {starts = [0, 4], sizes = [(n), 4], steps = [1, 1]}
        m = neg(b); c = concat(m, a) {axis = 1}; d = mul(c, x); return(d)""", N, over("n", values=(1, 6)))
    .__class__("rotate_half", ("pointwise", "pointwise"), graph_func("x: (n)x8xf32", """
        a = slice(x) {starts = [0, 0], sizes = [(n), 4], steps = [1, 1]}; b = slice(x) {starts = [0, 4], sizes = [(n), 4], steps = [1, 1]}
        m = neg(b); c = concat(m, a) {axis = 1}; d = mul(c, x); return(d)""", N), over("n", values=(1, 6))),
)  # fmt: skip
