"""Products of bytes, compiled, against the interpreter: weights known and packed in fours, or packed by the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse import checking
from graphfuse.blockgen.lower import lower_region
from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.dialects import control, graph
from graphfuse.ir.core import Block, Func, Op, Params, Value, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import I8, I32, U8, Tensor
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX512, Case, check_blocks, lowered, region_ops
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


def function(kind: str, x: tuple[int, ...], w: tuple[int, ...], *, known: bool) -> tuple[Func, list[np.ndarray]]:
    rng = np.random.default_rng(3)
    inputs = [rng.integers(0, 256, x).astype(np.uint8), rng.integers(-128, 128, w).astype(np.int8)]
    types = [Tensor(x, U8), *([] if known else [Tensor(w, I8)])]
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
