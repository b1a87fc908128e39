"""Where the tiles of a called kernel are in the tensors that it reads and writes.

An access is a `View` of a dense tensor if its address is the row-major position of an index of which every digit is
proved to be in its dim: then each element of the tile has an index. The kernel's mask says where a tile begins,
`limit = dim - start`; without one, the address is taken apart. Dims may be merged, as `[batch * rows, columns]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphfuse.blockgen.index import IndexSpace, split, strides_of
from graphfuse.dialects import block
from graphfuse.dialects.call import arguments_of
from graphfuse.ir.core import Func, Op, Value, attr_dim, attr_dims, attr_int, attr_ints, attr_strs, tile_of
from graphfuse.ir.types import I64, Tile
from graphfuse.symbolic import INF, Dim, product, substitute


@dataclass(frozen=True, slots=True)
class View:
    """Element [i, ..] of a tile is at `start[d] + i` along dim d of `shape`, the tile dim being `along[d]` (or none).

    `shape` is the tensor's, with dims merged where the kernel sees them so.
    """

    shape: tuple[Dim, ...]
    start: tuple[Dim, ...]
    along: tuple[int | None, ...]
    limits: Mapping[int, Dim]
    """By tile dim: the first element that is no part of the tensor."""


class NoViewError(Exception):
    """Why an access is no view of a dense tensor."""


def accessed(op: Op) -> Tile:
    """What a `load_view` loads, or a `store_view` stores."""
    return tile_of(op.result if op.kind is block.load_view else op.operands[2])


def view_of(op: Op, shape: Sequence[Dim], numbers: Numbers, space: IndexSpace) -> View:
    """The view that a `load_view` or `store_view` is, of a tensor of that shape; raises NoViewError."""
    first: NoViewError | None = None
    for merged in _mergings(shape):
        try:
            return _view(op, accessed(op).shape, merged, numbers, space)
        except NoViewError as e:
            first = first or e
    assert first is not None, "there is one merging at least"
    raise first


def _mergings(shape: Sequence[Dim]) -> list[tuple[Dim, ...]]:
    """The shape, with its leading dims merged, and flat."""
    return [tuple(shape), *((product(shape[:i]), *shape[i:]) for i in range(2, len(shape) + 1))]


def _view(op: Op, tile: Sequence[int], shape: tuple[Dim, ...], numbers: Numbers, space: IndexSpace) -> View:
    load = op.kind is block.load_view
    strides = [numbers.substituted(s) for s in attr_dims(op, "strides")]
    limited = attr_ints(op, "limited", ())
    ends = op.operands[2 if load else 3 :]
    limits = {k: space.simplify(numbers.dim(v)) for k, v in zip(limited, ends, strict=True)}
    dense = strides_of(shape)
    along: list[int | None] = [None] * len(shape)
    for k, (n, s) in enumerate(zip(tile, strides, strict=True)):
        if n == 1:
            if k in limits:
                raise NoViewError("a mask says for a whole tile whether it is stored")
            continue
        d = next((d for d, t in enumerate(dense) if t == s and shape[d] != 1 and along[d] is None), None)
        if d is None:
            text = f"strides {_text(strides)} against {_text(dense)}"
            raise NoViewError(f"it is not laid out as the dense tensor {_text(shape)}: {text}")
        along[d] = k
    start = _starts(numbers.dim(op.operands[1]), shape, along, limits, space)
    for d, (at, k) in enumerate(zip(start, along, strict=True)):
        inside = d == 0 or space.nonnegative(at)
        if k is None or k not in limits:
            size = 1 if k is None else tile[k]
            inside = inside and (d == 0 or space.nonnegative(shape[d] - at - size))
        if not inside:
            raise NoViewError(f"its mask does not keep it inside dim {d} of {_text(shape)}")
    return View(shape, start, tuple(along), limits)


def _starts(
    base: Dim, shape: Sequence[Dim], along: Sequence[int | None], limits: Mapping[int, Dim], space: IndexSpace
) -> tuple[Dim, ...]:
    """Where the tile begins along each dim: a limit is `dim - start`, others are digits of the rest."""
    dense = strides_of(shape)
    start: list[Dim | None] = [None] * len(shape)
    rest = space.simplify(base)
    for d, k in enumerate(along):
        if k is not None and k in limits:
            at = space.simplify(shape[d] - limits[k])
            start[d], rest = at, rest - at * dense[d]
    rest = space.simplify(rest)
    for d, known in enumerate(start):
        if known is None:
            digit, rest = split(rest, dense[d])
            start[d] = space.simplify(digit)
    if rest != 0:
        raise NoViewError(f"its mask or its addresses are not those of a tensor {_text(shape)}")
    return tuple(d for d in start if d is not None)


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


@dataclass
class Numbers:
    """What the i64 scalars of a called function are, over the variables of a space."""

    space: IndexSpace
    arguments: Mapping[str, Dim]
    """The function's symbols."""
    variable: Callable[[Value, Dim, Dim], Dim]
    """Makes a variable for a scalar that is no arithmetic, with its least and greatest value."""
    grid: Dim
    known: dict[Value, Dim] = field(default_factory=dict[Value, Dim])

    def substituted(self, dim: Dim) -> Dim:
        """An expression of the function's symbols."""
        return self.space.simplify(substitute(dim, self.arguments))

    def dim(self, value: Value) -> Dim:
        """An i64 scalar of the function."""
        if value not in self.known:
            self.known[value] = self._compute(value)
        return self.known[value]

    def _compute(self, value: Value) -> Dim:
        op = value.op
        if op is not None and op.kind is block.const:
            return attr_int(op, "value")
        if op is not None and op.kind is block.index:
            names = attr_strs(op, "names", ())
            inner = dict(zip(names, (self.dim(v) for v in op.operands), strict=True))
            return self.space.simplify(substitute(attr_dim(op, "expr"), {**self.arguments, **inner}))
        if op is not None and op.kind is block.program_id:
            return self.variable(value, 0, self.grid - 1)
        return self.variable(value, -INF, INF)

    def counter(self, loop: Op) -> None:
        """Note what the counter of a `for` may be."""
        low, high = (self.dim(v) for v in loop.operands[:2])
        param = loop.body.params.values[0]
        self.known[param] = self.variable(param, low, high - 1)


def numbers_of(func: Func, call: Op, space: IndexSpace, variable: Callable[[Value, Dim, Dim], Dim]) -> Numbers:
    """The numbers of a called function, its arguments known."""
    arguments = arguments_of(call)
    (grid,) = attr_dims(call, "grid")
    known = {v: arguments[v.hint] for v in func.params if v.type == I64}
    return Numbers(space, arguments, variable, grid, known)
