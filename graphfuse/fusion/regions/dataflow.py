"""A read-only view of a block's dataflow, seen through the ops that fusion treats as index maps.

*Transparent* ops (reshape, permute, slice, broadcast, flip, fills, iota, and arithmetic on nothing but those; for a GPU
also arithmetic on short rows of inputs, such as biases) are never kernels of their own: they are copied into every
region that reads through them. So are casts of bytes that are stored in any case, and arithmetic on those and fills;
and look-ups of whole matrices, each of which one place of a contraction's outer dims multiplies (`picks_matrices`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphfuse.dialects import graph
from graphfuse.ir.core import Block, Op, Trait, Value, attr_int, attr_ints, dims_of, tensor_of, walk
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim

_VIEWS = frozenset({graph.reshape, graph.permute, graph.slice_, graph.broadcast, graph.stretch, graph.flip})
_TAPS = frozenset({graph.reduce_window, graph.slice_})
"""What reads an element for each of several windows."""
_ARITHMETIC = frozenset({graph.add, graph.sub, graph.mul})
IN_MEMORY = frozenset({graph.constant, graph.empty})
"""What no kernel makes."""
_GENERATORS = frozenset({graph.full, graph.iota})
MOST_JOINED = 4
"""Of an index into so many dims, each part is computed where it is used."""
MOST_REPEATED_OPS = 12
"""Batch norm makes two rows of four, in six ops and a cast of each."""


Source = tuple[Value, tuple[Op, ...]]
"""A value, and the transparent ops through which it is read."""


@dataclass
class Dataflow:
    """Uses and transparency of one block's ops."""

    block: Block
    reads_padded: bool = False
    """Whether convolutions and windows read through the padding of their input: a GPU loads it masked at no cost.

    A CPU's windows do where vectors lie along another dim than is padded.
    """
    computes_places: bool = False
    """Whether scatters compute indices that they read once."""
    most_repeated: int = 0
    """Elementwise work on rows of inputs with at most so many elements is done again by all that read the results.

    A little of it: no more than `MOST_REPEATED_OPS` for a value.
    """
    uses: dict[Value, list[Op]] = field(default_factory=lambda: defaultdict(list))
    generated: set[Value] = field(default_factory=set[Value])
    """Values computed from fills and iotas alone: cheaper to compute again than to read."""
    repeated: set[Value] = field(default_factory=set[Value])
    """Values that `most_repeated` allows: they would be kernels shorter than their launch."""
    widened: set[Value] = field(default_factory=set[Value])
    """What bytes in memory are dequantised to: four times the bytes, and cheaper to compute again than to read."""
    copied: set[Op] = field(default_factory=set[Op])
    """Permutes that a CPU writes down: vectors of what reads them more than once would be loaded one by one."""
    _sources: dict[Value, list[Source]] = field(default_factory=dict[Value, "list[Source]"])
    _readers: dict[Value, list[Op]] = field(default_factory=dict[Value, "list[Op]"])

    def __post_init__(self) -> None:
        for op in self.block.ops:
            for v in dict.fromkeys(operands_inside(op)):
                self.uses[v].append(op)
            cheap = _cheap(op) or (op.kind is graph.concat and len(op.operands) <= MOST_JOINED)
            if op.kind in _GENERATORS or (cheap and all(v in self.generated for v in op.operands)):
                self.generated.update(op.results)
        for op in self.block.ops:
            if self._widens(op):
                self.widened.update(op.results)
        if self.most_repeated:
            self._find_repeated()
        if not self.reads_padded:
            turned = filter(_turns, self.block.ops)
            self.copied = {op for op in turned if self._turns_for_taps(op) or self._turns_for_rows(op)}

    def _widens(self, op: Op) -> bool:
        """Whether an op casts bytes that something else than elementwise work reads too, or is arithmetic on such."""
        if not op.has(Trait.ELEMENTWISE) or len(op.types) != 1 or op.result in self.generated:
            return False
        if op.kind is graph.cast:
            (x,) = op.operands
            if x in self.widened:
                return True
            elem, to = tensor_of(x).elem, tensor_of(op.result).elem
            if not elem.is_integer or elem.bits != 8 or to.bits < 32 or x.op is None or x.op.kind in _VIEWS:
                return False
            return any(not user.has(Trait.ELEMENTWISE) for user in self.uses[x])
        inside = [v for v in op.operands if v in self.widened]
        return op.kind in _ARITHMETIC and len(inside) == 1 and len(set(op.operands) - self.generated) == 1

    def _find_repeated(self) -> None:
        joined = set[Value]()

        def joins(user: Op) -> bool:
            """Whether a user is elementwise work, or a view that only such work reads."""
            return user.has(Trait.ELEMENTWISE) or (user.kind in _VIEWS and user.result in joined)

        for op in reversed(self.block.ops):
            joined.update(v for v in op.results if self.uses[v] and all(map(joins, self.uses[v])))
        work = {v: 0 for v in self.block.params.values if self._is_row(v)}  # of rows that are at hand
        for op in self.block.ops:
            if len(op.types) != 1 or not self._is_row(op.result):
                continue
            if op.kind is graph.constant:
                work[op.result] = 0
                continue
            read = [v for v in op.operands if v not in self.generated]
            if not work.keys() >= set(read):
                continue
            ops = sum(work[v] for v in read)
            if op.kind in _VIEWS:
                work[op.result] = ops
            elif op.has(Trait.ELEMENTWISE) and op.result in joined and ops < MOST_REPEATED_OPS:
                work[op.result] = ops + 1
                self.repeated.add(op.result)

    def _is_row(self, value: Value) -> bool:
        """Whether a value has few elements, all along one dim."""
        if not isinstance(value.type, Tensor):
            return False
        long = [d for d in value.type.shape if d != 1]
        return not long or (len(long) == 1 and isinstance(long[0], int) and long[0] <= self.most_repeated)

    def is_transparent(self, op: Op) -> bool:
        """Whether `op` is an index map (or generates its value from indices) rather than work."""
        if len(op.types) != 1:
            return False
        if op.kind is graph.permute and op in self.copied:
            return False
        if op.kind in _VIEWS or op.result in self.generated or op.result in self.repeated or op.result in self.widened:
            return True
        if op.kind is graph.take:
            return self.picks_matrices(op)
        if op.kind is graph.pad:
            return self._pads_windows(op) or (self.reads_padded and self._fills_parts(op))
        return self.reads_padded and op.kind is graph.cast and self._widens_windows(op)

    def picks_matrices(self, op: Op) -> bool:
        """Whether an op looks up factors of contractions by outer dims that both factors have: read where they lie."""
        axis, count = attr_int(op, "axis"), tensor_of(op.operands[1]).rank
        users = self.uses[op.result]
        return bool(users) and all(_is_outer(user, op.result, range(axis, axis + count)) for user in users)

    def _turns_for_taps(self, op: Op) -> bool:
        """Whether an op puts channels last for depthwise convolutions, which read each element more than once.

        A CPU would load the channels of a vector one by one each time.
        """
        users = list(self._past_reshapes(op.result))
        return bool(users) and all(map(is_depthwise, users))

    def _turns_for_rows(self, op: Op) -> bool:
        """Whether rows that are walked more than once are made of what an op turns, element by element."""
        seen, stack, walks = set[Op](), [op.result], 0
        while stack:
            for user in self.uses[stack.pop()]:
                if user in seen:
                    continue
                seen.add(user)
                if user.has(Trait.ELEMENTWISE) or user.kind is graph.reshape:
                    stack += user.results
                else:
                    walks += user.kind is graph.reduce
        return walks > 1

    def _past_reshapes(self, value: Value) -> Iterator[Op]:
        """What reads a value as it is or under another shape."""
        for user in self.uses[value]:
            if user.kind is graph.reshape:
                yield from self._past_reshapes(user.result)
            else:
                yield user

    def _fills_parts(self, op: Op) -> bool:
        """Whether an op grows one dim behind, which is read in parts alone."""
        axes = [i for i, d in enumerate(dims_of(op.attrs["high"])) if d != 0]
        if op.attrs.get("mode", "constant") != "constant" or any(dims_of(op.attrs["low"])) or len(axes) != 1:
            return False
        (axis,), shape, users = axes, tensor_of(op.result).shape, self.uses[op.result]
        before, behind = shape[:axis], shape[axis + 1 :]

        def is_in_parts(seen: tuple[Dim, ...]) -> bool:
            return len(seen) == len(shape) + 1 and (*seen[:axis], *seen[axis + 2 :]) == (*before, *behind)

        return bool(users) and all(u.kind is graph.reshape and is_in_parts(tensor_of(u.result).shape) for u in users)

    def _widens_windows(self, op: Op) -> bool:
        """Whether an op casts to more bytes what windows alone read: a cast for each tap is less than to store them."""
        read, to = (tensor_of(v).elem for v in (op.operands[0], op.result))
        users = [
            u for user in self.uses[op.result] for u in (self.uses[user.result] if user.kind is graph.pad else [user])
        ]
        return read.bytes < to.bytes and bool(users) and all(u.kind in _TAPS for u in users)

    def _pads_windows(self, op: Op) -> bool:
        """Whether an op pads what windows alone read through it."""
        users = self.uses[op.result]
        image = root_of(op.operands[0])
        ends = (*dims_of(op.attrs["low"])[-1:], *dims_of(op.attrs["high"])[-1:])
        if not self.reads_padded and (any(ends) or (image.op is not None and _turns(image.op))):
            return False  # vectors would be masked, or loaded element by element for each tap

        def reads(user: Op) -> bool:
            """Whether it may read through; a product whose channels were padded would load no vectors."""
            multiplies = user.kind is graph.conv and graph.pads_positions(op)
            is_window = multiplies and (self.reads_padded or is_depthwise(user))
            is_tap = self.reads_padded and user.kind is graph.slice_ and len(users) > 1
            is_window = is_window or user.kind is graph.reduce_window or is_tap
            return is_window and op.result not in user.operands[1:]

        return bool(users) and all(map(reads, users))

    def sources(self, value: Value) -> list[Source]:
        """The values in memory (or computed by work) that `value` reads, each with the transparent ops passed.

        The ops stand in order from `value` inward.
        """
        if (found := self._sources.get(value)) is None:
            found = self._sources[value] = []
            self._visit(value, (), found)
        return found

    def _visit(self, value: Value, path: tuple[Op, ...], found: list[Source]) -> None:
        if (op := value.op) is None or not self.is_transparent(op):
            found.append((value, path))
            return
        for operand in op.operands:
            self._visit(operand, (*path, op), found)

    def readers(self, value: Value) -> list[Op]:
        """The ops doing work (or the terminator) that read `value`, directly or through transparent ops."""
        if (found := self._readers.get(value)) is None:
            found = self._readers[value] = list(self._reading(value))
        return found

    def _reading(self, value: Value) -> Iterator[Op]:
        seen: set[Op] = set()
        stack = list(self.uses.get(value, ()))
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if not op.has(Trait.TERMINATOR) and self.is_transparent(op):
                stack += self.uses.get(op.result, ())
            else:
                yield op


def is_in_place(op: Op) -> bool:
    """Whether an op changes its first operand where that lies."""
    return op.kind in graph.SCATTERS and not op.attrs.get("whole", False)


def _is_outer(op: Op, factor: Value, axes: Sequence[int]) -> bool:
    """Whether dims of a contraction's factor are dims of the other factor and of the result as well."""
    if op.kind is not graph.contract or op.operands.count(factor) != 1:
        return False
    *both, out = graph.parse_spec(str(op.attrs["spec"]))
    labels = both.pop(op.operands.index(factor))
    return len(labels) > len(axes) + 1 and all(labels[a] in both[0] and labels[a] in out for a in axes)


def _turns(op: Op) -> bool:
    """Whether an op permutes dims so that others are neighbours in memory."""
    return op.kind is graph.permute and attr_ints(op, "perm")[-1:] != (len(attr_ints(op, "perm")) - 1,)


def is_depthwise(op: Op) -> bool:
    """Whether each channel has a window of its own, and no other."""
    if op.kind is not graph.conv or (groups := attr_int(op, "groups", 1)) == 1:
        return False
    return tensor_of(op.operands[1]).shape[-2:] == (1, groups)


def _cheap(op: Op) -> bool:
    return bool(op.operands) and len(op.types) == 1 and (op.has(Trait.ELEMENTWISE) or op.kind in _VIEWS)


def operands_inside(op: Op) -> list[Value]:
    """The operands of an op and of everything in its bodies (which may read values from around it)."""
    out = list(op.operands)
    for body in op.bodies:
        for inner in walk(body):
            out += inner.operands
    return out


def regions_of(block: Block) -> Iterator[Op]:
    """The regions of a block, and of the bodies of its loops, which are kernels: not those inside of others."""
    for op in block.ops:
        if op.kind is graph.region:
            yield op
        else:
            for body in op.bodies:
                yield from regions_of(body)


def root_of(value: Value) -> Value:
    """The value whose memory a chain of reshapes names."""
    while value.op is not None and value.op.kind is graph.reshape:
        value = value.op.operands[0]
    return value
