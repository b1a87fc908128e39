"""Matrix products as block functions in text, as a code generator writes them: one tile a program, grouped order."""

from __future__ import annotations

import math
from dataclasses import dataclass

GROUP = 8
"""Row tiles that go through the columns together, so that what they read stays in the cache."""


STATISTICS = ("scale", "shift", "sums")


@dataclass(frozen=True, slots=True)
class Gemm:
    """out [m, n] = epilogue(A @ B). `ta`: memory has A as [k, m]; `tb`: B as [n, k]. `tile` is rows, columns, depth."""

    m: int
    n: int
    k: int
    tile: tuple[int, int, int] = (128, 128, 64)
    ta: bool = False
    tb: bool = True
    elem: str = "bf16"
    out: str = "bf16"
    sum: str = "f32"
    bias: bool = False
    """Add a vector [n] of `elem`."""
    residual: bool = False
    """Add a matrix [m, n] of `elem`."""
    gelu: bool = False
    """GELU by tanh, in f32."""
    gate: bool = False
    """Multiply silu(A @ B) by A @ C, C a matrix like B."""
    norm: bool = False
    """Before the bias, scale rows by a vector [m] and add shift [m] times sums [n], all f32: what normalising the rows
    of A comes to, `sums` being those of B's columns."""
    parts: int = 1
    """A and B are sums of so many matrices [parts, ...], the largest first. Of their products, the small are left out;
    what a step adds is rounded as a sum of f32, not as tensor cores do."""
    symbolic: bool = False
    """The kernel takes m as an argument."""
    group: int = GROUP
    attrs: tuple[tuple[str, str], ...] = ()
    """Attributes of the function as text: `schedule`, `stages`, ..."""

    @property
    def inputs(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of what it reads, in the order of its parameters."""
        stack = (self.parts,) if self.parts > 1 else ()
        out = [("a", (*stack, self.k, self.m) if self.ta else (*stack, self.m, self.k))]
        out.append(("b", (*stack, self.n, self.k) if self.tb else (*stack, self.k, self.n)))
        if self.gate:
            out.append(("c", out[-1][1]))
        if self.norm:
            out += [("scale", (self.m,)), ("shift", (self.m,)), ("sums", (self.n,))]
        if self.bias:
            out.append(("bias", (self.n,)))
        if self.residual:
            out.append(("residual", (self.m, self.n)))
        return tuple(out)

    @property
    def flops(self) -> int:
        """Of the product, or both."""
        return 2 * self.m * self.n * self.k * (1 + self.gate)


def text(gemm: Gemm, name: str = "gemm") -> str:
    """The block function."""
    g = gemm
    rows, columns, depth = g.tile
    m = "m" if g.symbolic else str(g.m)
    tile = f"tile<{rows}x{columns}x{g.sum}>"
    row_tiles = f"floordiv(m + {rows - 1}, {rows})" if g.symbolic else str(-(-g.m // rows))
    column_tiles = -(-g.n // columns)
    a_base = f"{rows}*i + {m}*k" if g.ta else f"{rows * g.k}*i + k"
    b_base = f"{columns * g.k}*j + k" if g.tb else f"{columns}*j + {g.n}*k"
    a_strides = f"[1, ({m})]" if g.ta else f"[{g.k}, 1]"
    b_strides = f"[1, {g.k}]" if g.tb else f"[{g.n}, 1]"
    params = (
        [f"%{n}: ptr<{'f32' if n in STATISTICS else g.elem}>" for n, _ in g.inputs]
        + [f"%out: ptr<{g.out}>"]
        + ["%m: i64"] * g.symbolic
    )
    attrs = "".join(f", {k} = {v}" for k, v in g.attrs)
    # what is a whole number of tiles has no limit, as from blockgen
    full = [not g.symbolic and g.m % rows == 0, g.n % columns == 0, g.k % depth == 0]
    lm, ln, lk = ("" if whole else f"%l{d}" for whole, d in zip(full, "mnk", strict=True))
    group = f"min({row_tiles} - {g.group}*g, {g.group})"
    lines = [
        f"func @{name}({', '.join(params)}) {{grid = ({row_tiles}*{column_tiles}){attrs}}}"
        + (" dims (m in 1..65536)" if g.symbolic else "")
        + " {",
        "%p = block.program_id() : i64",
        f'%g = block.index(%p) {{expr = (floordiv(p, {g.group * column_tiles})), names = ["p"]}} : i64',
        f'%h = block.index(%g) {{expr = ({group}), names = ["g"]}} : i64',
        f'%q = block.index(%p) {{expr = (mod(p, {g.group * column_tiles})), names = ["p"]}} : i64',
        f'%i = block.index(%g, %q, %h) {{expr = ({g.group}*g + mod(q, h)), names = ["g", "q", "h"]}} : i64',
        '%j = block.index(%q, %h) {expr = (floordiv(q, h)), names = ["q", "h"]} : i64',
        f'%lm = block.index(%i) {{expr = ({m} - {rows}*i), names = ["i"]}} : i64',
        f'%ln = block.index(%j) {{expr = ({g.n} - {columns}*j), names = ["j"]}} : i64',
        f"%zero = block.const() {{elem = {g.sum}, shape = [{rows}, {columns}], value = 0}} : {tile}",
        "%lower = block.const() {elem = i64, value = 0} : i64",
        f"%upper = block.const() {{elem = i64, value = {g.k}}} : i64",
        (
            f"%acc{', %acc2' * g.gate} = for(%lower, %upper, %zero{', %zero' * g.gate}) {{step = {depth}}} do "
            f"(%k: i64, %s: {tile}{f', %s2: {tile}' * g.gate}) {{"
        ),
        f'  %lk = block.index(%k) {{expr = ({g.k} - k), names = ["k"]}} : i64',
    ]
    for p in range(g.parts):
        ahead_a, ahead_b = (f"{p}*{m}*{g.k} + ", f"{p * g.n * g.k} + ") if p else ("", "")
        lines += [
            f'  %pa{p} = block.index(%i, %k) {{expr = ({ahead_a}{a_base}), names = ["i", "k"]}} : i64',
            f'  %pb{p} = block.index(%j, %k) {{expr = ({ahead_b}{b_base}), names = ["j", "k"]}} : i64',
            "  " + _load(f"va{p}", "a", f"pa{p}", (lm, lk), (rows, depth), a_strides, g.elem),
            "  " + _load(f"vb{p}", "b", f"pb{p}", (lk, ln), (depth, columns), b_strides, g.elem),
        ]
    lines += [
        *_step(g, tile, (lk, ln), b_strides),
        f"}} : {tile}{f', {tile}' * g.gate}",
        f'%po = block.index(%i, %j) {{expr = ({rows * g.n}*i + {columns}*j), names = ["i", "j"]}} : i64',
    ]
    last = "acc"
    if g.gate:
        lines += [
            f"%open = block.sigmoid(%acc) : {tile}",
            f"%silu = block.mul(%acc, %open) : {tile}",
            f"%gated = block.mul(%silu, %acc2) : {tile}",
        ]
        last = "gated"
    if g.norm:
        lines += [
            f'%prow = block.index(%i) {{expr = ({rows}*i), names = ["i"]}} : i64',
            f'%psums = block.index(%j) {{expr = ({columns}*j), names = ["j"]}} : i64',
            _load("vscale", "scale", "prow", (lm, ""), (rows, 1), "[1, 0]", "f32"),
            _load("vshift", "shift", "prow", (lm, ""), (rows, 1), "[1, 0]", "f32"),
            _load("vsums", "sums", "psums", ("", ln), (1, columns), "[0, 1]", "f32"),
            f"%scales = block.broadcast(%vscale) {{shape = [{rows}, {columns}]}} : {tile}",
            f"%shifts = block.broadcast(%vshift) {{shape = [{rows}, {columns}]}} : {tile}",
            f"%allsums = block.broadcast(%vsums) {{shape = [{rows}, {columns}]}} : {tile}",
            f"%scaled = block.mul(%{last}, %scales) : {tile}",
            f"%normed = block.fma(%shifts, %allsums, %scaled) : {tile}",
        ]
        last = "normed"
    if g.bias:
        lines += [
            f'%pbias = block.index(%j) {{expr = ({columns}*j), names = ["j"]}} : i64',
            _load("vbias", "bias", "pbias", ("", ln), (1, columns), "[0, 1]", g.elem),
            f"%wide = block.cast(%vbias) {{to = {g.sum}}} : tile<1x{columns}x{g.sum}>",
            f"%rows = block.broadcast(%wide) {{shape = [{rows}, {columns}]}} : {tile}",
            f"%biased = block.add(%{last}, %rows) : {tile}",
        ]
        last = "biased"
    if g.residual:
        lines += [
            _load("vres", "residual", "po", (lm, ln), (rows, columns), f"[{g.n}, 1]", g.elem),
            f"%wideres = block.cast(%vres) {{to = {g.sum}}} : {tile}",
            f"%added = block.add(%{last}, %wideres) : {tile}",
        ]
        last = "added"
    if g.gelu:
        lines += _gelu(last, tile, (rows, columns))
        last = "gelu"
    if g.out != g.sum:
        lines.append(f"%r = block.cast(%{last}) {{to = {g.out}}} : tile<{rows}x{columns}x{g.out}>")
        last = "r"
    limits, limited = _limits((lm, ln))
    lines.append(f"block.store_view(%out, %po, %{last}{limits}) {{strides = [{g.n}, 1]{limited}}}")
    return "\n  ".join([*lines, "return()"]) + "\n}\n"


def split_text(shape: tuple[int, ...], parts: int = 3) -> str:
    """A block function: f32 [shape] as the sum of bf16 [parts, shape], largest first.

    Each part is what fits in bf16 of what is left, cut off, and 2^-30 of it is left over, so that all parts have the
    sign of the whole and none is 0 unless it is: an infinity times the parts of a number is what it is times the
    number. Infinities and NaN are all in every part.
    """
    chunk, size = 2048, math.prod(shape)
    tile, half, bits = (f"tile<{chunk}x{e}>" for e in ("f32", "bf16", "i32"))
    at = f"shape = [{chunk}]"
    limit, limited = ("", "") if size % chunk == 0 else (", %left", ", limited = [0]")
    lines = [
        f"func @split(%x: ptr<f32>, %out: ptr<bf16>) {{grid = ({-(-size // chunk)}), warps = 8}} {{",
        "%p = block.program_id() : i64",
        f'%left = block.index(%p) {{expr = ({size} - {chunk}*p), names = ["p"]}} : i64',
        f'%at0 = block.index(%p) {{expr = ({chunk}*p), names = ["p"]}} : i64',
        f"%r0 = block.load_view(%x, %at0{limit}) {{{at}, strides = [1]{limited}}} : {tile}",
        f"%mask = block.const() {{elem = i32, {at}, value = -65536}} : {bits}",
        f"%infinity = block.const() {{elem = f32, {at}, value = inf}} : {tile}",
        f"%little = block.const() {{elem = f32, {at}, value = {2.0**-30}}} : {tile}",
        f"%size = block.abs(%r0) : {tile}",
        f"%finite = block.lt(%size, %infinity) : tile<{chunk}xbool>",
    ]
    for p in range(parts):
        part = f"r{p}"
        if p + 1 < parts:
            part = f"h{p}"
            lines += [
                f"%b{p} = block.bitcast(%r{p}) {{to = i32}} : {bits}",
                f"%c{p} = block.and(%b{p}, %mask) : {bits}",
                f"%h{p} = block.bitcast(%c{p}) {{to = f32}} : {tile}",
                f"%d{p} = block.sub(%r{p}, %h{p}) : {tile}",
                f"%e{p} = block.fma(%h{p}, %little, %d{p}) : {tile}",
                f"%r{p + 1} = block.select(%finite, %e{p}, %r0) : {tile}",
            ]
        lines += [
            f"%v{p} = block.cast(%{part}) {{to = bf16}} : {half}",
            f'%o{p} = block.index(%p) {{expr = ({chunk}*p + {p * size}), names = ["p"]}} : i64',
            f"block.store_view(%out, %o{p}, %v{p}{limit}) {{strides = [1]{limited}}}",
        ]
    return "\n  ".join([*lines, "return()"]) + "\n}\n"


def _step(g: Gemm, tile: str, limits: tuple[str, str], strides: str) -> list[str]:
    """The products of a step, and what it yields."""
    if g.gate:
        return [
            "  " + _load("vc", "c", "pb0", limits, (g.tile[2], g.tile[1]), strides, g.elem),
            f"  %d = block.dot(%va0, %vb0, %s) : {tile}",
            f"  %d2 = block.dot(%va0, %vc, %s2) : {tile}",
            "  yield(%d, %d2)",
        ]
    if g.parts == 1:
        return [f"  %d = block.dot(%va0, %vb0, %s) : {tile}", "  yield(%d)"]
    pairs = [(p, total - p) for total in reversed(range(g.parts)) for p in range(total + 1)]  # small products first
    last, lines = "zero", list[str]()
    for p, q in pairs:
        lines.append(f"  %d{p}{q} = block.dot(%va{p}, %vb{q}, %{last}) : {tile}")
        last = f"d{p}{q}"
    return [*lines, f"  %d = block.add(%s, %{last}) : {tile}", "  yield(%d)"]


def _load(
    result: str, pointer: str, base: str, limits: tuple[str, str], shape: tuple[int, int], strides: str, elem: str
) -> str:
    operands, limited = _limits(limits)
    size = f"{shape[0]}x{shape[1]}"
    return (
        f"%{result} = block.load_view(%{pointer}, %{base}{operands}) "
        f"{{shape = [{shape[0]}, {shape[1]}], strides = {strides}{limited}}} : tile<{size}x{elem}>"
    )


def _limits(limits: tuple[str, str]) -> tuple[str, str]:
    """The operands, and the attribute that says which dims they limit."""
    given = [d for d, v in enumerate(limits) if v]
    operands = "".join(f", {v}" for v in limits if v)
    return operands, f", limited = [{', '.join(map(str, given))}]" if given else ""


def _gelu(x: str, tile: str, shape: tuple[int, int]) -> list[str]:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    size = f"shape = [{shape[0]}, {shape[1]}]"
    return [
        f"%c1 = block.const() {{elem = f32, {size}, value = 0.7978845608028654}} : {tile}",
        f"%c3 = block.const() {{elem = f32, {size}, value = 0.035677408136300125}} : {tile}",
        f"%half = block.const() {{elem = f32, {size}, value = 0.5}} : {tile}",
        f"%x2 = block.mul(%{x}, %{x}) : {tile}",
        f"%u = block.fma(%x2, %c3, %c1) : {tile}",
        f"%v = block.mul(%u, %{x}) : {tile}",
        f"%t = block.tanh(%v) : {tile}",
        f"%xh = block.mul(%{x}, %half) : {tile}",
        f"%gelu = block.fma(%xh, %t, %xh) : {tile}",
    ]
