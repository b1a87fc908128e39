"""Layouts: which register of which thread holds which element, as linear maps over the bits of indices.

A `LinearLayout` maps the bits of named inputs (register, lane, warp, block; for memory: offset) to the bits of a
tile's coordinates, and `L(x ^ y) = L(x) ^ L(y)`. So it is the images of single bits, its bases, and products,
inverses, conversion and bank conflicts are linear algebra over GF(2) instead of a special case per family
(`layout_families`). Why: docs/adr/0007-layouts-are-linear-maps.md. Sizes are powers of two. Knows no op and no target.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from graphfuse.errors import VerifyError

REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"
HARDWARE = (REGISTER, LANE, WARP, BLOCK, OFFSET)

# vectors over GF(2) are ints, matrices are lists of columns


def xor_columns(columns: Iterable[int], x: int) -> int:
    """The product of a matrix and a vector: the sum of the columns that the bits of `x` select."""
    total = 0
    for i, column in enumerate(columns):
        if x >> i & 1:
            total ^= column
    return total


class Echelon:
    """Columns reduced so that each pivot bit leads one vector; remembers which columns made each vector.

    A column that depends on earlier ones adds no pivot, so solutions prefer early columns.
    """

    def __init__(self, columns: Sequence[int] = ()) -> None:
        self._pivots: dict[int, tuple[int, int]] = {}
        self._count = 0
        for column in columns:
            self.add(column)

    def add(self, column: int) -> bool:
        """Append a column; False when it depends on those before it."""
        rest, used = self._reduce(column)
        used ^= 1 << self._count
        self._count += 1
        if rest:
            self._pivots[rest.bit_length()] = (rest, used)
        return bool(rest)

    def _reduce(self, y: int) -> tuple[int, int]:
        used = 0
        # pivots are visited from the top: a lower one never disturbs a higher bit
        while y and (pivot := self._pivots.get(y.bit_length())):
            y, used = y ^ pivot[0], used ^ pivot[1]
        return y, used

    def solve(self, y: int) -> int | None:
        """The set of columns (a bit mask) that add up to `y`, or None when `y` is outside their span."""
        rest, used = self._reduce(y)
        return None if rest else used

    def __contains__(self, y: int) -> bool:
        return self.solve(y) is not None

    @property
    def rank(self) -> int:
        """How many columns are independent."""
        return len(self._pivots)

    @property
    def basis(self) -> tuple[int, ...]:
        """A basis of the span, leading bits ascending."""
        return tuple(vector for _, (vector, _) in sorted(self._pivots.items()))


def null_space(columns: Sequence[int]) -> tuple[int, ...]:
    """A basis of the x for which the columns selected by x add up to zero."""
    echelon = Echelon()
    out: list[int] = []
    for i, column in enumerate(columns):
        known = echelon.solve(column)
        if known is not None:
            out.append(known | 1 << i)
        echelon.add(column)
    return tuple(out)


def intersection(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """A basis of span(a) ∩ span(b); vectors that both lists name come first, in a's order."""
    named = [v for v in a if v in set(b)]
    shared = [xor_columns(a, x & (1 << len(a)) - 1) for x in null_space([*a, *b])]
    found = Echelon()
    return tuple(v for v in (*named, *shared) if found.add(v))


def log2(n: int, what: str = "a size") -> int:
    """The exponent of a power of two."""
    if n < 1 or n & n - 1:
        raise VerifyError(f"layout: {what} must be a power of two, got {n}")
    return n.bit_length() - 1


def dim_name(i: int) -> str:
    """What output dim `i` of a tile is called."""
    return f"dim{i}"


def _input_order(name: str) -> tuple[int, int, list[int]]:
    if name in HARDWARE:
        return HARDWARE.index(name), 0, []
    # inverses have tile dims as inputs: the last dim is the least significant, as in a flat index
    return len(HARDWARE), -len(name), [-ord(c) for c in name]


@dataclass(frozen=True, slots=True)
class LinearLayout:
    """A linear map from the bits of named inputs to the bits of named outputs.

    `ins` gives, per input, the image of each of its bits, low bit first. Images are packed: the last output is
    in the low bits, so for a tile an image is the row-major number of an element. Inputs without bits are left
    out and inputs are in a fixed order, which makes equality of maps equality of objects.
    """

    ins: tuple[tuple[str, tuple[int, ...]], ...]
    outs: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        kept = ((name, tuple(bases)) for name, bases in self.ins if bases)
        object.__setattr__(self, "ins", tuple(sorted(kept, key=lambda item: _input_order(item[0]))))
        assert len(dict(self.ins)) == len(self.ins), "an input is given twice"
        end = 1 << self.out_bits
        assert all(0 <= b < end for _, bases in self.ins for b in bases), "a base leaves the outputs"

    # construction

    @staticmethod
    def of(ins: Mapping[str, Sequence[int]], outs: Mapping[str, int]) -> LinearLayout:
        """From packed bases, and the number of bits of each output."""
        return LinearLayout(tuple((k, tuple(v)) for k, v in ins.items()), tuple(outs.items()))

    @staticmethod
    def from_vectors(ins: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
        """From bases written as coordinates, into a tile of `shape`."""
        outs = tile_outs(shape)
        packed: dict[str, list[int]] = {}
        for name, vectors in ins.items():
            for vector in vectors:
                if len(vector) != len(shape) or any(not 0 <= v < n for v, n in zip(vector, shape, strict=True)):
                    raise VerifyError(f"layout: {name} base {list(vector)} is outside the shape {list(shape)}")
            packed[name] = [pack(dict(zip(outs, v, strict=True)), outs) for v in vectors]
        return LinearLayout.of(packed, outs)

    @staticmethod
    def identity(size: int, source: str, target: str) -> LinearLayout:
        """Input i is output i, for i below `size`."""
        bits = log2(size)
        return LinearLayout.of({source: [1 << i for i in range(bits)]}, {target: bits})

    @staticmethod
    def zeros(size: int, source: str, outs: Mapping[str, int] | None = None) -> LinearLayout:
        """Every input maps to 0: `size` copies."""
        return LinearLayout.of({source: [0] * log2(size)}, outs or {})

    # shape

    @property
    def in_names(self) -> tuple[str, ...]:
        """The inputs that have bits."""
        return tuple(name for name, _ in self.ins)

    @property
    def out_names(self) -> tuple[str, ...]:
        """The outputs, the most significant first."""
        return tuple(name for name, _ in self.outs)

    @property
    def out_bits(self) -> int:
        """Bits of all outputs together."""
        return sum(bits for _, bits in self.outs)

    @property
    def in_bits(self) -> int:
        """Bits of all inputs together."""
        return sum(len(bases) for _, bases in self.ins)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each output."""
        return tuple(1 << bits for _, bits in self.outs)

    def bases(self, name: str) -> tuple[int, ...]:
        """The packed images of the bits of an input; none if there is no such input."""
        return dict(self.ins).get(name, ())

    def size(self, name: str) -> int:
        """How many values an input takes."""
        return 1 << len(self.bases(name))

    def vectors(self, name: str) -> tuple[tuple[int, ...], ...]:
        """The images of the bits of an input as coordinates."""
        return tuple(self.coordinates(b) for b in self.bases(name))

    @property
    def columns(self) -> tuple[int, ...]:
        """The matrix: images of all input bits, in input order."""
        return tuple(b for _, bases in self.ins for b in bases)

    # evaluation

    def flat(self, **inputs: int) -> int:
        """The packed output; inputs left out are 0."""
        total = 0
        for name, bases in self.ins:
            total ^= xor_columns(bases, inputs.get(name, 0))
        return total

    def coordinates(self, flat: int) -> tuple[int, ...]:
        """A packed output as one number per output."""
        return tuple(unpack(flat, self.outs).values())

    def apply(self, **inputs: int) -> tuple[int, ...]:
        """The coordinates of the element that hardware index holds."""
        return self.coordinates(self.flat(**inputs))

    # linear algebra

    @property
    def rank(self) -> int:
        """The number of independent bases."""
        return Echelon(self.columns).rank

    @property
    def is_surjective(self) -> bool:
        """Every element is held somewhere."""
        return self.rank == self.out_bits

    @property
    def is_bijective(self) -> bool:
        """Every element is held exactly once."""
        return self.rank == self.in_bits == self.out_bits

    def free_masks(self) -> dict[str, int]:
        """Per input, the bits that only make copies.

        The hardware indices whose free bits are all 0 hold each element exactly once: stores are predicated on that.
        """
        echelon = Echelon()
        return {name: sum(1 << i for i, base in enumerate(bases) if not echelon.add(base)) for name, bases in self.ins}

    def __mul__(self, high: LinearLayout) -> LinearLayout:
        """Side by side: `high` acts on the bits above self's, in every input and output that they share."""
        low_bits, high_bits = dict(self.outs), dict(high.outs)
        outs = {k: low_bits.get(k, 0) + high_bits.get(k, 0) for k in [*low_bits, *high_bits]}
        ins = {name: [pack(unpack(b, self.outs), outs) for b in bases] for name, bases in self.ins}
        for name, bases in high.ins:
            moved = ({k: v << low_bits.get(k, 0) for k, v in unpack(b, high.outs).items()} for b in bases)
            ins[name] = ins.get(name, []) + [pack(m, outs) for m in moved]
        return LinearLayout.of(ins, outs)

    def pseudo_invert(self) -> LinearLayout:
        """A right inverse of a surjective map: of the inputs that hold an element, the one whose free bits are 0."""
        outs = dict(self.outs)
        elements = {name: [pack({name: 1 << i}, outs) for i in range(bits)] for name, bits in reversed(self.outs)}
        return LinearLayout.of(elements, outs).through(self)

    def through(self, source: LinearLayout) -> LinearLayout:
        """Where each of self's elements is found in `source`: C with `source(C(x)) == self(x)`.

        A bit with the same image in both stays itself, and a thread bit along which `source` only has copies is
        kept: without that, elements held by all threads would all be fetched from thread 0.
        """
        if self.outs != source.outs:
            raise VerifyError(f"layout: shapes differ: {list(self.shape)} and {list(source.shape)}")
        outs = {name: len(bases) for name, bases in reversed(source.ins)}
        echelon = Echelon(source.columns)
        ins: dict[str, list[int]] = {}
        for name, bases in self.ins:
            theirs = source.bases(name)
            ins[name] = []
            for i, base in enumerate(bases):
                own = pack({name: 1 << i}, outs) if i < len(theirs) else 0
                if own and theirs[i] == base:
                    ins[name].append(own)
                    continue
                if (found := echelon.solve(base)) is None:
                    raise VerifyError(f"layout: the source does not hold element {self.coordinates(base)}")
                ins[name].append(found ^ own if own and theirs[i] == 0 and name != REGISTER else found)
        return LinearLayout.of(ins, outs)

    # views of the tile: no data moves

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The same elements in row-major order under another shape."""
        outs = tile_outs(shape)
        assert sum(outs.values()) == self.out_bits, f"{self.shape} and {tuple(shape)} differ in size"
        return LinearLayout(self.ins, tuple(outs.items()))

    def transpose(self, perm: Sequence[int]) -> LinearLayout:
        """Result dim i is dim `perm[i]`."""
        names = self.out_names
        return self._rearranged([names[p] for p in perm])

    def expand(self, axis: int) -> LinearLayout:
        """A new dim of size 1 before dim `axis`."""
        shape = self.shape
        return self.reshape((*shape[:axis], 1, *shape[axis:]))

    def reduce(self, axis: int) -> LinearLayout:
        """Forget dim `axis`: what differed along it alone becomes copies (of a value reduced, or yet to broadcast)."""
        return self._rearranged([n for i, n in enumerate(self.out_names) if i != axis])

    def slice(self, axis: int) -> LinearLayout:
        """Forget dim `axis`, without the registers that thereby hold copies; lanes and warps keep theirs."""
        return self.reduce(axis).distinct_registers()

    def _rearranged(self, names: Sequence[str]) -> LinearLayout:
        bits = dict(self.outs)
        fields = {dim_name(i): name for i, name in enumerate(names)}
        outs = {new: bits[old] for new, old in fields.items()}

        def repack(base: int) -> int:
            old = unpack(base, self.outs)
            return pack({new: old[name] for new, name in fields.items()}, outs)

        return LinearLayout.of({n: [repack(b) for b in bases] for n, bases in self.ins}, outs)

    def distinct_registers(self) -> LinearLayout:
        """Without the register bits that only make copies within a thread."""
        mask = self.free_masks().get(REGISTER, 0)
        return self.select(REGISTER, [i for i in range(len(self.bases(REGISTER))) if not mask >> i & 1])

    def select(self, name: str, bits: Sequence[int]) -> LinearLayout:
        """The layout with only these bits of an input, in this order."""
        ins = {n: [bases[i] for i in bits] if n == name else bases for n, bases in self.ins}
        return LinearLayout.of(ins, dict(self.outs))

    def fit(self, shape: Sequence[int], order: Sequence[int]) -> LinearLayout:
        """Cover exactly `shape`: more registers along dims that are too short, in `order`; copies where too long."""
        bits = {name: min(b, log2(n, "a dim")) for (name, b), n in zip(self.outs, shape, strict=True)}

        def cut(base: int) -> int:
            return pack({k: v & (1 << bits[k]) - 1 for k, v in unpack(base, self.outs).items()}, bits)

        out = LinearLayout.of({n: [cut(b) for b in bases] for n, bases in self.ins}, bits)
        for d in order:
            out = out * LinearLayout.identity(shape[d] >> bits[dim_name(d)], REGISTER, dim_name(d))
        return out

    def __str__(self) -> str:
        return _linear_text(self)

    @property
    def text(self) -> str:
        """`8x4 linear {...}`: with its shape, as IR text has it; `layout_families.parse_linear` reads it."""
        return f"{'x'.join(map(str, self.shape)) or '1'} {self}"


@functools.lru_cache(maxsize=4096)
def _linear_text(layout: LinearLayout) -> str:
    """Of few layouts for many tiles."""
    parts = [f"{name} = {bracketed(layout.vectors(name))}" for name in layout.in_names]
    return f"linear {{{', '.join(parts)}}}"


def tile_outs(shape: Sequence[int]) -> dict[str, int]:
    """The outputs of a tile: dim0, dim1, ... with their bits."""
    return {dim_name(i): log2(n, "a dim") for i, n in enumerate(shape)}


def pack(fields: Mapping[str, int], outs: Mapping[str, int]) -> int:
    """Bits by the name of their output as one number, the last output lowest."""
    total = 0
    for name, bits in outs.items():
        total = total << bits | fields.get(name, 0)
    return total


def unpack(flat: int, outs: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The inverse of `pack`."""
    fields: dict[str, int] = {}
    for name, bits in reversed(outs):
        fields[name] = flat & (1 << bits) - 1
        flat >>= bits
    return {name: fields[name] for name, _ in outs}


def bracketed(value: object) -> str:
    """A number, or numbers in brackets, as layouts are printed."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(bracketed, cast('Sequence[object]', value)))}]"
    return str(value)
