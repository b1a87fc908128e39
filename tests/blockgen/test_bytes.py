"""Products of bytes, compiled, against the interpreter: weights known and packed in fours, or packed by the kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse import checking
from graphfuse.blockgen.lower import lower_region
from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.dialects import block, control, graph
from graphfuse.ir.core import Block, Func, Op, Params, Value, tensor_of
from graphfuse.ir.dense import Dense, numpy_dtype
from graphfuse.ir.types import I8, I32, U8, Scalar, Tensor
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX2, AVX512, Case, check_blocks, lowered, region_ops
from tests.machine import HOST


def product(kind: str, x: Value, w: Value) -> Op:
    if kind.startswith("conv"):
        strides = (2, 2) if "strided" in kind else (1, 1)
        dilation = (2, 1) if "dilated" in kind else (1, 1)
        return graph.conv(
            x, w, strides=strides, dilation=dilation, groups=2 if "groups" in kind else 1, high=(0, 0), low=(0, 0),
            input_dilation=(1, 1), layout="nhwc", elem=I32,
        )  # fmt: skip
    return graph.contract(x, w, spec=kind, elem=I32)


def function(
    kind: str, x: tuple[int, ...], w: tuple[int, ...], *, known: bool, elems: tuple[Scalar, Scalar] = (U8, I8)
) -> tuple[Func, list[np.ndarray]]:
    rng = np.random.default_rng(3)
    given = zip((x, w), elems, strict=True)
    inputs = [rng.integers(0, 256, shape, np.uint8).view(numpy_dtype(elem)) for shape, elem in given]
    types = [Tensor(x, elems[0]), *([] if known else [Tensor(w, elems[1])])]
    params = Params(tuple(types), ("x", "w")[: len(types)])
    made = [graph.constant(value=Dense(inputs[1]))] if known else []
    y = product(kind, params.values[0], made[0].result if known else params.values[1])
    return Func("f", Block(params, (*made, y, control.return_(y.result)))), inputs[: len(types)]


CASES = [
    ("mk,kn->mn", (37, 64), (64, 40)),
    ("mk,kn->mn", (1, 64), (64, 200)),
    ("mk,nk->mn", (5, 8), (3, 8)),
    ("mk,kn->mn", (5, 6), (6, 33)),  # no whole fours
    ("bmk,kn->bmn", (2, 9, 12), (12, 16)),
    ("bmk,bkn->bmn", (3, 5, 8), (3, 8, 20)),
    ("conv", (2, 9, 9, 8), (3, 3, 8, 40)),
    ("conv strided", (1, 11, 13, 4), (7, 7, 4, 33)),
    ("conv dilated", (1, 9, 8, 4), (3, 2, 4, 16)),
    ("conv groups", (1, 6, 7, 16), (3, 3, 8, 12)),
]


@pytest.mark.parametrize(
    ("case", "known"), [*((i, True) for i in range(len(CASES))), *((i, False) for i in range(0, len(CASES), 3))]
)
def test_products_are_exact(case: int, *, known: bool) -> None:
    func, inputs = function(*CASES[case], known=known)
    for check in checking.verify_regions(func, HOST, inputs):
        assert check.maximum == 0


@pytest.mark.parametrize(
    ("kind", "x", "w", "panels"),
    [
        ("mk,kn->mn", (37, 64), (64, 64), (2, 16, 32, 4)),
        ("mk,nk->mn", (37, 64), (40, 64), (1, 16, 48, 4)),
        ("conv", (2, 9, 9, 8), (3, 3, 8, 64), (2, 3, 3, 2, 32, 4)),
        ("mk,kn->mn", (5, 6), (6, 40), (1, 6, 48)),
    ],
)
def test_four_steps_of_a_column_stand_together(
    kind: str, x: tuple[int, ...], w: tuple[int, ...], panels: tuple[int, ...]
) -> None:
    func, _ = function(kind, x, w, known=True)
    packed = pack_for_machine(func, Machine(vector_bytes=64, registers=32))
    (found,) = (op for op in packed.walk() if op.kind is graph.constant)
    assert tensor_of(found.result).shape == panels


@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn"])
@pytest.mark.parametrize(("rows", "columns"), [(40, 64), (17, 40), (5, 70)])
def test_a_panel_of_bytes_is_packed_by_lanes(spec: str, rows: int, columns: int) -> None:
    depth = 132
    right = (depth, columns) if spec == "mk,kn->mn" else (columns, depth)
    func, inputs = function(spec, (rows, depth), right, known=False)
    made = lowered(Case("bytes", ("contraction",), func), AVX512)
    (region,) = region_ops(made)
    kinds = {op.kind.name for op in lower_region(region, "bytes", made.ranges, AVX512).walk()}
    assert "block.store" not in kinds  # byte by byte
    check_blocks(made, inputs, AVX512)


SHAPES = [
    ("mk,nk->mn", (37, 132), (70, 132)),
    ("mk,kn->mn", (37, 132), (132, 70)),
    ("nk,mk->mn", (20, 36), (9, 36)),
    ("mk,nk->mn", (5, 64), (24, 64)),  # one panel that is no square of words
    ("mk,nk->mn", (59, 1600), (20, 1600)),  # two slabs
    ("mk,nk->mn", (60, 2004), (16, 2004)),  # whose halves are no fours
    ("mk,kn->mn", (60, 2004), (2004, 16)),
    ("mk,nk->mn", (70, 512), (33, 512)),  # blocks of rows, where the cache is small
    ("bmk,bnk->bmn", (2, 19, 24), (2, 33, 24)),
]
SHARED = ("bmk,cnk->bcmn", (2, 60, 32), (3, 20, 32))
"""A panel for several places of rows, whose bytes stay as they are."""


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize(("spec", "x", "w"), [*SHAPES, SHARED])
def test_bytes_are_packed_for_any_panel(spec: str, x: tuple[int, ...], w: tuple[int, ...], machine: Machine) -> None:
    func, inputs = function(spec, x, w, known=False)
    machine = replace(machine, l2_bytes=16 << 10)
    check_blocks(lowered(Case("bytes", ("contraction",), func), machine), inputs, machine)


@pytest.mark.parametrize("width", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("elem", [I8, U8])
@pytest.mark.parametrize(("spec", "x", "w"), SHAPES)
def test_bytes_of_one_kind_are_packed_as_the_other(
    elem: Scalar, spec: str, x: tuple[int, ...], w: tuple[int, ...], width: Machine
) -> None:
    machine = replace(width, mixes_bytes=True, l2_bytes=16 << 10)
    func, inputs = function(spec, x, w, known=False, elems=(elem, elem))
    made = lowered(Case("bytes", ("contraction",), func), machine)
    (kernel,) = check_blocks(made, inputs, machine)
    factors = [{block.elem_of(v.type) for v in op.operands[:2]} for op in kernel.walk() if op.kind is block.dot]
    assert factors
    assert all(found == {I8, U8} for found in factors)
    for check in checking.verify_regions(func, HOST, inputs):
        assert check.maximum == 0
