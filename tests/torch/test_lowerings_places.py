"""Lowerings of ranks in lines, places in sorted lines, uneven windows, pairs of rows, and the bits of floats."""

import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from tests.torch.support import check, compiled  # noqa: E402 - it imports torch
from tests.torch.test_lowerings import same  # noqa: E402

nan, inf = math.nan, math.inf
i64, f64, f32, bf16, f16 = torch.int64, torch.float64, torch.float32, torch.bfloat16, torch.float16

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rand(*shape):
    return torch.randn(*shape).requires_grad_()


# ranks


@pytest.mark.parametrize("dtype", [f32, f16, i64])
def test_ranks_in_lines(dtype):
    def ranks(x):
        return (
            x.kthvalue(3, 1)[0], x.kthvalue(6, 0, keepdim=True)[0], *x.median(1), x.median(0, keepdim=True)[0],
            x.mode(1)[0], x.mode(0, keepdim=True)[0], x.median(),
        )  # fmt: skip

    # no equal ones where an index is returned
    x = torch.stack([torch.randperm(5) for _ in range(6)]).to(dtype)
    same(ranks, x)


def test_ranks_of_nan():
    def ranks(x):
        return x.median(1)[0], x.nanmedian(1)[0], x.kthvalue(2, 1)[0], x.nanmedian(), x.median(), x.mode(1)[0]

    x = torch.tensor([[3.0, nan, 1.0, 2.0], [nan, nan, nan, nan], [inf, -inf, 0.0, -0.5], [2.0, nan, nan, 7.0]])
    same(ranks, x, signs=False)


def test_gradients_of_ranks():
    check(lambda x: (x.median(1)[0], x.kthvalue(2, 0)[0], x.median(), x.nanmedian(0)[0]), rand(4, 6), ops=("median",))


def test_long_lines_are_left():
    same(lambda x: x.median(1)[0] + 1, torch.randn(3, 40), left=("median",))


# sorted lines, counts, masks


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_lines(right):
    def places(x, bounds, lines, order):
        return (
            torch.bucketize(x, bounds, right=right), torch.bucketize(x, bounds[:1], right=right, out_int32=True),
            torch.searchsorted(lines, x, right=right), torch.searchsorted(bounds, 0.5, right=right),
            torch.searchsorted(lines.flip(1), x, right=right, sorter=order), torch.bucketize(x, bounds[:0]),
        )  # fmt: skip

    x = torch.tensor([[nan, inf, -inf, 0.5, 0.25, 1.0], [-3.0, 3.0, 0.0, 2.0, 7.0, 0.5]])
    bounds, lines = torch.tensor([-1.0, 0.0, 0.5, 0.5, 0.5, 2.0, 3.0]), torch.randn(2, 9).sort(1)[0]
    same(places, x, bounds, lines, torch.arange(9).flip(0).expand(2, -1).contiguous())


def test_membership():
    def found(x, few):
        return torch.isin(x, few), torch.isin(x, few.int(), invert=True), torch.isin(x, few[:0])

    same(found, torch.tensor([[nan, 1.0, 2.0], [-0.0, 7.0, inf]]), torch.tensor([0.0, 2.0, nan, 1.5]))


def test_counts_by_parts():
    def counted(x):
        return x.histc(7, -1, 1), x.histc(100, -2, 3)

    same(counted, torch.cat([torch.randn(500), torch.tensor([nan, inf, -inf, -1.0, 1.0, 3.0, -2.0])]))
    same(lambda x: x.histc(10) + 1, torch.randn(500), left=("histc",))


def test_chosen_elements():
    def chosen(x, mask):
        return torch.nonzero_static(mask, size=4), torch.nonzero_static(x, size=30, fill_value=7)

    mask = torch.randn(3, 5) > 0
    same(chosen, (torch.randn(3, 5) > 0).float(), mask)
    check(lambda x, s: x.masked_scatter(mask, s) * 2, rand(3, 5), rand(20), ops=("masked_scatter_backward",))


# sums of neighbours


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_uneven_windows(dtype):
    def pooled(x):
        a, b = F.adaptive_max_pool2d(x, (4, 3), return_indices=True)
        return F.adaptive_avg_pool2d(x, (4, 10)), F.adaptive_avg_pool2d(x[0], (5, 3)), a, b

    ops = ("_adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward")
    check(pooled, rand(2, 3, 9, 7).detach().to(dtype).requires_grad_(), ops=ops)


@pytest.mark.parametrize(
    ("pool", "shape"), [(F.adaptive_avg_pool1d, (8, 8, 0)), (F.adaptive_avg_pool3d, (2, 8, 0, 3, 2)),
                        (F.adaptive_max_pool2d, (8, 0, 4, 4)), (F.adaptive_max_pool1d, (8, 8, 0))],
)  # fmt: skip
def test_windows_of_nothing_are_refused_as_eager_torch_does(pool, shape):
    with pytest.raises(RuntimeError, match="(?i)non-?zero|non-empty"):
        compiled(lambda x: pool(x, 5))(torch.zeros(shape))


def test_uneven_windows_of_volumes():
    def pooled(x):
        return F.adaptive_avg_pool3d(x, (2, 4, 3)), F.adaptive_max_pool3d(x, (3, 2, 4)), F.max_pool3d(x, 2, 1, 1)

    ops = ("_adaptive_avg_pool3d_backward", "adaptive_max_pool3d_backward", "max_pool3d_with_indices_backward")
    check(pooled, rand(2, 5, 5, 6), ops=ops)


def test_maximum_of_uneven_windows_of_nan():
    x = torch.full((1, 5, 7), -inf)
    x[0, 1, 2] = x[0, 1, 3] = nan
    x[0, 4, 6] = 1.0
    same(lambda x: F.adaptive_max_pool2d(x, (3, 3), return_indices=True), x)
    same(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), torch.full((1, 5, 7), inf))


def test_gradient_of_padding_with_the_edge():
    def padded(x):
        return (
            F.pad(x, (1, 2, 0, 3), mode="replicate"), F.pad(x, (-1, 2, 2, -3), mode="replicate"),
            F.pad(x[..., :1, :2], (2, 1, 3, 1), mode="replicate"), F.pad(x[0], (2, 4), mode="replicate"),
        )  # fmt: skip

    check(padded, rand(2, 3, 5, 4), ops=("replication_pad2d_backward", "replication_pad1d_backward"))


def test_antialiased_resize():
    def resized(x):
        return (
            F.interpolate(x, size=(5, 4), mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=(0.4, 1.7), mode="bilinear", antialias=True),
            F.interpolate(x, size=(5, 14), mode="bilinear", antialias=True, align_corners=True),
        )

    check(resized, rand(1, 2, 11, 9), ops=("_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa_backward"))


# rows


@pytest.mark.parametrize("p", [0.0, *(pytest.param(p, marks=pytest.mark.full) for p in (1.0, 1.5)), 3.0, inf])
def test_distances(p):
    def distances(x, y):
        return torch.cdist(x, y, p), F.pdist(x, p)

    x, y = torch.randn(6, 5), torch.randn(4, 5)
    y[1] = x[2]
    check(distances, x.requires_grad_(), y.requires_grad_(), ops=("_cdist_backward", "_pdist_backward"))


# bits


def test_parts_of_floats():
    values = (nan, inf, -inf, 0.0, -0.0, 1.0, -0.75, 1e-40, -1e-45, 3e38, 0.1, -8.0)
    for dtype in (f32, f16, f64):
        same(torch.frexp, torch.tensor(values).to(dtype))
    for dtype in (f32, bf16, f64):
        x = torch.tensor(values).to(dtype)
        same(torch.nextafter, x[:, None].expand(-1, 12).contiguous(), x.expand(12, -1).contiguous())
