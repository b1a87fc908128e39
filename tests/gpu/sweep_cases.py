"""The table of the sweep: every kind of kernel by element, by how its first operand lies in memory, by size.

A kind makes a graph function of `@V`, a tensor [@R, @C] of elements `@E`, which a view makes of what is in memory.
Elements come from the type system: a new one brings its cases along.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphfuse.ir.types import SCALAR_NAMES, Scalar
from tests.blockgen.support import Case, graph_func, in_one_region

ELEMS = tuple(sorted(n for n in SCALAR_NAMES if Scalar(n).bits >= 8))
"""All that take at least a byte."""
SMALL_FLOATS = tuple(e for e in ELEMS if Scalar(e).is_float and Scalar(e).bits == 8)
"""Moved, converted and multiplied into wider sums: no model computes in them."""
FLOATS = tuple(e for e in ELEMS if Scalar(e).is_float and e not in SMALL_FLOATS)
NUMBERS = tuple(e for e in ELEMS if Scalar(e).is_integer or e in FLOATS)
NUMBERS_AND_BOOL = (*NUMBERS, "bool")
MULTIPLIED = (*NUMBERS, "f8e4m3", "f8e5m2")
ONE_OF_EACH_WIDTH = ("i8", "f16", "f32", "f64")
"""Elements that views are tried with."""
ARCHS = ("sm_80", "sm_90a")
SLOW = ("product", "parts", "attention", "warpgroups", "picked_by_tiles")
"""Kinds that take seconds: only plainly among the few."""


@dataclass(frozen=True, slots=True)
class Size:
    """Rows and columns of the first operand, and `other`, a dim of the second; `values` of the symbol `n`."""

    rows: str
    columns: str
    other: str
    values: tuple[int, ...] = ()


SIZES = {
    "whole": Size("64", "128", "64"),
    "odd": Size("37", "131", "33"),
    "small": Size("3", "5", "7"),
    "symbolic": Size("(n)", "70", "40", (0, 1, 33)),
    "one row": Size("1", "131", "33"),
    "one column": Size("37", "1", "33"),
}
IMAGES = {
    "whole": Size("10", "64", "64"),
    "odd": Size("9", "13", "17"),
    "small": Size("4", "2", "3"),
    "symbolic": Size("(n)", "24", "40", (4, 9)),
}
"""Rows of pixels, channels, channels of the result."""
QUERIES = {
    "whole": Size("64", "32", "64"),
    "odd": Size("37", "20", "70"),
    "small": Size("3", "5", "7"),
    "symbolic": Size("(n)", "24", "40", (0, 1, 33)),
}
"""Queries, their depth, keys."""
LONG = {"odd": Size("2", "40001", ""), "symbolic": Size("2", "(n)", "", (0, 1, 9000))}
LARGE = {
    "whole": Size("256", "128", "192"),
    "odd": Size("200", "144", "136"),
    "symbolic": Size("(n)", "192", "128", (1, 200)),
}
"""For tiles of warpgroups."""
OF_CODES = {
    "whole": Size("16", "64", ""),
    "odd": Size("5", "64", ""),
    "symbolic": Size("(n)", "64", "", (0, 1, 20)),
}
"""Rows that multiply eight words of each column."""
FEW_OF_CODES = {name: size for name, size in OF_CODES.items() if name != "symbolic"}
"""Those whose weights are not rounded to halves, as they are for many rows."""
SHORT_SUMS = {"odd": Size("67", "61", ""), "symbolic": Size("(n)", "30", "", (0, 1, 50))}
"""Terms that threads go over, several at a time."""
MANY_ROWS = {"odd": Size("2601", "3", ""), "symbolic": Size("(n)", "7", "", (0, 1, 2100))}

VIEWS = {
    "plain": ("x: @Rx@Cx@E", ""),
    "permuted": ("x: @Cx@Rx@E", "v = permute(x) {perm = [1, 0]};"),
    "strided": ("x: @2Rx@3Cx@E", "v = slice(x) {starts = [1, 2], sizes = [@R, @C], steps = [2, 3]};"),
    "shifted": ("x: @Rx@3Cx@E", "v = slice(x) {starts = [0, 3], sizes = [@R, @C], steps = [1, 1]};"),
    "row": ("x: 1x@Cx@E", "v = broadcast(x) {shape = [@R, @C]};"),
    "column": ("x: @Rx1x@E", "v = broadcast(x) {shape = [@R, @C]};"),
    "flipped": ("x: @Rx@Cx@E", "v = flip(x) {axes = [0, 1]};"),
    "flat": ("x: @RCx@E", "v = reshape(x) {shape = [@R, @C]};"),
}

SOFTMAX = """m = reduce(@S) {axes = [1], kind = "max", keepdims = true}; mb = broadcast(m) {shape = [@R, @K]}
    c = sub(@S, mb); e = exp(c); t = reduce(e) {axes = [1], kind = "sum", keepdims = true}
    tb = broadcast(t) {shape = [@R, @K]}; p = div(e, tb);"""
CONV = """o = conv(x, w) {strides = [@T, 1], low = [0, 0], high = [0, 0], dilation = [1, @T], input_dilation = [1, 1],
    groups = @G, layout = "nhwc"}; return(o)""".replace("\n   ", "")


@dataclass(frozen=True, slots=True)
class Kind:
    """A graph function: `params` after the first operand, ops for numbers and, if they differ, for `bool`."""

    region: str
    elems: tuple[str, ...]
    body: str
    params: str = ""
    bools: str = ""
    first: str = ""
    """The first operand where it is no view of a matrix."""
    views: tuple[str, ...] = tuple(VIEWS)
    sizes: Mapping[str, Size] = field(default_factory=lambda: SIZES)
    empty: bool = True
    """Whether there may be no rows."""
    multiprocessors: int = 0
    """Not 0: tiles are chosen for a GPU of so many, as for a problem that fills a real one."""
    instruction: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """What must be in the PTX of whole tiles, by architecture and element: a pattern."""


MMA = dict.fromkeys(("f16", "bf16", "i8", "u8", "f8e4m3", "f8e5m2"), r"\bmma\.sync")
WGMMA = dict.fromkeys(("f16", "bf16", "i8", "f8e4m3", "f8e5m2"), r"\bwgmma\.mma_async")
KINDS = {
    "pointwise": Kind(
        "pointwise", NUMBERS_AND_BOOL, "s = add(@V, y); m = mul(s, @V); o = max(m, y); return(o)", "y: @Rx@Cx@E",
        "s = and(@V, y); o = xor(s, @V); return(o)"),
    "copied": Kind("pointwise", ELEMS, "p = permute(@V) {perm = [1, 0]}; return(p)"),
    "turned": Kind("pointwise", ELEMS, "p = permute(@V) {perm = [1, 0]}; return(p)", multiprocessors=1),
    "converted": Kind("pointwise", ELEMS, "f = cast(@V) {to = f32}; g = add(f, y); o = cast(g) {to = @E}; return(o)",
                      "y: @Rx@Cxf32"),
    "rows": Kind(
        "reduction", NUMBERS_AND_BOOL, """m = reduce(@V) {axes = [1], kind = "max", keepdims = true}
        w = broadcast(m) {shape = [@R, @C]}; d = sub(@V, w); s = reduce(d) {axes = [1], kind = "sum"}; return(d, s)""",
        bools="""s = reduce(@V) {axes = [1], kind = "any"}; t = reduce(@V) {axes = [1], kind = "all"}; return(s, t)"""),
    "softmax": Kind("reduction", FLOATS, SOFTMAX.replace("@S", "@V").replace("@K", "@C") + " return(p)"),
    "long_rows": Kind("reduction", FLOATS, SOFTMAX.replace("@S", "@V").replace("@K", "@C") + " return(p)",
                      views=("plain", "flipped"), sizes=LONG),
    "columns": Kind("pointwise", NUMBERS_AND_BOOL, 's = reduce(@V) {axes = [0], kind = "sum"}; return(s)',
                    bools='s = reduce(@V) {axes = [0], kind = "any"}; return(s)'),
    "positions": Kind("pointwise", NUMBERS, 'a = arg_reduce(@V) {axis = 1, kind = "max"}; return(a)'),
    "product": Kind("contraction", NUMBERS, 'o = contract(@V, y) {spec = "mk,kn->mn"}; return(o)', "y: @Cx@Nx@E"),
    "widened": Kind(
        "contraction", MULTIPLIED, 'o = contract(@V, y) {spec = "mk,nk->mn", elem = @W}; return(o)', "y: @Nx@Cx@E",
        views=("plain",), instruction={"sm_80": MMA}),
    "packed": Kind(
        "contraction", ("f16", "bf16", "f32"),
        "o = contract_packed(@V, p, s) {bits = 4, columns = 70, zero = 8}; return(o)",
        "p: 1x3x16x4x4xi32, s: 2x96xf32", sizes=FEW_OF_CODES, instruction={"sm_80": MMA, "sm_90a": MMA}),
    "packed_halves": Kind(  # scales of three bits leave weights that halves have
        "contraction", ("f16", "bf16", "f32"),
        "t = cast(s) {to = f32}; o = contract_packed(@V, p, t) {bits = 4, columns = 70, zero = 8}; return(o)",
        "p: 1x3x16x4x4xi32, s: 2x96xf8e5m2", sizes=OF_CODES, instruction={"sm_80": MMA, "sm_90a": MMA}),
    "vector": Kind("contraction", NUMBERS, 'o = contract(@V, y) {spec = "mk,k->m"}; return(o)', "y: @Cx@E"),
    "short_sums": Kind("contraction", NUMBERS, 'o = contract(@V, y) {spec = "mk,k->m"}; return(o)', "y: @Cx@E",
                       views=("permuted", "flipped"), sizes=SHORT_SUMS, multiprocessors=1),
    "warpgroups": Kind(
        "contraction", MULTIPLIED, 'o = contract(@V, y) {spec = "mk,nk->mn", elem = @W}; return(o)', "y: @Nx@Cx@E",
        views=("plain", "permuted", "flipped"), sizes=LARGE, multiprocessors=1, empty=False,
        instruction={"sm_80": MMA, "sm_90a": WGMMA}),
    "picked_by_rows": Kind(
        "contraction", NUMBERS,
        'w = take(y, i) {axis = 0}; o = contract(@V, w) {spec = "mk,mnk->mn"}; return(o)', "y: 3x@Nx@Cx@E, i: @Rxi64"),
    "picked_by_tiles": Kind(
        "contraction", MULTIPLIED,
        'w = take(y, i) {axis = 0}; o = contract(x, w) {spec = "tmk,tnk->tmn", elem = @W}; return(o)',
        "y: 3x@Nx@Cx@E, i: 2xi32", first="x: 2x@Rx@Cx@E", sizes=LARGE, multiprocessors=1, empty=False,
        instruction={"sm_80": MMA, "sm_90a": WGMMA}),
    "picked_across": Kind(
        "contraction", FLOATS,
        'w = take(y, i) {axis = 1}; o = contract(w, x) {spec = "ktn,tmk->tmn"}; return(o)',
        "y: @Cx3x@Nx@E, i: 2xi32", first="x: 2x@Rx@Cx@E"),
    "parts": Kind(
        "contraction", FLOATS, 'o = contract_parts(@V, b, c, d, e, f) {spec = "mk,nk->mn"}; return(o)',
        "b: @Rx@Cx@E, c: @Rx@Cx@E, d: @Nx@Cx@E, e: @Nx@Cx@E, f: @Nx@Cx@E", views=("plain", "row"), empty=False),
    "convolution": Kind("contraction", NUMBERS, CONV.replace("@T", "2").replace("@G", "1"), "w: 3x2x@Cx@Nx@E",
                        first="x: 2x@Rx12x@Cx@E", sizes=IMAGES),
    "grouped": Kind("contraction", NUMBERS, CONV.replace("@T", "1").replace("@G", "2"), "w: 2x2x@Cx@2Nx@E",
                    first="x: 1x@Rx12x@2Cx@E", sizes=IMAGES),
    "depthwise": Kind("contraction", NUMBERS, CONV.replace("@T", "1").replace("@G", "@C"), "w: 3x2x1x@Cx@E",
                      first="x: 2x@Rx12x@Cx@E", sizes=IMAGES),
    "attention": Kind(
        "attention", FLOATS,
        's = contract(@V, k) {spec = "qd,kd->qk"};' + SOFTMAX.replace("@S", "s").replace("@K", "@N") +
        'o = contract(p, w) {spec = "qk,kd->qd"}; return(o)', "k: @Nx@Cx@E, w: @Nx24x@E", sizes=QUERIES),
    "scan": Kind("scan", NUMBERS, 'o = cumulate(@V) {axis = 1, kind = "sum"}; return(o)'),
    "scan_columns": Kind("scan", NUMBERS, 'o = cumulate(@V) {axis = 0, kind = "max", reverse = true}; return(o)'),
    "scatter": Kind(
        "scatter", ELEMS, """r = iota() {shape = [@R, @C], axis = 0, elem = i64}; i = flip(r) {axes = [0]}
        o = scatter_along(z, i, @V) {axis = 0}; return(o)""", "z: @Rx@Cx@E"),
    "scatter_whole": Kind(
        "scatter", [e for e in NUMBERS if Scalar(e).bits >= 16], """
        r = iota() {shape = [@R, @C], axis = 0, elem = i64}; i = flip(r) {axes = [0]}
        o = scatter_along(z, i, @V) {axis = 0, kind = "add", whole = true}; return(o)""", "z: @Rx@Cx@E",
        sizes={s: SIZES[s] for s in SIZES if s != "symbolic"}),
    "scatter_add": Kind("scatter", NUMBERS, 'o = scatter_nd(z, i, @V) {kind = "add"}; return(o)',
                        "z: 5x@Cx@E, i: @Rx1xi64"),
    "scatter_few": Kind("scatter", NUMBERS, 'o = scatter_nd(z, i, @V) {kind = "max"}; return(o)',
                        "z: 3x@Cx@E, i: @Rx1xi64", sizes=MANY_ROWS, multiprocessors=1),
    "scatter_in_order": Kind("scatter", ELEMS, "o = scatter_nd(z, i, @V) {ordered = true}; return(o)",
                             "z: 5x@Cx@E, i: @Rx1xi64"),
    "topk": Kind("topk", NUMBERS, "t, j = topk(@V) {k = 1, axis = 1}; return(t, j)"),
    "topk_of_columns": Kind("topk", NUMBERS, "t, j = topk(@V) {k = 3, axis = 0, largest = false}; return(t, j)",
                            sizes={s: SIZES[s] for s in ("whole", "odd", "small")}),
    "in_order": Kind("topk", NUMBERS, "t, j = topk(@V) {k = @C, axis = 1, largest = false}; return(t, j)"),
}  # fmt: skip
"""By name; several of one region where its emitter has several schedules."""
WIDER = {"i8": "i32", "u8": "i32", "f16": "f32", "bf16": "f32", "f8e4m3": "f32", "f8e5m2": "f32"}


@dataclass(frozen=True, slots=True)
class SweepCase:
    """One line of the table."""

    kind: str
    elem: str
    view: str
    size: str
    arch: str

    def __str__(self) -> str:
        return "-".join((self.kind, self.elem, self.view, self.size, self.arch))

    def case(self) -> Case:
        """The function, one region."""
        return _case(self.kind, self.elem, self.view, self.size)

    @property
    def instruction(self) -> str:
        """What must be in the PTX: a pattern."""
        wanted = KINDS[self.kind].instruction
        return wanted.get(self.arch, {}).get(self.elem, "") if (self.view, self.size) == ("plain", "whole") else ""


@functools.cache
def _case(name: str, elem: str, view: str, size_name: str) -> Case:
    kind = KINDS[name]
    size = kind.sizes[size_name]
    first, setup = (kind.first, "") if kind.first else VIEWS[view]
    body = kind.bools if elem == "bool" and kind.bools else kind.body
    values = size.values if kind.empty else tuple(v for v in size.values if v)
    marks = {
        "@V": "x" if view == "plain" else "v", "@2R": _times(2, size.rows), "@3C": _times(3, size.columns),
        "@RC": _times(size.columns, size.rows), "@2N": _times(2, size.other), "@2C": _times(2, size.columns),
        "@R": size.rows, "@C": size.columns, "@N": size.other, "@E": elem, "@W": WIDER.get(elem, elem),
    }  # fmt: skip
    text = [", ".join(p for p in (first, kind.params) if p), f"{setup} {body}"]
    for mark, by in marks.items():
        text = [t.replace(mark, by) for t in text]
    dims = f"n in {min(values)}..{max(512, 2 * max(values))}" if values else ""
    func = in_one_region(graph_func(*text, dims), kind.region)
    sizes = tuple({"n": v} for v in values) or ({},)
    return Case(name, (kind.region,), func, sizes, indices=1, whole=True)


def _times(n: int | str, extent: str) -> str:
    return str(int(n) * int(extent)) if str(n).isdigit() and extent.isdigit() else f"({n}*{extent})"


def table() -> Iterator[SweepCase]:
    """Every element plainly at every size; lines of one and views with an element of each width."""
    for kind, made in KINDS.items():
        for elem in made.elems:
            of_width = elem in ONE_OF_EACH_WIDTH or len(made.elems) == len(FLOATS)
            shapes = [("plain", s) for s in made.sizes if of_width or not s.startswith("one ")]
            if of_width and not made.first:
                shapes += [(v, s) for v in made.views[1:] for s in ("odd", "symbolic") if s in made.sizes]
            for i, (view, size) in enumerate(shapes):
                for arch in ARCHS if view == "plain" else (ARCHS[i % 2],):
                    yield SweepCase(kind, elem, view, size, arch)


def slice_of(cases: Sequence[SweepCase]) -> set[SweepCase]:
    """A few: of every kind two thirds of the sizes and a sixth of the views; elements and architectures by turns."""
    shapes: dict[tuple[str, str, str], list[SweepCase]] = {}
    for c in cases:
        shapes.setdefault((c.kind, c.view, c.size), []).append(c)
    found = {c for c in cases if c.instruction and c.elem in ("f16", "i8")}
    for i, ((kind, view, _), some) in enumerate(shapes.items()):
        if i % 3 if view == "plain" else i % 6 == 0 and kind not in SLOW:
            found.add(some[7 * i % len(some)])
    return found


TABLE = tuple(table())
FAST = slice_of(TABLE)
