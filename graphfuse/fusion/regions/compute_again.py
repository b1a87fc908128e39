"""Computes cheap results of a kernel again where they are read, from what takes fewer bytes.

    %c, %s = graph.region(%x) do (%h: tensor<64x512xbf16>) {
      %w = graph.cast(%h) {to = f32}
      %m = graph.reduce(%w) {axes = [0], kind = "sum"}
      yield(%w, %m)
    } : tensor<64x512xf32>, tensor<1x512xf32>
    %v = graph.region(%c, %s) do (%w: tensor<64x512xf32>, %m: tensor<1x512xf32>) { ... }

becomes

    %s = graph.region(%x) do (%h: tensor<64x512xbf16>) { ... yield(%m) } : tensor<1x512xf32>
    %v = graph.region(%x, %s) do (%h: tensor<64x512xbf16>, %m: tensor<1x512xf32>) {
      %w = graph.cast(%h) {to = f32}
      ...
    }

A result may be made of operands of its region, of other results, and of what is stored in its place: a half that it
widens, what a row was reduced to. A kernel that is left with no results is none, which is worth the bytes that its
launch takes.

Requires: regions. Ensures: the same values, fewer bytes read and written. Cost: one walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.dataflow import operands_inside, root_of
from graphfuse.fusion.regions.outline import Kernels
from graphfuse.ir.core import Block, Func, Op, Params, Trait, Value, made_of, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.printer import attrs_text
from graphfuse.ir.remake import Copier, Remaker
from graphfuse.ir.rewrite import Replacement, common_subexpressions, rebuild
from graphfuse.symbolic import evaluate, product, sym, symbols, typical

VIEWS = frozenset({graph.reshape, graph.permute, graph.broadcast})
PARTS = frozenset({graph.slice_, graph.concat, graph.pad, graph.flip})
"""What else reads an element once, or not at all."""
FILLS = frozenset({graph.full, graph.iota})
PRODUCTS = frozenset({graph.contract, graph.conv})
KINDS = frozenset({"pointwise", "reduction", "contraction"})
"""Regions that compute what they read at any index, but for what they multiply."""
MOST_OPS = 24
"""Elementwise ops that are made again for a result."""


@passing("regions")
def compute_again(func: Func, *, launch_bytes: int = 0) -> Func:
    """Compute results again where that takes fewer bytes than to store them, or to launch a kernel for them."""
    again = _Again(func, launch_bytes)
    made = again.run()
    if not again.made:
        return func
    kernels = Kernels()

    def named(op: Op) -> Replacement | None:
        if op.kind is not graph.region:
            return None
        return replace(op, attrs={**op.attrs, "kernel": kernels.name(str(op.attrs["kind"]), op.body)})

    return rebuild(common_subexpressions(made), named)


@dataclass(frozen=True, slots=True)
class _Made:
    """A result as a value of its region, and what that is made of: values in memory, for those of the region."""

    value: Value
    of: Mapping[Value, Value]


class _Again(Remaker):
    """Copies a function, whose regions compute again what others would store for them."""

    def __init__(self, func: Func, launch_bytes: int) -> None:
        super().__init__(func)
        self.launch_bytes = launch_bytes
        self.made: dict[Value, _Made] = {}
        """Results of old regions that are stored no more."""
        self.readers: dict[Value, list[Op]] = {}
        for op in func.body.ops:
            for v in dict.fromkeys(operands_inside(op)):
                self.readers.setdefault(v, []).append(op)

    def op(self, op: Op) -> None:
        """Place a region that stores only what is not computed again."""
        if op.kind is not graph.region or op.attrs["kind"] not in KINDS or "in_place" in op.attrs:
            self.copy(op)
            return
        new = self._reading(op)
        choice = _Choice(new, self.nbytes, self.launch_bytes)
        for i, v in enumerate(op.results):
            readers = self.readers.get(v, [])
            if readers and all(_computes(r, v) for r in readers):
                choice.try_without(i, [self.read(r) for r in readers])
        if not choice.made:
            self.builder.append(new)
            self.values.update(zip(op.results, new.results, strict=True))
            return
        stored = self._placed(new, choice.stored)
        at_hand = {**dict(zip(new.body.params.values, new.operands, strict=True)), **stored}
        for i, v in enumerate(op.results):
            if i in choice.made:
                value, of = choice.made[i]
                self.made[v] = _Made(value, {w: at_hand[w] for w in of})
            else:
                self.values[v] = stored[new.body.terminator.operands[i]]

    def nbytes(self, value: Value) -> int:
        """Of a tensor, typically."""
        size = tensor_of(value).nbytes
        return evaluate(size, {name: typical(sym(name), self.func.ranges) for name in symbols(size)})

    def read(self, op: Op) -> dict[Value, None]:
        """The memory that an old region reads, as far as it is known yet."""
        found: dict[Value, None] = {}
        for v in op.operands:
            found.update(dict.fromkeys(self.made[v].of.values() if v in self.made else (self.new(v),)))
        return found

    def _reading(self, op: Op) -> Op:
        """A region that computes of memory what others computed for it."""
        if not any(v in self.made for v in op.operands):
            return replace(op, operands=tuple(map(self.new, op.operands)))
        operands = tuple(self.read(op))
        params = Params(tuple(v.type for v in operands))
        at = dict(zip(operands, params.values, strict=True))
        copier = Copier()
        for p, v in zip(op.body.params.values, op.operands, strict=True):
            if (made := self.made.get(v)) is None:
                copier.values[p] = at[self.new(v)]
                continue
            inner = Copier()
            inner.builder = copier.builder
            inner.values.update((w, at[m]) for w, m in made.of.items())
            for o in _cone(made.value, made.of):
                inner.copy(o)
            copier.values[p] = inner.new(made.value)
        for o in op.body.ops:
            copier.copy(o)
        return _with(op, operands, copier.builder.block(params))

    def _placed(self, region: Op, stored: Sequence[Value]) -> dict[Value, Value]:
        """A region that stores these of its values, and nothing else; none for none."""
        if not stored:
            return {}
        needed = {w for v in stored for w in made_of(v)}
        read = [(p, v) for p, v in zip(region.body.params.values, region.operands, strict=True) if p in needed]
        params = Params(tuple(p.type for p, _ in read))
        copier = Copier()
        copier.values.update(zip((p for p, _ in read), params.values, strict=True))
        for o in region.body.ops[:-1]:
            if not needed.isdisjoint(o.results):
                copier.copy(o)
        copier.builder.append(control.yield_(*map(copier.new, stored)))
        new = self.builder.append(_with(region, [v for _, v in read], copier.builder.block(params)))
        return dict(zip(stored, new.results, strict=True))


def _with(region: Op, operands: Sequence[Value], body: Block) -> Op:
    kernel, kind = str(region.attrs["kernel"]), str(region.attrs["kind"])
    return graph.region(*operands, kernel=kernel, kind=kind, bodies=(body,), loc=region.loc)


@dataclass
class _Orders:
    """Numbers of values that are computed alike, element by element in their order, whatever their shapes."""

    numbers: dict[object, int] = field(default_factory=dict[object, int])
    of: dict[Value, int] = field(default_factory=dict[Value, int])

    def number(self, value: Value) -> int:
        """Of a value: equal ones have equal elements in their order."""
        if value not in self.of:
            base = root_of(value)
            self.of[value] = (
                self.numbers.setdefault(self._key(value), len(self.numbers)) if base == value else self.number(base)
            )
        return self.of[value]

    def _key(self, value: Value) -> object:
        op, size = value.op, product(tensor_of(value).shape)
        if op is None or len(op.types) != 1:
            return value
        if op.kind is graph.full:
            return size, attrs_text({**op.attrs, "shape": ()})
        if op.kind is graph.broadcast:
            (x,), to = op.operands, tensor_of(value).shape
            have = (*(1 for _ in range(len(to) - len(tensor_of(x).shape))), *tensor_of(x).shape)
            kept = [i for i, d in enumerate(have) if d != 1] or [0]
            whole = have[kept[0] : kept[-1] + 1] == to[kept[0] : kept[-1] + 1]
            return (size, product(to[kept[-1] + 1 :]), self.number(x)) if whole else value
        if not op.has(Trait.ELEMENTWISE):
            return value
        return (op.kind, attrs_text(op.attrs), *map(self.number, op.operands))


@dataclass
class _Choice:
    """Which results of a region are computed again, and what it stores."""

    region: Op
    nbytes: Callable[[Value], int]
    launch_bytes: int
    made: dict[int, tuple[Value, Sequence[Value]]] = field(default_factory=dict[int, "tuple[Value, Sequence[Value]]"])
    """Results by number, and what they are made of."""
    stored: list[Value] = field(init=False)
    orders: _Orders = field(default_factory=_Orders)
    pinned: set[Value] = field(default_factory=set[Value])
    """What others are made of, and is to stay."""

    def __post_init__(self) -> None:
        self.params = dict(zip(self.region.body.params.values, self.region.operands, strict=True))
        self.stored = list(dict.fromkeys(self.region.body.terminator.operands))
        self.shapes = {product(tensor_of(v).shape) for v in self.stored}

    def try_without(self, number: int, readers: Sequence[Collection[Value]]) -> None:
        """Leave out a result that takes more bytes than what it is made of; `readers` have what each reads anyway."""
        value = self.region.body.terminator.operands[number]
        if value in self.pinned or value.op is None or self.region.body.terminator.operands.count(value) > 1:
            return
        if (same := self._same(value)) is not None:
            best = _Sources([same], 0)
            self.made[number] = graph.reshape(same, shape=tensor_of(value).shape).result, best.of
        else:
            best = _Cut(self, value, readers).sources(value)
            if best is None or best.bytes >= self.nbytes(value) * (1 + len(readers)) + self._launched(value, best.of):
                return
            if sum(o.has(Trait.ELEMENTWISE) for o in _cone(value, best.of)) > MOST_OPS:
                return
            self.made[number] = value, best.of
        self.stored.remove(value)
        for w in best.of:
            if w in self.params:
                continue
            self.pinned.add(w)
            if w not in self.stored:
                self.stored.append(w)

    def _launched(self, value: Value, of: Sequence[Value]) -> int:
        """Bytes that could be moved while a kernel is launched, if there would be none."""
        return self.launch_bytes if self.stored == [value] and all(v in self.params for v in of) else 0

    def _same(self, value: Value) -> Value | None:
        """What is stored and has the same elements in their order."""
        elem, number = tensor_of(value).elem, self.orders.number(value)
        alike = (w for w in self.stored if w != value and tensor_of(w).elem == elem)
        return next((w for w in alike if self.orders.number(w) == number), None)


@dataclass(frozen=True, slots=True)
class _Sources:
    """Values that one is made of, and the bytes that it takes to have them."""

    of: Sequence[Value]
    bytes: int


@dataclass
class _Cut:
    """The cheapest values that one result is made of."""

    choice: _Choice
    result: Value
    readers: Sequence[Collection[Value]]
    found: dict[Value, _Sources | None] = field(default_factory=dict[Value, "_Sources | None"])

    def sources(self, value: Value) -> _Sources | None:
        """Of a value that leads to the result."""
        if value not in self.found:
            ways = [w for w in (self._as_memory(value), self._made(value)) if w is not None]
            self.found[value] = min(ways, key=lambda w: w.bytes, default=None)
        return self.found[value]

    def cost(self, value: Value) -> int | None:
        """Bytes that it takes to have a value in memory; None if it cannot be."""
        nbytes = self.choice.nbytes(value)
        if (memory := self.choice.params.get(value)) is not None:
            return nbytes * sum(memory not in r for r in self.readers)
        if value in self.choice.stored:
            return nbytes * len(self.readers)
        is_result = product(tensor_of(value).shape) in self.choice.shapes
        is_row = value.op is not None and value.op.kind is graph.reduce
        return nbytes * (1 + len(self.readers)) if is_result or is_row else None

    def _as_memory(self, value: Value) -> _Sources | None:
        if value == self.result or (value.op is not None and value.op.kind in FILLS):
            return None
        cost = self.cost(value)
        return None if cost is None else _Sources([value], cost)

    def _made(self, value: Value) -> _Sources | None:
        op = value.op
        if op is None or len(op.types) != 1 or not (op.has(Trait.ELEMENTWISE) or op.kind in VIEWS | FILLS):
            return None
        parts = [self.sources(v) for v in op.operands]
        if any(p is None for p in parts):
            return None
        of = list(dict.fromkeys(v for p in parts if p is not None for v in p.of))
        return _Sources(of, sum(self.cost(v) or 0 for v in of))


def _cone(value: Value, ends: Collection[Value]) -> Iterable[Op]:
    """The ops that make a value of these, in their order."""
    found: dict[Op, None] = {}

    def visit(v: Value) -> None:
        if v in ends or v.op is None or v.op in found:
            return
        for o in v.op.operands:
            visit(o)
        found[v.op] = None

    visit(value)
    return found


def _computes(reader: Op, value: Value) -> bool:
    """Whether a region reads a value at the places of its own elements, and multiplies nothing by it."""
    if reader.kind is not graph.region or reader.attrs["kind"] not in KINDS or "in_place" in reader.attrs:
        return False
    body = reader.body
    read = {p for p, v in zip(body.params.values, reader.operands, strict=True) if v == value}
    for op in body.ops[:-1]:
        if read.isdisjoint(op.operands):
            continue
        if op.kind in VIEWS | PARTS:
            read.update(op.results)
        elif not op.has(Trait.ELEMENTWISE) and op.kind is not graph.reduce:
            return False
    factors = {w for op in body.ops if op.kind in PRODUCTS for v in op.operands for w in made_of(v)}
    return factors.isdisjoint(read)
