"""Few updates of a large table of halves, on an emulated GPU: rounded once, and only what they touch is f32."""

import pytest

torch = pytest.importorskip("torch")

from benchmarks.emulated_torch import emulated  # noqa: E402

ROWS, WIDTH = 30011, 96


def check(fn, *args):
    """The float64 result, rounded once; the table is read and written as halves alone."""
    want = fn(*(a.double() if a.is_floating_point() else a for a in args)).to(args[0].dtype)
    with emulated() as reports:
        got = torch.compile(fn, backend="graphfuse", dynamic=False)(*args)
    torch.testing.assert_close(got, want, rtol=0, atol=2.0**-9)
    assert sum(report.global_bytes for _, report in reports) < 2.8 * want.nbytes, "it is copied once"


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows(dtype):
    """Sums of a thousand halves would come to a stop; some of the updates are of one row, some from the end."""
    torch.manual_seed(0)
    x, u = torch.zeros(ROWS, WIDTH, dtype=dtype), torch.rand(700, WIDTH).to(dtype)
    i = torch.cat([torch.full((600,), 7), torch.randint(ROWS, (100,))])
    check(lambda x, i, u: x.index_add(0, i, u), x, i, u)
    check(lambda x, i, u: x.index_put((i - ROWS,), u, accumulate=True), x, i, u)


def test_elements():
    torch.manual_seed(0)
    x, u = torch.rand(5800, 1009).bfloat16(), torch.rand(41, 1009).bfloat16()
    i = torch.randint(3, (41, 1009))
    check(lambda x, i, u: x.scatter_add(0, i, u), x, i, u)
    check(lambda x, i, u: x.scatter_reduce(0, i, u, "prod"), x, i, u)


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_very_few(reduce):
    """Some meet, some from the end: two launches beside the copy."""
    torch.manual_seed(0)
    x, u, i = torch.rand(3001, 97).half(), torch.rand(9, 97).half(), torch.tensor([5, 3000, 5, 0, 2, 5, 1, 3000, 4])
    check(lambda x, i, u: x.scatter_reduce(0, i[:, None].expand(9, 97), u, reduce), x, i, u)
    if reduce == "sum":
        check(lambda x, i, u: x.index_put((i - 3001,), u, accumulate=True), x, i, u)
