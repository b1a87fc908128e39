"""The order in which a product's programs are made."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.blockopt.grid import AXES, flat_grid
from graphfuse.dialects import block
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.match import match_product
from graphfuse.gpu.transforms.hopper.matmul_pass import hopper_matmul
from graphfuse.gpu.transforms.hopper.order import GROUP, grouped
from graphfuse.gpu.transforms.hopper.raise_boxes import raise_boxes
from graphfuse.ir.core import attr_dim
from graphfuse.kernels.specialise import Facts, specialised
from graphfuse.symbolic import evaluate, sym
from tests.kernels.test_seeds import _dot

TILE = (64, 64, 32)


def order_of(file, axes, **macros):
    kernel = _dot(file, "half", (64, 64, 64), TILE, **macros).kernel()
    facts = Facts(axes, tuple((16, True) for _ in kernel.parameters))
    func = raise_boxes(specialised(kernel.func, kernel.parameters, facts))
    scalars = Scalars(func)
    product = match_product(func, scalars)
    assert product is not None
    return grouped(func, product, scalars), func


@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (8, 2), (9, 4), (16, 3), (21, 1), (17, 30)])
def test_every_tile_is_made_once_and_in_groups(sizes):
    order, _ = order_of("matmul", 2)
    x, y = sizes
    made = [evaluate(order, {"n": n, "grid_x": x, "grid_y": y}) for n in range(x * y)]
    assert sorted(made) == list(range(x * y))
    rows = np.array(made) % x
    for first in range(0, x, GROUP):
        group = rows[first * y : min(first + GROUP, x) * y]
        assert set(group) == set(range(first, min(first + GROUP, x)))


def test_planes_are_apart():
    order, _ = order_of("matmul", 3)
    made = [evaluate(order, {"n": n, "grid_x": 11, "grid_y": 3, "grid_z": 2}) for n in range(66)]
    assert [n + 33 for n in made[:33]] == made[33:]
    assert sorted(made) == list(range(66))


def test_an_order_made_by_hand_stays():
    assert order_of("matmul_grouped", 1, GROUP=2)[0] is None


def test_both_roles_and_nobody_else_ask_for_the_place():
    _, func = order_of("matmul", 2)
    placed = [op for op in hopper_matmul(func).walk() if op.kind is block.index and op.result.hint.startswith("placed")]
    assert len(placed) == 2
    assert len({str(attr_dim(op, "expr")) for op in placed}) == 1


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axes_of_a_grid_are_kept(axes):
    kernel = _dot("matmul", "half", (64, 64, 64), TILE).kernel()
    want = tuple(map(sym, AXES[:axes])) if axes > 1 else None
    assert flat_grid(kernel.func, axes).attrs.get("axes") == want


def test_more_than_a_group():
    """Ten rows of tiles, of which the emulator makes all; the launch and results are those of any order."""
    kernel = _dot("matmul", "half", (640, 72, 32), TILE).run("emulator")
    assert kernel.compiled[0].launch is not None
    assert len(kernel.compiled[0].launch.tensor_maps) == 3
