"""Which operands of a product are better copied into rows that begin at multiples of 32 bytes, before it.

TMA reads rows that begin at multiples of 16 bytes, and whole sectors much faster. Where an operand's rows do not, such
as columns of 4097 halves, `mma.sync` makes the product and every element is loaded by itself: large products take twice
as long. A copy costs a launch and the way of the operand through memory; constants are copied when compiling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from graphfuse.blockgen.access import AccessAnalysis, as_index, dim_names
from graphfuse.blockgen.gpu_tiles import SECTOR_BYTES, VECTOR_BYTES, typical
from graphfuse.blockgen.gpu_wgmma_tile import GAIN, Product, microseconds, wgmma_tile
from graphfuse.blockgen.gpu_windows import MOST_ROW_DIMS
from graphfuse.blockgen.index import IndexSpace, coefficient, strides_of
from graphfuse.blockgen.kernel import element_of
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, Trait, Value
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import Dim, Ranges, bounds, exact_div, product, substitute
from graphfuse.targets.machine import Machine

_ELEM_BYTES = 2
"""Of f16 and bf16, the only elements whose rows are moved apart."""

Pads = tuple[tuple[int, int], ...]
"""For each operand how many of its trailing dims are a row, and by how many elements that grows; (0, 0) leaves it."""
_NONE: Pads = ((0, 0), (0, 0))


def rows_to_align(machine: Machine, ranges: Ranges) -> Callable[[Op], Pads]:
    """For a machine: which rows of a contraction's operands are copied, and how far apart."""
    return partial(_pads, machine, ranges)


def _pads(machine: Machine, ranges: Ranges, op: Op) -> Pads:
    if not machine.has_wgmma:
        return _NONE
    if any(element_of(v) not in (F16, BF16) or element_of(v) != element_of(op.operands[0]) for v in op.operands):
        return _NONE
    form = _Form.of(op)
    placed = [_placed(v, labels, ranges) for v, labels in zip(op.operands, (form.lhs, form.rhs), strict=True)]
    before = [p for p in placed if p is not None]
    if len(before) != 2 or not form.is_matrices or form.is_boxed(before, VECTOR_BYTES):
        return _NONE
    copies = [form.copied(labels) for labels in (form.lhs, form.rhs)]
    m, n, k, batch = (typical(form.size(role), ranges) for role in (form.rows, form.columns, form.summed, form.batch))
    costs = machine.gpu.memory

    def us(chosen: Sequence[bool]) -> float:
        after = [c[0] if c and yes else p for c, p, yes in zip(copies, before, chosen, strict=True)]
        if not form.is_boxed(after, VECTOR_BYTES):
            return float("inf")
        made = Product(m, n, k * _ELEM_BYTES, batch, aligned=form.is_boxed(after, SECTOR_BYTES))
        out = microseconds(wgmma_tile(machine, made), machine, made)
        for v, yes in zip(op.operands, chosen, strict=True):
            if yes and not _is_constant(v):
                out += costs.launch_us + 2 * _ELEM_BYTES * typical(product(shape_of(v)), ranges) / costs.bytes_per_us
        return out

    may = [(False, True) if c and not p.repeats else (False,) for c, p in zip(copies, before, strict=True)]
    best = min(itertools.product(*may), key=us)
    if us(best) * GAIN > _single_loads_us(machine, m, n, k, batch):
        return _NONE
    return tuple(c[1] if c and yes else (0, 0) for c, yes in zip(copies, best, strict=True))


def _single_loads_us(machine: Machine, m: int, n: int, k: int, batch: int) -> float:
    """About how long a product by `mma.sync` takes whose operands are loaded element by element."""
    costs = machine.gpu.uncopied

    def us(side: int, step: float) -> float:
        waves = -(-(-(-m // side) * -(-n // side) * batch) // machine.multiprocessors)
        return waves * -(-k // costs.step) * step

    return costs.start_us + min(us(side, step) for side, step in costs.step_us)


@dataclass(frozen=True, slots=True)
class _Placed:
    """How an operand lies in memory: elements that each label's neighbours are apart, and where it begins."""

    strides: Mapping[str, Dim]
    offset: Dim = 0

    @property
    def repeats(self) -> bool:
        """Whether it has more elements than memory has."""
        return 0 in self.strides.values()


@dataclass(frozen=True, slots=True)
class _Form:
    """A contraction by the roles of its labels, in the order of the result; those of size 1 are left out."""

    sizes: Mapping[str, Dim]
    lhs: str
    rhs: str
    rows: str
    columns: str
    summed: str
    batch: str
    out: Mapping[str, Dim]
    """Strides of the result."""

    @staticmethod
    def of(op: Op) -> _Form:
        """The roles of a `graph.contract`."""
        lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
        a, b = op.operands
        sizes = dict(zip(lhs + rhs, (*shape_of(a), *shape_of(b)), strict=True))
        live = [c for c in (*out, *sorted(sizes.keys() - set(out), key=lhs.find)) if sizes[c] != 1]

        def role(*where: int) -> str:
            return "".join(c for c in live if (c in lhs, c in rhs, c in out) == where)

        strides = dict(zip(out, strides_of(shape_of(op.result)), strict=True))
        return _Form(sizes, lhs, rhs, role(1, 0, 1), role(0, 1, 1), role(1, 1, 0), role(1, 1, 1), strides)

    @property
    def is_matrices(self) -> bool:
        """Whether it multiplies matrices of rows and columns, and does nothing else."""
        known = {*self.rows, *self.columns, *self.summed, *self.batch}
        live = {c for c, d in self.sizes.items() if d != 1}
        return bool(self.rows and self.columns and self.summed) and live == known

    def size(self, role: str) -> Dim:
        """The positions of a role's labels."""
        return product([self.sizes[c] for c in role])

    def is_boxed(self, operands: Sequence[_Placed], unit: int) -> bool:
        """Whether TMA can copy tiles of both operands, of which all but one stride is a multiple of so many bytes.

        Rows of the lhs may be positions of an image of known size, which it reads in windows.
        """
        lhs, rhs = operands
        if not all(self._is_one(self.summed, p.strides) for p in operands):
            return False
        sides = (lhs, self.rows), (rhs, self.columns)
        if not all(self._is_one(role, self.out) for _, role in sides):
            return False
        whole = unit // _ELEM_BYTES
        for p, role in sides:
            inner = p.strides[self.summed[-1]], p.strides[role[-1]]
            others = [*(s for s in inner if s != 1), *(p.strides[c] for c in self.batch)]
            if not self._is_one(role, p.strides):
                is_image = len(role) <= MOST_ROW_DIMS and all(isinstance(self.sizes[c], int) for c in role[1:])
                if p is rhs or self.batch or inner[0] != 1 or not is_image:
                    return False
                others += [p.strides[c] for c in role]
            if inner.count(1) != 1 or any(exact_div(s, whole) is None for s in (*others, p.offset)):
                return False
        return True

    def _is_one(self, role: str, strides: Mapping[str, Dim]) -> bool:
        """Whether the labels of a role advance as one."""
        return all(strides[a] == strides[b] * self.sizes[b] for a, b in itertools.pairwise(role))

    def copied(self, labels: str) -> tuple[_Placed, tuple[int, int]] | None:
        """An operand in rows of whole sectors, how many dims are a row, and what it grows by; None where unknown."""
        live = [c for c in labels if self.sizes[c] != 1]
        role = next(r for r in (self.rows, self.columns, self.summed, self.batch) if live[-1] in r)
        first = len(live) - 1
        while first > 0 and live[first - 1] in role:
            first -= 1
        length = self.size("".join(live[first:]))
        if not isinstance(length, int):
            return None
        dims = len(labels) - labels.index(live[first])
        sector = SECTOR_BYTES // _ELEM_BYTES
        grown = -length % sector or sector  # whole sectors may still be apart by something else
        strides: dict[str, Dim] = {}
        stride: Dim = 1
        for i, c in reversed(list(enumerate(live))):
            strides[c] = stride
            stride = length + grown if i == first else stride * self.sizes[c]
        return _Placed(strides), (dims, grown)


def _placed(value: Value, labels: str, ranges: Ranges) -> _Placed | None:
    """Where an operand is, if it is a view of memory along strides that are not negative."""
    root = value
    while _is_movement(root):
        assert root.op is not None
        root = root.op.operands[0]
    space = IndexSpace(ranges)
    names = dim_names(space, shape_of(value))
    analysis = AccessAnalysis(space, {root})
    analysis.visit(value, as_index(names))
    if len(analysis.found.offsets) != 1 or analysis.found.opaque:
        return None
    (offset,) = analysis.found.offsets
    strides: dict[str, Dim] = {}
    for c, name in zip(labels, names, strict=True):
        stride = coefficient(offset, name)
        if stride is None or bounds(stride, ranges)[0] < 0:
            return None
        strides[c] = stride
    return _Placed(strides, substitute(offset, dict.fromkeys(names, 0)))


def _is_movement(value: Value) -> bool:
    op = value.op
    return op is not None and op.has(Trait.MOVEMENT) and len(op.operands) == 1 and op.kind is not graph.pad


def _is_constant(value: Value) -> bool:
    while _is_movement(value):
        assert value.op is not None
        value = value.op.operands[0]
    return value.op is not None and value.op.kind is graph.constant
