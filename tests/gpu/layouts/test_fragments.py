"""Tensor-core fragments and swizzles equal the tables of the PTX ISA, written as formulas."""

from __future__ import annotations

import pytest

from graphfuse.errors import VerifyError
from graphfuse.ir.layout import LANE, OFFSET, REGISTER, WARP
from graphfuse.ir.layout_families import Mma, Operand, Shared, Tma, Wgmma
from tests.gpu.layouts.algebra import Slice


def entries(m):
    for w in range(m.size(WARP)):
        for t in range(m.size(LANE)):
            for i in range(m.size(REGISTER)):
                yield w, t, i, m.apply(warp=w, lane=t, register=i)


def test_mma_accumulator():
    """mma.m16n8: c0, c1 in row groupID, c2, c3 eight below; columns 2 * threadID_in_group + (i & 1)."""
    for _, t, i, got in entries(Mma((1, 1)).linear((16, 8))):
        group, member = t >> 2, t % 4
        assert got == (group if i < 2 else group + 8, member * 2 + (i & 1))


def test_mma_warps_and_repeats():
    """Warps tile rows first, then columns; registers repeat along columns, then rows."""
    for w, t, i, got in entries(Mma((2, 2)).linear((64, 32))):
        row = t // 4 + 8 * (i >> 1 & 1) + 16 * (w & 1) + 32 * (i >> 3)
        assert got == (row, 2 * (t % 4) + (i & 1) + 8 * (w >> 1) + 16 * (i >> 2 & 1))


def test_operand_a_16_bit():
    """mma.m16n8k16 A: a0,a1,a4,a5 in row groupID, others 8 below; columns 8 further for i >= 4."""
    for _, t, i, got in entries(Operand(16, 0, (1, 1)).linear((16, 16))):
        group, member = t >> 2, t % 4
        row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
        assert got == (row, member * 2 + (i & 1) + (8 if i >= 4 else 0))


def test_operand_b_16_bit():
    for _, t, i, got in entries(Operand(16, 1, (1, 1)).linear((16, 8))):
        assert got == ((t % 4) * 2 + (i & 1) + (8 if i >= 2 else 0), t >> 2)


def test_operands_tf32():
    """mma.m16n8k8 .tf32: a0 (g, m), a1 (g + 8, m), a2 (g, m + 4), a3 (g + 8, m + 4); b0 (m, g), b1 (m + 4, g)."""
    for _, t, i, got in entries(Operand(32, 0, (1, 1)).linear((16, 8))):
        group, member = t >> 2, t % 4
        assert got == (group if i in (0, 2) else group + 8, member if i in (0, 1) else member + 4)
    for _, t, i, got in entries(Operand(32, 1, (1, 1)).linear((8, 8))):
        assert got == (t % 4 + 4 * i, t >> 2)


def test_operands_8_bit():
    """mma.m16n8k32: four consecutive columns per register."""
    for _, t, i, got in entries(Operand(8, 0, (1, 1)).linear((16, 32))):
        group, member = t >> 2, t % 4
        row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
        assert got == (row, member * 4 + (i & 3) + (0 if i < 8 else 16))
    for _, t, i, got in entries(Operand(8, 1, (1, 1)).linear((32, 8))):
        assert got == ((t % 4) * 4 + (i & 3) + (0 if i < 4 else 16), t >> 2)


def test_operands_of_several_warps():
    """Warps along N share A, warps along M share B."""
    a = Operand(16, 0, (2, 2)).linear((64, 32))
    assert all(got == a.apply(warp=w & 1, lane=t, register=i) for w, t, i, got in entries(a))
    assert a.apply(warp=1) == (16, 0)
    b = Operand(16, 1, (2, 2)).linear((32, 64))
    assert all(got == b.apply(warp=w & 2, lane=t, register=i) for w, t, i, got in entries(b))
    assert b.apply(warp=2) == (0, 8)


@pytest.mark.parametrize("n", [8, 64, 128, 256])
def test_wgmma_accumulator(n):
    """wgmma m64nN: row 16 * warp + t / 4 + 8 * (i / 2 % 2), column 2 * (t % 4) + i % 2 + 8 * (i / 4)."""
    for w, t, i, got in entries(Wgmma(n, (4, 1)).linear((64, n))):
        assert got == (16 * w + t // 4 + 8 * (i >> 1 & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2))


def test_wgmma_warpgroups():
    """A second warpgroup takes the next 64 rows, or the next N columns."""
    down, across = Wgmma(32, (8, 1)).linear((128, 32)), Wgmma(32, (4, 2)).linear((64, 64))
    assert down.apply(warp=4) == (64, 0)
    assert across.apply(warp=4) == (0, 32)
    assert Wgmma(32, (4, 1)).linear((128, 64)).vectors(REGISTER)[-2:] == ((0, 32), (64, 0))


def test_wgmma_operand_a():
    """wgmma A in registers, 16 bit: the accumulator's pattern over 16 columns, so P of attention needs no move."""
    a = Operand(16, 0, (4, 1)).linear((64, 16))
    for w, t, i, got in entries(a):
        assert got == (16 * w + t // 4 + 8 * (i >> 1 & 1), 2 * (t % 4) + (i & 1) + 8 * (i >> 2))
    assert a == Wgmma(16, (4, 1)).linear((64, 16))


def test_slice_of_an_accumulator():
    """Row statistics: four lanes of a quad hold copies, two registers remain."""
    rows = Slice(1, Wgmma(64, (4, 1)), 64).linear((64,))
    assert rows.size(REGISTER) == 2
    assert rows.free_masks() == {REGISTER: 0, LANE: 3, WARP: 0}


def test_xor_swizzle():
    """Row r moves groups of `vec` by r / per_phase % max_phase; `order` names the contiguous dim."""
    for order in ((1, 0), (0, 1)):
        m = Shared(order, 4, 2, 8).linear((32, 64) if order == (1, 0) else (64, 32))
        for at in range(2048):
            row, column = at // 64, at % 64
            place = row, column ^ 4 * (row // 2 % 8)
            assert m.apply(offset=at) == (place if order == (1, 0) else place[::-1])


@pytest.mark.parametrize("elem_bytes", [1, 2, 4])
@pytest.mark.parametrize(("swizzle", "mask"), [(128, 7), (64, 3), (32, 1)])
def test_tma_swizzle(elem_bytes, swizzle, mask):
    """16-byte chunk bits (from address bit 4) ^= bits from address bit 7; wide tiles are panels one after another."""
    rows, width = 32, swizzle // elem_bytes
    m = Tma(elem_bytes, (1, 0), swizzle).linear((rows, 2 * width))
    for at in range(rows * width * 2):
        panel, inside = divmod(at, rows * width)
        address = inside * elem_bytes
        plain = address ^ (address >> 7 & mask) << 4
        row, column = divmod(plain // elem_bytes, width)
        assert m.apply(offset=at) == (row, column + panel * width)
    transposed = Tma(elem_bytes, (0, 1), swizzle).linear((2 * width, rows))
    assert transposed == m.transpose((1, 0))
    assert m.in_names == (OFFSET,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mma((4, 1)).linear((8, 8)), r"at least \[16, 8\], got \[8, 8\]"),
        (lambda: Operand(8, 0, (4, 1)).linear((16, 16)), r"at least \[16, 32\]"),
        (lambda: Operand(8, 1, (4, 1)).linear((16, 16)), r"at least \[32, 8\]"),
        (lambda: Operand(64, 0, (4, 1)), "bits must be 8, 16 or 32"),
        (lambda: Mma((4,)), "warps must have two entries"),
        (lambda: Wgmma(64, (2, 1)), "4k warps"),
        (lambda: Wgmma(48, (4, 1)), "n must be a power of two, got 48"),
        (lambda: Wgmma(64, (4, 1)).linear((64, 32)), r"at least \[64, 64\]"),
        (lambda: Tma(2, (1, 0), 16), "32, 64 or 128 bytes"),
        (lambda: Tma(2, (1, 0), 128).linear((64, 32)), "dim 1 must be at least 64"),
    ],
)
def test_impossible_fragments_are_refused(make, message):
    with pytest.raises(VerifyError, match=message):
        make()
