"""How the factors of a product lie in memory, and what TMA copies tiles of them in: boxes, or windows of an image.

A box has rows (or columns) and k, one of which is contiguous. Windows are of convolutions: rows are flat positions of
the result, k goes tap by tap.

    rows = n, p, q as one number;  for r, s, chunk of c:  acc = dot(x[rows at r, s; c], w[r, s, c; columns], acc)

Boxes are found once, over the variables of the product; for a tile these are where it begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphfuse.blockgen.access import Accesses
from graphfuse.blockgen.evaluate_ops import place_of
from graphfuse.blockgen.index import Index, coefficient
from graphfuse.blockgen.kernel import Kernel, element_of, is_view, pads_zeros
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import block
from graphfuse.dialects.boxes import Axis, Box, Digit, Unboxed, Windows, atom_of, outer_axes
from graphfuse.ir.core import Attr, Op, Value, attr_int
from graphfuse.symbolic import Dim, Ranges, Sym, bounds, exact_div, product, substitute, sym, symbols
from graphfuse.targets.machine import Machine

Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Pick:
    """A variable that says which matrix of a table is multiplied: what a `take` looks up at an index of others."""

    variable: str
    op: Op
    index: Index

    def at(self, kernel: Kernel, variables: Mapping[str, Dim]) -> dict[str, Dim]:
        """The variable's value where others are such."""
        return {self.variable: place_of(kernel.ev, self.op, tuple(substitute(d, variables) for d in self.index))}


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product, and what it reads; `extents` are those of the variables."""

    value: Value
    is_left: bool
    found: Accesses
    is_view: bool
    extents: Mapping[str, Dim]
    pick: Pick | None = None

    @staticmethod
    def of(kernel: Kernel, value: Value, index: Index, extents: Mapping[str, Dim], *, is_left: bool = False) -> Factor:
        """What a value is at an index of the variables."""
        if value in kernel.picked:
            assert value.op is not None
            table, axis = value.op.operands[0], attr_int(value.op, "axis")
            size = shape_of(table)[axis]
            which = kernel.space.fresh("g", 0, size - 1)
            inside = (*index[:axis], which, *index[axis + len(shape_of(value.op.operands[1])) :])
            found, more = kernel.reads(table, inside), {**extents, str(which): size}
            return Factor(value, is_left, found, is_view(table, kernel), more, Pick(str(which), value.op, index))
        return Factor(value, is_left, kernel.reads(value, index), is_view(value, kernel), extents)

    @property
    def which(self) -> str:
        """For messages."""
        return "the left operand" if self.is_left else "the right operand"

    @property
    def is_memory(self) -> bool:
        """Whether it is one place in memory, and nothing else."""
        return len(self.found.offsets) == 1 and not self.found.opaque and self.is_view

    def strides(self, name: str) -> tuple[Dim | None, ...]:
        """Elements from one position of a variable to the next, for each place that is read."""
        return tuple(coefficient(offset, name) for offset in self.found.offsets)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Variables of a product as `boxes.Scope` has them; along what is contiguous tiles begin at whole vectors."""

    ranges: Ranges
    variables: Mapping[str, Dim]
    trusts: bool = False

    def varies(self, dim: Dim) -> bool:
        return not symbols(dim).isdisjoint(self.variables)

    def extent(self, start: Dim) -> Dim | None:
        atom = atom_of(start)
        return self.variables.get(atom.name) if isinstance(atom, Sym) else None

    def divisor(self, dim: Dim) -> int:
        fixed = substitute(dim, dict.fromkeys(self.variables, 0))
        return math.gcd(*(c & -c for c in ([fixed] if isinstance(fixed, int) else [c for _, c in fixed.terms])))


def _scope(kernel: Kernel, factor: Factor, more: Mapping[str, Dim] | None = None) -> _Scope:
    ranges, variables = kernel.space.ranges, {**factor.extents, **(more or {})}
    own = {name: (0, max(0, bounds(extent, ranges)[1] - 1)) for name, extent in variables.items()}
    return _Scope({**ranges, **own}, variables)


@dataclass(frozen=True, slots=True)
class Boxed:
    """A factor whose tiles are boxes, over the variables of the product; `k` is the one that a tile is summed along."""

    factor: Factor
    box: Box
    k: str

    def load(self, kernel: Kernel, at: Mapping[str, Dim], side: int, depth: int) -> Value:
        """The tile that begins where variables are `at`: [rows, k], so many by so many, or [k, columns]."""
        ev, factor, box = kernel.ev, self.factor, self.box
        at = at if factor.pick is None else {**at, **factor.pick.at(kernel, at)}
        leaf, along_k = ev.leaves[factor.found.of[0]], factor.strides(self.k) == (1,)
        assert leaf.offset == 0, "tensors of a GPU begin where their pointers point"
        start = [ev.index(substitute(d, at)) for d in (*box.start, *box.taps)]
        attrs: dict[str, Attr] = {"shape": (side, depth) if along_k else (depth, side), **box.attrs()}
        tile = ev.builder.append(block.load_box.build([leaf.pointer, *start], attrs, loc=ev.builder.loc)).result
        return tile if along_k == factor.is_left else ev.emit(block.trans, tile, perm=(1, 0))


def find_box(kernel: Kernel, factor: Factor, side: str, k: str) -> Boxed:
    """The boxes of rows (or columns), the variable `side`, and k; raises `Unboxed`.

    They are memory, and contiguous along one of both; along the other, zeros may follow its end.
    """
    which, bytes_, scope = factor.which, element_of(factor.value).bytes, _scope(kernel, factor)
    ends = _ends(kernel, factor, side if factor.strides(k) == (1,) else k)
    if len(factor.found.offsets) != 1 or not (ends or (factor.is_view and not factor.found.inside)):
        raise Unboxed(f"{which} is computed where it is read")
    (offset,), strides = factor.found.offsets, {name: factor.strides(name)[0] for name in (side, k)}
    if strides[k] != 1 and (strides[side] != 1 or bytes_ != 2):
        raise Unboxed(f"{which} is not contiguous along k" + (", rows or columns" * (bytes_ == 2)))
    inside: list[Axis] = []
    for name in (side, k) if strides[k] == 1 else (k, side):
        if (stride := strides[name]) is None or stride == 0:
            raise Unboxed(f"{which} repeats its elements")
        extent, start = ends.get(name, (factor.extents[name], sym(name)))
        inside.append(Axis(extent, stride, start))
        offset = offset - start * stride
    try:
        outer, begin = outer_axes(offset, scope)
        axes = [*outer, *inside]
        dims, all_strides, start = zip(*((a.extent, a.stride, a.start) for a in axes), strict=True)
        return Boxed(factor, Box(dims, all_strides, begin, start).copied(bytes_, scope), k)
    except Unboxed as why:
        raise Unboxed(f"{which}: {why}") from None


def _ends(kernel: Kernel, factor: Factor, name: str) -> dict[str, tuple[Dim, Dim]]:
    """Where memory ends along the dim of a variable, and where in it the variable is, if zeros follow; else nothing."""
    if len(factor.found.inside) != 1 or coefficient(left := factor.found.inside[0], name) != -1:
        return {}
    last = substitute(left, dict.fromkeys(factor.extents, 0))
    return {name: (last + 1, last - left)} if is_view(factor.value, kernel, padded=True) else {}


@dataclass(frozen=True, slots=True)
class Roles:
    """Variables of a product by what they index, outermost first: `depth` is summed, `shared` are of both operands."""

    rows: Names
    columns: Names
    shared: Names
    depth: Names


def step_of(machine: Machine, x: Factor, roles: Roles, channels: Dim) -> int:
    """Channels of a step: many, but few beyond the last of a tap; 0 if there must be none, and none is so short."""
    steps = dict(machine.gpu.wgmma.channel_steps)
    if _goes_on(x, roles):
        steps = {n: cost for n, cost in steps.items() if exact_div(channels, n) is not None}
    if not isinstance(channels, int):
        return max(steps, default=0)
    return min(steps, key=lambda n: (-(-channels // n) * n * steps[n], -n), default=0)


def with_taps_apart(machine: Machine, x: Factor, roles: Roles, channels: Dim) -> Factor:
    """An image whose taps are places along its dims, where a longer step than a divisor of a tap's channels is faster.

    Without padding a tap is as good a distance in memory, but then nothing ends a step with the tap's last channel.
    """
    longest = max(dict(machine.gpu.wgmma.channel_steps))
    if roles.shared or len(x.found.offsets) != 1 or step_of(machine, x, roles, channels) == longest:
        return x
    found = {t: _place(x, roles, t) for t in roles.depth[:-1] if not any(t in symbols(d) for d in x.found.inside)}
    rows = [row for row, _ in found.values()]
    if "" in rows or len({*rows}) < len(rows):
        return x
    made = replace(x, found=replace(x.found, inside=[*x.found.inside, *(place for _, place in found.values())]))
    step = step_of(machine, made, roles, channels)
    return made if isinstance(channels, int) and 2 * channels > -(-channels // step) * step else x


def _place(x: Factor, roles: Roles, tap: str) -> tuple[str, Dim]:
    """The row along whose dim of the image a tap moves, within what other rows read, and where it is; else no row."""
    steps: list[tuple[int, int, str]] = []
    (along,) = x.strides(tap)
    for row in roles.rows:
        (stride,), extent = x.strides(row), x.extents[row]
        if isinstance(stride, int) and isinstance(along, int) and isinstance(extent, int) and min(stride, along) > 0:
            pixel = math.gcd(stride, along)
            if along < extent * stride:
                steps.append((along // pixel, stride // pixel, row))
    if not steps:
        return "", 0
    dilation, step, row = min(steps)
    return row, sym(row) * step + sym(tap) * dilation


def _goes_on(x: Factor, roles: Roles) -> bool:
    """Whether beyond a tap's channels are those of the next group, or tap: only padding tells taps apart."""
    bounded = frozenset[str]().union(*map(symbols, x.found.inside))
    return bool(roles.shared) or not bounded.issuperset(roles.depth[:-1])


def find_windows(kernel: Kernel, x: Factor, roles: Roles, first: str) -> Boxed:
    """The windows in which an image is read, from the row numbered `first` on; raises `Unboxed`."""
    elem, found, channel = element_of(x.value), x.found, roles.depth[-1]
    if elem.name not in ("f16", "bf16"):
        raise Unboxed(f"windows are of f16 or bf16, not of {elem}")
    is_one = len(found.offsets) == 1 and not any(found.uses(name) for name in roles.columns)
    strides = {name: x.strides(name)[0] if is_one else None for name in x.extents}
    if None in strides.values() or not is_view(_image(x.value), kernel):
        raise Unboxed("the image is computed where it is read")
    if strides[channel] != 1:
        raise Unboxed("channels of the image do not lie side by side")
    if any(strides[name] == 0 for name in (*roles.rows, *roles.depth)):
        raise Unboxed("the image repeats its elements")
    inner = [x.extents[name] for name in roles.rows]
    digits = [Digit(sym(n), product(inner[i + 1 :]), inner[i]) for i, n in enumerate(roles.rows)]
    scope = _scope(kernel, x, {first: product(inner)})
    left = None if _goes_on(x, roles) else x.extents[channel] - sym(channel)
    windows = Windows(
        scope, found.offsets[0] - sym(channel), digits[::-1], found.inside, sym(first), scope.ranges,
        (*roles.rows, channel), sym(channel), left,
    )  # fmt: skip
    return Boxed(x, windows.box().copied(elem.bytes, scope), channel)


def _image(x: Value) -> Value:
    """What is padded with zeros, or the value itself."""
    return x.op.operands[0] if x.op is not None and pads_zeros(x.op) else x
