"""Models of opsets whose operators meant something else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import graphfuse
from graphfuse.errors import InputError, UnsupportedError
from graphfuse.onnx_backend import Backend


def scan(lengths="", extra=""):
    return parser.parse_model(
        f"""<ir_version: 3, opset_import: ["" : 8]>
        g (int64[2] n, float[2, 3] start, float[2, 4, 3] x) => (float[2, 3] y, float[2, 4, 3] z) {{
            y, z = Scan<
                num_scan_inputs = 1, directions = [1],
                body = b (float[3] s, float[3] v) => (float[3] t, float[3] o) {{
                    t = Add(s, v)
                    o = Neg(t)
                }}
            >({lengths}, start, x)
            {extra}
        }}"""
    )


def test_scan_with_a_batch():
    rng = np.random.default_rng(0)
    start, x = rng.standard_normal((2, 3)).astype(np.float32), rng.standard_normal((2, 4, 3)).astype(np.float32)
    y, z = Backend.run_model(scan(), [np.array([4, 4]), start, x])
    sums = start[:, None] + np.cumsum(x[:, ::-1], axis=1)
    np.testing.assert_allclose(y, sums[:, -1], rtol=1e-5)
    np.testing.assert_allclose(z, -sums, rtol=1e-5)


def test_scan_with_lengths_is_refused():
    with pytest.raises(UnsupportedError, match="Scan: lengths of sequences are not supported"):
        Backend.prepare(scan("n"))
    with pytest.raises(UnsupportedError, match="Upsample beside Scan in a model of opset 8"):
        Backend.prepare(scan(extra="u = Upsample<scales = [1.0, 2.0]>(start)"))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_slopes_of_channels(rank):
    shape = (2, 3, 3, 3)[:rank]
    model = parser.parse_model(
        f"""<ir_version: 3, opset_import: ["" : 6]>
        g (float[{", ".join(map(str, shape))}] x, float[3] slope) => (float[{", ".join(map(str, shape))}] y) {{
            y = PRelu(x, slope)
        }}"""
    )
    x, slope = -np.ones(shape, np.float32), np.array([1, 2, 3], np.float32)
    (y,) = Backend.run_model(model, [x, slope])
    np.testing.assert_array_equal(y, x * slope.reshape(3, *[1] * (rank - 2)))


def resized(opset, mode, scales):
    op = "Resize" if opset == 10 else "Upsample"
    operands, attributes = ("x", f", scales = {scales}") if opset < 9 else ("x, k", "")
    k = f"<float[4] k = {{{', '.join(map(str, scales))}}}>" if opset >= 9 else ""
    return parser.parse_model(
        f"""<ir_version: 4, opset_import: ["" : {opset}]>
        g (float[1, 1, 4, 4] x) => (float[a, b, c, d] y) {k} {{
            y = {op}<mode = "{mode}"{attributes}>({operands})
        }}"""
    )


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_resizing_to_the_right_of_each_element(opset):
    """Coordinates are those of the output over the scale; nearest rounds them down, up where it shrinks."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    at = np.minimum(np.arange(8) / 2, 3)
    (y,) = Backend.run_model(resized(opset, "linear", [1.0, 1.0, 2.0, 2.0]), [x])
    np.testing.assert_array_equal(y[0, 0], 4 * at[:, None] + at)
    (y,) = Backend.run_model(resized(opset, "nearest", [1.0, 1.0, 2.0, 1.5]), [x])
    np.testing.assert_array_equal(y[0, 0], x[0, 0][np.arange(8) // 2][:, [0, 0, 1, 2, 2, 3]])
    if opset == 10:
        (y,) = Backend.run_model(resized(opset, "nearest", [1.0, 1.0, 0.75, 0.6]), [x])
        np.testing.assert_array_equal(y[0, 0], x[0, 0][[0, 2, 3]][:, [0, 2]])


def test_an_opset_that_is_imported_twice():
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float[3] y) { y = Neg(x) }"""
    model = parser.parse_model(text)
    model.opset_import.add(domain="ai.onnx", version=18)
    (y,) = Backend.run_model(model, [np.ones(3, np.float32)])
    np.testing.assert_array_equal(y, [-1, -1, -1])


@pytest.mark.parametrize(("opset", "axis"), [(1, 2), (11, 0), (12, -2), (12, None), (13, 1)])
def test_hardmax_of_all_dims_from_an_axis_on(opset, axis):
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    given = "" if axis is None else f"<axis = {axis}>"
    model = parser.parse_model(
        f"""<ir_version: 4, opset_import: ["" : {opset}]>
        g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = Hardmax{given}(x) }}"""
    )
    (y,) = Backend.run_model(model, [x])
    if opset >= 13:
        np.testing.assert_array_equal(y, x == x.max(1, keepdims=True))
    else:
        rows = x.reshape(int(np.prod(x.shape[: 1 if axis is None else axis])), -1)
        np.testing.assert_array_equal(y, (rows == rows.max(1, keepdims=True)).reshape(x.shape))


@pytest.mark.parametrize(("opset", "size", "fits"), [(11, 6, True), (11, 5, False), (13, 5, False), (18, 5, True)])
def test_pieces_are_equal_until_their_number_is_given(opset, size, fits):
    given = "<num_outputs = 2>" if opset >= 18 else ""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[n] x) => (float[k] y, float[m] z) {{ y, z = Split{given}(x) }}"""
    )
    run = graphfuse.compile(model)
    x = np.arange(size, dtype=np.float32)
    if fits:
        np.testing.assert_array_equal(np.concatenate(list(run({"x": x}).values())), x)
    else:
        with pytest.raises(InputError, match="equal pieces: expected n to be a multiple of 2, found 5"):
            run({"x": x})


def test_slices_are_as_many_of_each_input():
    model = scan()
    for i in (1, 2):
        model.graph.input[i].type.tensor_type.shape.dim[0].dim_param = f"n{i}"
    run = graphfuse.compile(model)
    feed = {"n": np.array([4, 4]), "start": np.zeros((2, 3), np.float32), "x": np.zeros((3, 4, 3), np.float32)}
    with pytest.raises(InputError, match="slices: expected dims n1 and n2 to be equal, found 2 and 3"):
        run(feed)


@pytest.mark.parametrize("opset", [23, 24])
def test_a_mask_may_end_early_from_opset_24_on(opset):
    model = graphfuse.compile(
        parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : {opset}]>
            g (float[1, 4, 8] q, float[1, t, 8] k, float[1, t, 8] v, float[4, s] m) => (float[1, 4, 8] y) {{
                y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, m)
            }}"""
        )
    )
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((1, n, 8)).astype(np.float32) for n in (4, 6))
    whole = np.zeros((4, 6), np.float32)
    want = model(q=q, k=k, v=k, m=whole)["y"]
    short, ends = np.zeros((4, 5), np.float32), np.where(np.arange(6) < 5, 0, -np.inf).astype(np.float32)
    if opset == 23:
        with pytest.raises(InputError, match=r"'m' \(4, 5\)"):
            model(q=q, k=k, v=k, m=short)
    else:
        np.testing.assert_array_equal(
            model(q=q, k=k, v=k, m=short)["y"], model(q=q, k=k, v=k, m=np.tile(ends, (4, 1)))["y"]
        )
    assert np.isfinite(want).all()
