"""What a function does with its product, again for a part of it: tiles small enough to live beside the rest.

Starting from the value a store writes, ops are made anew in the layout that is asked of them: memory is read by the
threads that need it, and no data moves between threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.ir.core import Attr, Builder, Op, Trait, Value, attr_dims, attr_int, attr_ints, remade, tile_of
from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.types import I64, Tile
from graphfuse.symbolic import Dim, sym, symbols


class Declined(Exception):  # noqa: N818  # a reason, not a failure
    """The function has something that this transformation cannot express."""


class Clones:
    """Scalars made again on other values: every op once for each place that asks, nothing that is not asked for."""

    def __init__(self, builder: Builder, known: dict[Value, Value]) -> None:
        self.builder = builder
        self._known = dict(known)

    def inside(self, builder: Builder, known: dict[Value, Value]) -> Clones:
        """The same in a body, where more is known."""
        return Clones(builder, {**self._known, **known})

    def __call__(self, value: Value) -> Value:
        """The new value for an old one."""
        if value not in self._known:
            op = value.op
            is_made_again = op is not None and (op.has(Trait.PURE) or op.kind is block.load)
            if op is None or not is_made_again or isinstance(value.type, Tile):
                raise Declined(f"a scalar comes from {op.kind.name if op else 'a body'}")
            operands = [self(v) for v in op.operands]
            new = op.kind.build(operands, op.attrs, hint=value.hint, loc=op.loc)
            self._known[value] = self.builder.append(new).results[value.index]
        return self._known[value]


def _keeps_places(op: Op) -> bool:
    """Whether what is at a place of the result comes of what the tiles it reads have there."""
    return op.has(Trait.ELEMENTWISE) or op.kind in (block.index, block.load)


Axes = tuple[int | None, ...]
"""For each dim of a tile, along which axis of the product only a part of it is wanted; None: all."""
MadeKey = tuple[Value, Axes, tuple[int, ...], LinearLayout]
"""A value's part: axes, where it begins along them, and layout."""
Made = dict[MadeKey, Value]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the function's tiles the new function's product begins, over names of values."""

    at: tuple[Dim, Dim] = (0, 0)
    leaves: Mapping[str, Value] = field(default_factory=dict[str, Value])


class Chunk:
    """The part of the function's tiles that begins at `start` and has the shape `size`, in rows and columns."""

    def __init__(
        self,
        clones: Clones,
        products: dict[Value, Value],
        start: tuple[int, int],
        size: tuple[int, int],
        made: Made,
        first_column: int = 0,
        origin: Origin | None = None,
    ) -> None:
        self.clones, self.builder = clones, clones.builder
        self.products = products
        """The new function's products by the old one's; they have the columns from `first_column` on."""
        self.first_column = first_column
        self.start, self.size = start, size
        self.origin = origin or Origin()
        self._made = made

    def tile(self, value: Value, axes: Axes, layout: LinearLayout) -> Value:
        """A tile in a layout."""
        key = self.key(value, axes, layout)
        if key not in self._made:
            self._made[key] = self._make(value, axes, layout)
        return self._made[key]

    def key(self, value: Value, axes: Axes, layout: LinearLayout) -> MadeKey:
        """What is the same for all chunks that can share a tile."""
        return value, axes, tuple(self.start[a] for a in axes if a is not None), layout

    def loads(self, value: Value, axes: Axes, layout: LinearLayout) -> Iterator[tuple[Value, Axes, LinearLayout]]:
        """What `tile` would read from memory: arguments of `tile` that make the loads alone."""
        op = value.op
        if op is not None and op.kind in (block.load_view, block.load):
            yield value, axes, layout
        elif op is not None and value not in self.products:
            for place in self._operands(op, axes, layout):
                yield from self.loads(*place)

    def registers(self, value: Value, axes: Axes, layout: LinearLayout, *, apart: bool = False) -> int:
        """Of a thread, for `tile` of these arguments; narrow elements that are read `apart` take one each."""
        del axes
        elements = layout.distinct_registers().size(REGISTER)
        return elements if apart else -(-elements * tile_of(value).elem.bytes // 4)

    def _shape(self, value: Value, axes: Axes) -> tuple[int, ...]:
        return tuple(n if a is None else self.size[a] for n, a in zip(tile_of(value).shape, axes, strict=True))

    def _make(self, value: Value, axes: Axes, layout: LinearLayout) -> Value:
        op, shape = value.op, self._shape(value, axes)
        if value in self.products:
            if axes != (0, 1):
                raise Declined("the product is read in another shape")
            start = (self.start[0], self.start[1] - self.first_column)
            return self.builder(gpu.part, self.products[value], start=start, layout=layout)
        if op is None:
            raise Declined("a tile comes from outside")
        if op.kind in (block.const, block.splat):
            operands = [self.clones(v) for v in op.operands]
            return self._add(op, operands, shape=shape, layout=layout)
        if _keeps_places(op):
            tiles = iter([self.tile(*place) for place in self._operands(op, axes, layout)])
            return self._add(op, [next(tiles) if isinstance(v.type, Tile) else self.clones(v) for v in op.operands])
        if op.kind in (block.broadcast, block.reshape):
            (operand,) = (self.tile(*place) for place in self._operands(op, axes, layout))
            placed = {"layout": layout} if op.kind is block.broadcast else {}
            return self._add(op, [operand], shape=shape, **placed)
        if op.kind is block.arange:
            first = attr_int(op, "start") + (0 if axes[0] is None else self.start[axes[0]])
            numbers = self._add(op, [], start=first, end=first + shape[0], layout=layout)
            origin = 0 if axes[0] is None else self.origin.at[axes[0]]
            if origin != 0 and numbers.type != Tile(shape, I64, layout):
                raise Declined("narrow numbers of rows or columns that blocks share")
            return self._moved(numbers, origin)
        if op.kind is block.load_view:
            pointer, base, *limits = op.operands
            at, cuts = self.view(op, axes, base, limits)
            return self._add(op, [self.clones(pointer), at, *cuts], shape=shape, layout=layout)
        raise Declined(f"{op.kind.name} after the product")

    def _add(self, op: Op, operands: list[Value], **changes: Attr) -> Value:
        return self.builder.append(remade(op, *operands, **changes)).result

    def _padded(self, value: Value, axes: Axes) -> tuple[int, ...]:
        return Tile(self._shape(value, axes), tile_of(value).elem).padded_shape

    def _operands(self, op: Op, axes: Axes, layout: LinearLayout) -> list[tuple[Value, Axes, LinearLayout]]:
        """Arguments of `tile` for the tiles that an op reads."""
        if _keeps_places(op):
            return [(v, axes, layout) for v in op.operands if isinstance(v.type, Tile)]
        if op.kind is block.broadcast:
            (source,) = op.operands
            inner = tuple(a if n > 1 else None for n, a in zip(tile_of(source).shape, axes, strict=True))
            return [(source, inner, project(layout, self._padded(source, inner)))]
        return [self._reshaped(op, axes, layout)] if op.kind is block.reshape else []

    def _reshaped(self, op: Op, axes: Axes, layout: LinearLayout) -> tuple[Value, Axes, LinearLayout]:
        """Dims of size 1 come and go; the layout goes along."""
        source, target = tile_of(op.operands[0]), tile_of(op.result)
        before = [d for d, n in enumerate(source.shape) if n > 1]
        after = [d for d, n in enumerate(target.shape) if n > 1]
        if [source.shape[d] for d in before] != [target.shape[d] for d in after]:
            raise Declined("a reshape mixes dims")
        kept = {b: axes[a] for b, a in zip(before, after, strict=True)}
        inner = tuple(kept.get(d) for d in range(len(source.shape)))
        return op.operands[0], inner, layout.reshape(self._padded(op.operands[0], inner))

    def view(self, op: Op, axes: Axes, base: Value, limits: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Base and limits of a strided view of the part."""
        limited = attr_ints(op, "limited", ())
        starts: list[Dim] = [0 if a is None else self.origin.at[a] + self.start[a] for a in axes]
        ahead: Dim = 0
        for stride, start in zip(attr_dims(op, "strides"), starts, strict=True):
            ahead = ahead + stride * start
        at = self._moved(self.clones(base), ahead)
        return at, [self._moved(self.clones(v), -starts[d]) for d, v in zip(limited, limits, strict=True)]

    def _moved(self, value: Value, by: Dim) -> Value:
        if by == 0:
            return value
        name = "at"
        while name in symbols(by):
            name += "_"
        leaves = [n for n in self.origin.leaves if n in symbols(by)]
        operands = [value, *(self.clones(self.origin.leaves[n]) for n in leaves)]
        return self.builder(block.index, *operands, expr=sym(name) + by, names=(name, *leaves))
