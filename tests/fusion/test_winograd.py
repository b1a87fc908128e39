"""Winograd's convolution: the same numbers, only where it pays, and cheap to run once partitioned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphfuse.checking import verify_regions
from graphfuse.dialects import control, graph
from graphfuse.fusion.conv import winograd as module
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.regions.outline import outline
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Builder, Func, Params
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import F32, Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import Dim, sym
from tests.machine import HOST


def convolution(
    batch: Dim,
    size: tuple[Dim, Dim],
    channels: int,
    out: int,
    *,
    padded: bool,
    stride: int = 1,
    mask: np.ndarray[Any, Any] | None = None,
) -> Func:
    """A channels-last 3x3 convolution with a ReLU behind it."""
    rng = np.random.default_rng(0)
    x = Params((Tensor((batch, *size, channels), F32),), ("x",))
    b = Builder()
    value = x.values[0]
    if padded:
        value = b(graph.pad, value, low=(0, 1, 1, 0), high=(0, 1, 1, 0), value=0.0, mode="constant")
    weights = rng.standard_normal((3, 3, channels, out), dtype=np.float32)
    if mask is not None:
        weights *= mask
    w = b(graph.constant, value=Dense(weights))
    attrs = {"low": (0, 0), "high": (0, 0), "dilation": (1, 1), "input_dilation": (1, 1), "layout": "nhwc"}
    y = b(graph.conv, value, w, strides=(stride, stride), **attrs)
    assert isinstance(y.type, Tensor)
    zero = b(graph.full, shape=y.type.shape, elem=F32, value=0.0)
    r = b(graph.max_, y, zero)

    b.op(control.return_, r)
    dims = tuple((str(d), 1, 64) for d in (batch, *size) if not isinstance(d, int))
    return Func("main", Block(x, tuple(b.ops)), {}, dims)


def kinds(func: Func) -> list[str]:
    return [op.kind.name for op in func.walk()]


CASES = [
    (1, (16, 16), True),
    (2, (13, 15), True),
    (1, (14, 18), False),
    (sym("n"), (16, 12), True),
]


@pytest.mark.parametrize(("batch", "size", "padded"), CASES)
def test_it_computes_the_same(batch, size, padded):
    func = convolution(batch, size, 32, 48, padded=padded)
    after = winograd(func)
    verify(after)
    assert "graph.conv" not in kinds(after)
    x = np.random.default_rng(1).standard_normal((batch if isinstance(batch, int) else 2, *size, 32), dtype=np.float32)
    (want,) = interp.run(func, x, wide=True)
    (got,) = interp.run(after, x)
    assert np.abs(got - want).max() < 2e-6 * np.std(want) * 16


def test_its_regions_are_right_and_few():
    func = convolution(1, (16, 16), 32, 48, padded=True)
    x = np.random.default_rng(1).standard_normal((1, 16, 16, 32), dtype=np.float32)
    checks = verify_regions(func, HOST, [x])
    assert not [c for c in checks if c.is_suspect]
    # padding, input transform, products, output transform with its ReLU
    assert len({c.kernel for c in checks}) == 4


def test_input_tiles_are_written_in_place():
    regions, _ = outline(winograd(convolution(1, (16, 16), 32, 48, padded=True)))
    (stack,) = (op for op in regions.body.ops if op.kind is graph.concat)
    parts = [v.op.operands[0] for v in stack.operands if v.op is not None and v.op.kind is graph.reshape]
    assert len(parts) == 16
    assert len({v.owner for v in parts}) == 1  # one region writes all sixteen


@pytest.mark.parametrize(
    "func",
    [
        convolution(1, (16, 16), 16, 48, padded=True),
        convolution(1, (6, 6), 32, 48, padded=True),
        convolution(1, (17, 17), 32, 48, padded=True, stride=2),
        convolution(1, (sym("h"), sym("w")), 32, 48, padded=True),
    ],
    ids=["few channels", "few tiles", "strided", "sizes unknown"],
)
def test_it_declines(func):
    assert "graph.conv" in kinds(winograd(func))


CAUSAL = np.ones((3, 3, 1, 1), np.float32)
CAUSAL[2] = CAUSAL[1, 2] = 0


@pytest.mark.parametrize(
    "mask",
    [
        CAUSAL,
        np.where(np.arange(48) == 7, CAUSAL, 1),
        np.where(np.arange(32)[:, None] == 7, CAUSAL, 1),
    ],
    ids=["all", "one output channel", "one input channel"],
)
def test_what_no_weight_reads_leaves_no_trace(mask):
    """Under a tap without weights may lie anything: a sum that it takes part in is rounded to what it leaves."""
    assert "graph.conv" in kinds(winograd(convolution(1, (16, 16), 32, 48, padded=True, mask=mask)))


def test_channels_without_any_weight_are_no_masks():
    mask = np.where(np.arange(48) == 7, 0, 1) * np.where(np.arange(32)[:, None] == 3, 0, 1)
    assert "graph.conv" not in kinds(winograd(convolution(1, (16, 16), 32, 48, padded=True, mask=mask)))


def test_a_wrong_transform_is_seen(monkeypatch):
    func = convolution(1, (16, 16), 32, 48, padded=True)
    monkeypatch.setattr(module, "_OUTPUT", ((1, 1, 1, 0), (0, 1, -1, 1)))
    x = np.random.default_rng(1).standard_normal((1, 16, 16, 32), dtype=np.float32)
    (want,), (got,) = interp.run(func, x), interp.run(winograd(func), x)
    assert np.abs(got - want).max() > 0.1 * np.std(want)
