"""Families of layouts: short descriptions, printed in the IR, that become a `LinearLayout` once the shape is known.

Owns their text and what it may say. Knows no op and no target; fragments are those of the PTX ISA.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, cast

from graphfuse.errors import ParseError, VerifyError
from graphfuse.ir.layout import (
    BLOCK,
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    LinearLayout,
    bracketed,
    dim_name,
    log2,
    pack,
    unpack,
)

Ints: TypeAlias = tuple[int, ...]


class _Family:
    """A description of a layout that prints the way it parses."""

    __slots__ = ()

    def __str__(self) -> str:
        return layout_text(self)


def _of_name(sizes: Ints, source: str, order: Sequence[int]) -> LinearLayout:
    out = LinearLayout.of({}, dict.fromkeys(map(dim_name, range(len(sizes))), 0))
    for d in order:
        out = out * LinearLayout.identity(sizes[d], source, dim_name(d))
    return out


def _check_order(family: str, order: Ints, *others: Ints) -> None:
    if sorted(order) != list(range(len(order))) or any(len(o) != len(order) for o in others):
        raise VerifyError(f"{family}: order must be a permutation of the dims, one entry of each list per dim")


def _check_rank(layout: Layout, shape: Sequence[int], rank: int) -> None:
    if len(shape) != rank:
        raise VerifyError(f"{layout}: expected a tile of rank {rank}, got {list(shape)}")


@dataclass(frozen=True, slots=True)
class Blocked(_Family):
    """Each thread holds a small box, each warp a box of threads, the block a box of warps; `order[0]` is fastest."""

    per_thread: Ints
    threads: Ints
    warps: Ints
    order: Ints

    def __post_init__(self) -> None:
        _check_order("blocked", self.order, self.per_thread, self.threads, self.warps)
        for size in (*self.per_thread, *self.threads, *self.warps):
            log2(size)

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map for a tile of `shape`."""
        _check_rank(self, shape, len(self.order))
        out = _of_name(self.per_thread, REGISTER, self.order)
        out = out * _of_name(self.threads, LANE, self.order) * _of_name(self.warps, WARP, self.order)
        return out.fit(shape, self.order)


def _fragment(columns_per_register: int, rows: int) -> LinearLayout:
    """The 8-row pattern of every tensor-core fragment: four lanes along a row, eight lanes down, then `rows / 8`."""
    d0, d1 = dim_name(0), dim_name(1)
    out = LinearLayout.of({}, {d0: 0, d1: 0})
    out = out * LinearLayout.identity(columns_per_register, REGISTER, d1) * LinearLayout.identity(4, LANE, d1)
    return out * LinearLayout.identity(8, LANE, d0) * LinearLayout.identity(rows // 8, REGISTER, d0)


def _warps(warps: Ints) -> LinearLayout:
    return _of_name(warps, WARP, (0, 1))


def _check_at_least(layout: Layout, shape: Sequence[int], least: Ints) -> None:
    _check_rank(layout, shape, 2)
    if any(n < m for n, m in zip(shape, least, strict=True)):
        raise VerifyError(f"{layout}: expected a tile of at least {list(least)}, got {list(shape)}")


def _check_warps(family: str, warps: Ints) -> None:
    if len(warps) != 2:
        raise VerifyError(f"{family}: warps must have two entries, got {list(warps)}")
    for n in warps:
        log2(n, "a number of warps")


@dataclass(frozen=True, slots=True)
class Mma(_Family):
    """The accumulator of `mma.sync` m16n8 (PTX ISA, "Matrix fragments for mma.m16n8k16": C and D), repeated."""

    warps: Ints

    def __post_init__(self) -> None:
        _check_warps("mma", self.warps)

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map for a tile of `shape`: warps down the rows first, then along columns, then more registers."""
        _check_at_least(self, shape, (16, 8))
        return (_fragment(2, 16) * _warps(self.warps)).fit(shape, (1, 0))


@dataclass(frozen=True, slots=True)
class Operand(_Family):
    """Operand A (`index` 0, [M, K]) or B (1, [K, N]) of `mma.sync` m16n8, with k16, k8 or k32 for 16, 32 or 8 bits.

    A is also the register operand of `wgmma` (PTX ISA, "Register fragments for wgmma.mma_async"). Warps that share
    rows of A, or columns of B, hold copies.
    """

    bits: int
    index: int
    warps: Ints

    def __post_init__(self) -> None:
        _check_warps("operand", self.warps)
        if self.bits not in (8, 16, 32) or self.index not in (0, 1):
            raise VerifyError(f"operand: bits must be 8, 16 or 32 and index 0 or 1, got {self.bits} and {self.index}")

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map for a tile of `shape`: after one instruction's registers more along K, then along M or N."""
        k = 256 // self.bits
        width = 32 // self.bits  # elements in one 32-bit register, consecutive in K
        d0, d1 = dim_name(0), dim_name(1)
        if self.index == 0:
            _check_at_least(self, shape, (16, k))
            out = _fragment(width, 16) * LinearLayout.identity(2, REGISTER, d1)
            out = out * LinearLayout.identity(self.warps[0], WARP, d0) * LinearLayout.zeros(self.warps[1], WARP)
            return out.fit(shape, (1, 0))
        _check_at_least(self, shape, (k, 8))
        out = _fragment(width, 8).transpose((1, 0)) * LinearLayout.identity(2, REGISTER, d0)
        out = out * LinearLayout.zeros(self.warps[0], WARP) * LinearLayout.identity(self.warps[1], WARP, d1)
        return out.fit(shape, (0, 1))


@dataclass(frozen=True, slots=True)
class Wgmma(_Family):
    """The accumulator of `wgmma` m64nN (PTX ISA, "Register fragments for wgmma.mma_async": D), repeated.

    The four warps of a warpgroup are 16 rows each; further warpgroups go down the rows, then along columns.
    """

    n: int
    warps: Ints

    def __post_init__(self) -> None:
        _check_warps("wgmma", self.warps)
        if self.warps[0] % 4 or not 8 <= self.n <= 256:
            raise VerifyError(f"wgmma: expected 4k warps along M and n in 8..256, got {self.warps}, {self.n}")
        log2(self.n, "n")

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map for a tile of `shape`."""
        _check_at_least(self, shape, (64, self.n))
        tile = _fragment(2, 16) * LinearLayout.identity(self.n // 8, REGISTER, dim_name(1))
        return (tile * _warps(self.warps)).fit(shape, (1, 0))


@dataclass(frozen=True, slots=True)
class Shared(_Family):
    """Memory: `order[0]` contiguous, and groups of `vec` elements along it XORed with the row number.

    Row r (along `order[1]`) moves by `vec * (r / per_phase % max_phase)`. No swizzle is `max_phase = 1`.
    """

    order: Ints
    vec: int = 1
    per_phase: int = 1
    max_phase: int = 1

    def __post_init__(self) -> None:
        _check_order("shared", self.order)
        for n in (self.vec, self.per_phase, self.max_phase):
            log2(n, "vec, per_phase and max_phase")

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map from element offsets to a tile of `shape`."""
        _check_rank(self, shape, len(self.order))
        plain = _of_name(tuple(shape), OFFSET, self.order)
        if len(self.order) < 2 or self.max_phase == 1:
            return plain
        fast, rows = dim_name(self.order[0]), dim_name(self.order[1])
        columns = shape[self.order[0]]

        def swizzled(base: int) -> int:
            fields = unpack(base, plain.outs)
            phase = fields[rows] // self.per_phase % self.max_phase
            fields[fast] ^= self.vec * phase % columns
            return pack(fields, dict(plain.outs))

        return LinearLayout.of({OFFSET: [swizzled(b) for b in plain.bases(OFFSET)]}, dict(plain.outs))


@dataclass(frozen=True, slots=True)
class Tma(_Family):
    """Memory as TMA writes and `wgmma` reads it: 16-byte chunks of rows of `swizzle` bytes (32, 64, 128), XORed.

    Address bits 4-6 ^= bits 7-9 for 128 (4-5 ^= 7-8 for 64, 4 ^= 7 for 32). A tile wider than `swizzle` bytes is
    several such panels one after another. `order[0]` is the contiguous dim.
    """

    elem_bytes: int
    order: Ints
    swizzle: int

    def __post_init__(self) -> None:
        _check_order("tma", self.order)
        if self.elem_bytes not in (1, 2, 4, 8) or self.swizzle not in (32, 64, 128) or len(self.order) != 2:
            raise VerifyError(f"tma: swizzle must be 32, 64 or 128 bytes on a rank-2 tile, got {self.swizzle}")

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map from element offsets to a tile of `shape`."""
        fast = self.order[0]
        width = self.swizzle // self.elem_bytes
        _check_rank(self, shape, 2)
        if shape[fast] < width:
            raise VerifyError(f"{self}: dim {fast} must be at least {width}, got {list(shape)}")
        panel = [*shape]
        panel[fast] = width
        # phases repeat every 1024 bytes whatever the row length: 128 bytes hold 1, 2 or 4 rows
        phases = Shared(self.order, 16 // self.elem_bytes, 128 // self.swizzle, self.swizzle // 16)
        return phases.linear(panel) * LinearLayout.identity(shape[fast] // width, OFFSET, dim_name(fast))


@dataclass(frozen=True, slots=True)
class Linear(_Family):
    """Any map, by its bases as coordinates."""

    register: tuple[Ints, ...] = ()
    lane: tuple[Ints, ...] = ()
    warp: tuple[Ints, ...] = ()
    block: tuple[Ints, ...] = ()

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map; it must hold every element of a tile of `shape`."""
        ins = {REGISTER: self.register, LANE: self.lane, WARP: self.warp, BLOCK: self.block}
        out = LinearLayout.from_vectors(ins, shape)
        if not out.is_surjective:
            raise VerifyError(f"{self}: does not hold every element of {list(shape)}")
        return out


Layout: TypeAlias = Blocked | Mma | Operand | Wgmma | Shared | Tma | Linear

# text


def layout_text(layout: Any) -> str:
    """`mma {warps = [2, 2]}`: the family and its fields, sorted; fields at their defaults are left out."""
    fields = sorted(
        (f.name, getattr(layout, f.name)) for f in dataclasses.fields(layout) if getattr(layout, f.name) != f.default
    )
    return f"{type(layout).__name__.lower()} {{{', '.join(f'{k} = {bracketed(v)}' for k, v in fields)}}}"


def parse_linear(text: str) -> LinearLayout:
    """Read what `LinearLayout.text` prints."""
    m = re.fullmatch(r"\s*(\d{1,9}(?:x\d{1,9})*)\s+linear\s*\{([^{}]*)\}\s*", text)
    if m is None:
        raise ParseError(f"expected '8x4 linear {{...}}', got {text!r}")
    try:
        # but for the form of names it is JSON
        given = json.loads(f"{{{re.sub(r'([a-z]+) *=', _quoted, m[2])}}}", object_pairs_hook=list)
    except (ValueError, RecursionError) as e:
        raise ParseError(f"layout {text!r}: {e}") from None
    known = [f.name for f in dataclasses.fields(Linear)]
    found: dict[str, tuple[Ints, ...]] = {}
    for key, bases in given:
        if key not in known or key in found:
            raise ParseError(f"layout {text!r}: linear has no such field, or twice: {key!r}")
        if not _are_bases(bases):
            raise ParseError(f"layout {text!r}: linear: bad value of {key!r}")
        found[key] = tuple(map(tuple, bases))
    return Linear(**found).linear([int(n) for n in m[1].split("x")])


def _quoted(name: re.Match[str]) -> str:
    return f'"{name[1]}":'


def _are_bases(value: Any) -> TypeGuard[list[list[int]]]:
    return isinstance(value, list) and all(
        isinstance(v, list) and all(type(n) is int for n in cast("list[Any]", v)) for v in cast("list[Any]", value)
    )
