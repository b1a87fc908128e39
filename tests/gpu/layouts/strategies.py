"""Hypothesis strategies: layouts of every family, and maps of any shape."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from graphfuse.ir.layout import HARDWARE, LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.layout_families import Blocked, Linear, Mma, Operand, Shared, Tma, Wgmma
from tests.gpu.layouts.algebra import Slice

LAWS = settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
powers = st.sampled_from([1, 2, 4, 8, 16])


def split(draw, total, parts):
    """`total` as a product of powers of two."""
    out = []
    for _ in range(parts - 1):
        out.append(draw(st.sampled_from([p for p in (1, 2, 4, 8, 16, 32) if p <= total])))
        total //= out[-1]
    return (*out, total)


@st.composite
def shapes(draw, least=(16, 8), most=128):
    return tuple(draw(st.sampled_from([n for n in (1, 2, 4, 8, 16, 32, 64, 128) if low <= n <= most])) for low in least)


@st.composite
def blocked(draw, rank=2, warps=4):
    return Blocked(
        tuple(draw(st.sampled_from([1, 2, 4, 8])) for _ in range(rank)),
        split(draw, 32, rank),
        split(draw, warps, rank),
        tuple(draw(st.permutations(range(rank)))),
    )


@st.composite
def distributed(draw, shape):
    """A layout of 4 warps for a tile of `shape`, at least 64 x 32."""
    two = st.sampled_from([(4, 1), (2, 2), (1, 4)])
    kinds = [
        blocked(),
        st.builds(Mma, two),
        st.builds(Operand, st.sampled_from([8, 16, 32]), st.sampled_from([0, 1]), two),
        st.builds(Wgmma, st.sampled_from([8, 16, 32]), st.just((4, 1))),
        st.builds(lambda d, parent: Slice(d, parent, 8), st.sampled_from([0, 1, 2]), blocked(rank=3)),
    ]
    return draw(st.one_of(kinds)).linear(shape)


@st.composite
def any_map(draw, shape, warps=4):
    """A surjection with arbitrary bases, some of them dependent."""
    bits = sum(n.bit_length() - 1 for n in shape)
    warp_bits = warps.bit_length() - 1
    columns = [1 << i for i in draw(st.permutations(range(bits)))]
    count = max(5 + warp_bits, bits) + draw(st.integers(0, 2))
    columns += [draw(st.sampled_from([0, *columns])) for _ in range(count - bits)]
    columns = draw(st.permutations(columns))
    for _ in range(draw(st.integers(0, 4))):  # column operations keep the span
        i, j = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if i != j:
            columns[i] ^= columns[j]
    registers = count - 5 - warp_bits
    ins = {
        REGISTER: columns[:registers],
        LANE: columns[registers : registers + 5],
        WARP: columns[registers + 5 :],
    }
    flat = LinearLayout.of(ins, {"dim0": bits})
    return flat.reshape(shape)


def linear_of(layout):
    """The text form of a map of hardware bits."""
    return Linear(*(layout.vectors(name) for name in HARDWARE[:4]))


families = st.one_of(
    blocked(),
    blocked(rank=3),
    st.builds(Mma, st.sampled_from([(4, 1), (2, 2)])),
    st.builds(Operand, st.sampled_from([8, 16, 32]), st.sampled_from([0, 1]), st.sampled_from([(4, 1), (2, 2)])),
    st.builds(Wgmma, st.sampled_from([8, 64, 256]), st.sampled_from([(4, 1), (8, 1), (4, 2)])),
    st.builds(Shared, st.sampled_from([(1, 0), (0, 1)]), powers, powers, powers),
    st.builds(Tma, st.sampled_from([1, 2, 4]), st.sampled_from([(1, 0), (0, 1)]), st.sampled_from([32, 64, 128])),
    st.builds(Slice, st.sampled_from([0, 1]), blocked(), st.sampled_from([8, 64])),
    any_map((16, 32)).map(linear_of),
)


def shape_for(draw, layout):
    """A shape that a family takes."""
    match layout:
        case Wgmma(n=n):
            return (64, max(n, 32))
        case Slice():
            return (64,)
        case Linear():
            return (16, 32)
        case Blocked(order=order) if len(order) == 3:
            return (4, 8, 16)
        case Tma(elem_bytes, order, swizzle):
            shape = [32, 32]
            shape[order[0]] = swizzle // elem_bytes * draw(st.sampled_from([1, 2]))
            return tuple(shape)
        case _:
            return draw(st.sampled_from([(64, 32), (128, 64), (32, 128)]))
