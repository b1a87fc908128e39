"""Long sums are split where programs would be idle, and nowhere else; every kernel of a part runs on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.dialects import graph
from graphfuse.fusion.products.split_long_sums import _nested, share_sums
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func, tensor_of
from graphfuse.ir.verifier import verify
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import attention, softmax
from tests.blockgen.support import Case, check_blocks, graph_func


def count(func: Func, kind: object) -> int:
    return sum(op.kind is kind for op in func.walk())


@pytest.mark.parametrize(
    ("params", "body"),
    [
        ("x: 2x262144xf32", softmax(1, "2, 262144")),
        ("x: 2x65536xf32", softmax(1, "2, 65536")),
        ("x: 500x600xf16", 'e = exp(x); s = reduce(e) {axes = [0, 1], kind = "sum"}; return(s)'),
        ("x: 70000x5xf32", 's = reduce(x) {axes = [0], kind = "sum"}; n = neg(s); return(n)'),
        ("x: 3x4096xf16, w: 70x4096xf16", 'y = contract(x, w) {spec = "mk,nk->mn"}; z = neg(y); return(z)'),
    ],
)
def test_parts_give_the_whole(params: str, body: str) -> None:
    func = graph_func(params, body)
    split = share_sums(func)
    verify(split)
    assert count(split, graph.reduce) > count(func, graph.reduce)
    regions, _ = outline(split)
    check_blocks(regions, Case("split", (), func).arrays({}), GpuMachine())


POWERS = """
    m = reduce(x) {axes = [AXES], kind = "max", keepdims = true}; z = full() {shape = [ROW], elem = f32, value = 0.0}
    i = isinf(m); c = select(i, z, m); b = broadcast(BASE) {shape = [SHAPE]}; d = sub(x, b); e = exp(d)
    s = reduce(e) {axes = [AXES], kind = "sum", keepdims = true}; return(m, s)"""
"""The largest, and the sum of exponentials relative to it."""


def powers(axes: str, row: str, shape: str, base: str) -> Func:
    body = POWERS.replace("AXES", axes).replace("ROW", row).replace("SHAPE", shape).replace("BASE", base)
    return graph_func(f"x: {shape.replace(', ', 'x')}xf32", body)


@pytest.mark.parametrize("base", ["m", "c"])
@pytest.mark.parametrize(
    ("axes", "row", "shape", "kept"),
    [
        ("1", "7, 1", "7, 65536", 0),
        ("0", "1, 3", "65536, 3", 1),
        ("0, 2", "1, 7, 1", "3, 7, 32768", 1),
        ("1", "7, 1", "7, 131101", 0),
    ],
)
def test_exponentials_of_parts_are_those_of_the_whole(axes: str, row: str, shape: str, kept: int, base: str) -> None:
    func = powers(axes, row, shape, base)
    split = share_sums(func)
    verify(split)
    assert count(split, graph.reduce) > count(func, graph.reduce)
    x = np.random.default_rng(0).normal(size=tensor_of(func.body.params.values[0]).shape).astype(np.float32)
    rows = list(np.moveaxis(x, kept, 0))
    rows[0].flat[3] = np.inf
    rows[1].flat[:] = -np.inf
    rows[2][:] -= 300  # a part of nothing beside what is far below 0
    rows[2].flat[:30000] = -np.inf
    if len(rows) > 3:
        rows[3].flat[9], rows[4].flat[::2] = np.nan, -np.inf
    with np.errstate(all="ignore"):
        for want, got in zip(run(func, x), run(split, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_parts_of_exponentials_are_read_once() -> None:
    regions, _ = outline(share_sums(powers("1", "3, 1", "3, 128256", "m")))
    assert [op.attrs["kind"] for op in regions.walk() if op.kind is graph.region] == ["reduction", "reduction"]


@pytest.mark.parametrize(
    ("length", "parts"),
    [
        (1 << 17, 32),  # a part is no less than LEAST
        (1 << 22, 128),  # no more than run at once: twice as many would leave half of them idle at the end
        (1 << 25, 1 << 10),  # waves of rows
        (1 << 28, 1 << 13),
        (1 << 30, 1 << 13),  # which one program still reduces
    ],
)
def test_long_sums_have_waves_of_parts(length: int, parts: int) -> None:
    split = share_sums(graph_func(f"x: {length}xf32", 's = reduce(x) {axes = [0], kind = "sum"}; return(s)'))
    first = next(op for op in split.walk() if op.kind is graph.reduce)
    assert tensor_of(first.result).shape == (parts,)


@pytest.mark.parametrize(("most", "splits"), [(16, True), (4096, False)])
def test_unknown_rows_count_at_their_most(most: int, splits: bool) -> None:
    func = graph_func("x: (n)x4096xf16, w: 4096x1000xf16", 'y = contract(x, w) {spec = "mk,kn->mn"}; return(y)',
                      f"n in 1..{most}")  # fmt: skip
    split = share_sums(func)
    assert (count(split, graph.reduce) == 1) == splits
    if splits:
        check_blocks(outline(split)[0], Case("split", (), func).arrays({"n": 3}), GpuMachine())


@pytest.mark.parametrize(
    ("params", "body"),
    [
        ("x: 200x262144xf32", 's = reduce(x) {axes = [1], kind = "sum"}; return(s)'),
        ("x: 2x40000xf32", softmax(1, "2, 40000")),
        ("x: 70x50257xf32", softmax(1, "70, 50257")),  # programs enough
        ("x: 2x5000xf32", 's = reduce(x) {axes = [1], kind = "sum"}; return(s)'),
        ("x: 4096x4096xf16, w: 4096x4096xf16", 'y = contract(x, w) {spec = "mk,kn->mn"}; return(y)'),
        ("x: 3x200xf16, w: 200x70xf16", 'y = contract(x, w) {spec = "mk,kn->mn"}; return(y)'),
    ],
)
def test_what_stays_whole(params: str, body: str) -> None:
    func = graph_func(params, body)
    assert [op.kind for op in share_sums(func).walk()] == [op.kind for op in func.walk()]


@pytest.mark.parametrize(("said", "parts"), [(4, 4), (1, 1), (None, 1)])
def test_the_target_may_tell_how_many_parts_a_product_has(said: int | None, parts: int) -> None:
    func = graph_func("x: 256x4096xf16, w: 300x4096xf16", 'y = contract(x, w) {spec = "mk,nk->mn"}; return(y)')
    split = share_sums(func, 132, 8, lambda *_: said)
    batch = [tensor_of(op.result).shape[:-2] for op in split.walk() if op.kind is graph.contract]
    assert batch == [(parts,) if parts > 1 else ()]


def test_attention_over_many_keys_stays_whole() -> None:
    func = attention("decode", "1", "1", "4096", 2, 64).func
    regions, _ = outline(share_sums(func))
    assert [op.attrs["kind"] for op in regions.walk() if op.kind is graph.region] == ["attention"]


@pytest.mark.parametrize(("dims", "wanted", "parts"), [
    ((4, 80, 80), 14, 16), ((4, 80, 80), 3, 4), ((7, 11), 5, 7), ((2, 101), 30, 0), ((6400,), 14, 0),
])  # fmt: skip
def test_parts_cut_one_of_several_dims(dims: tuple[int, ...], wanted: int, parts: int) -> None:
    """Near to what is wanted; where none is near, or there is one dim, divisors of the whole are looked at."""
    assert _nested(dims, wanted) == parts


@pytest.mark.parametrize("length", [8388608, 8388593, 8400001])
def test_a_mean_is_made_of_the_sums_of_which_deviations_are(length: int) -> None:
    """Whatever the length: what is long is read once."""
    body = f"""
        s = reduce(x) {{axes = [0], kind = "sum", keepdims = true}}; n = full() {{shape = [1], elem = f32,
        value = {length}.0}}; m = div(s, n); b = broadcast(m) {{shape = [{length}]}}; d = sub(x, b); q = mul(d, d);
        v = reduce(q) {{axes = [0], kind = "sum"}}; return(v)"""
    func = graph_func(f"x: {length}xf32", " ".join(body.split()))
    regions, _ = outline(share_sums(func), Rules(reads_padded=True))
    assert [op.attrs["kind"] for op in regions.body.ops if op.kind is graph.region] == ["reduction", "reduction"]
