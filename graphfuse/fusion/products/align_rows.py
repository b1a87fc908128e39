"""Operands that TMA cannot read, such as rows that begin at odd addresses, are copied into rows that it can.

    %y = graph.contract(%x, %w) {spec = "km,kn->mn"} : tensor<4095x4104xbf16>          // x: 1000 x 4095

becomes

    %p = graph.pad(%x) {high = [0, 1], low = [0, 0], value = 0.0} : tensor<1000x4096xbf16>
    %s = graph.slice(%p) {sizes = [1000, 4095], starts = [0, 0], steps = [1, 1]} : tensor<1000x4095xbf16>
    %y = graph.contract(%s, %w) {spec = "km,kn->mn"} : tensor<4095x4104xbf16>

The slice is a view: the product reads 4095 columns of rows that are 4096 apart, and never what was added. Trailing
dims that are one dim of the product are padded as one. Constants are copied when compiling; an operand of several
products is copied once.

Images and weights of convolutions likewise, which also become images with their channels side by side:

    %t = graph.permute(%x) {perm = [0, 2, 3, 1]} : tensor<8x64x64x320xf16>
    %p = graph.pad(%t) {high = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0} : tensor<8x64x64x320xf16>

where a pad of nothing is the copy. More channels are zeros, also in the weights; the zeros around positions stay
behind the copy. What a depthwise convolution reads at many positions is copied so, too, whatever it costs alone: it is
read at each tap, for channels together. So are many rows that codes of few bits are multiplied by, where warpgroups
could not copy them. A row of elements that lie apart, such as an image with channels last that a matrix is multiplied
by as if they were first, is copied by a pad of nothing where loading it costs more.

Rows of halves that a product writes for a kernel which reduces them are stored apart in the same way: an operand gets
columns of zeros, where it is copied anyway or is less than the result, and who reads the product takes what it wants.

    %p = graph.pad(%w) {high = [0, 15], low = [0, 0], value = 0.0} : tensor<64x50272xf16>     // w: 64 x 50257
    %y = graph.contract(%x, %p) {spec = "mk,kn->mn"} : tensor<1560x50272xf16>
    %s = graph.slice(%y) {sizes = [1560, 50257], starts = [0, 0], steps = [1, 1]} : tensor<1560x50257xf16>

Requires: whatever changes products has run, and nothing after it merges slices with pads. Declines attention, and
what the target does not ask for. Ensures: the same factors. Cost: one sweep.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, Protocol

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.regions.partition import is_plain_convolution
from graphfuse.fusion.simplify.fold_constants import Array, array_of, constant, evaluate
from graphfuse.fusion.simplify.layout import elements_of
from graphfuse.fusion.simplify.simplify_movement import grown, reshaped, sliced
from graphfuse.ir.core import Func, Op, Trait, Value, attr_int, attr_ints, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, common_subexpressions, dead_code, readers, rebuild
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import exact_div, product, static

OFTEN = 512
"""Positions at which weights are read that are worth a copy."""
UNIT = 16
"""Elements of 2 bytes in a sector of memory."""
LINE = 64
"""The same in a line of shared memory, of which a step of a convolution has one tap: fewer channels make more steps."""
_VIEWS = (graph.reshape, graph.slice_, graph.cast)
Row = tuple[int, int]
"""How many trailing dims of an operand are copied as a row, and by how many elements that grows; (0, 0) leaves it."""
STAYS: Row = (0, 0)
Grown = tuple[int, ...]
"""By how many zeros each dim grows."""
Users = dict[Value, list[Op]]
"""The ops that read each value."""
Known = dict[tuple[Value, Grown], Value]
"""Copies of constants."""


class Costs(Protocol):
    """What a target says of products by how their operands lie in memory."""

    gain: ClassVar[float]
    """How many times less something must cost before it is taken to be less."""

    def stays(self, op: Op) -> bool:
        """Whether copies are of no use to a product."""
        ...

    def us(self, op: Op) -> float:
        """Microseconds that a product takes, with the pads that it reads."""
        ...

    def scattered(self, op: Op) -> int | None:
        """The operand of which a product that stays loads so many scattered elements that a copy costs less."""
        ...

    def is_apart(self, op: Op) -> bool:
        """Whether a product by codes has many rows, and reads them several times as slowly as copies of them."""
        ...


def _last(x: Value) -> Row:
    """The last dim of halves, filled up to whole sectors."""
    t = tensor_of(x)
    length = t.shape[-1] if t.rank else 0
    grown = -length % UNIT if isinstance(length, int) and t.elem in (F16, BF16) else 0
    return (1, grown) if grown else STAYS


def _row(op: Op, side: int) -> Row:
    """The dims of an operand that lie side by side and have one role in the product, in whole sectors."""
    if op.kind is graph.conv:
        channels = tensor_of(op.operands[side]).shape[-1]
        if not isinstance(channels, int):
            return STAYS
        groups = attr_int(op, "groups", 1) if side == 0 else 1
        grown = -(channels // groups) % UNIT
        is_mostly_zeros = groups != 1 and channels // groups < grown
        return STAYS if is_mostly_zeros else (1, grown)
    labels = graph.parse_spec(str(op.attrs["spec"]))
    shape = tensor_of(op.operands[side]).shape
    role: tuple[bool, ...] | None = None
    first = len(shape)
    for i in reversed(range(len(shape))):
        if shape[i] != 1:
            its = tuple(labels[side][i] in each for each in labels)
            if role not in (None, its):
                break
            role, first = its, i
    length = product(shape[first:])
    if role is None or not isinstance(length, int) or _is_spread(op.operands[side]):
        return STAYS
    return len(shape) - first, -length % UNIT or UNIT  # whole sectors may still be apart by something else


def _is_spread(x: Value) -> bool:
    """Whether it is a view of fewer elements."""
    while x.op is not None and x.op.has(Trait.MOVEMENT):
        if x.op.kind in (graph.broadcast, graph.stretch):
            return True
        x = x.op.operands[0]
    return False


def copy_rows(func: Func, costs: Costs | None = None) -> Func:
    """Copy the operands of products for which that costs less; without costs all whose last dim is no whole sectors."""
    attention = {op for found in find_attention(Dataflow(func.body)) for op in (found.scores, found.output)}
    known: Known = {}
    users = readers(func)

    def visit(old: Op, new: Op) -> Replacement | None:
        if old.kind is graph.contract_packed and costs and costs.is_apart(new):
            x, *codes = new.operands
            return remade(new, grown(x, (0,) * tensor_of(x).rank), *codes)
        if old.kind is not graph.contract and (not costs or not is_plain_convolution(old)):
            return None
        if old in attention:
            return None
        rows = cheapest_rows(new, costs) if costs else tuple(map(_last, new.operands))
        if old.kind is graph.contract and (side := _spaced(old, rows, users)) is not None:
            return _with_whole_rows(new, side, rows, known)
        return None if all(row == STAYS for row in rows) else _copied(new, rows, known)

    return dead_code(common_subexpressions(rebuild(func, visit_pair=visit)))


def _spaced(op: Op, rows: Sequence[Row], users: Users) -> int | None:
    """The operand that gets more columns so that rows of the result are whole sectors; None if they stay."""
    labels = graph.parse_spec(str(op.attrs["spec"]))
    sides = [i for i in range(2) if labels[2][-1:] and labels[2][-1] in labels[i]]
    if len(sides) != 1 or _last(op.result) == STAYS or not _is_reduced(op.result, users):
        return None
    (side,) = sides
    if rows[side][0] > 1:
        return None
    is_small = 2 * elements_of(op.operands[side]) <= elements_of(op.result)  # read and written against written
    return side if is_small or rows[side] != STAYS else None


def _with_whole_rows(op: Op, side: int, rows: Sequence[Row], known: Known) -> Value:
    """The view of a product of more columns, which zeros beside those of an operand make."""
    labels = graph.parse_spec(str(op.attrs["spec"]))
    axis, (_, more) = labels[side].index(labels[2][-1]), _last(op.result)
    operands, apart = list(op.operands), list(rows)
    operands[side] = _padded(
        op.operands[side], tuple(more if i == axis else 0 for i in range(len(labels[side]))), known
    )
    if axis == len(labels[side]) - 1:
        apart[side] = STAYS  # its own rows are whole sectors now
    made = _copied(remade(op, *operands), apart, known)
    return sliced(made.result, tensor_of(op.result).rank - 1, 0, tensor_of(op.result).shape[-1])


def _is_reduced(v: Value, users: Users) -> bool:
    """Whether rows are in memory for kernels alone, one of which reduces them: none reduces what it multiplies."""
    is_reduced, stack = False, [v]
    while stack:
        at = tensor_of(stack[-1])
        for user in users.get(stack.pop(), ()):
            if user.has(Trait.TERMINATOR):
                return False
            is_reduced |= user.kind is graph.reduce and at.rank - 1 in attr_ints(user, "axes")
            if user.kind in _VIEWS and tensor_of(user.result).shape[-1:] == at.shape[-1:]:
                stack.append(user.result)
    return is_reduced


def cheapest_rows(op: Op, costs: Costs) -> tuple[Row, ...]:
    """Which operands of a product to copy."""
    if costs.stays(op):
        return _channels_last(op) if op.kind is graph.conv else _gathered(op, costs)
    as_stored, *copied = itertools.product(*(_rows(op, side) for side in range(2)))
    times = {rows: costs.us(_copied(op, rows)) for rows in copied}
    best = min(times, key=times.__getitem__, default=as_stored)
    return best if times and times[best] * costs.gain <= costs.us(op) else as_stored


def aligned_us(op: Op, costs: Costs) -> float:
    """Microseconds of a product with the copies that are best for it."""
    rows = cheapest_rows(op, costs)
    return costs.us(op if all(row == STAYS for row in rows) else _copied(op, rows))


def _rows(op: Op, side: int) -> tuple[Row, ...]:
    """The ways to store an operand."""
    row = _row(op, side)
    rows = {STAYS: None, row: None}
    if op.kind is graph.conv and side == 0 and row != STAYS:
        channels = static(tensor_of(op.operands[1]).shape[-2])
        rows[1, -channels % LINE] = None
    return tuple(rows)


def _gathered(op: Op, costs: Costs) -> tuple[Row, ...]:
    """What of a product is copied for each of many results to load it by vectors: such as an image, made one row."""
    found = costs.scattered(op)
    return tuple((_row(op, side)[0], 0) if side == found else STAYS for side in range(2))


def _channels_last(op: Op) -> tuple[Row, ...]:
    """What of a depthwise convolution is copied: all is read again and again, for neighbouring channels together."""
    stays = (STAYS,) * len(op.operands)
    if op.attrs.get("groups", 1) == 1:
        return stays
    *_, inputs, outputs = tensor_of(op.operands[1]).shape
    *image, channels = tensor_of(op.result).shape
    if inputs != 1 or channels != outputs or (isinstance(reads := product(image), int) and reads < OFTEN):
        return stays
    memory = graph.unpadded(op.operands[0]), op.operands[1]
    return tuple((1, 0) if v.op is not None and v.op.kind is graph.permute else STAYS for v in memory)


def _copied(op: Op, rows: Sequence[Row], known: Known | None = None) -> Op:
    """A product of copies. `known` has constants that were copied before; without it none is evaluated."""
    if op.kind is graph.conv:
        return _copied_image(op, rows, known)
    return remade(op, *(_with_pitch(v, row, known) for v, row in zip(op.operands, rows, strict=True)))


def _copied_image(op: Op, rows: Sequence[Row], known: Known | None) -> Op:
    """A convolution of copies: more channels are zeros, of the image and in the weights."""
    image, weights = op.operands
    (copies, more), (_, columns) = rows
    memory = graph.unpadded(image)
    if copies:
        *outer, channels = tensor_of(memory).shape
        groups = attr_int(op, "groups", 1) if more else 1
        of_groups = memory if groups == 1 else reshaped(memory, (*outer, groups, exact_div(channels, groups) or 0))
        copy = _padded(of_groups, (*(0 for _ in tensor_of(of_groups).shape[1:]), more), known)
        copy = reshaped(copy, (*outer, channels + groups * more))
        image = copy if memory is image or image.op is None else remade(image.op, copy).result
    if more or rows[1] != STAYS:
        *taps, _, out = tensor_of(weights).shape
        grown = _padded(weights, (*(0 for _ in taps), more, columns), known)
        weights = sliced(grown, len(taps) + 1, 0, out) if columns else grown
    return remade(op, image, weights)


def _with_pitch(x: Value, row: Row, known: Known | None) -> Value:
    """`x` as a view of rows that are further apart than they are long: in a table that is known, where it is picked."""
    dims, grown = row
    if row == STAYS:
        return x
    shape = tensor_of(x).shape
    outer, length = shape[: len(shape) - dims], product(shape[len(shape) - dims :])
    if x.op is not None and x.op.kind is graph.take and _known(x.op.operands[0]) is not None:
        table, at = x.op.operands
        if attr_int(x.op, "axis") + tensor_of(at).rank <= len(outer):
            return remade(x.op, _with_pitch(table, row, known), at).result
    copy = _padded(reshaped(x, (*outer, length)), (*(0 for _ in outer), grown), known, x)
    return reshaped(sliced(copy, len(outer), 0, length), shape)


def _padded(x: Value, high: Grown, known: Known | None, of: Value | None = None) -> Value:
    """A copy of `x`, which is a view of `of`, with so many zeros behind it along each dim."""
    key = of or x, high
    if known is not None and key in known:
        return known[key]
    if known is None or (array := _known(x)) is None:
        return grown(x, high)
    padded = graph.pad(x, low=(0,) * len(high), high=high, value=0.0)
    known[key] = constant(evaluate(padded, [array])[0], x.op)
    return known[key]


def _known(x: Value) -> Array | None:
    """A constant, or movement of one."""
    if (array := array_of(x)) is not None or x.op is None:
        return array
    if not x.op.has(Trait.MOVEMENT) or len(x.op.operands) != 1:
        return None
    inner = _known(x.op.operands[0])
    return None if inner is None else evaluate(x.op, [inner])[0]
