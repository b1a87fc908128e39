"""Convolutions of every kind compute the same after layout and decompose_conv, and end in the form promised."""

import numpy as np
import pytest

from graphfuse.dialects import control, graph
from graphfuse.fusion.passes import GRAPH_PIPELINE
from graphfuse.interp.graph import run
from graphfuse.ir.core import Block, Builder, Func, Params
from graphfuse.ir.dense import Dense
from graphfuse.ir.passes import run as run_passes
from graphfuse.ir.types import F32, Tensor
from graphfuse.symbolic import sym

RNG = np.random.default_rng(0)


def conv_func(x_shape, w_shape, *, constant_weights=True, layout="nchw", **attrs):
    spatial = len(w_shape) - 2
    every = {name: (attrs.pop(name, default),) * spatial for name, default in
             (("strides", 1), ("low", 0), ("high", 0), ("dilation", 1), ("input_dilation", 1))}  # fmt: skip
    types = (Tensor(x_shape, F32),) if constant_weights else (Tensor(x_shape, F32), Tensor(w_shape, F32))
    params = Params(types)
    b = Builder()
    weights = Dense(RNG.standard_normal(w_shape).astype(np.float32))
    w = b(graph.constant, value=weights) if constant_weights else params.values[1]
    y = b(graph.conv, params.values[0], w, layout=layout, **every, **attrs)
    return Func("f", Block(params, (*b.ops, control.return_(y))), {}, (("n", 1, 64),))


def check(func, **symbols):
    inputs = [
        RNG.standard_normal([symbols.get(str(d), d) for d in v.type.shape]).astype(np.float32) for v in func.params
    ]
    new = run_passes(func, GRAPH_PIPELINE, "graph")
    (want,), (got,) = run(func, *inputs), run(new, *inputs)
    scale = np.abs(want).max()
    assert np.allclose(want, got, rtol=0, atol=2e-6 * scale)
    for op in new.walk():
        if op.kind is graph.conv:
            assert op.attrs["layout"] == "nhwc"
            assert not any((*op.attrs["low"], *op.attrs["high"]))
            assert set(op.attrs["input_dilation"]) == {1}
            assert len(op.attrs["strides"]) in (2, 3)
    return new


@pytest.mark.parametrize(
    ("up", "kernel", "low", "high", "dilation", "groups", "stride"),
    [
        (2, 2, 0, 0, 1, 1, 1), (2, 4, 2, 2, 1, 1, 1), (2, 3, 1, 2, 1, 1, 1), (3, 2, 0, 1, 1, 2, 1),
        (2, 3, 2, 2, 2, 1, 1), (2, 3, 1, 1, 1, 1, 2), (2, 3, -1, 0, 1, 1, 1), (4, 3, 2, 2, 1, 1, 1),
        (2, 3, 1, 1, 1, 4, 1), (3, 5, 4, 3, 1, 1, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("constant_weights", [True, False])
def test_transposed(up, kernel, low, high, dilation, groups, stride, constant_weights):
    func = conv_func(
        (sym("n"), 4, 5, 6), (8, 4 // groups, kernel, kernel), constant_weights=constant_weights, input_dilation=up,
        low=low, high=high, dilation=dilation, groups=groups, strides=stride,
    )  # fmt: skip
    check(func, n=2)


def test_transposed_with_symbolic_size():
    func = conv_func((sym("n"), 4, sym("h"), sym("w")), (6, 4, 3, 3), input_dilation=2, low=1, high=2)
    for h in (1, 4, 5):
        check(func, n=1, h=h, w=7)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_one_dim(layout):
    shapes = ((sym("n"), 4, 16), (6, 2, 3)) if layout == "nchw" else ((sym("n"), 16, 4), (3, 2, 6))
    check(conv_func(*shapes, layout=layout, low=1, high=2, strides=2, groups=2), n=2)


def test_three_dims():
    check(conv_func((sym("n"), 4, 6, 5, 4), (6, 4, 3, 3, 3), low=1, high=1), n=2)


@pytest.mark.parametrize("stride", [1, 2])
def test_one_by_one_is_a_contraction(stride):
    new = check(conv_func((sym("n"), 4, 7, 5), (6, 4, 1, 1), strides=stride), n=2)
    assert [op.kind for op in new.walk()].count(graph.contract) == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_one_by_one_of_groups_is_a_contraction_per_group(stride):
    new = check(conv_func((sym("n"), 6, 7, 5), (12, 2, 1, 1), strides=stride, groups=3), n=2)
    (op,) = (op for op in new.walk() if op.kind is graph.contract)
    assert op.attrs["spec"] == "nhwgc,gco->nhwgo"


def test_one_by_one_of_single_channels_stays_a_convolution():
    new = check(conv_func((sym("n"), 6, 7, 5), (6, 1, 1, 1), groups=6), n=2)
    assert graph.contract not in [op.kind for op in new.walk()]


def test_window_over_everything_is_a_contraction():
    new = check(conv_func((sym("n"), 4, 3, 5), (6, 4, 3, 5)), n=2)
    assert [op.kind for op in new.walk()].count(graph.contract) == 1


def test_cropping_padding():
    check(conv_func((sym("n"), 4, 7, 7), (6, 4, 3, 3), low=-1, high=2), n=2)
