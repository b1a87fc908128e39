"""Sorted lines and selections, compiled for an emulated GPU."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from benchmarks.emulated_torch import emulated  # noqa: E402
from tests.torch.support import check, left_to_torch, recorded_graphs  # noqa: E402

NUMBERS = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8,
]  # fmt: skip


def lines(shape, dtype):
    """Few different numbers, with NaN, infinities and zeros of both signs among floats."""
    x = torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(0))
    if not dtype.is_floating_point:
        return (x - (0 if dtype == torch.uint8 else 50)).to(dtype)
    x = ((x - 50) / 7).to(dtype)
    for i, odd in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 0.0)):
        x.view(-1)[i::11] = odd
    return x


def same(fn, x, arch="sm_90a"):
    """What an emulated GPU computes is what torch does, bit for bit but for NaN."""
    torch._dynamo.reset()
    with emulated(arch), recorded_graphs() as graphs:
        got = torch.compile(fn, backend="graphfuse")(x)
    assert not left_to_torch(graphs)
    for g, w in zip(got, fn(x), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=0, equal_nan=True)
        assert not g.is_floating_point() or torch.equal(g.signbit() & (g == 0), w.signbit() & (w == 0))


@pytest.mark.some(8)
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("descending", [False, True])
def test_elements(dtype, descending) -> None:
    same(partial(torch.sort, dim=-1, descending=descending, stable=True), lines((5, 131), dtype))


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((3,), 0), ((13, 2), 0), ((2, 1), 1), ((300, 13), 1), ((2, 1168), 1), ((1, 5296), 1), ((67, 3, 4), 0)],
)
def test_shapes(shape, axis) -> None:
    for arch in ("sm_80", "sm_90a"):
        same(lambda x: torch.sort(x, stable=True, dim=axis), lines(shape, torch.float16), arch)


@pytest.mark.parametrize("k", [0, 1, 7, 64, 100])
def test_the_first(k) -> None:
    x = torch.randperm(500, generator=torch.Generator().manual_seed(0)).reshape(5, 100).float()
    same(lambda x: x.topk(k), x)
    same(lambda x: x.t().topk(k, 0, largest=False), x)


@pytest.mark.parametrize(("shape", "k"), [((2, 20000), 50), ((2, 20000), 700), ((1, 70001), 5), ((33000, 3), 2)])
def test_the_first_of_long_lines(shape, k) -> None:
    """By groups, in a walk, and in parts of lines."""
    x = torch.randperm(shape[0] * shape[1], generator=torch.Generator().manual_seed(0)).reshape(shape).int()
    same(lambda x: x.topk(k, shape.index(max(shape))), x)


LONG = [(torch.float16, 16500), (torch.float32, 8200), (torch.float64, 4100), (torch.int64, 4100), (torch.uint8, 16500)]


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *(pytest.param(d, 131, marks=pytest.mark.full if i % 2 else ()) for i, d in enumerate(NUMBERS)),
        (torch.float32, 1),
        (torch.float16, 5),
        LONG[0],
        *(pytest.param(*of, marks=pytest.mark.full) for of in LONG[1:]),
    ],
)
def test_elements_by_rank(dtype, size) -> None:
    x = lines((2, size), dtype)
    if dtype.is_floating_point:
        x[1] = x[1].nan_to_num()
    for fn in (lambda x: x.median(-1), lambda x: x.nanmedian(-1), lambda x: x.t().kthvalue(1 + size // 3, 0)):
        torch._dynamo.reset()
        with emulated(), recorded_graphs() as graphs:
            found, place = torch.compile(fn, backend="graphfuse")(x)
        assert not left_to_torch(graphs)
        torch.testing.assert_close(found, fn(x)[0], rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(x.gather(1, place[:, None])[:, 0], found, rtol=0, atol=0, equal_nan=True)


def test_ranks_in_many_long_lines_are_left_to_torch() -> None:
    torch._dynamo.reset()
    with emulated(), recorded_graphs() as graphs:
        torch.compile(lambda x: (x + x).kthvalue(3), backend="graphfuse", dynamic=False)(torch.zeros(40, 9000))
    why = "more than 32 lines of more than 8192 elements, or it is not known how many"
    assert left_to_torch(graphs) == {"kthvalue": why}


def test_nothing() -> None:
    same(lambda x: x.sort(-1), torch.zeros(0, 5))
    same(lambda x: x.sort(-1), torch.zeros(5, 0))


def test_lines_that_registers_do_not_hold_are_left_to_torch() -> None:
    torch._dynamo.reset()
    with emulated(), recorded_graphs() as graphs:
        torch.compile(lambda x: (x * 2).sort(), backend="graphfuse")(torch.zeros(20000))
    assert left_to_torch(graphs) == {"sort": "it selects more than 2048 elements of a line"}


def test_a_cpu_keeps_few() -> None:
    check(lambda x: (x * 2).sort()[0], torch.randn(3, 64), ops=("sort",))
    check(lambda x: (x * 2).sort()[0], torch.randn(3, 65), left=("sort",))
