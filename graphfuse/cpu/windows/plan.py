"""Which tiles are kept in memory, and which are computed anew for each window of them that is read.

A *root* is an op that needs all of its operands when it is reached: it writes, reduces, multiplies, or hands values to
another block. Everything between roots is *virtual*: a window of it can be computed from windows of its operands. A
virtual tile is kept all the same if that would be repeated at a cost, or if what it loads could be overwritten first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphfuse.codegen.arith import compute_elem
from graphfuse.dialects import block, control
from graphfuse.dialects.pointers import READS
from graphfuse.ir.core import Func, Op, Params, Trait, Value, attr_dims, tile_of
from graphfuse.ir.rewrite import places
from graphfuse.ir.types import Ptr, Scalar, Tile

MOVES = frozenset((block.const, block.splat, block.arange, block.broadcast, block.trans, block.index))
CHEAP = frozenset(
    f"block.{n}" for n in (
        "add", "sub", "mul", "neg", "abs", "max", "min", "and", "or", "xor", "not", "shl", "shr", "lt", "le", "gt",
        "ge", "eq", "ne", "select", "cast", "bitcast", "fma",
    )
)  # fmt: skip
"""Elementwise functions that may as well be computed twice."""
MANY_ROWS = 32
"""Of a product, for which its right factor is worth a copy."""
MOST = 4
"""Reductions of one walk: each holds a window of sums in registers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`kept` says in which element a tile is stored; `roots` which roots read a value, through virtual ones.

    `walks` has reductions that are made in one walk over the windows, by the first of them, which stands for all.
    """

    kept: Mapping[Value, Scalar]
    roots: Mapping[Value, frozenset[Op]]
    walks: Mapping[Op, tuple[Op, ...]]


def is_virtual(op: Op) -> bool:
    """Whether a window of its result can be computed from windows of its operands."""
    if len(op.types) != 1 or not isinstance(op.types[0], Tile):
        return False
    return op.kind in READS or op.kind in MOVES or op.has(Trait.ELEMENTWISE) or is_squeeze(op)


def is_squeeze(op: Op) -> bool:
    """Whether it is a reshape that only adds or removes dims of 1."""
    if op.kind is not block.reshape:
        return False
    before, after = (tile_of(v).shape for v in (op.operands[0], op.result))
    return [d for d in before if d != 1] == [d for d in after if d != 1]


def walks(ops: Iterable[Op]) -> dict[Op, tuple[Op, ...]]:
    """Reductions that stand side by side, by the first of them."""
    out: dict[Op, tuple[Op, ...]] = {}
    leader: Op | None = None
    for op in ops:
        if op.kind is not block.reduce:
            leader = None
        elif leader is not None and walks_along(leader, op) and len(out[leader]) < MOST:
            out[leader] = (*out[leader], op)
        else:
            leader, out[op] = op, (op,)
    return out


def walks_along(a: Op, b: Op) -> bool:
    """Whether two ops reduce tiles of one shape along one axis."""
    if not (a.kind is b.kind is block.reduce and a.attrs["axis"] == b.attrs["axis"]):
        return False
    return tile_of(a.operands[0]).shape == tile_of(b.operands[0]).shape


def tiles(values: tuple[Value, ...]) -> Iterator[Value]:
    """Those that are tiles."""
    return (v for v in values if isinstance(v.type, Tile))


def plan(func: Func) -> Plan:
    """Decide for every tile of a function."""
    return _Planner(func).run()


class _Planner:
    """Goes backward through a function, so that all readers of a value are known when its op is reached."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.places = places(func)
        self.kept: dict[Value, Scalar] = {}
        self.roots: dict[Value, set[Op]] = {}
        self.walks = walks(self.places)
        self.leaders = {op: leader for leader, walk in self.walks.items() for op in walk}
        self.repeated: set[Value] = set()
        """Tiles of which a window is computed for several windows of what reads it."""

    def run(self) -> Plan:
        """Visit every op, last first."""
        for op in reversed(self.places):
            if is_virtual(op):
                self._virtual(op)
            else:
                for v in tiles(op.operands):
                    self.roots.setdefault(v, set()).add(self.leaders.get(op, op))
        return Plan(self.kept, {v: frozenset(r) for v, r in self.roots.items()}, self.walks)

    def _virtual(self, op: Op) -> None:
        value = op.result
        roots = self.roots.get(value, set())
        if (elem := self._keep(op, roots)) is not None:
            self.kept[value] = elem
            roots = {op}
        grows = op.kind is block.broadcast and value.type != op.operands[0].type
        for v in tiles(op.operands):
            self.roots.setdefault(v, set()).update(roots)
            if value not in self.kept and (grows or value in self.repeated):
                self.repeated.add(v)

    def _keep(self, op: Op, roots: set[Op]) -> Scalar | None:
        """The element to keep a tile in, or None to leave it virtual."""
        tile = tile_of(op.result)
        products = {r for r in roots if r.kind is block.dot and op.result in r.operands[:2]}
        if products:
            wide = {compute_elem(block.elem_of(r.types[0])) for r in products}
            if len(products) == len(roots) and len(wide) == 1:
                elem = wide.pop()
                is_there = all(readable_by_product(op, r, elem) for r in products) and self._safe(op, roots)
                return None if is_there else elem
            return tile.elem
        if any(r.kind is block.reshape for r in roots if op.result in r.operands):
            return tile.elem
        if op.kind in READS and not self._safe(op, roots):
            return tile.elem
        is_costly = op.kind is block.load or (op.has(Trait.ELEMENTWISE) and op.kind.name not in CHEAP)
        if is_costly and (len(roots) > 1 or op.result in self.repeated or any(self._in_loop(op, r) for r in roots)):
            return tile.elem
        return None

    def _in_loop(self, op: Op, root: Op) -> bool:
        """Whether a root stands in a loop that the op does not stand in."""
        home = self.places[op].block
        while (place := self.places[root]).block is not home:
            assert place.parent is not None, "operands are in scope"
            root = place.parent
            if root.kind is not control.if_:
                return True
        return False

    def _safe(self, load: Op, roots: set[Op]) -> bool:
        """Whether nothing that is loaded can change before the last root has read it."""
        home = self.places[load]
        last = home.index
        for root in roots:
            top = root
            while self.places[top].block is not home.block:
                parent = self.places[top].parent
                assert parent is not None, "operands are in scope"
                top = parent
            if top is root and block.may_write(root) and self._clobbers(root, load):
                return False
            if top is not root and overwrites(self.func, top, load):
                return False
            last = max(last, self.places[top].index)
        return not any(overwrites(self.func, o, load) for o in home.block.ops[home.index + 1 : last])

    def _clobbers(self, store: Op, load: Op) -> bool:
        """Whether a store may write an element before a later window of the load reads it."""
        same_elements = store.operands[1] == load.operands[1] and (
            (store.kind, load.kind) == (block.store, block.load)
            or ((store.kind, load.kind) == (block.store_view, block.load_view)
                and attr_dims(store, "strides") == attr_dims(load, "strides"))
        )  # fmt: skip
        return not same_elements and may_overlap(self.func, store.operands[0], load.operands[0])


def readable_by_product(op: Op, product: Op, elem: Scalar) -> bool:
    """Whether a product can read what an op loads where it is: no conversion, rows of b contiguous.

    Many rows of a read b again and again: then its rows had better lie together than in a few sets of the cache.
    """
    tile = tile_of(op.result)
    if op.kind is not block.load_view or tile.elem != elem or op.attrs.get("other", 0) != 0:
        return False
    if op.result != product.operands[1]:
        return True
    strides = attr_dims(op, "strides")
    return strides[-1] == 1 and (tile_of(product.operands[0]).shape[-2] < MANY_ROWS or strides[-2] == tile.shape[-1])


def overwrites(func: Func, op: Op, load: Op) -> bool:
    """Whether an op, or one inside of it, may write what a load reads, or orders memory."""
    if op.bodies:
        return any(overwrites(func, o, load) for body in op.bodies for o in body.ops)
    if op.kind in (block.store, block.store_view):
        return may_overlap(func, op.operands[0], load.operands[0])
    return block.may_write(op)


def memory_root(pointer: Value) -> Value:
    """The parameter or allocation that a pointer points into."""
    while (op := pointer.op) is not None and op.kind is block.offset:
        pointer = op.operands[0]
    return pointer


def may_overlap(func: Func, a: Value, b: Value) -> bool:
    """Whether two pointers may point to the same element, as `cpu.lower` tells LLVM."""
    a, b = memory_root(a), memory_root(b)
    if a == b or not all(_is_known(v) for v in (a, b)):
        return True
    if not (isinstance(a.owner, Params) and isinstance(b.owner, Params)):
        return False
    if block.alone(func).isdisjoint({a.hint, b.hint}):
        return True
    pairs = func.attrs.get("inplace", ())
    assert isinstance(pairs, tuple), "pairs of parameter numbers"
    return (a.index, b.index) in pairs or (b.index, a.index) in pairs


def _is_known(root: Value) -> bool:
    return isinstance(root.type, Ptr) and (root.op is None or root.op.kind is block.alloc)
