"""What a function does with its product, again for some columns of it: tiles narrow enough to live beside the rest.

Starting from the value a store writes, ops are made anew in the layout that is asked of them: memory is read by the
threads that need it, and no data moves between threads.
"""

from __future__ import annotations

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms.assign_layouts import project
from graphfuse.ir.core import Attr, Builder, Op, Trait, Value, attr_dims, attr_int, attr_ints, remade
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import Tile
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
            if op is None or not op.has(Trait.PURE) or isinstance(value.type, Tile):
                raise Declined(f"a scalar comes from {op.kind.name if op else 'a body'}")
            operands = [self(v) for v in op.operands]
            new = op.kind.build(operands, op.attrs, hint=value.hint, loc=op.loc)
            self._known[value] = self.builder.append(new).results[value.index]
        return self._known[value]


class Chunk:
    """The columns `start .. start + width` of the function's tiles."""

    def __init__(self, clones: Clones, product: Value, acc: Value, start: int, width: int) -> None:
        self.clones, self.builder = clones, clones.builder
        self.product, self.acc = product, acc
        """The product in the old function and in the new one."""
        self.start, self.width = start, width
        self._made: dict[tuple[Value, int | None, LinearLayout], Value] = {}

    def tile(self, value: Value, cut: int | None, layout: LinearLayout) -> Value:
        """A tile in a layout; `cut` is the dim that only these columns are wanted of."""
        key = (value, cut, layout)
        if key not in self._made:
            self._made[key] = self._make(value, cut, layout)
        return self._made[key]

    def _make(self, value: Value, cut: int | None, layout: LinearLayout) -> Value:
        b, op, old = self.builder, value.op, value.type
        assert isinstance(old, Tile)
        shape = tuple(self.width if d == cut else n for d, n in enumerate(old.shape))
        if value == self.product:
            if cut != 1:
                raise Declined("the product is read in another shape")
            return b(gpu.columns, self.acc, start=self.start, layout=layout)
        if op is None:
            raise Declined("a tile comes from outside")
        if op.kind in (block.const, block.splat):
            operands = [self.clones(v) for v in op.operands]
            return self._add(op, operands, shape=shape, layout=layout)
        if op.has(Trait.ELEMENTWISE) or op.kind is block.index:
            operands = [self.tile(v, cut, layout) if isinstance(v.type, Tile) else self.clones(v) for v in op.operands]
            return self._add(op, operands)
        if op.kind is block.broadcast:
            return self._broadcast(op, cut, shape, layout)
        if op.kind is block.reshape:
            return self._reshape(op, cut, shape, layout)
        if op.kind is block.arange:
            first = attr_int(op, "start") + (self.start if cut == 0 else 0)
            return self._add(op, [], start=first, end=first + shape[0], layout=layout)
        if op.kind is block.load_view:
            pointer, base, *limits = op.operands
            at, cuts = self.view(op, cut, base, limits)
            return self._add(op, [self.clones(pointer), at, *cuts], shape=shape, layout=layout)
        raise Declined(f"{op.kind.name} after the product")

    def _add(self, op: Op, operands: list[Value], **changes: Attr) -> Value:
        return self.builder.append(remade(op, *operands, **changes)).result

    def _broadcast(self, op: Op, cut: int | None, shape: tuple[int, ...], layout: LinearLayout) -> Value:
        source = op.operands[0].type
        assert isinstance(source, Tile)
        inner = cut if cut is not None and source.shape[cut] > 1 else None
        narrow = Tile(tuple(self.width if d == inner else n for d, n in enumerate(source.shape)), source.elem)
        operand = self.tile(op.operands[0], inner, project(layout, narrow.padded_shape))
        return self._add(op, [operand], shape=shape, layout=layout)

    def _reshape(self, op: Op, cut: int | None, shape: tuple[int, ...], layout: LinearLayout) -> Value:
        """Dims of size 1 come and go; the layout goes along."""
        source, target = op.operands[0].type, op.types[0]
        assert isinstance(source, Tile)
        assert isinstance(target, Tile)
        before = [d for d, n in enumerate(source.shape) if n > 1]
        after = [d for d, n in enumerate(target.shape) if n > 1]
        if [source.shape[d] for d in before] != [target.shape[d] for d in after]:
            raise Declined("a reshape mixes dims")
        inner = before[after.index(cut)] if cut in after else None
        narrow = Tile(tuple(self.width if d == inner else n for d, n in enumerate(source.shape)), source.elem)
        operand = self.tile(op.operands[0], inner, layout.reshape(narrow.padded_shape))
        return self._add(op, [operand], shape=shape)

    def view(self, op: Op, cut: int | None, base: Value, limits: list[Value]) -> tuple[Value, list[Value]]:
        """Base and limits of a strided view of these columns."""
        limited = attr_ints(op, "limited") if "limited" in op.attrs else ()
        at = self.clones(base)
        if cut is not None:
            at = self._moved(at, attr_dims(op, "strides")[cut] * self.start)
        return at, [
            self._moved(self.clones(v), -self.start if d == cut else 0) for d, v in zip(limited, limits, strict=True)
        ]

    def _moved(self, value: Value, by: Dim) -> Value:
        if by == 0:
            return value
        name = "at"
        while name in symbols(by):
            name += "_"
        return self.builder(block.index, value, expr=sym(name) + by, names=(name,))
