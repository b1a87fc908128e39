"""What half precision does to each value of a graph: which fit, which overflow, which must be exact.

There are no bounds of data at compile time, so this goes by where a value comes from. The classes, and what makes them:

    KNOWN     constants and what is computed from them alone
    ORDINARY  data: inputs, results of products, and all that mixes with them
    MEAN      quotients of sums: a mean, a variance, a probability
    SUM       sums, squares, exponentials, powers: beyond 65504 sooner than the data they are made of
    INTEGER   numbers that count something (positions, times): halves are exact up to 2048 (bf16: 256) only
    WIDE      constants that halves cannot hold (masks such as -1e9), and what they are added to

An elementwise op on values of several classes has the one that is first in `WIDE ORDINARY INTEGER SUM MEAN KNOWN`:
positions times a constant are still positions, but hidden states times a mask of integers are data.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.fold_constants import Array, array_of, splat_of
from graphfuse.fusion.simplify.patterns import is_op, operand_of
from graphfuse.ir.core import Block, Func, Op, Trait, Value, attr_number, tensor_of
from graphfuse.ir.dense import finfo, numpy_dtype
from graphfuse.ir.types import Scalar, Tensor


class Class(enum.IntEnum):
    """How a value stands to half precision; of several, the largest decides."""

    KNOWN = 0
    MEAN = 1
    SUM = 2
    INTEGER = 3
    ORDINARY = 4
    WIDE = 5


Classes = dict[Value, Class]
COUNTS = 1 << 24
"""Larger whole numbers count nothing: f32 has gaps between them."""

GATHERS = frozenset({graph.take, graph.take_along, graph.gather_nd})
_NAMED = graph.ELEMENTWISE
_BOUNDED = frozenset(
    _NAMED[n] for n in ("tanh", "erf", "sigmoid", "sin", "cos", "sign", "asin", "acos", "atan", "atan2")
)
_GROWING = frozenset(_NAMED[n] for n in ("exp", "exp2", "expm1", "sinh", "cosh", "pow"))
_LOGARITHMS = frozenset(_NAMED[n] for n in ("log", "log2", "log1p"))


def fits(array: Array, elem: Scalar) -> bool:
    """Whether a constant keeps its meaning in `elem`.

    Finite elements stay finite, whole numbers stay what they are, and not all of it is subnormal.
    """
    info = finfo(elem)
    wide = array.astype(np.float32, copy=False)
    finite = wide[np.isfinite(wide)] if not np.isfinite(wide).all() else wide
    if not finite.size:
        return True
    low, high = float(finite.min()), float(finite.max())
    largest = max(-low, high)
    if largest > float(info.max):
        return False
    if largest != 0 and largest < float(info.smallest_normal):
        return False
    if not 1 << info.nmant < largest < COUNTS:  # most weights are small
        return True
    return bool((finite != np.rint(finite)).any() or (finite.astype(numpy_dtype(elem)) == finite).all())


def number_fits(value: float, elem: Scalar) -> bool:
    """`fits` of one number; infinities do."""
    return math.isinf(value) or fits(np.asarray(value, np.float32), elem)


def keeps_f32(operands: Iterable[Class]) -> bool:
    """Whether a product of such operands stays in f32."""
    return any(c in (Class.SUM, Class.INTEGER, Class.WIDE) for c in operands)


def classify(func: Func, elem: Scalar) -> Classes:
    """The class of every float value of a function, in regions and loops too, were it stored as `elem`."""
    found = _Classifier(elem)
    found.block(func.body)
    return found.classes


class _Classifier:
    def __init__(self, elem: Scalar) -> None:
        self.elem = elem
        self.classes: Classes = {}

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.has(Trait.TERMINATOR):
                continue
            if op.kind is graph.call:  # what a kernel computes is data
                self.classes.update(dict.fromkeys(op.results, Class.ORDINARY))
                continue
            for body in op.bodies:
                # what a loop carries is data, whatever it begins with
                least = Class.ORDINARY if op.kind is graph.loop else Class.KNOWN
                operands = (max(least, self.of(v)) for v in op.operands)
                self.classes.update(zip(body.params.values, operands, strict=True))
                self.block(body)
                returned = (self.of(v) for v in body.terminator.operands)
                self.classes.update(zip(op.results, returned, strict=True))
            if not op.bodies:
                self.classes.update(dict.fromkeys(op.results, self._class(op)))

    def of(self, value: Value) -> Class:
        """Parameters of the function are data."""
        return self.classes.get(value, Class.ORDINARY)

    def _class(self, op: Op) -> Class:
        t = op.types[0]
        if not isinstance(t, Tensor) or not t.elem.is_float or t.elem == self.elem:
            return Class.ORDINARY
        if op.kind in (graph.constant, graph.full, graph.iota):
            return self._source(op)
        if op.kind is graph.cast:
            return self._cast(op)
        operands = [self.of(v) for v in op.operands if _is_float(v)]
        if op.kind in (graph.contract, graph.conv):
            return max((c for c in operands if keeps_f32([c])), default=Class.ORDINARY)
        if op.kind in GATHERS and operands[0] == Class.KNOWN:
            return Class.ORDINARY  # rows of a table are data
        if op.kind in (graph.reduce, graph.cumulate):
            return self._sum(op, operands[0])
        if op.kind is graph.pad and not number_fits(attr_number(op, "value"), self.elem):
            return Class.WIDE
        if op.has(Trait.ELEMENTWISE):
            return self._elementwise(op, operands)
        return max(operands, default=Class.ORDINARY)

    def _source(self, op: Op) -> Class:
        if op.kind is graph.constant:
            array = array_of(op.result)
            assert array is not None
            return Class.KNOWN if fits(array, self.elem) else Class.WIDE
        value = splat_of(op.result) if op.kind is graph.full else None
        if value is None:
            return Class.INTEGER  # a dim, or a count
        return Class.KNOWN if number_fits(float(value), self.elem) else Class.WIDE

    def _cast(self, op: Op) -> Class:
        (x,) = op.operands
        elem = tensor_of(x).elem
        if elem.is_float:
            return self.of(x) if elem.bits > self.elem.bits else Class.ORDINARY
        return Class.INTEGER if elem.is_integer else Class.ORDINARY

    def _sum(self, op: Op, x: Class) -> Class:
        if op.attrs["kind"] not in ("sum", "prod"):
            return x
        return Class.SUM if x in (Class.ORDINARY, Class.MEAN) else x

    def _elementwise(self, op: Op, operands: list[Class]) -> Class:
        if not operands or max(operands) == Class.KNOWN:
            return Class.ORDINARY if op.kind is graph.select else Class.KNOWN  # what chooses is data
        if op.kind in _BOUNDED:
            return Class.ORDINARY
        if op.kind in _GROWING:
            return Class.INTEGER if Class.INTEGER in operands else Class.SUM
        if op.kind in _LOGARITHMS:
            return {Class.WIDE: Class.ORDINARY, Class.SUM: Class.MEAN}.get(operands[0], operands[0])
        if op.kind is graph.div:
            return self._quotient(*operands)
        if op.kind is graph.mul:
            return self._product(op, *operands)
        if op.kind in (graph.max_, graph.min_):
            # a bound that nothing reaches makes nothing large
            data = [c for v, c in zip(op.operands, operands, strict=True) if not _is_constant(v)]
            return max(data or operands)
        return max(operands)

    def _quotient(self, x: Class, y: Class) -> Class:
        if x == Class.WIDE or y == Class.WIDE:
            return x
        return Class.MEAN if max(x, y) == Class.SUM else max(x, y)

    def _product(self, op: Op, x: Class, y: Class) -> Class:
        a, b = op.operands
        if a == b and x == Class.ORDINARY:
            return Class.SUM
        if max(x, y) == Class.SUM and (min(x, y) == Class.MEAN or _is_fraction(a) or _is_fraction(b)):
            return Class.MEAN
        return max(x, y)


def _is_float(value: Value) -> bool:
    return isinstance(value.type, Tensor) and value.type.elem.is_float


def _is_constant(value: Value) -> bool:
    while (repeated := operand_of(value, graph.broadcast)) is not None:
        value = repeated
    return is_op(value, graph.full, graph.constant)


def _is_fraction(value: Value) -> bool:
    """Whether it is one number of magnitude below 1, such as the 1/n of a mean."""
    number = splat_of(value)
    return number is not None and abs(number) < 1
