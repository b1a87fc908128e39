"""The graph dialect: whole tensors, dense and row-major, in a small closed set both frontends decompose into.

softmax, layer norm, attention and gelu are compositions: fusion recognises structure, not names. Operands
never broadcast implicitly. Shapes may be symbolic (`graphfuse.symbolic`).
"""

from __future__ import annotations

from graphfuse.constraints import require
from graphfuse.dialects.block import MAX_GRID_RANK
from graphfuse.dialects.codes import BITS, LINE, LINE_WORDS, PANEL, SIDE, WORD_BITS, line_steps
from graphfuse.dialects.elementwise import ROUNDED_KINDS, SCAN_KINDS, check_reduce_kind, declare
from graphfuse.dialects.operands import axis_of, one_body, per_dim, positive, tensor, window_of, yielded_by
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Block, Op, Trait, Value, attr_ints, dims_of, opdef, walk
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import BOOL, F32, F64, I8, I32, I64, Ptr, Scalar, Tensor, Type, listed
from graphfuse.symbolic import Dim, Expr, floordiv, product, static, symbols

MOVES = (Trait.PURE, Trait.MOVEMENT)


ELEMENTWISE = declare("graph", lambda t: tensor(t).elem, lambda t, elem: Tensor(tensor(t).shape, elem))
"""Every shared elementwise function on tensors, by bare name: `ELEMENTWISE["exp"]` is `graph.exp`."""

add, sub, mul, div = (ELEMENTWISE[n] for n in ("add", "sub", "mul", "div"))
floordiv_, truncdiv, floormod, truncmod = (ELEMENTWISE[n] for n in ("floordiv", "truncdiv", "floormod", "truncmod"))
pow_, max_, min_, atan2 = (ELEMENTWISE[n] for n in ("pow", "max", "min", "atan2"))
and_, or_, xor, not_ = (ELEMENTWISE[n] for n in ("and", "or", "xor", "not"))
eq, ne, lt, le, gt, ge = (ELEMENTWISE[n] for n in ("eq", "ne", "lt", "le", "gt", "ge"))
neg, abs_, sign, exp, log, sqrt, tanh, erf, sigmoid = (
    ELEMENTWISE[n] for n in ("neg", "abs", "sign", "exp", "log", "sqrt", "tanh", "erf", "sigmoid")
)
isnan, isinf = ELEMENTWISE["isnan"], ELEMENTWISE["isinf"]


@opdef("graph.select", Trait.PURE, Trait.ELEMENTWISE)
def select(condition: Type, a: Type, b: Type) -> Type:
    """Elementwise `condition ? a : b`."""
    c, ta, tb = tensor(condition), tensor(a), tensor(b)
    if c.elem != BOOL:
        raise VerifyError(f"condition must have a bool element, got {c}")
    if ta != tb or c.shape != ta.shape:
        raise VerifyError(f"operand types differ: {c}, {ta} and {tb}")
    return ta


@opdef("graph.cast", Trait.PURE, Trait.ELEMENTWISE)
def cast(x: Type, *, to: Scalar, saturate: bool = False) -> Type:
    """Convert elements: float to integer truncates toward zero, anything to bool is `x != 0`.

    `saturate` clamps to the range of a narrow target (float8, integers), NaN to 0 for integers; otherwise integers
    wrap and out-of-range floats follow the hardware: through i32 for targets up to i32, else through i64, where
    NaN and anything out of range is the least value, and then the low bits (u64 also has its upper half).
    """
    return Tensor(tensor(x).shape, to)


@opdef("graph.bitcast", Trait.PURE, Trait.ELEMENTWISE)
def bitcast(x: Type, *, to: Scalar) -> Type:
    """Reinterpret the bits of each element as another scalar of the same width."""
    t = tensor(x)
    if t.elem.bits != to.bits:
        raise VerifyError(f"widths differ: {t.elem} and {to}")
    return Tensor(t.shape, to)


# sources


@opdef("graph.constant", Trait.PURE)
def constant(*, value: Dense) -> Type:
    """A tensor known at compile time."""
    return Tensor(value.shape, value.elem)


@opdef("graph.full", *MOVES)
def full(*, shape: tuple[Dim, ...], elem: Scalar, value: bool | float | Expr) -> Type:
    """A tensor whose every element is `value`, a number or a dim."""
    return Tensor(shape, elem)


@opdef("graph.empty", Trait.PURE)
def empty(*, shape: tuple[Dim, ...], elem: Scalar) -> Type:
    """Memory that a scatter writes to first; what it has left out is never read. Each is its own."""
    return Tensor(shape, elem)


@opdef("graph.iota", Trait.PURE)
def iota(*, shape: tuple[Dim, ...], elem: Scalar, axis: int) -> Type:
    """Element [..., i, ...] is its index along `axis`."""
    axis_of(axis, len(shape))
    return Tensor(shape, elem)


# reductions


@opdef("graph.reduce", Trait.PURE)
def reduce(x: Type, *, axes: tuple[int, ...], kind: str, keepdims: bool = False) -> Type:
    """Combine along `axes`. `max` and `min` propagate NaN; `any` and `all` take bool.

    An empty `max` is the least value.
    """
    t = tensor(x)
    check_reduce_kind(kind, t.elem)
    for a in axes:
        axis_of(a, t.rank)
    if len(set(axes)) != len(axes):
        raise VerifyError(f"axes repeat: {axes}")
    if keepdims:
        return Tensor(tuple(1 if i in axes else d for i, d in enumerate(t.shape)), t.elem)
    return Tensor(tuple(d for i, d in enumerate(t.shape) if i not in axes), t.elem)


@opdef("graph.arg_reduce", Trait.PURE)
def arg_reduce(x: Type, *, axis: int, kind: str, keepdims: bool = False, last: bool = False) -> Type:
    """The i64 index of the `max` or `min` along `axis`: the first one, or the `last`. NaN counts as extreme."""
    t = tensor(x)
    axis_of(axis, t.rank)
    if kind not in ("max", "min"):
        raise VerifyError(f"kind must be max or min, got {kind}")
    shape = tuple(1 if i == axis else d for i, d in enumerate(t.shape) if keepdims or i != axis)
    return Tensor(shape, I64)


def running(kind: str, elem: Scalar) -> Scalar:
    """The element that running sums and products are carried in: f64, for a line has no blocks to sum one by one."""
    return F64 if kind in ROUNDED_KINDS and elem.is_float else elem


@opdef("graph.cumulate", Trait.PURE)
def cumulate(
    x: Type,
    before: Type | None = None,
    *,
    axis: int,
    kind: str,
    exclusive: bool = False,
    reverse: bool = False,
    part: int = 0,
) -> Type:
    """Running `sum`, `prod`, `max`, `min` or `logaddexp` along `axis`; `exclusive` leaves out the element itself.

    What rounds floats is made in f64, and each is rounded once. Lines may come in parts of `part` elements
    (the last may be shorter): `before` has, in the order of the scan, what lies before the second part, the third, ...;
    logarithms may have been rounded to x's element.
    """
    t = tensor(x)
    axis_of(axis, t.rank)
    check_reduce_kind(kind, t.elem, SCAN_KINDS)
    if (before is None) != (part == 0) or part < 0:
        raise VerifyError(f"parts of {part} elements {'without' if before is None else 'and'} what lies before them")
    if before is not None:
        parts = tuple(floordiv(d - 1, part) if i == axis else d for i, d in enumerate(t.shape))
        wanted, is_log = Tensor(parts, running(kind, t.elem)), kind == "logaddexp"
        if before != wanted and not (is_log and before == Tensor(parts, t.elem)):
            raise VerifyError(f"what lies before the parts must be {wanted}, got {before}")
    return t


@opdef("graph.reduce_window", Trait.PURE)
def reduce_window(
    x: Type,
    *,
    kind: str,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Type:
    """`sum` or `max` over a sliding window; one entry per dim of x (1 where the window does not move).

    Positions in the padding (`low` before, `high` after) are ignored.
    """
    t = tensor(x)
    window_of(t.rank, low, high, window=window, strides=strides, dilation=dilation)
    if kind not in ("sum", "max", "min"):
        raise VerifyError(f"kind must be sum, max or min, got {kind}")
    shape: list[Dim] = []
    for d, k, s, lo, hi, dl in zip(t.shape, window, strides, low, high, dilation, strict=True):
        _window_fits(d, k, lo, hi, dl)
        shape.append(window_size(d, k, s, lo, hi, dl))
    return Tensor(tuple(shape), t.elem)


def _window_fits(size: Dim, window: int, low: int, high: int, dilation: int) -> None:
    """The window is not longer than the padded dim: shapes have no dims below 0."""
    if not isinstance(size, int) and (window > 1 or low + high < 0):
        require("at_most", dilation * (window - 1) + 1, size + low + high, "padded size of a window's dim")


def window_size(size: Dim, window: int, stride: int, low: int, high: int, dilation: int) -> Dim:
    """How many positions a window takes along one dim."""
    return floordiv(size + low + high - (dilation * (window - 1) + 1), stride) + 1


# contractions


@opdef("graph.contract", Trait.PURE)
def contract(a: Type, b: Type, *, spec: str, elem: Scalar | None = None, rounded_block: int = 0) -> Type:
    """The batched dot product in Einstein's notation: `bmk,bkn->bmn` sums over `k`.

    Each letter is one dim; letters missing on the right are summed. Products and sums are made in `elem`
    (default: the operands' element; f16 and bf16 accumulate in f32), which is the result's element. With
    `rounded_block`, `a` may be rounded to 8 bits, with a scale for each so many elements along `k`.
    """
    ta, tb = tensor(a, "operand 0"), tensor(b, "operand 1")
    lhs, rhs, out = parse_spec(spec)
    if ta.elem != tb.elem and elem is None:
        raise VerifyError(f"elements differ: {ta.elem} and {tb.elem}")
    sizes: dict[str, Dim] = {}
    for labels, t, which in ((lhs, ta, 0), (rhs, tb, 1)):
        if len(labels) != t.rank or len(set(labels)) != len(labels):
            raise VerifyError(f"operand {which}: labels {labels!r} do not fit {t}")
        for label, d in zip(labels, t.shape, strict=True):
            if (size := sizes.setdefault(label, d)) != d:
                require("equal", size, d, f"dim {label!r}", f"dim {label!r} differs: {size} and {d}")
    if len(set(out)) != len(out) or not set(out) <= set(sizes):
        raise VerifyError(f"output labels {out!r} must be distinct labels of the operands")
    return Tensor(tuple(sizes[label] for label in out), elem or ta.elem)


@opdef("graph.contract_parts", Trait.PURE)
def contract_parts(*parts: Type, spec: str) -> Type:
    """The contraction of two sums of tensors: the terms of one, largest first, then as many of the other.

    Products of the i-th and j-th term, from 0, are left out where i + j reaches the number of terms. Sums are f32,
    rounded to nearest at least every 64 terms.
    """
    count = len(parts) // 2
    types = [tensor(t, f"operand {i}") for i, t in enumerate(parts)]
    if not parts or len(parts) % 2 or any(t != types[i // count * count] for i, t in enumerate(types)):
        raise VerifyError("expected the terms of two sums, as many of each, of one type")
    result = contract.infer(types[0], types[count], spec=spec, elem=F32)
    assert isinstance(result, Tensor)
    return result


@opdef("graph.contract_blocks", Trait.PURE)
def contract_blocks(x: Type, q: Type, s: Type, *, spec: str) -> Type:
    """The contraction of x with integers times scales, one for each row of q and block of its columns: `mk,nk->mn`.

    The scaled integers are rounded to x's element. Sums are f32.
    """
    tx, tq, ts = (tensor(t, f"operand {i}") for i, t in enumerate((x, q, s)))
    lhs, rhs, out = parse_spec(spec)
    if len(rhs) != 2 or rhs[1] != lhs[-1:] or out != lhs[:-1] + rhs[0]:
        raise VerifyError(f"expected a spec such as mk,nk->mn, got {spec!r}")
    rows, depth = tq.shape if tq.rank == 2 else (0, 0)
    blocks = ts.shape[1] if ts.rank == 2 and ts.shape[0] == rows else 0
    if not isinstance(depth, int) or not isinstance(blocks, int) or not blocks or depth % blocks:
        raise VerifyError(f"the scales {ts} are no blocks of rows of {tq}")
    if not tx.elem.is_float or not tq.elem.is_integer or not ts.elem.is_float:
        raise VerifyError(f"expected floats, integers and floats, got {tx.elem}, {tq.elem} and {ts.elem}")
    result = contract.infer(Tensor(tx.shape, F32), Tensor(tq.shape, F32), spec=spec)
    assert isinstance(result, Tensor)
    return result


@opdef("graph.contract_packed", Trait.PURE)
def contract_packed(x: Type, p: Type, s: Type, *more: Type, columns: int, bits: int, zero: int = 0) -> Type:
    """x [.., K] times a matrix of codes of few bits, each less its zero point, times its scale: [.., columns] of f32.

    p [panels, words, width] has the codes as words of i32, each of one column: the code i steps along K is at the bits
    `code_bit(i, bits)` of its word. s is [panels, blocks, width], K being in blocks. Behind it come the scales of x
    [.., blocks] in f32, if that is i8, and zero points, of s' shape, if they differ.

    Or p is [lines, panels, 2 * 8, 4, 4], for lanes of a GPU: a line has `line_steps(bits)` steps of K, twice four words
    of eight times four columns, in the order of `block.dot_codes`. Then s is [blocks, panels * 32], the last line is
    filled up, and so are its blocks, with scales of 0.
    """
    tx, tp, ts, *rest = (tensor(t, f"operand {i}") for i, t in enumerate((x, p, s, *more)))
    inner = tp.shape[2:]
    if bits not in BITS or tp.elem != I32 or not tp.is_static or not (tp.rank == 3 or inner == (LINE, SIDE, SIDE)):
        raise VerifyError(f"expected panels of words (i32) of 2, 4 or 8 bits, got {tp} of {bits}")
    panels, words, width = panels_of(tp)
    in_lines, depth = tp.rank == 5, words * (WORD_BITS // bits)
    blocks = static(ts.shape[0 if in_lines else 1]) if ts.rank == (2 if in_lines else 3) and ts.is_static else 0
    wanted = (blocks, panels * width) if in_lines else (panels, blocks, width)
    if ts.shape != wanted or not ts.elem.is_float or not blocks or words % blocks:
        raise VerifyError(f"the scales {ts} are no blocks of {tp}")
    least = depth - line_steps(bits) + 1 if in_lines else depth
    found = tx.shape[-1] if tx.rank else 0
    if not (tx.elem.is_float or tx.elem == I8) or not (isinstance(found, int) and least <= found <= depth):
        raise VerifyError(f"expected floats or i8 [.., {depth}], got {tx}")
    if tx.elem == I8 and (not rest or rest.pop(0) != Tensor((*tx.shape[:-1], blocks), F32)):
        raise VerifyError(f"expected scales [.., {blocks}] in f32 of {tx}")
    if rest and (len(rest) > 1 or rest[0].shape != ts.shape or zero):
        raise VerifyError(f"expected one zero point, or as many as {ts}, got {', '.join(map(str, rest))} and {zero}")
    if not (panels - 1) * width < columns <= panels * width:
        raise VerifyError(f"{panels} panels of {width} have not {columns} columns")
    return Tensor((*tx.shape[:-1], columns), F32)


def panels_of(p: Tensor) -> tuple[int, int, int]:
    """How many panels the codes of `contract_packed` have, words of each column, and columns."""
    first, second, third, *inner = (static(d) for d in p.shape)
    return (second, first * LINE_WORDS, PANEL) if inner else (first, second, third)


def parse_spec(spec: str) -> tuple[str, str, str]:
    """`bmk,bkn->bmn` to its three label strings."""
    operands, arrow, out = spec.partition("->")
    lhs, comma, rhs = operands.partition(",")
    if not arrow or not comma or (not (lhs + rhs + out).isalpha() and lhs + rhs + out):
        raise VerifyError(f"spec must look like 'bmk,bkn->bmn', got {spec!r}")
    return lhs, rhs, out


@opdef("graph.conv", Trait.PURE)
def conv(
    x: Type,
    w: Type,
    *,
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
    input_dilation: tuple[int, ...],
    groups: int = 1,
    layout: str = "nchw",
    elem: Scalar | None = None,
) -> Type:
    """Cross-correlation over any number of spatial dims.

    `nchw`: x [N, C, S...], w [O, C/groups, K...]; `nhwc`: x [N, S..., C], w [K..., C/groups, O]. `low`/`high` pad with
    zeros (negative crops); `input_dilation` spreads the input (a transposed convolution); result as x with O for C.
    Products and sums are made in `elem`, as those of `contract`.
    """
    tx, tw = tensor(x, "operand 0"), tensor(w, "operand 1")
    if layout not in ("nchw", "nhwc"):
        raise VerifyError(f"layout must be nchw or nhwc, got {layout}")
    spatial = tx.rank - 2
    if spatial < 1 or tw.rank != tx.rank:
        raise VerifyError(f"operands must have the same rank of at least 3, got {tx} and {tw}")
    window_of(spatial, low, high, strides=strides, dilation=dilation, input_dilation=input_dilation)
    positive("groups", (groups,))
    first = layout == "nchw"
    channels, size = (tx.shape[1], tx.shape[2:]) if first else (tx.shape[-1], tx.shape[1:-1])
    kernel, per_group, out = (
        (tw.shape[2:], tw.shape[1], tw.shape[0]) if first else (tw.shape[:-2], tw.shape[-2], tw.shape[-1])
    )
    message = f"input has {channels} channels, the weight expects {per_group} x {groups} groups"
    require("equal", channels, per_group * groups, "channels", message)
    require("divides", groups, out, "output channels", f"{out} output channels do not divide into {groups} groups")
    if tx.elem != tw.elem and elem is None:
        raise VerifyError(f"elements differ: {tx.elem} and {tw.elem}")
    result: list[Dim] = []
    for d, k, s, lo, hi, dl, up in zip(size, kernel, strides, low, high, dilation, input_dilation, strict=True):
        if not isinstance(k, int):
            raise VerifyError(f"the window must be static, got {k}")
        positive("window", (k,))
        spread = (d - 1) * up + 1
        _window_fits(spread, k, lo, hi, dl)
        result.append(window_size(spread, k, s, lo, hi, dl))
    return Tensor((tx.shape[0], out, *result) if first else (tx.shape[0], *result, out), elem or tx.elem)


# movement


@opdef("graph.reshape", *MOVES)
def reshape(x: Type, *, shape: tuple[Dim, ...]) -> Type:
    """The same elements in row-major order under another shape."""
    t = tensor(x)
    have, want = t.elements, product(shape)
    if have != want:
        require("equal", have, want, "elements", f"{t} has {have} elements, the new shape {want}")
    return Tensor(shape, t.elem)


@opdef("graph.permute", *MOVES)
def permute(x: Type, *, perm: tuple[int, ...]) -> Type:
    """Result dim i is operand dim `perm[i]`."""
    t = tensor(x)
    if sorted(perm) != list(range(t.rank)):
        raise VerifyError(f"perm must be a permutation of 0..{t.rank - 1}, got {perm}")
    return Tensor(tuple(t.shape[p] for p in perm), t.elem)


@opdef("graph.broadcast", *MOVES)
def broadcast(x: Type, *, shape: tuple[Dim, ...]) -> Type:
    """Repeat along new leading dims and along dims of size 1 (numpy's rule, right-aligned)."""
    t = tensor(x)
    if t.rank > len(shape):
        raise VerifyError(f"cannot broadcast {t} to {len(shape)} dims")
    for d, want in zip(t.shape, shape[len(shape) - t.rank :], strict=True):
        if d not in (1, want):
            require("equal", d, want, "broadcast", f"cannot broadcast dim {d} to {want}")
    return Tensor(shape, t.elem)


@opdef("graph.stretch", *MOVES)
def stretch(x: Type, *, shape: tuple[Dim, ...]) -> Type:
    """Repeat along the dims that turn out to be 1 when it runs: each dim of x is the wanted one, or 1."""
    t = tensor(x)
    per_dim("shape", shape, t.rank)
    for d, want in zip(t.shape, shape, strict=True):
        if d not in (1, want):
            require("stretches", d, want, "broadcast", f"cannot broadcast dim {d} to {want}")
    return Tensor(shape, t.elem)


@opdef("graph.slice", *MOVES)
def slice_(x: Type, *, starts: tuple[Dim, ...], sizes: tuple[Dim, ...], steps: tuple[int, ...]) -> Type:
    """Result index i reads operand index `starts + i * steps`; every dim has an entry, steps are positive."""
    t = tensor(x)
    for name, values in (("starts", starts), ("sizes", sizes), ("steps", steps)):
        per_dim(name, values, t.rank)
    for d, start, size, step in zip(t.shape, starts, sizes, steps, strict=True):
        if step < 1:
            raise VerifyError(f"steps must be positive, got {step}")
        if size != 0 and (start != 0 or size != d or step != 1):
            message = f"slice of {size} from {start} by {step} leaves a dim of {d}"
            require("at_most", start + (size - 1) * step + 1, d, "end of a slice", message)
            require("at_most", 0, start, "start of a slice")
            require("at_most", 0, size, "size of a slice", f"size of a slice must not be negative, got {size}")
    return Tensor(sizes, t.elem)


@opdef("graph.pad", *MOVES)
def pad(
    x: Type, *, low: tuple[Dim, ...], high: tuple[Dim, ...], value: bool | float = 0, mode: str = "constant"
) -> Type:
    """Grow each dim by `low` before and `high` after (not negative); mode constant, edge, reflect or wrap."""
    t = tensor(x)
    per_dim("low", low, t.rank)
    per_dim("high", high, t.rank)
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise VerifyError(f"mode must be constant, edge, reflect or wrap, got {mode}")
    for p in (*low, *high):
        require("at_most", 0, p, "padding", f"padding must not be negative, got {low} and {high}")
    for d, lo, hi in zip(t.shape, low, high, strict=True):
        if mode != "constant" and (lo, hi) != (0, 0) and not isinstance(d, int):
            require("at_most", 1, d, "dim to repeat as padding")
    return Tensor(tuple(d + lo + hi for d, lo, hi in zip(t.shape, low, high, strict=True)), t.elem)


def pads_positions(op: Op) -> bool:
    """Whether an op adds one value around the positions of an image, and nothing beside its channels, the last dim."""
    if op.kind is not pad or op.attrs.get("mode", "constant") != "constant":
        return False
    *around, channels = zip(dims_of(op.attrs["low"]), dims_of(op.attrs["high"]), strict=True)
    return channels == (0, 0) and any(any(grown) for grown in around)


def unpadded(image: Value) -> Value:
    """An image without what is added around its positions."""
    return image.op.operands[0] if image.op is not None and pads_positions(image.op) else image


@opdef("graph.concat", *MOVES)
def concat(*xs: Type, axis: int) -> Type:
    """Join along `axis`; other dims are equal."""
    ts = [tensor(x) for x in xs]
    if not ts:
        raise VerifyError("at least one operand is needed")
    first = ts[0]
    axis_of(axis, first.rank)
    total: Dim = 0
    for t in ts:
        if t.elem != first.elem or t.rank != first.rank:
            raise VerifyError(f"operands differ: {first} and {t}")
        for i, (p, q) in enumerate(zip(first.shape, t.shape, strict=True)):
            if i != axis and p != q:
                require("equal", p, q, f"dim {i}", f"dim {i} differs: {p} and {q}")
        total = total + t.shape[axis]
    return Tensor(tuple(total if i == axis else d for i, d in enumerate(first.shape)), first.elem)


@opdef("graph.flip", *MOVES)
def flip(x: Type, *, axes: tuple[int, ...]) -> Type:
    """Reverse the order along `axes`."""
    t = tensor(x)
    for a in axes:
        axis_of(a, t.rank)
    return t


# data-dependent indexing; indices are i32 or i64 and count from the end when negative


def _indices(t: Type) -> Tensor:
    t = tensor(t, "indices")
    if t.elem.name not in ("i32", "i64"):
        raise VerifyError(f"indices must be i32 or i64, got {t}")
    return t


@opdef("graph.take", Trait.PURE)
def take(x: Type, indices: Type, *, axis: int) -> Type:
    """Whole slices of x along `axis`: the axis is replaced by the dims of `indices`."""
    t, i = tensor(x), _indices(indices)
    axis_of(axis, t.rank)
    return Tensor((*t.shape[:axis], *i.shape, *t.shape[axis + 1 :]), t.elem)


@opdef("graph.take_along", Trait.PURE)
def take_along(x: Type, indices: Type, *, axis: int, clips: bool = False) -> Type:
    """Result [.., i, ..] = x[.., indices[.., i, ..], ..]: one index per element.

    Ranks are equal; dims of `indices` other than `axis` are at most those of x. An index out of range is the caller's
    error, or, with `clips`, the nearest one that is not.
    """
    del clips
    t, i = tensor(x), _indices(indices)
    axis_of(axis, t.rank)
    if t.rank != i.rank:
        raise VerifyError(f"ranks differ: {t} and {i}")
    _indices_fit(t, i, axis)
    return Tensor(i.shape, t.elem)


def _indices_fit(t: Tensor, i: Tensor, axis: int) -> None:
    for d, (have, want) in enumerate(zip(t.shape, i.shape, strict=True)):
        if d != axis:
            message = f"dim {d} of the indices is {want}, of the operand only {have}"
            require("at_most", want, have, f"dim {d} of the indices", message)


@opdef("graph.gather_nd", Trait.PURE)
def gather_nd(x: Type, indices: Type, *, batch_dims: int = 0, clips: bool = False) -> Type:
    """The last dim of `indices` is a (partial) index into x after `batch_dims` leading dims; `clips` as above."""
    del clips
    t, i = tensor(x), _indices(indices)
    if i.rank < 1 or not isinstance(i.shape[-1], int):
        raise VerifyError(f"the last dim of indices must be static, got {i}")
    depth = i.shape[-1]
    if batch_dims < 0 or batch_dims + depth > t.rank or batch_dims >= i.rank:
        raise VerifyError(f"{depth} indices after {batch_dims} batch dims do not fit {t}")
    for p, q in zip(t.shape[:batch_dims], i.shape[:batch_dims], strict=True):
        require("equal", p, q, "batch dim", f"the first {batch_dims} dims differ: {t} and {i}")
    return Tensor((*i.shape[:-1], *t.shape[batch_dims + depth :]), t.elem)


SCATTER_KINDS = ("set", "add", "mul", "max", "min")


def _scatter_kind(kind: str) -> None:
    if kind not in SCATTER_KINDS:
        raise VerifyError(f"kind must be one of {', '.join(SCATTER_KINDS)}, got {kind}")


@opdef("graph.scatter_along", Trait.PURE)
def scatter_along(
    x: Type,
    indices: Type,
    updates: Type,
    *,
    axis: int,
    kind: str = "set",
    ordered: bool = False,
    whole: bool = False,
) -> Type:
    """A copy of x where element `indices` along `axis` is set to, or combined with, the update.

    Of updates of one element the later ones win, and sums are made in their order: on GPUs only if `ordered`. What has
    an index out of range is dropped. With `whole` a kernel makes all of the result, else it changes x where it lies.
    """
    t, i, u = tensor(x), _indices(indices), tensor(updates)
    del ordered, whole
    axis_of(axis, t.rank)
    _scatter_kind(kind)
    message = f"indices {i} and updates {u} must have one shape, and updates x's element {t.elem}"
    if i.rank != u.rank or u.elem != t.elem:
        raise VerifyError(message)
    for d, (p, q) in enumerate(zip(i.shape, u.shape, strict=True)):
        require("equal", p, q, f"dim {d} of indices and updates", message)
    if t.rank != i.rank:
        raise VerifyError(f"ranks differ: {t} and {i}")
    _indices_fit(t, i, axis)
    return t


@opdef("graph.scatter_nd", Trait.PURE)
def scatter_nd(x: Type, indices: Type, updates: Type, *, kind: str = "set", ordered: bool = False) -> Type:
    """A copy of x where the slices that `indices` names are set to, or combined with, `updates`.

    Order as in `scatter_along`, and a slice with any index out of range is dropped.
    """
    del ordered
    t, i, u = tensor(x), _indices(indices), tensor(updates)
    _scatter_kind(kind)
    if i.rank < 1 or not isinstance(i.shape[-1], int) or i.shape[-1] > t.rank:
        raise VerifyError(f"the last dim of indices must be static and at most {t.rank}, got {i}")
    want = Tensor((*i.shape[:-1], *t.shape[i.shape[-1] :]), t.elem)
    if u.rank != want.rank or u.elem != want.elem:
        raise VerifyError(f"updates must be {want}, got {u}")
    for d, (p, q) in enumerate(zip(u.shape, want.shape, strict=True)):
        require("equal", p, q, f"dim {d} of the updates", f"updates must be {want}, got {u}")
    return t


SCATTERS = frozenset({scatter_along, scatter_nd})
"""What changes some elements of its first operand."""


@opdef("graph.topk", Trait.PURE)
def topk(x: Type, *, k: Dim, axis: int, largest: bool = True) -> tuple[Type, Type]:
    """The k largest (or smallest) along `axis`, sorted, and their i64 indices; ties go to the lower index."""
    t = tensor(x)
    axis_of(axis, t.rank)
    require("at_most", k, t.shape[axis], "k of the dim", f"k is {k}, the dim only {t.shape[axis]}")
    require("at_most", 0, k, "k")
    shape = tuple(k if i == axis else d for i, d in enumerate(t.shape))
    return Tensor(shape, t.elem), Tensor(shape, I64)


# structure


TOGETHER = "together"
"""The kind of regions whose bodies are regions, one for each kernel of a launch."""


@opdef("graph.region", Trait.PURE, Trait.ISOLATED)
def region(
    *inputs: Type,
    kernel: str,
    kind: str,
    in_place: tuple[int, ...] = (),
    over: tuple[tuple[int, ...], ...] = (),
    schedule: str = "",
    bodies: tuple[Block, ...],
) -> tuple[Type, ...]:
    """The graph ops of one kernel: operands are read from memory, what the body yields is written to memory.

    `schedule` names the one of several ways to make the kernel that was found to be fastest; else a model of the time
    chooses.

    The first results are written over the operands with the numbers `in_place`: their memory holds them already, and
    the kernel, which does not read them elsewhere, stores what scatters change. Of the numbers `over` of an operand
    and a result each, the result may lie where the operand does.
    """
    _one_body(bodies, inputs)
    body, yielded = bodies[0], bodies[0].terminator.operands
    if len(in_place) > len(yielded) or len(set(in_place)) != len(in_place):
        raise VerifyError(f"in_place names an operand for each of the first results, got {in_place}")
    for pair in over:
        both = zip((body.params.values, yielded), pair, strict=False)
        sizes = [(t.elem, t.nbytes) for v, i in both if 0 <= i < len(v) for t in (tensor(v[i].type),)]
        if len(pair) != 2 or len(sizes) != 2 or sizes[0] != sizes[1]:
            raise VerifyError(f"over names an operand and a result of its size, got {pair}")
    for number, value in zip(in_place, yielded, strict=False):
        if not 0 <= number < len(inputs):
            raise VerifyError(f"in_place names operand {number} of {len(inputs)}")
        param = body.params.values[number]
        reads = [(op, i) for op in walk(body) for i, v in enumerate(op.operands) if v == param]
        if value.op is None or reads != [(value.op, _written_by(value))]:
            raise VerifyError(f"operand {number} is written in place, so one scatter and nothing else takes it")
    return yielded_by(bodies[0])


def _written_by(value: Value) -> int | None:
    """The number of the operand in whose memory a scatter's result is, or one of a region; None for another op's."""
    op = value.op
    if op is None or op.kind in SCATTERS:
        return 0 if op is not None else None
    numbers = attr_ints(op, "in_place", ())
    return numbers[value.index] if value.index < len(numbers) else None


@opdef("graph.loop", Trait.PURE)
def loop(*carried: Type, count: Dim, symbol: str, bodies: tuple[Block, ...]) -> tuple[Type, ...]:
    """Run the body `count` times; inside, the dim `symbol` is 0, 1, ... count - 1.

    The body receives the carried tensors and yields their next values, then tensors to stack: the results are
    the last carried values, then each stacked tensor with a new leading dim of `count`.
    """
    _one_body(bodies, carried)
    yielded = yielded_by(bodies[0])
    if yielded[: len(carried)] != carried:
        raise VerifyError(f"carried types change: {listed(carried)} to {listed(yielded[: len(carried)])}")
    stacked = [tensor(t) for t in yielded[len(carried) :]]
    if not symbol.isidentifier():
        raise VerifyError(f"symbol must be a name, got {symbol!r}")
    for t in stacked:
        if any(symbol in symbols(d) for d in (count, *t.shape)):
            raise VerifyError(f"a stacked {t} depends on {symbol}, the dim that counts")
    return (*carried, *(Tensor((count, *t.shape), t.elem) for t in stacked))


@opdef("graph.call", Trait.PURE, Trait.ISOLATED)
def call(
    *inputs: Type,
    name: str,
    grid: tuple[Dim, ...],
    shapes: tuple[tuple[Dim, ...], ...],
    elems: tuple[Scalar, ...],
    symbols: tuple[str, ...] = (),
    args: tuple[Dim, ...] = (),
    warps: int = 0,
    stages: int = 0,
    bodies: tuple[Block, ...],
) -> tuple[Type, ...]:
    """A kernel written by hand: its body is a block function, run once for each program of the grid.

    The body takes pointers to the operands, which it only reads, and to the results, dense tensors of `shapes` and
    `elems` that it fills; then integers, which are `args`, and which it calls `symbols`: it knows no other ones.
    `warps` and `stages` are how a GPU runs it; 0 leaves that open.
    """
    if len(bodies) != 1 or not shapes or len(shapes) != len(elems):
        raise VerifyError(f"expected one body, and a shape and an element for each result, got {len(bodies)} bodies")
    if not 1 <= len(grid) <= MAX_GRID_RANK:
        raise VerifyError(f"a grid has 1 to {MAX_GRID_RANK} axes, got {len(grid)}")
    if len(symbols) != len(args) or len(set(symbols)) != len(symbols):
        raise VerifyError(f"expected a name of its own for each argument, got {symbols} for {len(args)}")
    results = tuple(Tensor(shape, elem) for shape, elem in zip(shapes, elems, strict=True))
    pointers = tuple(Ptr(tensor(t).elem) for t in (*inputs, *results))
    takes = bodies[0].params.types
    numbers = takes[len(pointers) :]
    if takes[: len(pointers)] != pointers or len(numbers) != len(args):
        raise VerifyError(f"the body takes {listed(takes)}, expected {listed(pointers)} and {len(args)} integers")
    if not all(isinstance(t, Scalar) and t.is_integer for t in numbers):
        raise VerifyError(f"arguments are integers, the body takes {listed(numbers)}")
    if bodies[0].terminator.operands:
        raise VerifyError("the body yields nothing: its results are what it stores")
    return results


def _one_body(bodies: tuple[Block, ...], inputs: tuple[Type, ...]) -> None:
    if one_body(bodies).params.types != inputs:
        raise VerifyError(f"operands are {listed(inputs)}, the body takes {listed(bodies[0].params.types)}")
