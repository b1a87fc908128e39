"""Sizes that GPU schedules branch on: tiles that are whole, cut, turned, flattened; rows in registers and in chunks."""

from __future__ import annotations

from tests.blockgen.cases import (
    BQK,
    CAUSAL,
    CENTRED,
    LAYER_NORM,
    MASK,
    Sizes,
    attention,
    case,
    contract,
    conv,
    fused,
    loss,
    over,
    softmax,
)
from tests.blockgen.support import Case

BIAS = "b = broadcast(w) {shape = [SHAPE]}; s = add(x, b); r = exp(s); return(r)"


def transposed(name: str, shape: str, perm: str, elem: str = "f32", dims: str = "", sizes: Sizes = ({},)) -> Case:
    """A permutation with work on both sides."""
    body = f"a = abs(x); p = permute(a) {{perm = [{perm}]}}; y = neg(p); return(y)"
    return fused("pointwise", name, f"x: {shape}x{elem}", body, dims, sizes)


GPU_POINTWISE = (
    case("pointwise", "flat", "x: (n)xf32, y: (n)xf32", "s = add(x, y); return(s)", "n in 1..1000000",
         over("n", values=(1, 511, 1024, 3000))),
    case("pointwise", "flat_half", "x: 40x50xf16", "y = neg(x); return(y)"),
    case("pointwise", "bytes", "x: 70x130xu8, y: 70x130xu8", "s = add(x, y); f = cast(s) {to = f32}; return(f)"),
    case("pointwise", "doubles", "x: 3000xf64", "y = mul(x, x); return(y)"),
    case("pointwise", "bias", "x: (n)x768xf32, w: 768xf32", BIAS.replace("SHAPE", "(n), 768"), "n in 1..4096",
         over("n", values=(1, 9))),
    case("pointwise", "odd_rows_of_few", "x: 90x37xbf16, w: 37xbf16", BIAS.replace("SHAPE", "90, 37")),
    case("pointwise", "odd_rows", "x: 9x1001xf32, w: 1001xf32", BIAS.replace("SHAPE", "9, 1001")),
    case("pointwise", "narrow_rows", "x: (n)x3xf32, w: 3xf32", BIAS.replace("SHAPE", "(n), 3"), "n in 1..100000",
         over("n", values=(1, 700))),
    case("pointwise", "per_channel", "x: 2x5x36xf32, c: 5x1xf32",
         "b = broadcast(c) {shape = [2, 5, 36]}; s = mul(x, b); return(s)"),
    case("pointwise", "rows_of_unknown_length", "x: (n)x(m)xf32, w: (m)xf32", BIAS.replace("SHAPE", "(n), (m)"),
         "n in 1..64, m in 1..5000", [{"n": 3, "m": 1}, {"n": 2, "m": 1500}]),
    transposed("matrix", "130x200", "1, 0"),
    transposed("half_matrix", "70x130", "1, 0", "f16"),
    transposed("whole_blocks", "128x64", "1, 0"),
    transposed("channels_last", "2x3x300", "0, 2, 1"),
    transposed("channels_first", "2x300x3", "0, 2, 1"),
    transposed("heads", "2x4x(s)x64", "0, 2, 1, 3", "f16", "s in 1..512", over("s", values=(1, 33))),
    transposed("reversed_dims", "5x6x70", "2, 1, 0"),
    case("pointwise", "two_ways", "x: 40x50xf32, y: 50x40xf32", """
        t = permute(y) {perm = [1, 0]}; s = add(x, t); return(s)"""),
    case("pointwise", "embed", "x: 11x96xf32, i: (n)xi64", "y = take(x, i) {axis = 0}; return(y)", "n in 0..4096",
         over("n", values=(0, 40)), indices=11),
    case("pointwise", "padded_window", "x: 2x9x7x8xf16", """
        p = pad(x) {low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = -inf}
        y = reduce_window(p) {kind = "max", window = [1, 3, 3, 1], strides = [1, 2, 2, 1], low = [0, 0, 0, 0],
        high = [0, 0, 0, 0], dilation = [1, 1, 1, 1]}; return(y)""".replace(""",
        high""", ", high")),
    case("pointwise", "long_concat", "x: 3x700xf32, y: 3x801xf32",
         "c = concat(x, y) {axis = 1}; d = neg(c); return(d)"),
)  # fmt: skip

GPU_REDUCTION = (
    case("reduction", "many_short_rows", "x: 700x5xf32", softmax(1, "700, 5")),
    case("reduction", "exact_rows", "x: 64x128xf32", softmax(1, "64, 128")),
    case("reduction", "rows_of_200", "x: 37x200xf16", softmax(1, "37, 200")),
    case("reduction", "one_tile", "x: 3x5000xf32", softmax(1, "3, 5000")),
    case("reduction", "largest_tile", "x: 2x20001xf32", softmax(1, "2, 20001")),
    case("reduction", "walked", "x: 2x40001xf32", softmax(1, "2, 40001")),
    case("reduction", "walked_special", "x: 3x40001xf32", softmax(1, "3, 40001"), special=True),
    case("reduction", "walked_half", "x: 2x40960xf16", softmax(1, "2, 40960")),
    case("reduction", "walked_place", "x: 3x40001xbf16, i: 3xi64", loss("3", "40001"), indices=40001),
    case("reduction", "unknown_length", "x: (n)x(m)xf32", softmax(1, "(n), (m)"), "n in 0..64, m in 0..100000",
         [{"n": 2, "m": 0}, {"n": 0, "m": 3}, {"n": 2, "m": 1}, {"n": 2, "m": 4096}, {"n": 2, "m": 9000}]),
    case("reduction", "bounded_length", "x: (b)x3x(s)x(s)xf32", softmax(3, "(b), 3, (s), (s)"),
         "b in 1..8, s in 1..512", [{"b": 1, "s": 1}, {"b": 2, "s": 33}]),
    case("reduction", "multiples_of_nothing", "x: 3x(64*n)xf32", softmax(1, "3, (64*n)"), "n in 0..1",
         over("n", values=(0, 1))),
    case("reduction", "norm", "x: (n)x21xf32, g: 21xf32", LAYER_NORM + "; return(y, m, r)", "n in 0..512",
         over("n", values=(0, 130))),
    case("reduction", "masked", "x: 2x3x9x70xf32, mask: 2x1x9x70xf32", """
        mb = broadcast(mask) {shape = [2, 3, 9, 70]}; s = add(x, mb); m = reduce(s) {axes = [3], kind = "max"}
        return(m)"""),
    case("reduction", "group", "x: 2x3x70x5xf32, g: 70x1xf32", """
        gb = broadcast(g) {shape = [2, 3, 70, 5]}; y = mul(x, gb)
        s = reduce(y) {axes = [2, 3], kind = "sum", keepdims = true}; sb = broadcast(s) {shape = [2, 3, 70, 5]}
        z = sub(y, sb); return(z)"""),
    case("reduction", "walked_dims", "x: 2x9x3000xf32, g: 3000xf32", """
        gb = broadcast(g) {shape = [2, 9, 3000]}; y = mul(x, gb); s = reduce(y) {axes = [1, 2], kind = "sum"}
        return(s)"""),
    fused("reduction", "two_at_once", "x: 2x40000xf32", """
        a = reduce(x) {axes = [1], kind = "sum"}; q = mul(x, x); b = reduce(q) {axes = [1], kind = "sum"}
        c = mul(a, a); d = sub(b, c); return(d)"""),
    case("reduction", "columns", "x: 3x100x70xf16", softmax(1, "3, 100, 70")),
    case("reduction", "long_columns", "x: 2x700x40xf32", softmax(1, "2, 700, 40")),
    case("reduction", "walked_columns", "x: 3000x70xf32", softmax(0, "3000, 70")),
    case("reduction", "columns_of_unknown_length", "x: (n)x33xf32", softmax(0, "(n), 33"), "n in 0..5000",
         over("n", values=(0, 1, 64, 333))),
    case("reduction", "around", "x: 2x70x8x5xf32", CENTRED.replace("SHAPE", "2, 70, 8, 5")),
    case("reduction", "walked_around", "x: 2x900x8x10xf32", CENTRED.replace("SHAPE", "2, 900, 8, 10")),
    case("reduction", "integers", "x: 5x300xi8", 's = reduce(x) {axes = [1], kind = "sum"}; return(s)'),
    case("reduction", "everything", "x: (n)x50xf32", 's = reduce(x) {axes = [0, 1], kind = "sum"}; return(s)',
         "n in 0..2000", over("n", values=(0, 1, 400))),
)  # fmt: skip


def arg(name: str, shape: str, axis: int, kind: str, last: str = "false", dims: str = "", sizes: Sizes = ({},)) -> Case:
    """The position of an extreme, with NaN and infinities among the elements."""
    body = f'a = arg_reduce(x) {{axis = {axis}, kind = "{kind}", last = {last}}}; return(a)'
    return case("pointwise", name, f"x: {shape}xf32", body, dims, sizes, special=True)


GPU_AXES = (
    case("pointwise", "columns", "x: (n)x150xf32", """
        s = reduce(x) {axes = [0], kind = "sum"}; k = full() {shape = [150], elem = f32, value = 0.5}; m = mul(s, k)
        return(m)""", "n in 0..5000", over("n", values=(0, 1, 300))),
    case("pointwise", "few_columns", "x: 3000x3xf16", 's = reduce(x) {axes = [0], kind = "max"}; return(s)'),
    case("pointwise", "pooled", "x: 2x7x7x70xf32", """
        s = reduce(x) {axes = [1, 2], kind = "sum", keepdims = true}; r = reshape(s) {shape = [2, 70]}; y = neg(r)
        return(y)"""),
    case("pointwise", "batch_statistics", "x: 5x40x30xf32",
         's = reduce(x) {axes = [0, 2], kind = "sum"}; return(s)'),
    case("pointwise", "middle", "x: 3x(n)x5xi32", 's = reduce(x) {axes = [1], kind = "min"}; return(s)',
         "n in 0..4000", over("n", values=(0, 1, 700))),
    case("pointwise", "columns_of_a_view", "x: 50x90xf32",
         'p = permute(x) {perm = [1, 0]}; s = reduce(p) {axes = [0], kind = "sum"}; return(s)'),
    arg("row_argmax", "50x300", 1, "max"),
    arg("row_argmin_last", "3x5000", 1, "min", "true"),
    arg("column_argmax", "300x50", 0, "max", "true"),
    *(case("pointwise", f"all_alike_{last}", "x: 5x70xf32", f"""
        k = full() {{shape = [5, 70], elem = f32, value = -inf}}; m = min(x, k)
        a = arg_reduce(m) {{axis = 1, kind = "max", last = {last}}}; return(a)""") for last in ("true", "false")),
    arg("argmax_of_unknown_length", "2x(n)", 1, "max", "false", "n in 0..9000", over("n", values=(0, 1, 2500))),
    case("pointwise", "argmax_of_equals", "x: 2x3000xf32",
         'z = sub(x, x); a = arg_reduce(z) {axis = 1, kind = "max"}; return(a)'),
    case("pointwise", "argmax_of_lowest", "x: 2x70xi8", """
        l = full() {shape = [2, 70], elem = i8, value = -128}; m = min(x, l)
        a = arg_reduce(m) {axis = 1, kind = "max", last = true}; b = cast(a) {to = i32}; return(b)"""),
)  # fmt: skip


def linear(
    name: str, m: str, n: str, k: str, spec: str, elem: str = "f16", dims: str = "", sizes: Sizes = ({},)
) -> Case:
    """A product with a bias."""
    x, w = (f"{k}x{m}" if spec.startswith("k") else f"{m}x{k}"), (f"{n}x{k}" if "nk" in spec else f"{k}x{n}")
    return case("contraction", name, f"x: {x}x{elem}, w: {w}x{elem}, b: {n}x{elem}", f"""
        y = contract(x, w) {{spec = "{spec}"}}; c = broadcast(b) {{shape = [{m}, {n}]}}; s = add(y, c); return(s)
        """, dims, sizes)  # fmt: skip


GPU_CONTRACTION = (
    linear("rows_by_columns", "300", "200", "100", "mk,kn->mn"),
    linear("whole_tiles", "128", "64", "128", "mk,nk->mn"),
    linear("single", "150", "70", "90", "km,kn->mn", "f32"),
    linear("double", "70", "90", "20", "mk,nk->mn", "f64"),
    linear("brain", "70", "33", "130", "mk,kn->mn", "bf16"),
    linear("symbolic_rows", "(n)", "130", "70", "mk,kn->mn", dims="n in 0..4096", sizes=over("n", values=(0, 1, 200))),
    linear("all_symbolic", "(n)", "(m)", "(n + m)", "mk,nk->mn", dims="n in 0..512, m in 0..512",
           sizes=({"n": 70, "m": 33}, {"n": 0, "m": 3}, {"n": 500, "m": 1})),
    linear("one_row", "1", "300", "500", "mk,kn->mn"),
    linear("one_row_of_rows", "1", "300", "5000", "mk,nk->mn"),
    linear("one_column", "300", "1", "500", "mk,kn->mn"),
    contract("bytes", "mk,nk->mn", "x: 70x200xi8, w: 40x200xi8", ", elem = i32"),
    contract("batched", "bmk,bkn->bmn", "x: 3x70x40xf16, w: 3x40x50xf16"),
    contract("rows_dot_rows", "mk,mk->m", "x: 70x900xf32, w: 70x900xf32"),
    contract("columns_dot_columns", "km,km->m", "x: 900x70xf32, w: 900x70xf32"),
    contract("dot", "k,k->", "x: 9000xf32, w: 9000xf32"),
    contract("rows_of_two_dims", "abk,kn->abn", "x: 3x50x40xf16, w: 40x50xf16"),
    contract("rows_around_batch", "amk,mkn->amn", "x: 5x3x40xf32, w: 3x40x50xf32"),
    case("contraction", "computed_operand", "x: 40x50xf32, w: 50x40xf32", """
        i = iota() {shape = [40, 50], elem = f32, axis = 1}; y = contract(i, w) {spec = "mk,kn->mn"}; return(y)"""),
    case("contraction", "infinite_past_the_end", "w: 50x40xf32", """
        i = iota() {shape = [40, 50], elem = f32, axis = 1}; k = full() {shape = [40, 50], elem = f32, value = 50}
        d = sub(k, i); o = full() {shape = [40, 50], elem = f32, value = 1}; r = div(o, d)
        y = contract(r, w) {spec = "mk,kn->mn"}; return(y)"""),
    conv("window", (16, 16), 64, 96, (3, 3), elem="f16"),
    conv("stem", (37, 37), 3, 64, (7, 7), 2, elem="f16"),
    conv("odd_channels", (9, 150), 24, 40, (3, 3), elem="f16"),
    conv("groups", (9, 9), 64, 64, (3, 3), groups=2),
    conv("groups_at_one_position", (3, 1), 16, 64, (3, 1), groups=2, elem="f16", batch="1"),
    conv("depthwise", (20, 20), 96, 96, (3, 3), groups=96, elem="f16"),
    conv("depthwise_neighbours", (28, 28), 96, 96, (3, 3), groups=96, batch="3"),
    conv("depthwise_batch", (9, "(n)"), 40, 40, (3, 3), 2, groups=40, dims="n in 3..64",
         sizes=over("n", values=(3, 20))),
)  # fmt: skip

LATE = """
    i = iota() {shape = [SHAPE], elem = i64, axis = 3}; m = full() {shape = [SHAPE], elem = i64, value = 100}
    keep = ge(i, m); none = full() {shape = [SHAPE], elem = f32, value = -inf}
    far = full() {shape = [SHAPE], elem = f32, value = -1000.0}; s0 = add(s1, far); s2 = select(keep, s0, none)"""
NO_LARGEST = """
    x = contract(q, k) {spec = "bqd,bkd->bqk"}; e = exp(x); t = reduce(e) {axes = [2], kind = "sum", keepdims = true}
    tb = broadcast(t) {shape = [2, 70, 150]}; y = div(e, tb); o = contract(y, v) {spec = "bqk,bkd->bqd"}; return(o)"""
INVERSE = """
    x = contract(q, k) {spec = "bqd,bkd->bqk"}; m = reduce(x) {axes = [2], kind = "max", keepdims = true}
    mb = broadcast(m) {shape = [2, 70, 150]}; c = sub(x, mb); e = exp(c)
    t = reduce(e) {axes = [2], kind = "sum", keepdims = true}; one = full() {shape = [2, 70, 1], elem = f32, value = 1}
    r = div(one, t); rb = broadcast(r) {shape = [2, 70, 150]}; y = mul(rb, e)
    o = contract(y, v) {spec = "bqk,bkd->bqd"}; return(o)"""
QKV = "q: 2x70x24xf32, k: 2x150x24xf32, v: 2x150x40xf32"

GPU_ATTENTION = (
    attention("half_heads", "2", "150", "200", 2, 64, elem="f16"),
    attention("single_heads", "1", "70", "150", 2, 40),
    attention("masked_first_keys", "1", "70", "300", 2, 24, LATE),
    attention("causal_blocks", "1", "(q)", "(q)", 2, 16, CAUSAL.replace("(OFFSET)", "0"), "", "q in 1..512",
              over("q", values=(3, 150))),
    attention("cached", "(b)", "(q)", "(k)", 2, 32, MASK, ", mask: (b)x1x(q)x(k)xf32", BQK,
              [{"b": 2, "q": 1, "k": 257}, {"b": 1, "q": 70, "k": 128}]),
    attention("deep", "1", "40", "70", 1, 300, values=40),
    attention("many_values", "1", "40", "70", 1, 24, values=300),
    attention("one_value", "1", "70", "150", 2, 24, values=1,
              end="r = reshape(o) {shape = [1, 70, 2]}; z = neg(r); return(z)"),
    attention("special", "1", "20", "150", 2, 24, MASK, ", mask: 1x1x1x150xf32", special=True),
    case("attention", "no_largest", QKV, NO_LARGEST),
    case("attention", "no_largest_of_one_query", QKV.replace("x70x", "x1x"), NO_LARGEST.replace(" 70,", " 1,")),
    case("attention", "by_the_inverse", QKV, INVERSE),
)  # fmt: skip


def scan(name: str, shape: str, axis: int, more: str, elem: str = "f32", dims: str = "", sizes: Sizes = ({},)) -> Case:
    """A running reduction."""
    return case(
        "scan", name, f"x: {shape}x{elem}", f"y = cumulate(x) {{axis = {axis}, {more}}}; return(y)", dims, sizes
    )


def topk(name: str, params: str, more: str, dims: str = "", sizes: Sizes = ({},), **options: bool) -> Case:
    """A sorted selection, with NaN and infinities among floats."""
    body = f"v, w = topk(x) {{{more}}}; return(v, w)"
    return case("topk", name, params, body, dims, sizes, special=options.get("special", True))


GPU_SERIAL = (
    scan("chunks", "3x150", 1, 'kind = "sum"', "f16"),
    scan("whole_chunks", "3x128", 1, 'kind = "max", exclusive = true'),
    scan("backwards", "2x150", 1, 'kind = "sum", reverse = true', "i32"),
    scan("backwards_without_itself", "2x70", 1, 'kind = "prod", exclusive = true, reverse = true', "i64"),
    scan("unknown_line", "2x(n)", 1, 'kind = "min"', "f32", "n in 0..5000", over("n", values=(0, 1, 64, 130))),
    scan("neighbours", "2x40x70", 1, 'kind = "sum"'),
    scan("long_line", "2x17000", 1, 'kind = "max"'),
    scan("long_line_without_itself", "17000", 0, 'kind = "sum", exclusive = true, reverse = true', "i32"),
    scan("many_lines", "3x301x5", 2, 'kind = "sum"', "i32"),
    scan("lines_of_halves", "70x200", 1, 'kind = "max", reverse = true', "bf16"),
    scan("columns", "3x300x70", 1, 'kind = "sum"'),
    scan("columns_of_logarithms", "3x300x5", 1, 'kind = "logaddexp"'),
    scan("logarithms", "3x150", 1, 'kind = "logaddexp", exclusive = true, reverse = true', "f16"),
    scan("few_columns", "2x1100x2x3", 1, 'kind = "prod", exclusive = true', "f64"),
    scan("columns_of_unknown_length", "(n)x33", 0, 'kind = "sum", reverse = true', "f32", "n in 0..5000",
         over("n", values=(0, 1, 64, 333))),
    scan("short_columns", "3x2000", 0, 'kind = "max"', "f16"),
    *(case("scan", f"parts_{axis}_{part}_{how}", f"x: 3x150x10xf32, b: {shape}xf64",
           f'y = cumulate(x, b) {{axis = {axis}, kind = "sum", part = {part}{how and f", {how} = true"}}}; return(y)')
      for axis, part, shape in ((1, 32, "3x4x10"), (1, 50, "3x2x10"), (1, 150, "3x0x10"), (2, 4, "3x150x2"))
      for how in ("", "reverse", "exclusive")),
    case("scan", "long_parts", "x: 40000xi32, b: 1xi32",
         'y = cumulate(x, b) {axis = 0, kind = "max", part = 20000}; return(y)'),
    case("scatter", "cache_rows", "x: 300x64xf16, i: 3x1xi64, u: 3x64xf16", "y = scatter_nd(x, i, u); return(y)",
         indices=300),
    case("scatter", "long_rows", "x: 5x3000xf32, i: 4x1xi64, u: 4x3000xf32",
         'y = scatter_nd(x, i, u) {kind = "add"}; return(y)', indices=5),
    case("scatter", "in_order", "x: 300x70xf16, i: 20x1xi64, u: 20x70xf16",
         'y = scatter_nd(x, i, u) {kind = "add", ordered = true}; return(y)', indices=300),
    case("scatter", "cells", "x: 9x70xf32, i: 200x2xi32, u: 200xf32",
         'y = scatter_nd(x, i, u) {kind = "max"}; return(y)', indices=9),
    case("scatter", "many", "x: 9x8xi32, i: 5000x1xi64, u: 5000x8xi32",
         'y = scatter_nd(x, i, u) {kind = "add"}; return(y)', indices=9),
    case("scatter", "histogram", "x: 9xf32, i: (n)x1xi64, u: (n)xf32",
         'y = scatter_nd(x, i, u) {kind = "add"}; return(y)', "n in 0..100000", over("n", values=(0, 3, 1500)),
         indices=9),
    case("scatter", "few_marked", "x: 3x5xbf16, i: 900x5xi32", """
         u = full() {shape = [900, 5], elem = bf16, value = 1.0}
         y = scatter_along(x, i, u) {axis = 0}; return(y)""", indices=3),
    case("scatter", "few_marked_by_any_number", "x: 3x5xbf16, i: (n)x5xi32", """
         u = full() {shape = [(n), 5], elem = bf16, value = 1.0}
         y = scatter_along(x, i, u) {axis = 0}; return(y)""", "n in 0..4000000000", over("n", values=(0, 2, 900)),
         indices=3),
    case("scatter", "corner", "x: 50x70xf32, i: 9x60xi64, u: 9x60xf32",
         'y = scatter_along(x, i, u) {axis = 0, kind = "add"}; return(y)', indices=50),
    case("scatter", "symbolic_cache", "x: 2x(n)x64xf32, i: (m)x2xi64, u: (m)x64xf32",
         "y = scatter_nd(x, i, u); return(y)", "n in 2..512, m in 0..64", [{"n": 9, "m": 0}, {"n": 2, "m": 5}]),
    topk("experts", "x: 70x64xf32", "k = 2, axis = 1"),
    topk("least", "x: 3x300xf16", "k = 5, axis = 1, largest = false"),
    topk("columns", "x: 60x40xf32", "k = 3, axis = 0"),
    topk("long_line", "x: 2x9000xf32", "k = 3, axis = 1"),
    topk("unsigned", "x: 3x50xu64", "k = 4, axis = 1", special=False),
    topk("doubles", "x: 3x50xf64", "k = 4, axis = 1, largest = false"),
    topk("symbolic_choices", "x: (n)x(m)xi8", "k = (m), axis = 1", "n in 0..64, m in 0..6000",
         [{"n": 2, "m": 9}, {"n": 1, "m": 0}], special=False),
)  # fmt: skip

GPU_CASES: dict[str, Case] = {
    f"{group}-{c.name}": c
    for group, cases in (
        ("pointwise", GPU_POINTWISE),
        ("reduction", GPU_REDUCTION),
        ("axes", GPU_AXES),
        ("contraction", GPU_CONTRACTION),
        ("attention", GPU_ATTENTION),
        ("serial", GPU_SERIAL),
    )
    for c in cases
}
