"""Every kind of region with the shapes that trip schedules: 1, non-multiples, symbols, strides, groups, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphfuse.ir.printer import literal
from graphfuse.ir.types import Tensor
from tests.blockgen.support import Case, graph_func, in_one_region

ELEMS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
Sizes = Sequence[Mapping[str, int]]
N = "n in 0..512"
NM = "n in 0..512, m in 0..512"


def case(kinds: str, name: str, params: str, body: str, dims: str = "", sizes: Sizes = ({},), **options: Any) -> Case:
    """One case; `kinds` are regions that must come of it."""
    return Case(name, tuple(kinds.split()), graph_func(params, body, dims), tuple(sizes), **options)


def fused(kind: str, name: str, params: str, body: str, dims: str = "", sizes: Sizes = ({},), **options: Any) -> Case:
    """One case whose ops are one region, though fusion would make several."""
    func = in_one_region(graph_func(params, body, dims), kind)
    return Case(name, (kind,), func, tuple(sizes), whole=True, **options)


def over(*names: str, values: Sequence[int] = (1, 5)) -> Sizes:
    """The same values for all symbols, one set per value; each further symbol one larger."""
    return tuple({n: v + i for i, n in enumerate(names)} for v in values)


POINTWISE = (
    case("pointwise", "bias_relu", "x: (n)x8xf32, w: 8xf32", """
        b = broadcast(w) {shape = [(n), 8]}; s = add(x, b)
        z = full() {shape = [(n), 8], elem = f32, value = 0.0}; r = max(s, z); return(r)
        """, N, over("n", values=(0, 1, 5))),
    case("pointwise", "one_element", "x: 1x1xf32", "y = exp(x); return(y)"),
    case("pointwise", "scalar", "x: f32, y: f32", "s = add(x, y); return(s)"),
    case("pointwise", "odd", "x: 3x7xf32", "y = tanh(x); return(y)"),
    case("pointwise", "several_widths", "x: 151xf32", "y = sqrt(x); z = neg(y); return(z)"),
    case("pointwise", "long", "x: (n)xf32", "y = mul(x, x); return(y)", "n in 0..10000",
         over("n", values=(0, 1, 37, 4096, 4133))),
    case("pointwise", "both_symbolic", "x: (n)x(m)xf32, w: (m)xf32", """
        b = broadcast(w) {shape = [(n), (m)]}; s = sub(x, b); return(s)
        """, NM, [{"n": 1, "m": 1}, {"n": 3, "m": 21}, {"n": 0, "m": 3}, {"n": 3, "m": 0}]),
    case("pointwise", "transposed", "x: 5x9xf32, y: 9x5xf32",
         "t = permute(x) {perm = [1, 0]}; s = add(t, y); return(s)"),
    case("pointwise", "along_rows", "x: 4x1xf32, y: 4x19xf32",
         "b = broadcast(x) {shape = [4, 19]}; s = mul(b, y); return(s)"),
    case("pointwise", "through_reshape", "x: 6x4xf32, y: 4x6xf32", """
        p = permute(y) {perm = [1, 0]}; a = add(x, p); r = reshape(a) {shape = [3, 8]}; e = exp(r); return(e, a)"""),
    case("pointwise", "split_dims", "x: (n)x12xf32, y: (n)x3x4xf32", """
        r = reshape(x) {shape = [(n), 3, 4]}; p = permute(r) {perm = [0, 2, 1]}
        q = permute(y) {perm = [0, 2, 1]}; s = add(p, q); return(s)
        """, N, over("n")),
    case("pointwise", "iota", "x: 4x(n)xf32", """
        i = iota() {shape = [4, (n)], elem = i32, axis = 1}; f = cast(i) {to = f32}
        l = full() {shape = [4, (n)], elem = f32, value = (2*n + 1)}; g = add(f, l); s = mul(x, g); return(s)
        """, N, over("n", values=(1, 17))),
    case("pointwise", "causal_mask", "x: (n)x(n)xf32", """
        i = iota() {shape = [(n), (n)], elem = i64, axis = 0}; j = iota() {shape = [(n), (n)], elem = i64, axis = 1}
        c = ge(i, j); z = full() {shape = [(n), (n)], elem = f32, value = -inf}; s = select(c, x, z); return(s)
        """, N, over("n", values=(1, 18))),
    case("pointwise pointwise", "bools", "x: 37xbool, y: 37xbool, z: 37xf32", """
        a = and(x, y); o = xor(a, x); n = not(o); e = eq(n, y); q = isnan(z); r = or(e, q); return(r)""", special=True),
    fused("pointwise", "special_numbers", "x: 40xf32, y: 40xf32", """
        a = max(x, y); b = min(x, y); c = sign(a); d = floormod(x, y); e = truncmod(x, y); f = sign(b)
        return(a, b, c, d, e, f)""", special=True),
    case("pointwise", "bits", "x: 21xi32", "f = bitcast(x) {to = f32}; g = bitcast(f) {to = u32}; return(g)"),
    case("pointwise", "several_outputs", "x: 9x5xf32",
         "a = exp(x); b = neg(a); c = reshape(b) {shape = [45]}; d = abs(c); return(a, d)"),
    case("pointwise", "generated", "x: 3x5xf32", """
        i = iota() {shape = [3, 5], elem = f32, axis = 0}; z = full() {shape = [3, 5], elem = f32, value = 2.5}
        y = mul(i, z); return(y)"""),
    case("pointwise", "column_sums", "x: (n)x9xf32", 's = reduce(x) {axes = [0], kind = "sum"}; return(s)', N,
         over("n", values=(0, 1, 6))),
    case("pointwise", "middle_max", "x: 3x(n)x5xf32",
         's = reduce(x) {axes = [1], kind = "max", keepdims = true}; return(s)', N, over("n", values=(0, 1, 7))),
    case("pointwise", "outer_two", "x: 3x4x9xf32", 's = reduce(x) {axes = [0, 1], kind = "min"}; return(s)'),
    *(case("pointwise", f"arg_{kind}_{last}_{axis}", "x: 5x9xf32",
           f'a = arg_reduce(x) {{axis = {axis}, kind = "{kind}", last = {last}}}; return(a)', special=True)
      for kind in ("max", "min") for last in ("false", "true") for axis in (0, 1)),
    case("pointwise", "arg_ties", "x: 4x6xi32",
         'a = arg_reduce(x) {axis = 1, kind = "max", keepdims = true}; return(a)',
         inputs={"x": np.array([[1, 3, 3, 0, 3, 2], [0] * 6, [5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5]], np.int32)}),
    case("pointwise", "padded_conv", "x: 1x3x6x7xf32, w: 4x3x3x3xf32", """
        y = conv(x, w) {strides = [1, 2], low = [1, 1], high = [1, 0], dilation = [1, 1], input_dilation = [1, 1]}
        return(y)"""),
    case("pointwise", "transposed_conv", "x: 1x4x5xf32, w: 6x2x3xf32", """
        y = conv(x, w) {strides = [1], low = [2], high = [1], dilation = [1], input_dilation = [2], groups = 2}
        return(y)"""),
)  # fmt: skip

TWICE = """r = reshape(x) {shape = [(n), 1, 6]}; b = broadcast(r) {shape = [(n), 2, 6]}
    t = reshape(b) {shape = [(n), 12]}; c = slice(t) {starts = [0, 6], sizes = [(n), 6], steps = [1, 1]}"""
"""The second of two copies of x."""

MOVEMENT = (
    *(case("pointwise", f"pad_{mode}", "x: 3x5xf32",
           f'y = pad(x) {{low = [1, 2], high = [0, 4], mode = "{mode}", value = -1.5}}; return(y)')
      for mode in ("constant", "edge", "wrap", "reflect")),
    case("pointwise", "pad_reflect_of_one", "x: (n)xf32",
         'y = pad(x) {low = [3], high = [2], mode = "reflect"}; return(y)', "n in 1..64", over("n", values=(1, 2, 9))),
    case("pointwise", "pad_symbolic", "x: (n)x4xf32",
         "y = pad(x) {low = [0, 1], high = [(n), 0], value = 2}; z = exp(y); return(z)", "n in 1..64", over("n")),
    case("pointwise", "concat_rows", "x: (n)x4xf32, y: 3x4xf32", "c = concat(x, y) {axis = 0}; return(c)", N,
         over("n", values=(0, 1, 6))),
    case("pointwise", "concat_columns", "x: 3x7xf32, y: 3x1xf32, z: 3x12xf32",
         "c = concat(x, y, z) {axis = 1}; d = neg(c); return(d)"),
    case("pointwise pointwise", "concat_cache", "p: 2x(n)x4xf32, x: 2x(m)x4xf32",
         "c = concat(p, x) {axis = 1}; t = permute(c) {perm = [0, 2, 1]}; return(c, t)", NM,
         [{"n": 0, "m": 1}, {"n": 5, "m": 2}]),
    case("pointwise", "slice_steps", "x: 9x11xf32",
         "s = slice(x) {starts = [1, 0], sizes = [4, 4], steps = [2, 3]}; t = abs(s); return(t)"),
    case("pointwise pointwise", "slice_symbolic", "x: (n)x8xf32", """
        a = slice(x) {starts = [(n - 1), 0], sizes = [1, 8], steps = [1, 1]}; c = exp(a)
        b = slice(x) {starts = [0, 4], sizes = [(n), 4], steps = [1, 1]}; d = exp(b); return(c, d)
        """, "n in 1..64", over("n", values=(1, 9))),
    # a slice of one copy: constant within the dims, and not beyond them
    case("pointwise", "tiled_and_cut", "x: (n)x6xf32", f"{TWICE}; y = exp(c); return(y)", N, over("n")),
    case("pointwise", "flip", "x: 4x13xf32", "f = flip(x) {axes = [0, 1]}; s = add(f, x); return(s)"),
    case("pointwise", "permute_3", "x: 2x3x17xf32", "p = permute(x) {perm = [2, 0, 1]}; return(p)"),
    case("pointwise pointwise", "rotate_half", "x: (n)x8xf32", """
        a = slice(x) {starts = [0, 0], sizes = [(n), 4], steps = [1, 1]}
        b = slice(x) {starts = [0, 4], sizes = [(n), 4], steps = [1, 1]}
        m = neg(b); c = concat(m, a) {axis = 1}; d = mul(c, x); return(d)""", N, over("n", values=(1, 6))),
    fused("pointwise", "take_pad_concat", "x: 2x6x5xf32, i: 3xi64", """
        t = take(x, i) {axis = 1}; p = permute(t) {perm = [1, 0, 2]}
        q = pad(p) {low = [1, 0, 1], high = [0, 0, 2], value = -1.5}
        c = concat(q, q) {axis = 2}; z = reshape(c) {shape = [8, 4, 4]}; return(z)"""),
    *(fused("pointwise", f"middle_of_pad_{mode}", "x: 4x6xf32", f"""
        p = pad(x) {{low = [0, 1], high = [0, 1], mode = "{mode}"}}
        s = slice(p) {{starts = [0, 1], sizes = [4, 6], steps = [1, 1]}}; y = neg(s); return(y)""")
      for mode in ("constant", "edge", "wrap", "reflect")),
    fused("pointwise", "second_of_concat", "x: 4x6xf32, z: 4x5xf32", """
        c = concat(x, z) {axis = 1}; s = slice(c) {starts = [0, 6], sizes = [4, 5], steps = [1, 1]}; y = neg(s)
        return(y)"""),
    fused("pointwise", "pad_of_pad", "x: 3x4xf32", """
        p = pad(x) {low = [1, 1], high = [0, 2], value = 3.0}; f = flip(p) {axes = [1]}
        q = pad(f) {low = [0, 2], high = [2, 0], value = -3.0}; return(q)"""),
    fused("pointwise", "concat_of_concats", "x: 3x2xf32, y: 3x5xf32", """
        a = concat(x, y) {axis = 1}; b = concat(y, x) {axis = 1}; c = concat(a, b) {axis = 0}
        s = slice(c) {starts = [1, 1], sizes = [5, 5], steps = [1, 1]}; return(s)"""),
    fused("pointwise", "padded_pool_of_pad", "x: 1x6x6xf32", """
        p = pad(x) {low = [0, 1, 1], high = [0, 1, 1], value = 0.5}
        y = reduce_window(p) {kind = "max", window = [1, 3, 3], strides = [1, 2, 2], low = [0, 1, 1], high = [0, 0, 1],
            dilation = [1, 1, 1]}
        return(y)""".replace("\n            ", " ")),
)  # fmt: skip

SOFTMAX = """
    m = reduce(x) {axes = [AXIS], kind = "max", keepdims = true}; mb = broadcast(m) {shape = [SHAPE]}
    c = sub(x, mb); e = exp(c); t = reduce(e) {axes = [AXIS], kind = "sum", keepdims = true}
    tb = broadcast(t) {shape = [SHAPE]}; y = div(e, tb); return(y)"""


def softmax(axis: int, shape: str) -> str:
    """A softmax of `x` along one axis."""
    return SOFTMAX.replace("AXIS", str(axis)).replace("SHAPE", shape)


LAYER_NORM = """
    s = reduce(x) {axes = [1], kind = "sum", keepdims = true}; k = full() {shape = [(n), 1], elem = f32, value = 21.0}
    m = div(s, k); mb = broadcast(m) {shape = [(n), 21]}; d = sub(x, mb); q = mul(d, d)
    v = reduce(q) {axes = [1], kind = "sum", keepdims = true}; w = div(v, k)
    p = full() {shape = [(n), 1], elem = f32, value = 0.00001}; a = add(w, p); r = sqrt(a)
    rb = broadcast(r) {shape = [(n), 21]}; z = div(d, rb); gb = broadcast(g) {shape = [(n), 21]}; y = mul(z, gb)"""

LOSS = """
    m = reduce(x) {axes = [1], kind = "max", keepdims = true}; b = broadcast(m) {shape = [SHAPE]}; d = sub(x, b)
    e = exp(d); s = reduce(e) {axes = [1], kind = "sum", keepdims = true}; l = log(s)
    t = reshape(i) {shape = [ROWS, 1]}; p = take_along(x, t) {axis = 1}; c = sub(p, m); y = sub(c, l); return(y)"""


def loss(rows: str, length: str) -> str:
    """The logarithm of the softmax at one place `i` of each row of `x`."""
    return LOSS.replace("SHAPE", f"{rows}, {length}").replace("ROWS", rows)


CENTRED = """
    m = reduce(x) {axes = [1, 3], kind = "max", keepdims = true}; b = broadcast(m) {shape = [SHAPE]}; d = sub(x, b)
    e = exp(d); s = reduce(e) {axes = [1, 3], kind = "sum", keepdims = true}; c = broadcast(s) {shape = [SHAPE]}
    y = div(e, c); return(y, s)"""
"""Rows of two dims that others lie between."""

REDUCTION = (
    case("reduction", "softmax", "x: (n)x37xf32", softmax(1, "(n), 37"), N, over("n", values=(0, 1, 4))),
    case("reduction", "softmax_symbolic_row", "x: 3x(n)xf32", softmax(1, "3, (n)"), N, over("n", values=(1, 5, 70))),
    case("reduction reduction pointwise", "softmax_of_one", "x: 4x1xf32", softmax(1, "4, 1")),
    case("reduction", "softmax_of_columns", "x: 3x7x37xf32", softmax(1, "3, 7, 37")),
    case("reduction", "softmax_of_first", "x: (n)x(n)xf32", softmax(0, "(n), (n)"), N, over("n", values=(0, 1, 5, 70))),
    case("reduction", "place_of_each_row", "x: (n)x37xf16, i: (n)xi64", loss("(n)", "37"), N,
         over("n", values=(0, 1, 4)), indices=37),
    case("reduction", "centred_around", "x: 3x5x7x4xf32", CENTRED.replace("SHAPE", "3, 5, 7, 4")),
    case("reduction", "centred_columns", "x: (n)x5x7x40xf32", CENTRED.replace("SHAPE", "(n), 5, 7, 40"), N, over("n")),
    fused("reduction", "column_totals_and_more", "x: 9x70xf32",
          'e = exp(x); s = reduce(e) {axes = [0], kind = "sum"}; z = neg(s); return(e, z)'),
    case("reduction", "softmax_with_infinities", "x: 6x19xf32", softmax(1, "6, 19"), special=True),
    case("reduction", "layer_norm", "x: (n)x21xf32, g: 21xf32", LAYER_NORM + "; return(y)", N, over("n")),
    case("reduction", "layer_norm_keeps_mean", "x: (n)x21xf32, g: 21xf32", LAYER_NORM + "; return(y, m, r)", N,
        over("n")),
    case("reduction", "two_dims", "x: (n)x3x7xf32", 's = reduce(x) {axes = [1, 2], kind = "sum"}; return(s)', N,
         over("n", values=(0, 1, 4))),
    case("reduction", "two_dims_of_a_view", "x: 5x3x(n)xf32",
         'p = permute(x) {perm = [0, 2, 1]}; s = reduce(p) {axes = [2, 1], kind = "max"}; return(s)', N, over("n")),
    fused("reduction", "of_a_cut_tile", "x: (n)x6xf32",
          f'{TWICE}; s = reduce(c) {{axes = [0, 1], kind = "sum"}}; return(s)', N, over("n")),
    case("reduction", "to_scalar", "x: (n)x5xf32", 's = reduce(x) {axes = [0, 1], kind = "sum"}; return(s)', N,
         over("n", values=(0, 1, 30))),
    case("reduction", "mean_of_squares", "x: 4x130xf32", """
        q = mul(x, x); s = reduce(q) {axes = [1], kind = "sum"}; k = full() {shape = [4], elem = f32, value = 130}
        m = div(s, k); return(m)"""),
    case("reduction", "and_the_exponentials", "x: 5x30xf32",
         'e = exp(x); s = reduce(e) {axes = [1], kind = "sum"}; l = log(s); return(e, l)'),
    fused("reduction", "several_kinds", "x: 5x13xf32", """
        a = reduce(x) {axes = [1], kind = "max"}; b = reduce(x) {axes = [1], kind = "min"}
        p = reduce(x) {axes = [1], kind = "prod"}; c = sub(a, b); return(c, p)"""),
    fused("reduction", "max_of_nan", "x: 9x13xf32",
         'a = reduce(x) {axes = [1], kind = "max"}; b = reduce(x) {axes = [1], kind = "min"}; return(a, b)',
             special=True),
    fused("reduction", "any_and_all", "x: 28x13xbool",
          'a = reduce(x) {axes = [1], kind = "any"}; b = reduce(x) {axes = [1], kind = "all"}; return(a, b)',
          inputs={"x": np.concatenate([np.eye(14, 13), 1 - np.eye(14, 13)]) > 0}),
    case("reduction", "rows_as_output_shape", "x: 2x3x11xf32", """
        s = reduce(x) {axes = [2], kind = "sum"}; r = reshape(s) {shape = [6]}; n = neg(r); return(n)"""),
    case("reduction", "groups", "x: 2x12x5xf32", """
        r = reshape(x) {shape = [2, 3, 20]}; s = reduce(r) {axes = [2], kind = "sum", keepdims = true}
        b = broadcast(s) {shape = [2, 3, 20]}; d = sub(r, b); y = reshape(d) {shape = [2, 12, 5]}; z = exp(y)
        return(z)"""),
)  # fmt: skip


def matmul(m: str, n: str, k: str, dims: str = "", sizes: Sizes = ({},), elem: str = "f32") -> Case:
    """A product with a bias and a residual."""
    return case("contraction", f"matmul_{m}_{n}_{k}_{elem}",
        f"x: {m}x{k}x{elem}, w: {k}x{n}x{elem}, b: {n}x{elem}, r: {m}x{n}x{elem}", f"""
        y = contract(x, w) {{spec = "mk,kn->mn"}}; c = broadcast(b) {{shape = [{m}, {n}]}}; s = add(y, c)
        z = add(s, r); return(z)
        """, dims, sizes)  # fmt: skip


def contract(
    name: str, spec: str, params: str, more: str = "", dims: str = "", sizes: Sizes = ({},), **options: Any
) -> Case:
    """A bare product of `x` and `w`."""
    return case(
        "contraction", name, params, f'y = contract(x, w) {{spec = "{spec}"{more}}}; return(y)', dims, sizes, **options
    )


CONTRACTION = (
    case("contraction", "columns_cut_and_joined", "x: 10x8xf32, w: 8x184xf32, a: 10x4x1xf32, b: 10x46xf32", """
        o = contract(x, w) {spec = "mk,kn->mn"}; r = reshape(o) {shape = [10, 4, 46]}
        ab = broadcast(a) {shape = [10, 4, 46]}; e = sub(r, ab); t = reshape(e) {shape = [4, 10, 46]}
        bb = broadcast(b) {shape = [4, 10, 46]}; z = max(t, bb); return(z)"""),
    matmul("20", "64", "12"),
    matmul("20", "50", "13"),
    matmul("1", "50", "13"),
    matmul("(n)", "50", "13", N, over("n", values=(0, 1, 3, 30))),
    matmul("9", "(n)", "16", N, over("n", values=(1, 37))),
    matmul("9", "7", "(n)", N, over("n", values=(0, 1, 24))),
    matmul("(n)", "(m)", "(n + m)", NM, over("n", "m")),
    contract("both_transposed", "km,nk->mn", "x: 13x9xf32, w: 37x13xf32"),
    contract("result_transposed", "mk,kn->nm", "x: 9x13xf32, w: 13x37xf32"),
    contract("batch", "bmk,bkn->bmn", "x: 3x9x5xf32, w: 3x5x17xf32"),
    contract("batch_last", "mkb,knb->mnb", "x: 5x3x17xf32, w: 3x4x17xf32"),
    contract("heads", "bqhd,bkhd->bhqk", "x: 2x5x3x8xf32, w: 2x(n)x3x8xf32", dims=N, sizes=over("n", values=(1, 9))),
    contract("dot", "k,k->", "x: 37xf32, w: 37xf32"),
    contract("matrix_vector", "mk,k->m", "x: 9x37xf32, w: 37xf32"),
    contract("vector_matrix", "k,kn->n", "x: 9xf32, w: 9x37xf32"),
    contract("outer", "m,n->mn", "x: 9xf32, w: 37xf32"),
    contract("rows_dot", "mk,mk->m", "x: 9x37xf32, w: 9x37xf32"),
    contract("elementwise", "mn,mn->mn", "x: 9x37xf32, w: 9x37xf32"),
    contract("rows_by_matrices", "bk,bkn->bn", "x: 5x28xf32, w: 5x28x40xf32"),
    contract("rows_by_matrices_prime", "bk,bkn->bn", "x: 5x29xf32, w: 5x29x40xf32"),
    contract("rows_by_matrices_long", "bk,bkn->bn", "x: 2x600xf32, w: 2x600x24xf32"),
    contract("lonely", "mkj,nk->mn", "x: 5x7x3xf32, w: 9x7xf32"),
    contract("two_summed", "abc,bcd->ad", "x: 5x4x3xf32, w: 4x3x21xf32"),
    contract("two_summed_swapped", "abc,cbd->ad", "x: 5x4x3xf32, w: 3x4x21xf32"),
    contract("wider", "mk,kn->mn", "x: 9x8xi8, w: 8x17xi8", ", elem = i32"),
    contract("wider_unsigned", "mk,nk->mn", "x: 9x7xu8, w: 17x7xi8", ", elem = i32"),
    contract("half_to_single", "mk,kn->mn", "x: 9x8xf16, w: 8x17xf16", ", elem = f32"),
    case("contraction", "weights_of_one_number", "x: 9x13xf32",
        'w = full() {shape = [13, 37], elem = f32, value = 0.02}; y = contract(x, w) {spec = "mk,kn->mn"}; return(y)'),
    case("contraction", "image_by_weights_of_one_number", "x: 1x6x7x4xf32", """
        w = full() {shape = [3, 3, 4, 5], elem = f32, value = 0.02}
        y = conv(x, w) {strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1], layout = "nhwc"}
        return(y)"""),  # noqa: E501
    fused("contraction", "of_a_cut_tile", "x: (n)x6xf32, w: (n)x6x9xf32",
          f'{TWICE}; y = contract(c, w) {{spec = "ab,abn->n"}}; return(y)', N, over("n")),
    case("contraction", "gram", "x: 9x13xf32", 'y = contract(x, x) {spec = "mk,nk->mn"}; return(y)'),
    case("contraction", "squared_rows", "x: 9x13xf32", 'y = contract(x, x) {spec = "mk,mk->m"}; return(y)'),
    case("contraction", "squared_columns", "x: 13x9xf32", 'y = contract(x, x) {spec = "km,km->m"}; return(y)'),
    case("contraction", "of_iota", "x: 13x19xf32",
         'i = iota() {shape = [6, 13], elem = f32, axis = 0}; y = contract(i, x) {spec = "mk,kn->mn"}; return(y)'),
    case("contraction", "by_iota", "x: 6x13xf32",
         'i = iota() {shape = [13, 19], elem = f32, axis = 1}; y = contract(x, i) {spec = "mk,kn->mn"}; return(y)'),
    case("contraction", "by_iota_transposed", "x: 6x13xf32",
         'i = iota() {shape = [19, 13], elem = f32, axis = 0}; y = contract(i, x) {spec = "nk,mk->mn"}; return(y)'),
    case("contraction", "of_a_view", "x: 4x6x5xf32, w: 30x18xf32", """
        p = permute(x) {perm = [0, 2, 1]}; r = reshape(p) {shape = [4, 30]}; y = contract(r, w) {spec = "mk,kn->mn"}
        return(y)"""),
    case("contraction", "one_result_of_a_column", "x: 1x8xbf16, w: 8x3xbf16, b: 1xbf16", """
        v = slice(w) {starts = [0, 1], sizes = [8, 1], steps = [1, 1]}; c = contract(x, v) {spec = "mk,kn->mn"}
        d = broadcast(b) {shape = [1, 1]}; y = add(c, d); return(y)"""),
    case("contraction", "picked_by_tiles", "x: 4x9x12xf32, w: 2x12x40xf32, i: 4xi32", """
        p = take(w, i) {axis = 0}; y = contract(x, p) {spec = "tmk,tkn->tmn"}; return(y)"""),
    case("contraction", "picked_rows_along_k", "x: 4x1x12xf32, w: 2x20x12xf32, i: 4xi64", """
        p = take(w, i) {axis = 0}; y = contract(x, p) {spec = "tmk,tnk->tmn"}; z = neg(y); return(z)"""),
    case("contraction", "picked_of_one_x", "x: 1x12xf32, w: 2x20x12xf32, i: 4xi64", """
        b = broadcast(x) {shape = [4, 12]}; p = take(w, i) {axis = 0}; y = contract(b, p) {spec = "tk,tnk->tn"};
        return(y)"""),
    case("contraction", "picked_by_two_dims", "x: 2x3x5x12xf32, w: 12x2x20xf32, i: 2x3xi32", """
        p = take(w, i) {axis = 1}; y = contract(x, p) {spec = "abmk,kabn->abmn"}; return(y)"""),
    case("contraction", "picked_on_both_sides", "x: 2x9x12xf32, w: 2x12x20xf32, i: 5xi32, i2: 5xi32", """
        p = take(w, i) {axis = 0}; q = take(x, i2) {axis = 0}; y = contract(q, p) {spec = "tmk,tkn->tmn"};
        return(y)"""),
    case("contraction", "picked_symbolic", "x: (n)x6x12xf32, w: 2x12x20xf32, i: (n)xi32", """
        p = take(w, i) {axis = 0}; y = contract(x, p) {spec = "tmk,tkn->tmn"}; return(y)""",
        N, over("n", values=(0, 1, 3))),
    case("pointwise contraction", "picked_by_rows_that_are_summed", "x: 5x12xf32, w: 2x12x20xf32, i: 5xi32", """
        p = take(w, i) {axis = 0}; y = contract(x, p) {spec = "tk,tkn->n"}; return(y)"""),
    case("contraction", "of_a_flip", "x: 9x12xf32, w: 12x20xf32", """
        f = flip(w) {axes = [1]}; y = contract(x, f) {spec = "mk,kn->mn"}; return(y)"""),
    case("contraction", "of_a_broadcast", "x: 3x9x12xf32, w: 12x20xf32", """
        b = broadcast(w) {shape = [3, 12, 20]}; y = contract(x, b) {spec = "bmk,bkn->bmn"}; return(y)"""),
    case("contraction", "epilogue_reads_elsewhere", "x: 9x12xf32, w: 12x20xf32, r: 20x9xf32, s: 9x20xf32", """
        y = contract(x, w) {spec = "mk,kn->mn"}; t = permute(r) {perm = [1, 0]}; a = add(y, t); g = sigmoid(a)
        m = mul(g, a); z = add(m, s); u = reshape(z) {shape = [180]}; v = neg(u); return(v, y)"""),
    case("contraction pointwise", "epilogue_in_other_dims", "x: 14x12xf32, w: 12x16xf32, z: 14x16xf32, v: 28x8xf32", """
        c = contract(x, w) {spec = "mk,kn->mn"}; r = reshape(c) {shape = [2, 7, 16]}
        s = reshape(z) {shape = [2, 7, 16]}; q = mul(r, s); t = reshape(q) {shape = [28, 8]}; y = mul(t, v)
        return(y)"""),
    case("contraction pointwise", "epilogue_in_uneven_dims", "x: 12x8xf32, w: 8x16xf32, z: 8x6x4xf32, v: 64x3xf32", """
        c = contract(x, w) {spec = "mk,kn->mn"}; r = reshape(c) {shape = [8, 6, 4]}; q = mul(r, z)
        t = reshape(q) {shape = [64, 3]}; y = mul(t, v); return(y)"""),
    case("contraction pointwise", "epilogue_in_symbolic_dims", "x: (n)x(m)x12xf32, w: 12x16xf32, v: (2*m*n)x8xf32", """
        f = reshape(x) {shape = [(m*n), 12]}; c = contract(f, w) {spec = "mk,kn->mn"}
        r = reshape(c) {shape = [(n), (m), 16]}; q = exp(r); t = reshape(q) {shape = [(2*m*n), 8]}
        y = mul(t, v); return(y)""", NM, over("n", "m", values=(1, 3))),
    case("contraction", "one_output_row_symbolic_batch", "x: (n)x1x12xf32, w: (n)x12x20xf32",
         'y = contract(x, w) {spec = "bmk,bkn->bmn"}; return(y)', N, over("n", values=(0, 1, 3))),
)  # fmt: skip


def conv(
    name: str, size: Sequence[int | str], channels: int, out: int, kernel: Sequence[int],
        strides: Sequence[int] | int = 1,
    groups: int = 1, dilation: int = 1, elem: str = "f32", dims: str = "", sizes: Sizes = ({},), batch: str = "2",
) -> Case:  # fmt: skip
    """A channels-last convolution without padding, with bias and relu."""
    rank = len(kernel)
    steps = [strides] * rank if isinstance(strides, int) else list(strides)
    x = "x".join([batch, *map(str, size), str(channels), elem])
    w = "x".join([*map(str, kernel), str(channels // groups), str(out), elem])
    one, zero = [1] * rank, [0] * rank
    op = f"""y = conv(x, w) {{strides = {steps}, low = {zero}, high = {zero}, dilation = {[dilation] * rank},
        input_dilation = {one}, groups = {groups}, layout = "nhwc"}}""".replace("\n        ", " ")
    result = graph_func(f"x: {x}, w: {w}", op + "; return(y)", dims).outputs[0].type
    assert isinstance(result, Tensor)
    shape = literal(result.shape)
    return case("contraction", name, f"x: {x}, w: {w}, b: {out}x{elem}", f"""
        {op}; c = broadcast(b) {{shape = {shape}}}; s = add(y, c)
        z = full() {{shape = {shape}, elem = {elem}, value = 0}}; r = max(s, z); return(r)
        """, dims, sizes)  # fmt: skip


CONVOLUTION = (
    conv("plain", (9, 9), 8, 12, (3, 3)),
    conv("strided", (9, 10), 3, 40, (3, 3), 2),
    conv("dilated", (11, 9), 4, 9, (3, 3), dilation=2),
    conv("grouped", (8, 8), 8, 12, (3, 3), groups=2, dilation=2),
    conv("grouped_by_lanes", (5, 6), 8, 64, (3, 3), groups=2),
    conv("grouped_odd", (6, 5), 9, 15, (2, 3), groups=3),
    conv("depthwise", (7, 9), 40, 40, (3, 3), groups=40),
    conv("depthwise_strided", (7, 9), 19, 19, (3, 3), 2, groups=19),
    conv("depthwise_multiplied", (6, 6), 5, 10, (3, 3), groups=5),
    conv("depthwise_wide_window", (12, 12), 17, 17, (9, 2), groups=17),
    conv("one_by_one", (5, 7), 13, 21, (1, 1)),
    conv("one_by_one_strided", (5, 7), 13, 21, (1, 1), 2),
    conv("one_dim", (31,), 3, 20, (5,), 2),
    conv("three_dims", (4, 5, 6), 3, 5, (2, 3, 2), (1, 2, 1)),
    conv("one_pixel", (3, 3), 4, 33, (3, 3)),
    conv("symbolic_batch", (6, 6), 4, 9, (3, 3), dims=N, sizes=over("n", values=(0, 1, 3)), batch="(n)"),
    conv("symbolic_size", ("(n)", "(m)"), 4, 9, (3, 3), 2, dims="n in 3..64, m in 3..64", sizes=over("n", "m",
        values=(3, 8)), batch="1"),
    conv("symbolic_depthwise", ("(n)", 5), 20, 20, (3, 3), groups=20, dims="n in 3..64", sizes=over("n", values=(3,
        8)), batch="1"),
    conv("half", (6, 7), 8, 12, (3, 3), elem="f16"),
    conv("depthwise_half", (6, 7), 12, 12, (3, 3), groups=12, elem="bf16"),
)  # fmt: skip


def attention(
    name: str, b: str, q: str, k: str, heads: int, depth: int, body: str = "", params: str = "", dims: str = "",
    sizes: Sizes = ({},), elem: str = "f32", values: int = 0, special: bool = False, end: str = "return(o)",
) -> Case:  # fmt: skip
    """softmax(body(scale * q @ k')) @ v; `body` turns `s1` into `s2`."""
    shape = f"{b}, {heads}, {q}, {k}"
    takes = f"q: {b}x{q}x{heads}x{depth}x{elem}, k: {b}x{k}x{heads}x{depth}x{elem}"
    takes += f", v: {b}x{k}x{heads}x{values or depth}x{elem}"
    steps = softmax(3, shape).replace("return(y)", "").replace("(x", "(s2")
    return case("attention", name, takes + params, f"""
        s = contract(q, k) {{spec = "bqhd,bkhd->bhqk"}}; f = full() {{shape = [{shape}], elem = {elem}, value = 0.25}}
        s1 = mul(s, f)
        {body.replace("SHAPE", shape) or "s2 = add(s1, f)"}
        {steps}
        o = contract(y, v) {{spec = "bhqk,bkhd->bqhd"}}; {end}
        """, dims, sizes, special=special)  # fmt: skip


MASK = "mb = broadcast(mask) {shape = [SHAPE]}; s2 = add(s1, mb)".replace("mb", "ma")
CAUSAL = """
    i = iota() {shape = [SHAPE], elem = i64, axis = 2}; j = iota() {shape = [SHAPE], elem = i64, axis = 3}
    off = full() {shape = [SHAPE], elem = i64, value = (OFFSET)}; i2 = add(i, off); keep = ge(i2, j)
    none = full() {shape = [SHAPE], elem = f32, value = -inf}; s2 = select(keep, s1, none)"""
BQK = "b in 1..8, q in 1..512, k in 1..512"

ATTENTION = (
    attention("one", "2", "1", "77", 3, 20),
    attention("static", "2", "20", "37", 3, 24),
    attention("even", "1", "16", "32", 2, 16),
    attention("mask", "2", "20", "37", 3, 24, MASK, ", mask: 2x1x1x37xf32"),
    attention("full_mask", "(b)", "(q)", "(k)", 2, 8, MASK, ", mask: (b)x1x(q)x(k)xf32", BQK,
              [{"b": 2, "q": 20, "k": 37}, {"b": 1, "q": 3, "k": 5}, {"b": 1, "q": 1, "k": 1}]),
    attention("causal", "1", "(q)", "(q)", 2, 8, CAUSAL.replace("(OFFSET)", "0"), "", "q in 1..512", over("q",
        values=(1, 9, 33))),
    attention("decode", "(b)", "1", "(k)", 3, 24, MASK, ", mask: (b)x1x1x(k)xf32", BQK, [{"b": 2, "k": 37}, {"b": 1,
        "k": 1}]),
    attention("with_past", "1", "(q)", "(q + p)", 2, 8, CAUSAL.replace("OFFSET", "p"), "", "q in 1..64, p in 0..64",
              [{"q": 1, "p": 7}, {"q": 4, "p": 0}, {"q": 9, "p": 9}]),
    attention("many_queries", "1", "150", "9", 1, 4),
    attention("queries_in_whole_tiles", "2", "210", "9", 1, 4),
    attention("more_queries", "1", "(q)", "9", 1, 4, dims="q in 1..512", sizes=over("q", values=(130, 257))),
    *(attention(f"few_queries_{elem}", "1", "(q)", "(k)", 2, 48, MASK, f", mask: 1x1x1x(k)x{elem}", BQK,
                [{"q": q, "k": k} for q in (1, 3, 4) for k in (1, 16, 37)], elem=elem, values=80)
      for elem in ("f32", "f16", "f64")),
    *(attention(f"values_in_unequal_panels_{elem}", "1", "(q)", "21", 2, 8, dims="q in 1..16",
                sizes=over("q", values=(1, 2, 5)), elem=elem, values=197) for elem in ("f32", "f16")),
    *(attention(f"so_many_queries_{q}_{elem}", "2", q, "37", 2, 48, MASK, f", mask: 1x1x1x37x{elem}", elem=elem)
      for q in ("1", "4", "7") for elem in ("f32", "bf16", "f16")),
    attention("few_of_many_keys", "2", "3", "(k)", 2, 32, dims="k in 1..512", sizes=over("k", values=(1, 16, 37))),
    attention("narrow_values", "1", "9", "21", 2, 8, values=5),
    attention("one_value", "2", "6", "21", 2, 8, values=1,
              end="r = reshape(o) {shape = [2, 6, 2]}; z = neg(r); return(z)"),
    attention("one_value_one_head", "2", "6", "21", 1, 8, values=1, end="r = reshape(o) {shape = [2, 6, 1]}; "
              "z = neg(r); f = reshape(z) {shape = [12]}; y = exp(f); return(z, y)"),
    attention("one_key", "2", "6", "1", 1, 8),
    attention("wide_values", "1", "9", "21", 2, 8, values=70),
    attention("half", "1", "9", "21", 2, 8, elem="f16"),
    attention("double", "1", "9", "21", 2, 8, elem="f64"),
    attention("epilogue", "2", "6", "21", 2, 8, end="r = reshape(o) {shape = [2, 6, 16]}; z = neg(r); return(z)"),
    case("attention", "grouped_heads", "q: 2x7x3x2x8xf32, k: 2x13x3x8xf32, v: 2x13x3x8xf32", f"""
        x = contract(q, k) {{spec = "bqgrd,bkgd->bgrqk"}}; {softmax(4, "2, 3, 2, 7, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "bgrqk,bkgd->bqgrd"}}; return(o)"""),
    case("contraction reduction contraction", "no_query_dim", "q: 2x3x8xf32, k: 2x13x3x8xf32, v: 2x13x3x8xf32", f"""
        x = contract(q, k) {{spec = "bhd,bkhd->bhk"}}; {softmax(2, "2, 3, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "bhk,bkhd->bhd"}}; return(o)"""),
    case("attention", "picked", "q: 4x7x8xf32, k: 2x13x8xf32, v: 2x13x9xf32, i: 4xi32", f"""
        kp = take(k, i) {{axis = 0}}; vp = take(v, i) {{axis = 0}};
        x = contract(q, kp) {{spec = "bqd,bkd->bqk"}}; {softmax(2, "4, 7, 13").replace("return(y)", "")}
        o = contract(y, vp) {{spec = "bqk,bkd->bqd"}}; return(o)"""),
    case("contraction reduction contraction", "values_per_query", "q: 2x7x8xf32, k: 2x13x8xf32, v: 2x7x13x9xf32", f"""
        x = contract(q, k) {{spec = "bqd,bkd->bqk"}}; {softmax(2, "2, 7, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "bqk,bqkd->bqd"}}; return(o)"""),
    case("contraction reduction contraction", "keys_per_query", "q: 2x7x8xf32, k: 2x7x13x8xf32, v: 2x13x9xf32", f"""
        x = contract(q, k) {{spec = "bqd,bqkd->bqk"}}; {softmax(2, "2, 7, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "bqk,bkd->bqd"}}; return(o)"""),
    case("attention", "values_transposed", "q: 7x8xf32, k: 13x8xf32, v: 9x13xf32", f"""
        x = contract(q, k) {{spec = "qd,kd->qk"}}; {softmax(1, "7, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "qk,dk->qd"}}; return(o)"""),
    case("attention", "queries_in_both_orders", "q: 3x7x8xf32, k: 13x8xf32, v: 13x9xf32", f"""
        x = contract(q, k) {{spec = "hqd,kd->qhk"}}; {softmax(2, "7, 3, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "qhk,kd->hqd"}}; return(o)"""),
    case("attention", "the_same_input_thrice", "q: 2x9x8xf32", f"""
        x = contract(q, q) {{spec = "bqd,bkd->bqk"}}; {softmax(2, "2, 9, 9").replace("return(y)", "")}
        o = contract(y, q) {{spec = "bqk,bkd->bqd"}}; return(o)"""),
    case("attention", "keys_first", "q: 2x7x8xf32, k: 2x13x8xf32, v: 2x13x9xf32", f"""
        x = contract(k, q) {{spec = "bkd,bqd->bqk"}}; {softmax(2, "2, 7, 13").replace("return(y)", "")}
        o = contract(v, y) {{spec = "bkd,bqk->bqd"}}; return(o)"""),
    case("attention", "transposed_caches", "q: 2x3x7x8xf32, k: 2x3x8x13xf32, v: 2x3x13x8xf32", f"""
        x = contract(q, k) {{spec = "bhqd,bhdk->bhqk"}}; {softmax(3, "2, 3, 7, 13").replace("return(y)", "")}
        o = contract(y, v) {{spec = "bhqk,bhkd->bhqd"}}; return(o)"""),
    case("attention", "repeated_heads", "q: 1x6x7x8xf32, k: 1x2x13x8xf32, v: 1x2x13x8xf32", f"""
        k1 = reshape(k) {{shape = [1, 2, 1, 13, 8]}}; k2 = broadcast(k1) {{shape = [1, 2, 3, 13, 8]}}
        k3 = reshape(k2) {{shape = [1, 6, 13, 8]}}; v1 = reshape(v) {{shape = [1, 2, 1, 13, 8]}}
        v2 = broadcast(v1) {{shape = [1, 2, 3, 13, 8]}}; v3 = reshape(v2) {{shape = [1, 6, 13, 8]}}
        x = contract(q, k3) {{spec = "bhqd,bhkd->bhqk"}}; {softmax(3, "1, 6, 7, 13").replace("return(y)", "")}
        o = contract(y, v3) {{spec = "bhqk,bhkd->bhqd"}}; return(o)"""),
    case("attention", "guarded_rows", "q: 1x7x8xf32, k: 1x13x8xf32, v: 1x13x9xf32, mask: 1x7x13xbool", """
        s = contract(q, k) {spec = "bqd,bkd->bqk"}; z = full() {shape = [1, 7, 13], elem = f32, value = -inf}
        x = select(mask, s, z); m = reduce(x) {axes = [2], kind = "max", keepdims = true}
        w = full() {shape = [1, 7, 1], elem = f32, value = -1000.0}; mm = max(m, w)
        mb = broadcast(mm) {shape = [1, 7, 13]}
        c = sub(x, mb); e = exp(c); t = reduce(e) {axes = [2], kind = "sum", keepdims = true}
        u = full() {shape = [1, 7, 1], elem = f32, value = 0.000001}; tt = max(t, u)
        tb = broadcast(tt) {shape = [1, 7, 13]}
        y = div(e, tb); o = contract(y, v) {spec = "bqk,bkd->bqd"}; return(o)"""),
    *(case("attention", f"rows_that_see_nothing_{elem}", f"q: 2x20x16x{elem}, k: 2x37x16x{elem}, v: 2x37x16x{elem}, "
        "mask: 2x20x1xbool", f"""
        s = contract(q, k) {{spec = "bqd,bkd->bqk"}}; g = cast(s) {{to = f32}}
        z = full() {{shape = [2, 20, 37], elem = f32, value = -inf}}
        a = broadcast(mask) {{shape = [2, 20, 37]}}; x = select(a, g, z)
        m = reduce(x) {{axes = [2], kind = "max", keepdims = true}}; mb = broadcast(m) {{shape = [2, 20, 37]}}
        c = sub(x, mb); e = exp(c); t = reduce(e) {{axes = [2], kind = "sum", keepdims = true}}
        tb = broadcast(t) {{shape = [2, 20, 37]}}; y = div(e, tb)
        l = full() {{shape = [2, 20, 1], elem = f32, value = -inf}}; n = eq(m, l)
        nb = broadcast(n) {{shape = [2, 20, 37]}}
        h = full() {{shape = [2, 20, 37], elem = f32, value = 0.0}}; p = select(nb, h, y)
        r = cast(p) {{to = {elem}}}; o = contract(r, v) {{spec = "bqk,bkd->bqd"}}; return(o)""")
      for elem in ("f32", "f16")),
)  # fmt: skip

SCAN = (
    *(case("scan", f"{kind}_{axis}", "x: 5x(n)x7xf32",
        f'y = cumulate(x) {{axis = {axis}, kind = "{kind}"}}; return(y)', N,
           over("n", values=(0, 1, 9)))
      for kind, axis in (("sum", 0), ("max", 1), ("prod", 2), ("min", 2), ("logaddexp", 1), ("logaddexp", 2))),
    *(case("scan", f"{how}_{axis}", "x: 5x19xf32",
           f'y = cumulate(x) {{axis = {axis}, kind = "sum", {how} = true}}; return(y)')
      for how in ("exclusive", "reverse", "exclusive = true, reverse") for axis in (0, 1)),
    *(case("scan", f"parts_{axis}_{part}_{how}", f"x: 5x19xf32, b: {shape}xf64",
           f'y = cumulate(x, b) {{axis = {axis}, kind = "sum", part = {part}{how and f", {how} = true"}}}; return(y)')
      for axis, part, shape in ((0, 2, "2x19"), (1, 4, "5x4"), (1, 19, "5x0")) for how in ("", "reverse", "exclusive")),
    fused("pointwise", "inside_parts", "x: 3x40xf32, b: 3x4xf64",
          'y = cumulate(x, b) {axis = 1, kind = "prod", part = 8}; z = neg(y); return(z)'),
    case("scan", "half", "x: 4x40xf16", 'y = cumulate(x) {axis = 1, kind = "sum"}; return(y)'),
    case("scan", "vector", "x: (n)xi32", 'y = cumulate(x) {axis = 0, kind = "sum", exclusive = true}; return(y)', N,
         over("n", values=(0, 1, 9))),
    case("scan", "of_a_view", "x: 7x5xf32",
        'p = permute(x) {perm = [1, 0]}; y = cumulate(p) {axis = 1, kind = "max"}; return(y)'),
    *(case("scan", f"of_work_{axis}", "x: 5x19xf32, w: 5x1xf32", f"""
        b = broadcast(w) {{shape = [5, 19]}}; s = mul(x, b); e = exp(s)
        y = cumulate(e) {{axis = {axis}, kind = "sum", reverse = true}}; return(y)""") for axis in (0, 1)),
    case("pointwise scan", "of_work_that_is_read", "x: 5x19xf32",
         'e = exp(x); y = cumulate(e) {axis = 1, kind = "sum"}; return(e, y)'),
    case("pointwise scan", "of_work_turned", "x: 5x19xf32",
         'e = exp(x); p = permute(e) {perm = [1, 0]}; y = cumulate(p) {axis = 1, kind = "sum"}; return(y)'),
    fused("pointwise", "inside", "x: 5x19xf32", """
        y = cumulate(x) {axis = 1, kind = "sum"}; z = cumulate(x) {axis = 0, kind = "max", exclusive = true}
        w = cumulate(x) {axis = 1, kind = "prod", reverse = true}; s = add(y, z); t = add(s, w); return(t)"""),
    fused("pointwise", "inside_half", "x: 3x40xf16", 'y = cumulate(x) {axis = 1, kind = "sum"}; z = neg(y); return(z)'),
)  # fmt: skip

SCATTER = (
    *(case("scatter", f"along_{kind}", "x: 5x7xf32, i: 3x7xi64, u: 3x7xf32",
           f'y = scatter_along(x, i, u) {{axis = 0, kind = "{kind}"}}; return(y)', indices=5)
      for kind in ("set", "add", "mul", "max", "min")),
    case("scatter", "along_columns", "x: (n)x9xf32, i: (n)x4xi32, u: (n)x4xf32",
         "y = scatter_along(x, i, u) {axis = 1}; return(y)", N, over("n", values=(0, 1, 3)), indices=9),
    *(case("scatter", f"nd_{kind}", "x: 5x4x37xf32, i: 6x2xi64, u: 6x37xf32",
           f'y = scatter_nd(x, i, u) {{kind = "{kind}"}}; return(y)', indices=4)
      for kind in ("set", "add", "max")),
    case("scatter", "nd_elements", "x: 5x4xf32, i: 2x3x2xi64, u: 2x3xf32", "y = scatter_nd(x, i, u); return(y)",
        indices=4),
    case("scatter", "nd_whole", "x: 5x4xf32, i: 2x0xi64, u: 2x5x4xf32", "y = scatter_nd(x, i, u); return(y)"),
    *(case("scatter", f"along_{name}", "x: 5x300xf32, i: 7x1xi64, u: 7x300xf32", f"""
        j = broadcast(i) {{shape = [7, 300]}}; v = mul(u, u)
        y = scatter_along(x, j, v) {{axis = 0, kind = "add"{order}}}; return(y)""", indices=5)
      for name, order in (("rows", ""), ("rows_in_order", ", ordered = true"))),
    case("scatter", "many_lines", "x: 20x5x(n)xf32, i: 20x7x(n)xi64, u: 20x7x(n)xf32",
         'y = scatter_along(x, i, u) {axis = 1, kind = "add"}; return(y)', N, over("n", values=(0, 1, 40)), indices=5),
    case("scatter", "unknown_columns", "x: 5x(n)xf32, i: 7x1xi64, u: 7x(n)xf32",
         'y = scatter_nd(x, i, u) {kind = "min"}; return(y)', "n in 0..4096", over("n", values=(0, 3, 600)), indices=5),
    case("scatter", "into_generated", "i: 6x1xi64, u: 6xf32", """
        z = full() {shape = [9], elem = f32, value = 1.0}; y = scatter_nd(z, i, u) {kind = "add"}
        return(y)""", indices=9),
)  # fmt: skip

TOPK = (
    *(case("topk", f"{'largest' if largest == 'true' else 'smallest'}_{axis}", "x: 4x9x5xf32",
           f"v, w = topk(x) {{k = 3, axis = {axis}, largest = {largest}}}; return(v, w)", special=True)
      for largest in ("true", "false") for axis in (0, 1, 2)),
    case("topk", "ties", "x: 3x8xi32", "v, w = topk(x) {k = 8, axis = 1}; return(v, w)",
         inputs={"x": np.array([[1, 3, 3, 0, 3, 2, 1, 1], [0] * 8, [-7, 6, 5, 4, 3, 2, 1, 0]], np.int32)}),
    case("topk", "symbolic", "x: (n)x(m)xf32", "v, w = topk(x) {k = (m), axis = 1}; return(v, w)",
        "n in 0..64, m in 1..64",
         [{"n": 3, "m": 5}, {"n": 0, "m": 2}]),
    *(case("topk", f"of_{elem}", f"x: 3x41x{elem}",
           f"v, w = topk(x) {{k = {k}, axis = 1, largest = {largest}}}; return(v, w)", special=elem[0] == "f")
      for elem, k, largest in (("f16", 41, "true"), ("f64", 29, "false"), ("u8", 23, "true"), ("u32", 41, "false"),
                               ("u64", 9, "true"), ("i64", 41, "false"))),
    case("topk", "rising_and_falling", "x: 3x40xf32", "v, w = topk(x) {k = 30, axis = 1}; return(v, w)",
         inputs={"x": np.stack([np.arange(40), -np.arange(40), np.arange(40) % 4]).astype(np.float32)}),
    case("topk", "indices_only", "x: 6x7xf32", "v, w = topk(x) {k = 1, axis = 1}; return(w)"),
)  # fmt: skip

GATHER = (
    *(case("pointwise", f"take_{axis}", "x: 4x3x19xf32, i: 2x3xi64",
        f"y = take(x, i) {{axis = {axis}}}; z = neg(y); return(z)", indices=3)
      for axis in (0, 1, 2)),
    case("pointwise", "embedding", "x: 11x20xf32, i: (n)x(m)xi64", "y = take(x, i) {axis = 0}; return(y)", NM,
         [{"n": 1, "m": 1}, {"n": 2, "m": 5}, {"n": 0, "m": 1}], indices=11),
    case("pointwise", "take_scalar", "x: 4x19xf32, i: i32", "y = take(x, i) {axis = 0}; return(y)", indices=4),
    case("pointwise", "take_along_0", "x: 4x19xf32, i: 7x19xi64", "y = take_along(x, i) {axis = 0}; return(y)",
        indices=4),
    case("pointwise", "take_along_1", "x: 4x19xf32, i: 3x21xi32", "y = take_along(x, i) {axis = 1}; return(y)",
        indices=19),
    case("pointwise", "gather_nd", "x: 4x5x19xf32, i: 3x2xi64", "y = gather_nd(x, i); return(y)", indices=4),
    case("pointwise", "gather_nd_elements", "x: 4x5x6xf32, i: 3x7x3xi64", "y = gather_nd(x, i); return(y)", indices=4),
    case("pointwise", "gather_nd_batched", "x: 3x5x6xf32, i: 3x7x1xi64",
        "y = gather_nd(x, i) {batch_dims = 1}; return(y)", indices=5),
    # places that are arithmetic of positions
    case("pointwise", "take_every_third_twice", "x: 2x7x5xf32", """
        i = iota() {shape = [5], elem = i64, axis = 0}; two = full() {shape = [5], elem = i64, value = 2}
        three = full() {shape = [5], elem = i64, value = 3}; last = full() {shape = [5], elem = i64, value = 6}
        h = floordiv(i, two); t = mul(h, three); p = min(t, last); y = take(x, p) {axis = 1}; return(y)
        """),
    case("pointwise", "take_from_the_end", "x: 6x4xf32", """
        i = iota() {shape = [3], elem = i64, axis = 0}; m = full() {shape = [3], elem = i64, value = -2}
        p = add(i, m); y = take(x, p) {axis = 0}; return(y)
        """),
    *(case("pointwise", f"gather_nd_of_{name}", f"x: 4x6{more}xf32", f"""
        i = iota() {{shape = [4, 6, 1], elem = i64, axis = 0}}; j = iota() {{shape = [4, 6, 1], elem = i64, axis = 1}}
        k = max(j, {other}); p = concat(i, k) {{axis = 2}}; y = gather_nd(x, p); return(y)
        """) for name, more, other in (("itself", "", "j"), ("rows_of_itself", "x5", "j"), ("the_larger", "x5", "i"))),
    case("pointwise pointwise", "computed_indices", "x: 3x9xf32, i: 4xi64",
         "j = neg(i); t = take(x, j) {axis = 0}; return(t)", indices=1),
)  # fmt: skip


def window(
    name: str, params: str, kind: str, moves: str, pads: str, dims: str = "", sizes: Sizes = ({},), **options: Any
) -> Case:
    """One pooling; `moves` are window, strides and dilation, `pads` low and high."""
    attrs = [f"{key} = [{v}]" for key, v in zip(("window", "strides", "dilation"), moves.split("; "), strict=True)]
    attrs += [f"{key} = [{v}]" for key, v in zip(("low", "high"), pads.split("; "), strict=True)]
    body = f'y = reduce_window(x) {{kind = "{kind}", {", ".join(attrs)}}}; return(y)'
    return case("pointwise", name, params, body, dims, sizes, **options)


WINDOW = (
    window("max_pool", "x: 1x9x9x5xf32", "max", "1, 3, 3, 1; 1, 2, 2, 1; 1, 1, 1, 1", "0, 1, 1, 0; 0, 1, 1, 0"),
    window("integer_pool", "x: 1x9x9x5xi32", "max", "1, 2, 2, 1; 1, 1, 1, 1; 1, 2, 1, 1", "0, 1, 0, 0; 0, 1, 1, 0"),
    window("sum_pool", "x: 1x3x7x19xf32", "sum", "1, 1, 2, 5; 1, 1, 2, 3; 1, 1, 1, 1", "0, 0, 0, 2; 0, 0, 0, 1"),
    window("min_pool", "x: 17xf32", "min", "3; 1; 1", "1; 1", special=True),
    window("symbolic_pool", "x: (n)x8x(m)xf32", "sum", "1, 2, 3; 1, 2, 1; 1, 1, 1", "0, 0, 1; 0, 0, 1",
           "n in 0..64, m in 1..64", [{"n": 2, "m": 1}, {"n": 1, "m": 19}]),
    window("half_pool", "x: 40xf16", "sum", "9; 1; 1", "4; 4"),
)  # fmt: skip

SMALL = "n in 0..9"
NOTHING = ({"n": 0}, {"n": 3})
ZERO = (
    case("pointwise", "rows", "x: 0x5xf32", "y = exp(x); return(y)"),
    case("pointwise", "columns", "x: 5x0xf32", "y = exp(x); return(y)"),
    case("pointwise", "reshaped", "x: 5x0xf32", "y = reshape(x) {shape = [0, 7]}; z = exp(y); return(z)"),
    case("pointwise", "flipped", "x: 5x0xf32", "y = flip(x) {axes = [1]}; return(y)"),
    case("reduction", "max", "x: 5x0xf32", 'y = reduce(x) {axes = [1], kind = "max"}; return(y)'),
    case("reduction", "no_rows", "x: 0x5xf32", 'y = reduce(x) {axes = [1], kind = "sum"}; return(y)'),
    case("pointwise", "column_product", "x: 0x5xf32", 'y = reduce(x) {axes = [0], kind = "prod"}; return(y)'),
    case("reduction", "centred", "x: 5x0xf32", """
        m = reduce(x) {axes = [1], kind = "max", keepdims = true}; b = broadcast(m) {shape = [5, 0]}; s = sub(x, b)
        t = reduce(s) {axes = [1], kind = "sum"}; return(s, t)"""),
    contract("no_output_rows", "mk,kn->mn", "x: 0x5xf32, w: 5x7xf32"),
    contract("no_output_columns", "mk,kn->mn", "x: 4x5xf32, w: 5x0xf32"),
    contract("no_depth", "mk,kn->mn", "x: 4x0xf32, w: 0x7xf32"),
    contract("symbolic_depth", "mk,kn->mn", "x: 4x(n)xf32, w: (n)x7xf32", dims=SMALL, sizes=NOTHING),
    case("scan", "scan", "x: 4x0xf32", 'y = cumulate(x) {axis = 1, kind = "sum"}; return(y)'),
    case("scatter", "no_updates", "x: 4xf32, i: 0x1xi64, u: 0xf32", "y = scatter_nd(x, i, u); return(y)"),
    case("topk", "topk_of_none", "x: 4x(n)xf32", "y, z = topk(x) {k = (n), axis = 1}; return(y, z)", SMALL, NOTHING),
    case("topk", "best_none", "x: 4x5xf32", "y, z = topk(x) {k = 0, axis = 1}; return(y, z)"),
    case("pointwise", "arg_of_none", "x: 4x(n)xf32", 'y = arg_reduce(x) {axis = 1, kind = "max"}; return(y)', SMALL,
        NOTHING),
    case("pointwise", "arg_of_static_none", "x: 4x0xf32", 'y = arg_reduce(x) {axis = 1, kind = "min"}; return(y)'),
    case("pointwise", "concat", "x: 4x0xf32, z: 4x3xf32", "y = concat(x, z) {axis = 1}; return(y)"),
    case("pointwise", "pad", "x: 4x0xf32", "y = pad(x) {low = [0, 1], high = [0, 2], value = 2.0}; return(y)"),
    case("pointwise", "take", "x: (n)x4xf32, i: 0xi64", "y = take(x, i) {axis = 0}; return(y)", SMALL, NOTHING),
    case("pointwise", "split_and_merged", "x: (n)x(m)x4xf32", """
        p = permute(x) {perm = [1, 0, 2]}; y = reshape(p) {shape = [(m), (4*n)]}; z = exp(y); return(z)
        """, "n in 0..9, m in 0..9", [{"n": 0, "m": 3}, {"n": 3, "m": 0}, {"n": 0, "m": 0}, {"n": 2, "m": 3}]),
)  # fmt: skip

ALL: dict[str, Case] = {
    f"{group}-{c.name}": c
    for group, cases in (
        ("pointwise", POINTWISE), ("movement", MOVEMENT), ("reduction", REDUCTION), ("contraction", CONTRACTION),
        ("convolution", CONVOLUTION), ("attention", ATTENTION), ("scan", SCAN), ("scatter", SCATTER), ("topk", TOPK),
        ("gather", GATHER), ("window", WINDOW), ("zero", ZERO),
    )
    for c in cases
}  # fmt: skip
