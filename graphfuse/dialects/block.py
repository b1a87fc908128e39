"""The block dialect: one program instance's work on tiles in registers.

A block function's parameters are pointers to the tensors it reads and writes, and scalars; those that are i64 are
symbols, named as they are. Its attribute `grid` is the number of programs, or up to three numbers; without it the grid
is given at launch. Offsets and strides count elements. Control flow (`for`, `while`, `if`) is structured and lives in
`control.py`; atomics, barriers and what serves debugging in `effects.py`; what moves and orders elements in
`moves.py`.

What a function promises of its parameters are attributes by name: `assume = [["n", 16], ["x", 16]]` what numbers, and
addresses in bytes, are divisible by; `readonly`, `writeonly` and `noalias` list pointers. A function with `assume`
(which may be empty) promises nothing else about alignment and overlap; one without is compiled from a graph, whose
tensors the runtime aligns and keeps apart, but for pairs of parameter numbers in `inplace`.

Loads of memory that other elements of the program stored before are ordered after those stores where both go through
one parameter, and by `block.barrier` in any case. Accesses of different programs are ordered by atomics only.
"""

from __future__ import annotations

import math
from typing import TypeVar

from graphfuse.dialects.codes import BITS, LINE_WORDS, PANEL, SIDE, WORD_BITS, line_steps
from graphfuse.dialects.elementwise import (
    FUNCTIONS,
    MACHINE_FUNCTIONS,
    MACHINE_REDUCE_KINDS,
    NO_SIGNED_WRAP,
    SCAN_KINDS,
    check_reduce_kind,
    declare,
)
from graphfuse.dialects.operands import axis_of
from graphfuse.errors import VerifyError
from graphfuse.ir.core import Func, Op, Trait, Value, attr_strs, dims_of, opdef
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.types import BF16, BOOL, F16, F32, I32, I64, Ptr, Scalar, Tile, Type
from graphfuse.symbolic import Dim

T = TypeVar("T")


def elem_of(t: Type) -> Scalar:
    """The element of a scalar or tile type."""
    if isinstance(t, Scalar):
        return t
    if isinstance(t, Tile):
        return t.elem
    raise VerifyError(f"operand must be a scalar or a tile, got {t}")


def pointed_to(pointer: Value) -> Scalar:
    """The element behind a value that is a pointer."""
    assert isinstance(pointer.type, Ptr)
    return pointer.type.elem


def may_write(op: Op) -> bool:
    """Whether an op, or one inside of it, may change memory, or orders it."""
    if op.bodies:
        return any(may_write(inner) for body in op.bodies for inner in body.ops)
    return not (op.has(Trait.PURE) or op.has(Trait.TERMINATOR) or op.kind in (load, load_view, load_box, alloc))


def with_elem(t: Type, elem: Scalar) -> Type:
    """The type of the same shape with another element."""
    elem_of(t)  # refuses what has no elements
    return Tile(t.shape, elem, t.layout) if isinstance(t, Tile) else elem


def _tile(t: Type) -> Tile:
    if not isinstance(t, Tile):
        raise VerifyError(f"operand must be a tile, got {t}")
    return t


def pointer_of(t: Type) -> Ptr:
    """The type of an operand that is a pointer."""
    if not isinstance(t, Ptr):
        raise VerifyError(f"operand 0 must be a pointer, got {t}")
    return t


MAX_GRID_RANK = 3
"""As `program_id` has axes, and a GPU's grid dims."""
MOST_PROGRAMS = (1 << 31) - 1
"""Of a grid, as a GPU has it: numbers of programs are counted in 32 bits."""

ELEMENTWISE = declare("block", elem_of, with_elem, (*FUNCTIONS, *MACHINE_FUNCTIONS), NO_SIGNED_WRAP)
"""Every elementwise function on scalars and tiles, by bare name."""

add, sub, mul, div = (ELEMENTWISE[n] for n in ("add", "sub", "mul", "div"))
max_, min_, and_, or_ = (ELEMENTWISE[n] for n in ("max", "min", "and", "or"))
lt, le, ge, eq = (ELEMENTWISE[n] for n in ("lt", "le", "ge", "eq"))


@opdef("block.fma", Trait.PURE, Trait.ELEMENTWISE)
def fma(a: Type, b: Type, c: Type) -> Type:
    """a * b + c with one rounding."""
    if not a == b == c or not elem_of(a).is_float:
        raise VerifyError(f"operands must be equal float types, got {a}, {b} and {c}")
    return a


@opdef("block.select", Trait.PURE, Trait.ELEMENTWISE)
def select(condition: Type, a: Type, b: Type) -> Type:
    """Elementwise `condition ? a : b`; of two pointers, by one bool."""
    if isinstance(a, Ptr) and a == b and condition == BOOL:
        return a
    if a != b or condition != with_elem(a, BOOL):
        raise VerifyError(f"operand types do not fit: {condition}, {a} and {b}")
    return a


@opdef("block.cast", Trait.PURE, Trait.ELEMENTWISE)
def cast(x: Type, *, to: Scalar, saturate: bool = False) -> Type:
    """Convert elements, as `graph.cast`."""
    return with_elem(x, to)


@opdef("block.bitcast", Trait.PURE, Trait.ELEMENTWISE)
def bitcast(x: Type, *, to: Scalar) -> Type:
    """Reinterpret the bits of each element as another scalar of the same width."""
    if elem_of(x).bits != to.bits:
        raise VerifyError(f"widths differ: {x} and {to}")
    return with_elem(x, to)


@opdef("block.assume", Trait.PURE, Trait.ELEMENTWISE)
def assume(x: Type, *, multiple_of: int) -> Type:
    """x, of which every element is promised to be a multiple of a number."""
    if not elem_of(x).is_integer or multiple_of < 1:
        raise VerifyError(f"expected integers and a positive number, got {x} and {multiple_of}")
    return x


# sources


@opdef("block.const", Trait.PURE)
def const(
    *, value: bool | float, elem: Scalar, shape: tuple[int, ...] | None = None, layout: LinearLayout | None = None
) -> Type:
    """A literal: a scalar, or a tile of it when `shape` is given."""
    return elem if shape is None else Tile(shape, elem, layout)


@opdef("block.program_id", Trait.PURE)
def program_id(*, axis: int = 0) -> Type:
    """Which program this is along an axis of the grid, from 0."""
    return _grid_axis(axis)


@opdef("block.num_programs", Trait.PURE)
def num_programs(*, axis: int = 0) -> Type:
    """How many programs there are along an axis of the grid."""
    return _grid_axis(axis)


def grid_axes(func: Func) -> tuple[Dim, ...] | None:
    """The grid that a function says, axis 0 first; None if it is given at launch."""
    grid = func.attrs.get("grid")
    return None if grid is None else dims_of(grid if isinstance(grid, tuple) else (grid,))


def needs_grid(func: Func) -> bool:
    """Whether a program must be told the grid: one that asks where it is, in a grid given at launch."""
    return "grid" not in func.attrs and any(op.kind in (program_id, num_programs) for op in func.walk())


LAUNCH_ATTRS = ("warps", "stages", "ctas", "schedule")
"""Attributes of a function that say how a GPU runs its programs, and nothing of what they do."""
SCHEDULES = ("cooperative", "pingpong", "stream")
"""Of products by warps with roles (docs/hopper.md); the first is what other functions may have as well."""


def promises(func: Func) -> dict[str, int]:
    """What the attribute `assume` says that numbers, and addresses in bytes, are multiples of, by name."""
    return _by_name(func, "assume", int)


def tables(func: Func) -> dict[str, Scalar]:
    """The parameters that point at addresses (`tables = [["a", f32]]`), by name, and what is at these addresses."""
    return _by_name(func, "tables", Scalar)


def _by_name(func: Func, stated: str, kind: type[T]) -> dict[str, T]:
    """The pairs of an attribute, each of a parameter's name and something of a kind."""
    pairs = func.attrs.get(stated, ())
    assert isinstance(pairs, tuple), "pairs"
    out: dict[str, T] = {}
    for pair in pairs:
        assert isinstance(pair, tuple), "a name and what is said of it"
        name, said = pair
        assert isinstance(name, str), "a parameter's name"
        assert isinstance(said, kind), f"{kind.__name__} of {name}"
        out[name] = said
    return out


def alone(func: Func) -> frozenset[str]:
    """The pointers that overlap no other one, by name (`inplace` aside): those in `noalias`, or of a graph all."""
    if "assume" in func.attrs or "noalias" in func.attrs:
        return frozenset(attr_strs(func, "noalias") if "noalias" in func.attrs else ())
    return frozenset(v.hint for v in func.params if isinstance(v.type, Ptr))


def _grid_axis(axis: int) -> Type:
    axis_of(axis, MAX_GRID_RANK)
    return I64


@opdef("block.arange", Trait.PURE)
def arange(*, start: int, end: int, elem: Scalar = I64, layout: LinearLayout | None = None) -> Type:
    """The integers start, start + 1, ... end - 1."""
    if end <= start:
        raise VerifyError(f"end must exceed start, got start = {start}, end = {end}")
    return Tile((end - start,), elem, layout)


@opdef("block.index", Trait.PURE)
def index(*operands: Type, expr: Dim, names: tuple[str, ...] = ()) -> Type:
    """Integer index arithmetic: `expr` with `names` bound to the operands, other symbols to the kernel's own.

    Operands are i64 scalars or tiles of one shape (tiles make the result a tile).
    """
    if len(names) != len(operands):
        raise VerifyError(f"{len(names)} names for {len(operands)} operands")
    tiles = {t for t in operands if isinstance(t, Tile)}
    if len(tiles) > 1 or any(elem_of(t) != I64 for t in operands):
        raise VerifyError("operands must be i64 scalars or tiles of one shape")
    return tiles.pop() if tiles else I64


# shape


@opdef("block.splat", Trait.PURE)
def splat(x: Type, *, shape: tuple[int, ...], layout: LinearLayout | None = None) -> Type:
    """Fill a tile with one scalar."""
    if not isinstance(x, Scalar):
        raise VerifyError(f"operand must be a scalar, got {x}")
    return Tile(shape, x, layout)


@opdef("block.broadcast", Trait.PURE)
def broadcast(x: Type, *, shape: tuple[int, ...], layout: LinearLayout | None = None) -> Type:
    """Repeat along dims of size 1; the rank stays."""
    t = _tile(x)
    if len(shape) != len(t.shape) or any(d not in (1, want) for d, want in zip(t.shape, shape, strict=True)):
        raise VerifyError(f"cannot broadcast {t} to {shape}")
    return Tile(shape, t.elem, layout)


@opdef("block.reshape", Trait.PURE)
def reshape(x: Type, *, shape: tuple[int, ...]) -> Type:
    """The same elements in row-major order under another shape."""
    t = _tile(x)
    if t.elements != math.prod(shape):
        raise VerifyError(f"{t} has {t.elements} elements, the new shape {math.prod(shape)}")
    out = Tile(shape, t.elem)
    if t.layout is None:
        return out
    if apart(shape) != apart(t.shape):
        raise VerifyError(f"{t} is padded: only dims of powers of two can be split or joined, got {list(shape)}")
    return Tile(shape, t.elem, t.layout.reshape(out.padded_shape))


def apart(shape: tuple[int, ...]) -> list[int]:
    """Dims that are padded, and between them the products of others: what a layout of the padded tile keeps apart."""
    out = [1]
    for n in shape:
        if n & n - 1:
            out += [n, 1]
        else:
            out[-1] *= n
    return out


@opdef("block.trans", Trait.PURE)
def trans(x: Type, *, perm: tuple[int, ...]) -> Type:
    """Result dim i is operand dim `perm[i]`."""
    t = _tile(x)
    if sorted(perm) != list(range(len(t.shape))):
        raise VerifyError(f"perm must be a permutation of 0..{len(t.shape) - 1}, got {perm}")
    layout = t.layout.transpose(perm) if t.layout else None
    return Tile(tuple(t.shape[p] for p in perm), t.elem, layout)


# memory


@opdef("block.alloc")
def alloc(*, elem: Scalar, count: Dim, shared: bool = False) -> Type:
    """Program-local memory for `count` elements, 64-byte aligned, uninitialised.

    A GPU's is shared memory, with `shared` however much that is.
    """
    del shared
    return Ptr(elem)


@opdef("block.offset", Trait.PURE)
def offset(pointer: Type, by: Type) -> Type:
    """The pointer `by` elements further."""
    if by != I64:
        raise VerifyError(f"operand 1 must be i64, got {by}")
    return pointer_of(pointer)


@opdef("block.pointer_cast", Trait.PURE)
def pointer_cast(pointer: Type, *, to: Scalar) -> Type:
    """The same address as a pointer to another element."""
    pointer_of(pointer)
    return Ptr(to)


@opdef("block.pointer_diff", Trait.PURE)
def pointer_diff(a: Type, b: Type) -> Type:
    """How many elements `a` is past `b`; both point into one array."""
    if a != b or not isinstance(a, Ptr):
        raise VerifyError(f"operands must be equal pointer types, got {a} and {b}")
    return I64


@opdef("block.address", Trait.PURE)
def address(pointer: Type) -> Type:
    """The address in bytes; 0 is that of no array."""
    pointer_of(pointer)
    return I64


@opdef("block.pointer_at", Trait.PURE)
def pointer_at(address: Type, *, to: Scalar) -> Type:
    """The pointer of an address in bytes, such as one that memory holds: 0, or some array of the launch."""
    if address != I64:
        raise VerifyError(f"operand 0 must be i64, got {address}")
    return Ptr(to)


def _view(shape: tuple[int, ...], strides: tuple[Dim, ...], limited: tuple[int, ...], limits: tuple[Type, ...]) -> None:
    if len(strides) != len(shape):
        raise VerifyError(f"{len(strides)} strides for a tile of rank {len(shape)}")
    if len(limits) != len(limited) or any(t != I64 for t in limits):
        raise VerifyError(f"expected one i64 limit for each of the limited dims {limited}")
    if any(not 0 <= d < len(shape) for d in limited):
        raise VerifyError(f"limited dims must be in 0..{len(shape) - 1}, got {limited}")


@opdef("block.load_view")
def load_view(
    pointer: Type,
    base: Type,
    *limits: Type,
    shape: tuple[int, ...],
    strides: tuple[Dim, ...],
    limited: tuple[int, ...] = (),
    other: bool | float = 0,
    layout: LinearLayout | None = None,
    ahead: int = 0,
    cache: str = "",
) -> Type:
    """A strided tile: element [i, j, ..] is `pointer[base + i*strides[0] + j*strides[1] + ..]`.

    For each dim in `limited` (in order) an i64 limit operand: elements at or past it are `other`, and not read.
    `ahead` is a hint: what lies that many elements further on, be it inside the tensor or not, is read soon. So is
    `cache`, as in `load`.
    """
    check_cache(cache, LOAD_CACHES)
    if base != I64:
        raise VerifyError(f"operand 1 must be i64, got {base}")
    if ahead < 0:
        raise VerifyError(f"ahead must not be negative, got {ahead}")
    _view(shape, strides, limited, limits)
    return Tile(shape, pointer_of(pointer).elem, layout)


@opdef("block.load_box")
def load_box(
    pointer: Type,
    *start: Type,
    shape: tuple[int, ...],
    dims: tuple[Dim, ...],
    strides: tuple[Dim, ...],
    offset: Dim = 0,
    lower: tuple[int, ...] = (),
    upper: tuple[int, ...] = (),
    steps: tuple[int, ...] = (),
) -> Type:
    """Rows and columns of a tensor, along its last two dims from `start` on; elements outside of it are 0.

    The tensor of `dims` and `strides` begins `offset` elements behind the pointer; the box begins inside of it. With
    `steps` rows are positions of a filter. Along each dim of an image (all dims but the first and the last; `lower`,
    `upper` and `steps` name the innermost first) positions lie `steps` apart, from `lower` to `upper` past the last
    element, and rows go through them, then on to the next image. The box begins at such a position, and more numbers
    behind `start`, one for each of these dims, are added to all positions: the filter's tap.
    """
    if len(shape) != 2 or not 2 <= len(dims) == len(strides) or strides[-1] != 1:
        raise VerifyError("expected a shape of 2 dims, and a tensor of 2 or more, as many strides, the last of them 1")
    if len(start) != len(dims) + len(steps) or any(t != I64 for t in start):
        raise VerifyError(f"expected {len(dims) + len(steps)} i64 coordinates, got {', '.join(map(str, start))}")
    if steps and not len(dims) - 2 == len(steps) == len(lower) == len(upper):
        raise VerifyError(f"expected {len(dims) - 2} corners and steps, got {lower}, {upper}, {steps}")
    return Tile(shape, pointer_of(pointer).elem)


@opdef("block.store_view")
def store_view(
    pointer: Type,
    base: Type,
    value: Type,
    *limits: Type,
    strides: tuple[Dim, ...],
    limited: tuple[int, ...] = (),
    stream: bool = False,
    relaxed: bool = False,
    cache: str = "",
) -> tuple[Type, ...]:
    """Write a strided tile, as `load_view` reads one; elements at or past a limit are not written.

    `stream` is a hint that nobody reads it soon, and a promise that every row begins at a multiple of the vector size.
    What is `relaxed` other programs may store at the same time: which is the last is not said. `cache` as in `store`.
    """
    check_cache(cache, STORE_CACHES)
    if base != I64:
        raise VerifyError(f"operand 1 must be i64, got {base}")
    t = _tile(value)
    _view(t.shape, strides, limited, limits)
    if t.elem != pointer_of(pointer).elem:
        raise VerifyError(f"cannot store {t} through {pointer}")
    return ()


LOAD_CACHES = ("ca", "cg", "cs", "evict_first", "evict_last")
STORE_CACHES = ("wb", "cg", "cs", "wt", "evict_first", "evict_last")
"""PTX's cache operators, and what a line's place in the first cache is given to: hints, which change no number."""


def check_cache(cache: str, known: tuple[str, ...]) -> None:
    """Whether a hint is none, or one of those known."""
    if cache and cache not in known:
        raise VerifyError(f"cache must be one of {', '.join(known)}, got {cache}")


@opdef("block.load")
def load(pointer: Type, offsets: Type, mask: Type | None = None, *, other: bool | float = 0, cache: str = "") -> Type:
    """Gather `pointer[offsets]`; where the mask is false nothing is read and the element is `other`.

    `cache` is a hint, one of `LOAD_CACHES`: in which caches of a GPU what is read should be, and for how long.
    """
    check_cache(cache, LOAD_CACHES)
    check_places(offsets, mask)
    return with_elem(offsets, pointer_of(pointer).elem)


@opdef("block.store")
def store(
    pointer: Type, offsets: Type, value: Type, mask: Type | None = None, *, relaxed: bool = False, cache: str = ""
) -> tuple[Type, ...]:
    """Scatter `pointer[offsets] = value` where the mask is true; of equal offsets the last one wins.

    What is `relaxed` other programs may store at the same time: which is the last is not said. `cache` is a hint, one
    of `STORE_CACHES`.
    """
    check_cache(cache, STORE_CACHES)
    check_places(offsets, mask)
    if value != with_elem(offsets, pointer_of(pointer).elem):
        raise VerifyError(f"cannot store {value} through {pointer} at {offsets}")
    return ()


def check_places(offsets: Type, mask: Type | None) -> None:
    """What says where an access goes: offsets, and for which of them."""
    if elem_of(offsets) != I64:
        raise VerifyError(f"offsets must be i64, got {offsets}")
    if mask is not None and mask != with_elem(offsets, BOOL):
        raise VerifyError(f"mask must be {with_elem(offsets, BOOL)}, got {mask}")


# combining

DOT_PRECISIONS = ("ieee", "tf32", "tf32x3")


@opdef("block.scan", Trait.PURE)
def scan(x: Type, *, axis: int, kind: str, exclusive: bool = False, reverse: bool = False) -> Type:
    """Each element combined with those before it along `axis`; exclusive: with what changes nothing in its own place.

    `kind` is sum, prod, max, min or logaddexp; `reverse` combines it with those after it.
    """
    t = _tile(x)
    check_reduce_kind(kind, t.elem, SCAN_KINDS)
    axis_of(axis, len(t.shape))
    return t


@opdef("block.dot", Trait.PURE)
def dot(a: Type, b: Type, acc: Type, *, precision: str = "ieee") -> Type:
    """acc + a @ b for a [.., M, K], b [.., K, N], acc [.., M, N]; products and sums in acc's element.

    Dims in front are equal and counted alike. `precision` says how f32 operands may be rounded: "ieee" not at all,
    "tf32" to 11 bits, "tf32x3" to 22 as sums of two.
    """
    if precision not in DOT_PRECISIONS:
        raise VerifyError(f"precision must be one of {', '.join(DOT_PRECISIONS)}, got {precision}")
    ta, tb, tc = _tile(a), _tile(b), _tile(acc)
    ranks = {len(t.shape) for t in (ta, tb, tc)}
    if len(ranks) != 1 or min(ranks) < 2:
        raise VerifyError(f"shapes do not fit: {ta}, {tb} and {tc}")
    (*left, m, k), (*right, k2, n) = ta.shape, tb.shape
    if left != right or k != k2 or tc.shape != (*left, m, n):
        raise VerifyError(f"shapes do not fit: {ta}, {tb} and {tc}")
    return tc


@opdef("block.words", Trait.PURE)
def words(x: Type) -> Type:
    """Halves that follow along the last dim, an even number of them, as words of i32: the first in the lowest bits."""
    t = _tile(x)
    if t.elem not in (F16, BF16) or not t.shape or t.shape[-1] % 2:
        raise VerifyError(f"expected an even number of f16 or bf16 in a row, got {t}")
    return Tile((*t.shape[:-1], t.shape[-1] // 2), I32, None if t.layout is None else _of_words(t.layout))


def _of_words(layout: LinearLayout) -> LinearLayout:
    """Of words, the two halves of each being neighbours in a thread's registers."""
    bases = {name: list(layout.bases(name)) for name in (REGISTER, LANE, WARP)}
    if bases[REGISTER][:1] != [1] or any(b & 1 for name, found in bases.items() for b in found[name == REGISTER :]):
        raise VerifyError(f"halves of a word are apart in {layout}")
    halved = {name: [b >> 1 for b in found[name == REGISTER :]] for name, found in bases.items()}
    *outer, (last, bits) = layout.outs
    return LinearLayout.of(halved, dict([*outer, (last, bits - 1)]))


@opdef("block.dot_words", Trait.PURE)
def dot_words(a: Type, b: Type, acc: Type, *, elem: Scalar) -> Type:
    """acc + a @ b for words (i32) of elements that follow along the last K, the first of them in the lowest bits.

    a is [M, K..], b is [K.., N], acc is [M, N] of f32. Subnormal elements and sums may count as 0.
    """
    ta, tb, tc = _tile(a), _tile(b), _tile(acc)
    if ta.elem != I32 or tb.elem != I32 or tc.elem != F32 or elem not in (F16, BF16):
        raise VerifyError(f"expected words (i32) of f16 or bf16 and sums in f32, got {ta}, {tb}, {tc} and {elem}")
    if len(tc.shape) != 2 or ta.shape[1:] != tb.shape[:-1] or tc.shape != (ta.shape[0], tb.shape[-1]):
        raise VerifyError(f"shapes do not fit: {ta}, {tb} and {tc}")
    return tc


@opdef("block.dot_bytes", Trait.PURE)
def dot_bytes(a: Type, b: Type, acc: Type, *, bits: int = 8) -> Type:
    """acc + the four products of the bytes of each word of a, unsigned, and of b, signed: all are tiles of i32.

    Only the lowest `bits` of a's bytes may be other than 0.
    """
    ta, tb, tc = _tile(a), _tile(b), _tile(acc)
    if not 0 < bits <= 8:
        raise VerifyError(f"bits must be in 1..8, got {bits}")
    if tc.elem != I32 or ta != tc or tb != tc:
        raise VerifyError(f"expected words (i32) and sums of one shape, got {ta}, {tb} and {tc}")
    return tc


MOST_ZERO = 128
"""Of codes: what is left of those of 8 bits is exact in bf16."""


@opdef("block.dot_codes", Trait.PURE)
def dot_codes(x: Type, codes: Type, acc: Type, *, bits: int, elem: Scalar, zero: int = 0) -> Type:
    """acc + x @ (codes - zero) for codes of 2, 4 or 8 bits, several of a column in a word.

    x is [.., M, K / 2], words (i32) of f16 or bf16 (`elem`) that follow along K, codes [.., K * bits / 32, N] of i32
    and acc [.., M, N] of f32; dims in front are equal. Of four words of a column, each has a pair of every eight steps:
    code i of word t is that of step `8 * (i // 2) + 2 * t + i % 2`, at `code_bit(i, bits, HALVES)`. `zero` is 0 to 128.
    """
    tx, tw, tc = _tile(x), _tile(codes), _tile(acc)
    if bits not in BITS or elem not in (F16, BF16) or tx.elem != I32 or tw.elem != I32 or tc.elem != F32:
        raise VerifyError(f"expected words (i32) and sums in f32, got {tx} of {elem}, {tw} of {bits} bits, {tc}")
    if not 0 <= zero <= MOST_ZERO:
        raise VerifyError(f"zero must be in 0..{MOST_ZERO}, got {zero}")
    per = WORD_BITS // bits
    ranks = {len(t.shape) for t in (tx, tw, tc)}
    if len(ranks) != 1 or min(ranks) < 2 or not tx.shape[:-2] == tw.shape[:-2] == tc.shape[:-2]:
        raise VerifyError(f"shapes do not fit: {tx}, {tw} and {tc}")
    if tw.shape[-2] % SIDE or 2 * tx.shape[-1] != per * tw.shape[-2] or tc.shape[-2:] != (tx.shape[-2], tw.shape[-1]):
        raise VerifyError(f"shapes do not fit: {tx}, {tw} and {tc}")
    return tc


@opdef("block.widen_codes", Trait.PURE)
def widen_codes(
    words: Type,
    scales: Type,
    points: Type | None = None,
    *,
    bits: int,
    elem: Scalar,
    zero: int = 0,
    layout: LinearLayout | None = None,
) -> Type:
    """(code - zero point) * scale, rounded to f16 or bf16 (`elem`): [M, K], a row for each column of the codes.

    words [M / 32, 256] of i32 are lines of `graph.contract_packed`, K being a line's steps; scales [blocks, M] are for
    equal parts of K, and so are `points` where zero points differ, all rounded to `elem` first.
    """
    tw, ts = _tile(words), _tile(scales)
    if bits not in BITS or elem not in (F16, BF16) or tw.elem != I32 or not ts.elem.is_float:
        raise VerifyError(f"expected words (i32) of 2, 4 or 8 bits and scales, got {tw} of {bits}, {ts} and {elem}")
    rows, steps = tw.shape[0] * PANEL, line_steps(bits)
    if len(tw.shape) != 2 or tw.shape[1] != LINE_WORDS * PANEL or len(ts.shape) != 2 or ts.shape[1] != rows:
        raise VerifyError(f"shapes do not fit: {tw} and {ts}")
    if steps % (8 * ts.shape[0]) or (points is not None and _tile(points).shape != ts.shape):
        raise VerifyError(f"{steps} steps are no blocks of {ts}, or zero points differ: {points}")
    if not 0 <= zero <= MOST_ZERO or (points is not None and zero):
        raise VerifyError(f"zero must be in 0..{MOST_ZERO}, and 0 where there are zero points, got {zero}")
    return Tile((rows, steps), elem, layout)


@opdef("block.reduce", Trait.PURE)
def reduce(x: Type, *, axis: int, kind: str) -> Type:
    """Combine along `axis`, which disappears (a rank-1 tile gives a scalar).

    `max` and `min` are NaN if any element is; `maxnum` and `minnum` if all are.
    """
    t = _tile(x)
    check_reduce_kind(kind, t.elem, MACHINE_REDUCE_KINDS)
    return _reduced(t, axis, t.elem)


@opdef("block.arg_reduce", Trait.PURE)
def arg_reduce(x: Type, *, axis: int, kind: str, elem: Scalar = I64) -> Type:
    """The index along `axis`, which disappears, of the first `max` or `min`; NaN counts as extreme."""
    t = _tile(x)
    if kind not in ("max", "min"):
        raise VerifyError(f"kind must be max or min, got {kind}")
    if elem not in (I32, I64):
        raise VerifyError(f"indices are i32 or i64, got {elem}")
    check_reduce_kind(kind, t.elem)
    return _reduced(t, axis, elem)


def _reduced(t: Tile, axis: int, elem: Scalar) -> Type:
    axis_of(axis, len(t.shape))
    shape = t.shape[:axis] + t.shape[axis + 1 :]
    layout = t.layout.slice(axis) if t.layout else None
    return Tile(shape, elem, layout) if shape else elem
