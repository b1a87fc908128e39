"""Splits reductions and products that few programs would compute: partial results first, then their reduction.

    %s = graph.reduce(%x) {axes = [1], kind = "sum"} : tensor<2xf32>            // x: 2 x 1048576

becomes, for a machine that runs 132 programs at a time,

    %r = graph.reshape(%x) {shape = [2, 128, 8192]} : tensor<2x128x8192xf32>
    %p = graph.reduce(%r) {axes = [2], kind = "sum"} : tensor<2x128xf32>
    %s = graph.reduce(%p) {axes = [1], kind = "sum"} : tensor<2xf32>

Elementwise ops before the reduction are made again under the new shape, so that they stay in one kernel with it. A
product is split along k: its parts are a batch, summed afterwards. The place of an extreme is its place in the first
part that has it; what is chosen of all is chosen of what parts choose. Exponentials of a part are summed relative to
its own largest, which costs no walk more, and scaled afterwards, as attentions in parts are (`split_keys.py`). Partial
sums of halves are f32. A scan of few lines is one of their parts (Merrill and Grimshaw, Parallel Scan for Stream
Architectures: reduce, then scan).

On a CPU, what is summed may have dims that are not known, or be two dims with one that is kept between them: then its
rows come first where there are few results. There a product is split along a deep k of which the result is too small to
be shared out.

Requires: canonicalize; contractions have taken in permutes; what is summed is of static size. Ensures: the same values
but for the order of sums, and variances of parts, which `strict` does without. Cost: one sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphfuse.dialects import graph
from graphfuse.dialects.elementwise import DEAR_KINDS, ROUNDED_KINDS, neutral
from graphfuse.fusion.products.search_rows import place_of
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow, root_of
from graphfuse.fusion.simplify.fold_constants import cast_to, full
from graphfuse.fusion.simplify.patterns import made_by, operand_of
from graphfuse.fusion.simplify.simplify_movement import broadcasted, reshaped, sliced
from graphfuse.ir.core import Func, Op, Trait, Value, attr_int, attr_ints, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, RuleWith, common_subexpressions, dead_code, given, rule_with, sweep
from graphfuse.ir.types import BF16, BOOL, F16, F32, I64, Scalar
from graphfuse.symbolic import Dim, Ranges, bounds, product, static

LONG = 1 << 17
"""Elements that one program may reduce alone; on a GPU half of them, where a second kernel costs as much time: 109,714
halves take one program 4.2 us on an H100 (`benchmarks.population`)."""
LONG_POWERS = 3 << 14
"""The same of elements whose largest and whose exponentials are wanted: 128,256 of them take one program 9 us on an
H200. Of those for each of which the result is wanted, too: it reads them twice, and writes as many."""
LONG_SHARED = 2 * LONG_POWERS
"""The same of those of which other sums are wanted, too, which wait for the first."""
LONG_CHOICE = 1 << 15
"""The same of elements of which some are chosen."""
OF_A_PART = 8
"""Elements of a part for each that is chosen, at least."""
LONG_ROW = 1 << 15
"""The same of elements whose mean and variance are wanted: what registers do not hold is read three times."""
LEAST = 1 << 12
"""Elements of a part."""
ROW = 1 << 15
"""Elements of a part where there are plenty: a row that a program reads at once, without a loop."""
WAVES = 4
"""Parts for each program that runs at a time, from which on the last ones leave little idle."""
MOST_PARTS = 1 << 13
"""One program reduces them."""
SHORTEST_ROW = 256
"""Elements of a row that is worth a program."""
LONG_DEPTH = 2048
"""k of a product that may be split."""
LONG_VECTOR = 1 << 15
"""The same of a product with a vector for each of whose results a program reads a row: 32 rows of 4,096 take one kernel
1.5 us, two 2.7; 17 of 33,333 5.5 and 3.3 (H200: `benchmarks.gpu_constants --only vectors`)."""
LEAST_DEPTH = 256
"""k of a part."""
CONVERTING, CONVERTED_DEPTH = 8, 512
"""Programs that run at a time for each multiprocessor, and their k, where operands are converted on the way: each has
few warps, which mostly wait for their own instructions."""
VECTOR = 8
"""Elements that a part of a row is a multiple of, if the row is: 16 bytes of halves."""
TILE = 64
"""Rows and columns of a tile of a product that one program computes."""
FEW = 4
"""Parts that are worth a second kernel where more would have to be of two sizes."""
NARROW = 2
"""Programs for each multiprocessor that read elements of columns which do not lie at multiples of a vector: what is in
flight is the elements alone, 64 bytes a warp of halves. As much shorter is what one may reduce of those that it reads
again: softmax of 5,003 x 211 bf16 takes 6.7 us with 4, 7.3 with 2 and 1; of 720 x 309 f32 5.0, 3.9 and 3.8 (H100:
`benchmarks.gpu_constants --only columns`)."""
PADDED = 1 << 20
"""Elements up to which asking each whether it is behind the end costs less than a kernel for what is left over."""
ANY_LENGTH = 1 << 31
"""The same where a kernel for what is left over would need what the first gives."""
UNEVEN = 1 << 22
"""Elements from which on a kernel for what is left over costs less than parts that begin anywhere."""
LINE = 32
"""Neighbours that one program reduces together when they are what is kept."""
DEEP, PART_OF_DEEP, LEAST_SIDE, FEW_PLACES = 4608, 1536, 48, 1 << 14
"""k of a product of f32 that is split on a CPU, of its parts, the rows and columns it has at least, and the elements at
most: of more, the result is shared out, and its kernel multiplies slab by slab of k (`blockgen/slabs.py`)."""
CORES = 32
"""Programs of a CPU's long reduction: more than most have cores, so that parts even out, and sums do not depend on how
many there are."""
LEAST_PARTS = 4
"""Parts of a line that is scanned in parts: its elements are read once more."""
SCANNED_ON_CPU, BESIDE_ON_CPU = 1 << 15, 1 << 11
"""Elements that a program of a CPU scans alone, and lines side by side that it has at most."""
LOG_OF_SUM = 4
"""A step of `logaddexp` takes as long as so many elements of other scans, or longer: its parts are as much shorter."""
SCANNED_ALONE = 1 << 15
"""The same of a GPU's line that is scanned by one kernel, whose programs read what lies before their parts again."""
CONE = 16
"""Elementwise ops before a reduction that are made again."""


Reduced = tuple[Sequence[Dim], tuple[int, ...]]
"""A shape, and the axes that are reduced."""
SumParts = Callable[[int, int, int, int, Scalar], int | None]
"""Rows, columns, batch, depth and element of a product: parts, 1 for none, None where the target does not tell."""


def unknown(rows: int, columns: int, batch: int, depth: int, elem: Scalar) -> int | None:
    """A target that does not tell."""
    del rows, columns, batch, depth, elem
    return None


@dataclass(frozen=True, slots=True)
class Programs:
    """How many run at a time, and the ranges of the symbols: what is not known counts at its largest."""

    count: int
    ranges: Ranges
    share: int = 1
    """How many share a product of narrow elements by themselves, in one kernel."""
    parts: SumParts = unknown
    """Into how many parts a product of narrow elements is to be split."""
    scanned: int = 1 << 12
    """Elements of lines side by side that a program scans at once, and the lines themselves."""
    beside: int = LINE
    scan_parts: int = 1 << 31
    """Parts of a line to scan, at most."""
    scanned_alone: int = 0
    """Elements of a line, side by side in memory, whose scan is one kernel, at most."""
    whole: frozenset[Reduced] = frozenset()
    """What is reduced by other means."""
    powers: frozenset[Reduced] = frozenset()
    """That of which the largest is wanted, and the sum of exponentials."""
    alone: Mapping[Reduced, int] = field(default_factory=dict["Reduced", int])
    """Elements that one program may reduce, where those are other than `LONG`."""
    on_gpu: bool = False
    """Whether parts of a row should begin where vectors do, and logarithms are summed in f32."""
    held: int = 0
    """Elements of 4 bytes that registers of a program hold: it reads them once to find the largest, and where it is."""
    centred: frozenset[Reduced] = frozenset()
    """That of which the mean is wanted, and the sum of squares of what it is away from it."""
    narrow: int = 1
    """How many times as many there are, at most, where columns are read one by one."""

    def most(self, shape: Sequence[Dim]) -> int:
        """An upper bound of the elements of a shape."""
        return bounds(product(shape), self.ranges)[1]

    def long(self, reduced: Reduced) -> int:
        """Elements that one program may reduce alone."""
        return self.alone.get(reduced, LONG // 2 if self.on_gpu else LONG)


@rule_with(graph.reduce)
def reduce_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """reduce(x) = reduce(reduce of each part of x), in parts along the longest of its axes that are one in memory."""
    (x,) = op.operands
    t = tensor_of(x)
    axes, kind = sorted(attr_ints(op, "axes")), str(op.attrs["kind"])
    if _reduced(op) in programs.whole:
        return None
    found, reduced = _columns_first(op, programs), _reduced(op)
    # a mean is made of the sums of which the deviations of parts are
    padded = ANY_LENGTH if reduced in programs.centred else PADDED
    own, parts = found or (axes, _in_parts(t.shape, axes, programs, programs.long(reduced), padded=padded))
    if parts is None:
        return None
    inside, place = parts.inside(own)
    others = parts.left(axes, own)

    def partial(part: Value) -> Value:
        wide = cast_to(part, _wide(t.elem, kind))
        return graph.reduce(wide, axes=inside, kind=kind, keepdims=False, loc=op.loc).result

    whole = graph.reduce(parts.each(x, partial, place, kind), axes=(place, *others), kind=kind, loc=op.loc).result
    return reshaped(cast_to(whole, t.elem), tensor_of(op.result).shape)


@rule_with(graph.reduce)
def deviations_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """sum of (x - mean)^2 = sum over parts of theirs from their own mean, and size * (own mean - mean)^2.

    So one kernel makes both sums of a part (Chan, Golub and LeVeque, Updating formulae for computing variances).
    """
    found = _centred(op)
    if found is None or _reduced(op) in programs.whole:
        return None
    x, mean = found
    shape, axes = tensor_of(x).shape, sorted(attr_ints(op, "axes"))
    columns = _columns_first(op, programs)
    own, parts = columns or (axes, _in_parts(shape, axes, programs, programs.long(_reduced(op)), padded=ANY_LENGTH))
    if parts is None or parts.count * parts.size < parts.length:
        return None
    inside, place = parts.inside(own)
    together = (place, *parts.left(axes, own))
    others = math.prod(static(shape[a]) for a in own) // parts.length

    def mean_of(part: Value) -> Value:
        total = graph.reduce(part, axes=inside, kind="sum", keepdims=False, loc=op.loc).result
        return graph.div(total, parts.sizes(tensor_of(total).shape, place, others)).result

    def spread(part: Value) -> Value:
        whole = tensor_of(part).shape
        own = reshaped(mean_of(part), tuple(1 if a in inside else d for a, d in enumerate(whole)))
        far = parts.live(graph.sub(part, graph.broadcast(own, shape=whole)).result, 0.0)
        return graph.reduce(graph.mul(far, far), axes=inside, kind="sum", keepdims=False, loc=op.loc).result

    means, spreads = parts.each(x, mean_of, place, "sum"), parts.each(x, spread, place, "sum")
    by_part = tensor_of(means).shape
    common = reshaped(mean, tuple(1 if i in together else d for i, d in enumerate(by_part)))
    far = graph.sub(means, graph.broadcast(common, shape=by_part)).result
    weighed = graph.mul(graph.mul(far, far), parts.sizes(by_part, place, others)).result
    sums = (graph.reduce(v, axes=together, kind="sum", loc=op.loc) for v in (spreads, weighed))
    return reshaped(graph.add(*sums).result, tensor_of(op.result).shape)


def _centred(op: Op) -> tuple[Value, Value] | None:
    """x and its mean, where a reduction is the sum of (x - mean)^2."""
    square = made_by(op.operands[0], graph.mul)
    away = made_by(square.operands[0], graph.sub) if square is not None else None
    if square is None or away is None or square.operands[0] != square.operands[1] or op.attrs["kind"] != "sum":
        return None
    x, about = away.operands
    mean = operand_of(about, graph.broadcast)
    if mean is None or tensor_of(x).elem != F32:
        return None
    return (x, mean) if _is_mean(mean, tensor_of(x).shape, sorted(attr_ints(op, "axes"))) else None


def _columns_first(op: Op, programs: Programs) -> tuple[list[int], _Parts] | None:
    """The axes and the parts of which columns are reduced, groups of few of which are a row: of a norm of groups.

    So memory is read in vectors, and what is summed across channels are totals.
    """
    shape, axes = tensor_of(op.operands[0]).shape, sorted(attr_ints(op, "axes"))
    if _reduced(op) not in programs.centred or len(runs := _runs(axes)) != 2:
        return None
    (first, after), (inner, end) = runs
    sizes, row = [shape[a] for a in axes], programs.most(shape[inner:])
    if end != len(shape) or not all(isinstance(d, int) for d in sizes) or row >= LINE:
        return None
    # groups whose rows one program has, for whole lines, unless they have to be few for there to be enough programs
    rows = programs.most(shape[:first]) * programs.most(shape[after:inner])
    beside = min(LINE >> (row - 1).bit_length(), max(1, rows // programs.count))
    if programs.most(sizes) * beside < LONG_ROW:
        return None
    own = [*range(first, after)]
    busy = programs.most(shape[:first]) * -(-programs.most(shape[after:]) // LINE)
    held = -(-programs.most(shape[first:after]) * LINE // ROW)
    parts = _in_parts(shape, own, replace(programs, count=max(programs.count, max(2, held) * busy)), LONG_ROW)
    return (own, parts) if parts is not None else None


def _is_mean(mean: Value, shape: Sequence[Dim], axes: Sequence[int]) -> bool:
    """Whether a value is one for each row along these axes, and waits for a sum."""
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    have = tensor_of(mean).shape
    if (*(1 for _ in range(len(kept) - len(have))), *have) != kept:
        return False
    while (op := mean.op) is not None and op.kind in (graph.reshape, graph.div, graph.mul):
        mean = op.operands[0]
    return op is not None and op.kind is graph.reduce


@rule_with(graph.reduce)
def sum_powers_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """sum(exp(z - b)) = sum over parts of exp(m - b) sum(exp(z - m)), m the largest z of a part (0 for infinity)."""
    found, axes = _power_of_row(op), sorted(attr_ints(op, "axes"))
    if found is None or _reduced(op) not in programs.powers or _reduced(op) in programs.whole:
        return None
    z, base = found
    parts = _in_parts(tensor_of(z).shape, axes, programs, programs.long(_reduced(op)))
    if parts is None:
        return None
    inside, place = parts.inside(axes)
    elem, wide = tensor_of(z).elem, _wide(tensor_of(z).elem, "sum")

    def largest(part: Value) -> Value:
        return graph.reduce(part, axes=inside, kind="max", keepdims=False, loc=op.loc).result

    def partial(part: Value) -> Value:
        top, shape = cast_to(largest(part), wide), tensor_of(part).shape
        top = graph.select(graph.isinf(top), full(tensor_of(top).shape, wide, 0.0), top).result
        row = reshaped(top, tuple(1 if i in inside else d for i, d in enumerate(shape)))
        power = graph.exp(graph.sub(cast_to(part, wide), broadcasted(row, shape)))
        return graph.reduce(power, axes=inside, kind="sum", keepdims=False, loc=op.loc).result

    totals, tops = parts.each(z, partial, place, "max"), cast_to(parts.each(z, largest, place, "max"), wide)
    shape = tensor_of(tops).shape
    row = reshaped(cast_to(base, wide), tuple(1 if i == place else d for i, d in enumerate(shape)))
    scaled = graph.mul(totals, graph.exp(graph.sub(tops, broadcasted(row, shape))))
    whole = graph.reduce(scaled, axes=(place,), kind="sum", loc=op.loc).result
    return reshaped(cast_to(whole, elem), tensor_of(op.result).shape)


@rule_with(graph.arg_reduce)
def search_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """arg_reduce(x) = the first (or last) place of the parts of x whose extreme is that of x, or NaN."""
    (x,), axis, kind = op.operands, attr_int(op, "axis"), str(op.attrs["kind"])
    held = programs.held // max(1, tensor_of(x).elem.bytes // 4)
    last = bool(op.attrs.get("last"))  # which would be behind the end
    parts = _in_parts(tensor_of(x).shape, [axis], programs, LONG, held, padded=0 if last else PADDED)
    if parts is None or tensor_of(x).elem == BOOL:
        return None

    def best(part: Value) -> Value:  # keepdims is said, as `search_rows` says it: they are equal then
        return graph.reduce(part, axes=(axis + 1,), kind=kind, keepdims=False, loc=op.loc).result

    def place(part: Value) -> Value:
        return graph.arg_reduce(part, axis=axis + 1, kind=kind, last=last, loc=op.loc).result

    bests, within = parts.each(x, best, axis, kind), parts.each(x, place, axis, kind)
    shape = tensor_of(within).shape
    first = graph.mul(graph.iota(shape=shape, elem=I64, axis=axis).result, full(shape, I64, parts.size)).result
    extreme = graph.reduce(bests, axes=(axis,), kind=kind, loc=op.loc).result
    places = graph.add(first, within).result
    found = place_of(bests, extreme, places, axis, keepdims=False, last=last)
    return reshaped(found, tensor_of(op.result).shape)


@rule_with(graph.topk)
def choose_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """topk(x) = topk(topk of each part of x), in parts that are much longer than what is chosen."""
    (x,), axis, k = op.operands, attr_int(op, "axis"), op.attrs["k"]
    parts = _in_parts(tensor_of(x).shape, [axis], programs, LONG_CHOICE, padded=0)
    if parts is None or not isinstance(k, int) or not k:
        return None
    rest = parts.length - parts.count * parts.size
    if parts.size < OF_A_PART * k or 0 < rest < k:
        return None
    largest = bool(op.attrs.get("largest", True))

    def best(part: Value) -> tuple[Value, ...]:
        return graph.topk(part, k=k, axis=axis + 1, largest=largest, loc=op.loc).results

    values, within = (parts.each(x, lambda part, i=i: best(part)[i], axis) for i in range(2))
    shape = tensor_of(within).shape
    first = graph.mul(graph.iota(shape=shape, elem=I64, axis=axis).result, full(shape, I64, parts.size)).result
    joined = (*shape[:axis], static(shape[axis]) * k, *shape[axis + 2 :])
    places = reshaped(graph.add(first, within).result, joined)
    found, at = graph.topk(reshaped(values, joined), k=k, axis=axis, largest=largest, loc=op.loc).results
    return found, graph.take_along(places, at, axis=axis).result


@dataclass(frozen=True, slots=True)
class _Parts:
    """Of dims that are one in memory: so many of one size, and a shorter one if they are not the whole.

    If they are more than the whole, the last of them is read as if something were behind it.
    """

    first: int
    after: int
    length: int
    count: int
    size: int

    def inside(self, axes: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """The axes of a part, where all of these are reduced, and the dim along which parts then are."""
        first, after = self.first, self.after
        moved = (a if a < first else a + 2 - (after - first) for a in axes if not first <= a < after)
        return tuple(sorted((*moved, first + 1))), first - sum(a < first for a in axes)

    def left(self, axes: Sequence[int], own: Sequence[int]) -> tuple[int, ...]:
        """The axes of what is made of parts along which `axes` are reduced that were not a part's `own`."""
        inside, _ = self.inside(own)
        moved = (a if a < self.first else a + 2 - (self.after - self.first) for a in axes if a not in own)
        return tuple(a - sum(i < a for i in inside) for a in moved)

    def each(self, x: Value, result: Callable[[Value], Value], place: int, kind: str = "") -> Value:
        """The results of all parts, along dim `place`; what is behind the last changes nothing of this kind."""
        part = self._cut(x, 0, self.count, self.size)
        ends = not kind or (kind == "sum" and self._ends_in_zeros(x))
        made = result(part if ends else self.live(part, neutral(kind, tensor_of(x).elem)))
        if (rest := self.length - self.count * self.size) > 0:
            made = graph.concat(made, result(self._cut(x, self.length - rest, 1, rest)), axis=place).result
        return made

    def live(self, part: Value, fill: bool | float) -> Value:
        """A part with this behind its end."""
        if self.count * self.size <= self.length:
            return part
        shape, elem, at = tensor_of(part).shape, tensor_of(part).elem, self._places(len(tensor_of(part).shape))
        here = graph.lt(at, full(tensor_of(at).shape, I64, self.length)).result
        return graph.select(broadcasted(here, shape), part, full(shape, elem, fill)).result

    def _places(self, rank: int) -> Value:
        """Where the elements of parts are in what they are parts of, of a rank."""
        dims = tuple({self.first: self.count, self.first + 1: self.size}.get(i, 1) for i in range(rank))
        begin = graph.mul(graph.iota(shape=dims, elem=I64, axis=self.first).result, full(dims, I64, self.size))
        return graph.add(begin, graph.iota(shape=dims, elem=I64, axis=self.first + 1).result).result

    def sizes(self, shape: tuple[Dim, ...], place: int, others: int) -> Value:
        """How many elements each part has, `others` times its size."""
        if self.count * self.size <= self.length:
            return full(shape, F32, float(self.size * others))
        begin = graph.mul(graph.iota(shape=shape, elem=I64, axis=place).result, full(shape, I64, self.size))
        left = graph.sub(full(shape, I64, self.length), begin)
        size = graph.min_(left, full(shape, I64, self.size))
        return cast_to(graph.mul(size, full(shape, I64, others)).result, F32)

    def _cut(self, x: Value, start: int, count: int, size: int) -> Value:
        """So many parts from there on, as two dims: the parts, and what is in them."""

        def cut(v: Value) -> Value:
            shape = tensor_of(v).shape
            before, behind = shape[: self.first], shape[self.after :]
            if (more := count * size - self.length) > 0:
                if (computed := self._computed(v)) is not None:
                    return computed
                low, high = ((*(0 for _ in before), n, *(0 for _ in behind)) for n in (0, more))
                v = graph.pad(reshaped(v, (*before, self.length, *behind)), low=low, high=high, value=0).result
            elif more:
                v = sliced(reshaped(v, (*before, self.length, *behind)), self.first, start, count * size)
            return reshaped(v, (*before, count, size, *behind))

        return _again(x, cut, [CONE])

    def _ends_in_zeros(self, x: Value) -> bool:
        """Whether what is read behind the end is 0 without asking."""
        while (of := operand_of(x, graph.cast)) is not None:
            x = of
        return (x.op is None or not x.op.has(Trait.ELEMENTWISE)) and self._computed(x) is None

    def _computed(self, v: Value) -> Value | None:
        """What is made of no memory, or repeats along the parts, in parts of one size; None for other values."""
        shape, base = tensor_of(v).shape, root_of(v)
        first, after, op = self.first, self.after, base.op
        whole = (*shape[:first], self.count, self.size, *shape[after:])
        if op is not None and op.kind is graph.full:
            return graph.full(shape=whole, elem=tensor_of(v).elem, value=op.attrs["value"]).result
        if op is not None and op.kind is graph.iota and shape[first:after] == tensor_of(base).shape == (self.length,):
            return broadcasted(cast_to(self._places(len(whole)), tensor_of(v).elem), whole)
        if (x := operand_of(v, graph.broadcast)) is None:
            return None
        have = (*(1 for _ in range(len(shape) - len(tensor_of(x).shape))), *tensor_of(x).shape)
        x = reshaped(x, have)
        if all(d == 1 for d in have[first:after]):
            return broadcasted(reshaped(x, (*have[:first], 1, 1, *have[after:])), whole)
        inner = self._computed(x) if have[first:after] == shape[first:after] else None
        return None if inner is None else broadcasted(inner, whole)


def _in_parts(
    shape: Sequence[Dim],
    axes: Sequence[int],
    programs: Programs,
    long: int,
    held: int = 0,
    *,
    padded: int = PADDED,
) -> _Parts | None:
    """The parts of the longest of the axes that are one in memory, if a reduction is worth them: it is `long`.

    Where registers should hold a part, it has at most as many elements as are `held`. Up to so many elements that are
    `padded`, parts have one size whatever the length: the last is read over its end.
    """
    sizes = [d for a in axes if isinstance(d := shape[a], int)]
    if not axes or len(sizes) < len(axes) or not (total := math.prod(sizes)):
        return None
    length, first, after = max((math.prod(map(static, shape[i:j])), i, j) for i, j in _runs(axes))
    kept = programs.most([d for a, d in enumerate(shape[: axes[-1]]) if a not in axes])
    inner = programs.most(shape[axes[-1] + 1 :])
    more = _more(inner, programs.narrow)
    busy, line = kept * -(-inner // LINE), min(inner, LINE) * (total // length)
    if busy == 0 or 2 * busy > programs.count or length * line < long:
        return None
    most = max(1, more * programs.count // busy)
    if line == 1 and length // ROW >= WAVES * most:
        most = min(-(-length // ROW), MOST_PARTS)
    least = min(-(-length // held), MOST_PARTS) if held and line == 1 else 0
    wanted = max(least, min(most, length // max(1, LEAST // (line * more))))
    parts = _nested([static(d) for d in shape[first:after]], wanted)
    if not parts:
        most = max(wanted, min(2 * least, MOST_PARTS))
        near = [n for n in _divisors(length, most) if n >= least]
        for vector in (VECTOR, VECTOR // 2) if programs.on_gpu and line == 1 else ():
            aligned = [n for n in near if length // n % vector == 0 and 2 * n > wanted]
            parts = parts or max(aligned, key=lambda n: _filled(length // n) if least else 1.0 * n, default=0)
        is_uneven = programs.on_gpu and line == 1 and length >= UNEVEN
        parts = parts or (1 if is_uneven else max(near, default=1))
    size = length // parts
    is_padded = programs.on_gpu and (1 if line == 1 else 2) * long <= length * line <= padded
    begins_between = programs.on_gpu and line == 1 and size % (VECTOR // 2) != 0
    if is_padded and (begins_between or 2 * parts <= wanted) and length >= LINE * wanted > LINE:
        size = 1 << round(math.log2(length / wanted)) if line == 1 else -(-length // (wanted * LINE)) * LINE
        parts = -(-length // size)
    elif 2 * parts <= wanted:  # no divisor will do
        if length * line >= LONG // more:
            size = -(-length // (wanted * LINE)) * LINE  # the last part is shorter, by a kernel of its own
            parts = length // size
        elif parts < FEW:
            return None
    return _Parts(first, after, length, parts, size) if parts > 1 else None


def _more(inner: int, narrow: int) -> int:
    """How many times as many programs: `narrow` at most, by how far rows of so many elements are from vectors."""
    return min(narrow, VECTOR // math.gcd(inner, VECTOR)) if inner > 1 else 1


def _runs(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Where axes that follow each other begin and end."""
    begins = [a for a in axes if a - 1 not in axes]
    return list(zip(begins, (a + 1 for a in axes if a + 1 not in axes), strict=True))


@rule_with(graph.reduce)
def reduce_rows_first(op: Op, programs: Programs) -> Replacement | None:
    """reduce(x) = reduce(reduce of each row of x), of few and long: of a number not known, or with dims between."""
    (x,) = op.operands
    t = tensor_of(x)
    axes = sorted(attr_ints(op, "axes"))
    if not axes or axes[-1] != t.rank - 1:
        return None
    begin, _ = _runs(axes)[-1]
    known = (i for i in axes if all(isinstance(d, int) for d in t.shape[i:]))
    first = begin if begin > axes[0] else next(known, t.rank)
    row, rows = programs.most(t.shape[first:]), [a for a in axes if a < first]
    few = 2 * programs.most([d for a, d in enumerate(t.shape) if a not in axes]) <= programs.count
    if not few or not rows or row < SHORTEST_ROW or programs.most([t.shape[a] for a in rows]) * row < LONG:
        return None
    kind = str(op.attrs["kind"])
    partial = graph.reduce(cast_to(x, _wide(t.elem, kind)), axes=tuple(range(first, t.rank)), kind=kind, loc=op.loc)
    whole = graph.reduce(partial, axes=tuple(rows), kind=kind, loc=op.loc).result
    return reshaped(cast_to(whole, t.elem), tensor_of(op.result).shape)


@rule_with(graph.contract)
def multiply_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """sum over k = sum over parts of the sum over k in the part; of several dims, one is in parts."""
    a, b, lhs, rhs, out = _merged(op)
    sizes = dict(zip(lhs + rhs, (*tensor_of(a).shape, *tensor_of(b).shape), strict=True))
    summed = [c for c in sizes if c not in out]
    if not all(c in lhs and c in rhs for c in summed):
        return None
    depth = product([sizes[c] for c in summed])
    rows, columns, batch = (
        programs.most([sizes[c] for c in out if (c in lhs, c in rhs) == where])
        for where in ((True, False), (False, True), (True, True))
    )
    is_vector = 1 in (rows, columns)
    of_rows = is_vector and _in_rows(*((b, rhs) if rows == 1 else (a, lhs)), summed)
    side, long = (1, LONG_VECTOR) if of_rows else (LINE if is_vector else TILE, LONG_DEPTH)
    busy = batch * -(-rows // side) * -(-columns // side)
    boxed = tensor_of(a).elem == tensor_of(b).elem and tensor_of(a).elem.bytes <= 2
    share = programs.share if boxed and not is_vector else 1
    converted = side == TILE and tensor_of(a).elem != tensor_of(b).elem
    count, least = (CONVERTING * programs.count, CONVERTED_DEPTH) if converted else (programs.count, LEAST_DEPTH)
    if not isinstance(depth, int) or depth < long or busy == 0 or tensor_of(op.result).elem == BOOL:
        return None
    parts = programs.parts(rows, columns, batch, depth, tensor_of(a).elem) if share > 1 else None
    if parts is None and 2 * busy * share > count:
        return None
    wanted = parts or min(count // busy, depth // least)

    def parts_of(label: str) -> int:
        size, in_row = static(sizes[label]), len(summed) > 1 and label in (lhs[-1], rhs[-1])
        return _parts(size // VECTOR if in_row and size % VECTOR == 0 else size, wanted)

    k = max(summed, key=lambda c: min(parts_of(c), wanted // 2))  # images rather than positions, if they are enough
    parts = parts_of(k)
    if parts == 1 or _is_reduced(a) or _is_reduced(b):
        return None
    return cast_to(_sum_of_parts(op, ((a, lhs), (b, rhs)), out, k, parts), tensor_of(op.result).elem)


def _in_rows(matrix: Value, labels: str, summed: Sequence[str]) -> bool:
    """Whether what lies side by side in a matrix's memory is summed."""
    inner = [label for label, size in zip(labels, tensor_of(matrix).shape, strict=True) if size != 1]
    return bool(inner) and inner[-1] in summed


def _sum_of_parts(op: Op, factors: Sequence[tuple[Value, str]], out: str, k: str, parts: int) -> Value:
    """A product along so many parts of `k`, their sum: of halves in f32."""
    letter = next(c for c in "pqrstuvwxyzabcdefghijklmno" if not any(c in labels for _, labels in factors))
    split = [_split(v, labels.index(k), parts) for v, labels in factors]
    spec = ",".join(labels.replace(k, letter + k) for _, labels in factors) + f"->{letter}{out}"
    products = graph.contract(*split, spec=spec, elem=_wide(tensor_of(op.result).elem, "sum"), loc=op.loc)
    return graph.reduce(products, axes=(0,), kind="sum", loc=op.loc).result


@rule_with(graph.contract)
def multiply_deep_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """sum over k = sum over parts, of a deep k and a result that few programs make; the rest is one more product."""
    a, b, lhs, rhs, out = _merged(op)
    sizes = dict(zip(lhs + rhs, (*tensor_of(a).shape, *tensor_of(b).shape), strict=True))
    k, *more = [c for c in sizes if c not in out] or [""]
    elem, depth = tensor_of(op.result).elem, sizes.get(k, 0)
    if more or k not in lhs or k not in rhs or not isinstance(depth, int) or not elem.is_float:
        return None
    if depth * max(tensor_of(v).elem.bytes for v in (a, b)) < DEEP * F32.bytes:
        return None
    sides = [programs.most([sizes[c] for c in out if (c in lhs) != (c in rhs) and c in of]) for of in (lhs, rhs)]
    if min(sides) < LEAST_SIDE or math.prod(sides) > FEW_PLACES or _is_reduced(a) or _is_reduced(b):
        return None
    least = -(-depth // PART_OF_DEEP)
    parts = next((n for n in range(least, 2 * least) if depth % n == 0), least)
    whole, factors = depth - depth % parts, ((a, lhs), (b, rhs))

    def at(begin: int, count: int) -> list[tuple[Value, str]]:
        if count == depth:
            return list(factors)
        return [(sliced(v, labels.index(k), begin, count), labels) for v, labels in factors]

    total = _sum_of_parts(op, at(0, whole), out, k, parts)
    if whole < depth:
        rest = (v for v, _ in at(whole, depth - whole))
        left = graph.contract(*rest, spec=f"{lhs},{rhs}->{out}", elem=tensor_of(total).elem, loc=op.loc)
        total = graph.add(total, left.result, loc=op.loc).result
    return cast_to(total, elem)


def _merged(op: Op) -> tuple[Value, Value, str, str, str]:
    """The operands of a product and their labels, with summed dims that are neighbours in both as one."""
    a, b = op.operands
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    for first, second in itertools.pairwise(lhs):
        if first + second in rhs and first not in out and second not in out:
            a, b = _joined(a, lhs.index(second)), _joined(b, rhs.index(second))
            lhs, rhs = lhs.replace(first, ""), rhs.replace(first, "")
    return a, b, lhs, rhs, out


def _joined(x: Value, axis: int) -> Value:
    """`x` with one axis and the one before it as one."""
    shape = tensor_of(x).shape
    return reshaped(x, (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :]))


@rule_with(graph.cumulate)
def scan_in_parts(op: Op, programs: Programs) -> Replacement | None:
    """A scan of a line = scans of its parts, each of which begins with the scan of the totals of those before it."""
    (x, *before), axis = op.operands, attr_int(op, "axis")
    shape = tensor_of(x).shape
    extent, outer, inner = shape[axis], programs.most(shape[:axis]), programs.most(shape[axis + 1 :])
    if before or not isinstance(extent, int) or not outer or not inner:
        return None
    kind, is_reverse = str(op.attrs["kind"]), bool(op.attrs.get("reverse", False))
    # logarithms of f64 are dear on a GPU, and sums in trees round them a few times
    is_log = programs.on_gpu and kind in DEAR_KINDS and tensor_of(x).elem == F32
    beside = min(1 << (inner - 1).bit_length(), programs.beside)
    part = max(1, programs.scanned // (LOG_OF_SUM if is_log else 1) // beside, -(-extent // programs.scan_parts))
    alone = programs.scanned_alone if inner == 1 and kind not in DEAR_KINDS else 0
    if 2 * outer * -(-inner // beside) > programs.count or extent < LEAST_PARTS * part or extent <= alone:
        return None
    whole = (extent - 1) // part
    cut = sliced(x, axis, extent - whole * part if is_reverse else 0, whole * part)
    split = reshaped(cut, (*shape[:axis], whole, part, *shape[axis + 1 :]))
    wide = split if is_log else cast_to(split, graph.running(kind, tensor_of(x).elem))
    totals = graph.reduce(wide, axes=(axis + 1,), kind=kind, loc=op.loc).result
    if is_reverse:
        totals = graph.flip(totals, axes=(axis,), loc=op.loc).result
    so_far = graph.cumulate(totals, axis=axis, kind=kind, loc=op.loc)
    again = scan_in_parts[0].apply(so_far, programs)
    return remade(op, x, again if isinstance(again, Op) else so_far, part=part)


RULES: tuple[RuleWith[Programs], ...] = (
    *deviations_in_parts,
    *sum_powers_in_parts,
    *reduce_in_parts,
    *search_in_parts,
    *choose_in_parts,
    *multiply_in_parts,
    *scan_in_parts,
)
ON_CPU: tuple[RuleWith[Programs], ...] = (
    *reduce_rows_first,
    *reduce_in_parts,
    *search_in_parts,
    *multiply_deep_in_parts,
    *scan_in_parts,
)


def share_sums(
    func: Func, programs: int = 132, share: int = 1, parts: SumParts = unknown, *, strict: bool = False
) -> Func:
    """Give each of so many programs, which run at a time, a part of every long sum. Rows of attention stay whole."""
    flow = Dataflow(func.body)
    attention = (op for found in find_attention(flow, on_gpu=True) for op in found.between)
    whole = frozenset(_reduced(op) for op in attention if op.kind is graph.reduce)
    reduces = [op for op in func.body.ops if op.kind is graph.reduce and attr_ints(op, "axes")]
    rules = [r for r in RULES if not strict or r not in deviations_in_parts]
    powers, shared = _powers(reduces)
    centred = frozenset[Reduced](() if strict else (_reduced(op) for op in reduces if _centred(op)))
    soon = (*powers, *_walked(flow, reduces, programs, func.ranges))
    again = {r: LONG_POWERS // _more(bounds(product(r[0][max(r[1]) + 1 :]), func.ranges)[1], NARROW) for r in soon}
    alone = dict.fromkeys(shared, LONG_SHARED) | again | dict.fromkeys(centred, LONG_ROW)
    known = Programs(
        programs,
        func.ranges,
        share,
        parts,
        whole=whole,
        powers=powers | shared,
        alone=alone,
        centred=centred,
        narrow=NARROW,
        on_gpu=True,
        held=ROW,
        scanned_alone=SCANNED_ALONE,
    )
    return _split_by(func, rules, known)


@passing("graph")
def split_long_reductions(func: Func, *, programs: int = CORES) -> Func:
    """The same for a CPU, of products only those whose rows and columns are too few to share out among threads."""
    known = Programs(programs, func.ranges, scanned=SCANNED_ON_CPU, beside=BESIDE_ON_CPU, scan_parts=programs)
    return _split_by(func, ON_CPU, known)


def _split_by(func: Func, rules: Sequence[RuleWith[Programs]], programs: Programs) -> Func:
    """A value and its place have their parts in common."""
    made, fired = sweep(func, given(rules, programs))
    return common_subexpressions(dead_code(made)) if fired else func


def _powers(reduces: Sequence[Op]) -> tuple[frozenset[Reduced], frozenset[Reduced]]:
    """That of which the largest is wanted, and the sum of exponentials; and that of which other sums are, too."""
    largest = {(op.operands[0], attr_ints(op, "axes")) for op in reduces if op.attrs["kind"] == "max"}
    found = [(op, _power_of_row(op)) for op in reduces if op.attrs["kind"] != "max"]
    every = frozenset(_reduced(op) for op, power in found if power and (power[0], attr_ints(op, "axes")) in largest)
    others = frozenset(_reduced(op) for op, power in found if not power)
    return every - others, every & others


def _walked(flow: Dataflow, reduces: Sequence[Op], programs: int, ranges: Ranges) -> Iterator[Reduced]:
    """That of which each element waits for a result, where most programs would have nothing to do."""
    for reduce in reduces:
        shape, axes = tensor_of(reduce.operands[0]).shape, attr_ints(reduce, "axes")
        row, kept = product(shape), product([d for i, d in enumerate(shape) if i not in axes])
        busy = bounds(kept, ranges)[1]
        if FEW * busy > programs * (1 if len(shape) - 1 in axes else LINE):
            continue
        seen, stack = set[Value](), [reduce.result]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            users = [u for u in flow.uses.get(v, ()) if u.has(Trait.ELEMENTWISE) or u.kind in _SPREADS]
            if any(product(tensor_of(u.result).shape) == row for u in users):
                yield _reduced(reduce)
                break
            stack += [u.result for u in users]


_SPREADS = (graph.broadcast, graph.reshape)


def _power_of_row(op: Op) -> tuple[Value, Value] | None:
    """z and b where a reduction is the sum of exp(z - b) and there is one b for all that is summed."""
    term = op.operands[0].op
    if op.attrs["kind"] != "sum" or term is None or term.kind is not graph.exp:
        return None
    shifted = term.operands[0].op
    if shifted is None or shifted.kind is not graph.sub:
        return None
    z, base = shifted.operands
    axes, shape = attr_ints(op, "axes"), tensor_of(z).shape
    row = tuple(1 if i in axes else d for i, d in enumerate(shape))
    spread = base.op
    if spread is None or spread.kind is not graph.broadcast or tensor_of(spread.operands[0]).shape != row:
        return None
    return z, spread.operands[0]


def _reduced(op: Op) -> Reduced:
    return tensor_of(op.operands[0]).shape, attr_ints(op, "axes")


def _parts(length: int, most: int) -> int:
    """The largest divisor of `length` up to `most`."""
    return max(_divisors(length, most), default=1)


def _filled(size: int) -> float:
    """The share of a tile of a power of two that so many elements are."""
    return size / (1 << (size - 1).bit_length())


def _divisors(length: int, most: int) -> list[int]:
    """The divisors of `length` up to `most`."""
    return [p for p in range(1, most + 1) if length % p == 0]


def _nested(dims: Sequence[int], wanted: int) -> int:
    """Of several dims the number of parts nearest to `wanted` that cut only one of them; 0 if none is near.

    Where a part begins and ends within others, every element finds its place by divisions.
    """
    if len(dims) < 2:
        return 0
    counts = (math.prod(dims[:i]) * n for i, d in enumerate(dims) for n in range(1, d + 1) if d % n == 0)
    near = [n for n in counts if wanted <= 2 * n <= 4 * wanted]
    return min(near, key=lambda n: max(n / wanted, wanted / n), default=0)


def _split(x: Value, axis: int, parts: int) -> Value:
    """`x` with one axis in parts: two axes."""
    shape = tensor_of(x).shape
    whole = static(shape[axis])
    return reshaped(x, (*shape[:axis], parts, whole // parts, *shape[axis + 1 :]))


def _again(x: Value, leaf: Callable[[Value], Value], left: list[int]) -> Value:
    """`x` of other leaves, elementwise ops made again while any are `left`."""
    op = x.op
    if op is None or not op.has(Trait.ELEMENTWISE) or len(op.results) != 1 or left[0] == 0:
        return leaf(x)
    left[0] -= 1
    return remade(op, *(_again(v, leaf, left) for v in op.operands)).result


def _is_reduced(x: Value) -> bool:
    """Whether elementwise ops make `x` from a reduction: the probabilities of an attention, which stays whole."""
    seen: set[Value] = set()
    stack = [x]
    while stack:
        op = stack.pop().op
        if op is not None and op.kind is graph.reduce:
            return True
        if op is not None and (op.has(Trait.ELEMENTWISE) or op.kind is graph.broadcast):
            stack += [v for v in op.operands if v not in seen]
            seen.update(op.operands)
    return False


def _wide(elem: Scalar, kind: str) -> Scalar:
    """What partial results are in."""
    return F32 if elem in (F16, BF16) and kind in ROUNDED_KINDS else elem
