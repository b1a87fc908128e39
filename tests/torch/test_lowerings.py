"""Lowerings of what is elementwise, moves, reduces, selects and indexes, where eager torch has answers of its own."""

import math

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from graphfuse.torch import backend  # noqa: E402 - they import torch
from tests.torch.support import check, left_to_torch, recorded_graphs  # noqa: E402

f64, f32, bf16, f16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
i64, i32, i16, i8, u8 = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8
nan, inf = math.nan, math.inf
FLOATS = (f32, bf16, f16)
SPECIAL = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 2.5, -3.0, 7.0)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def same(fn, *inputs, rtol=0.0, left=(), signs=True):
    """Compare what `fn` returns compiled with eager: to the bit, or nearly; only `left` may be left to torch."""
    torch._dynamo.reset()
    wanted = _tuple(fn(*inputs))
    with recorded_graphs() as graphs:
        got = _tuple(torch.compile(fn, backend=backend, dynamic=False, options={"check": True})(*inputs))
    assert graphs, "nothing was compiled"
    assert set(left_to_torch(graphs)) <= set(left), left_to_torch(graphs)
    assert len(got) == len(wanted)
    wrong = {i: _differs(g, w, rtol, signs) for i, (g, w) in enumerate(zip(got, wanted, strict=True))}
    wrong = {i: message for i, message in wrong.items() if message}
    assert not wrong, "\n".join(f"result {i}: {message}" for i, message in wrong.items())


def _differs(got, want, rtol, signs):
    if got.shape != want.shape or got.dtype != want.dtype or (got.stride() != want.stride() and got.numel() > 1):
        return f"{got.shape} {got.stride()} {got.dtype} for {want.shape} {want.stride()} {want.dtype}"
    is_close = torch.isclose(got, want, rtol=rtol, atol=rtol, equal_nan=True)
    if signs and not rtol and want.dtype.is_floating_point:
        is_close &= (got.signbit() == want.signbit()) | want.isnan()
    at = (~is_close).nonzero()
    return "; ".join(f"{tuple(i.tolist())}: {got[tuple(i)]} for {want[tuple(i)]}" for i in at[:4])


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


def pairs(values, dtype):
    """Every value beside every value."""
    x = torch.tensor(values).to(dtype)
    return x[:, None].expand(-1, len(values)).contiguous(), x[None].expand(len(values), -1).contiguous()


# floats


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_floats(dtype):
    def extremes(x, y):
        return (
            torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y), x.clamp(-1, 2.5),
            x.clamp(min=y), x.clamp(y, x), x.relu(), F.hardtanh(x), x.amax(0), x.amin(1), x.max(),
            x.aminmax(dim=1)[0], x.max(1)[0], x.max(0)[1], x.min(1)[1], x.argmax(), x.argmin(1),
            x.argmax(0, keepdim=True),
        )  # fmt: skip

    same(extremes, *pairs(SPECIAL, dtype), signs=False)


def test_compares_and_tests_floats():
    def tests(x, y):
        return (
            x < y, x <= y, x > y, x >= y, x == y, x != y, x.isnan(), x.isinf(), x.isfinite(), x.isposinf(),
            x.isneginf(), x.signbit(), x.logical_not(), x.logical_and(y), x.logical_xor(y), x.bool(), x.sign(),
            x.sgn(), torch.copysign(x, y), x.abs(), -x, x.nan_to_num(), torch.where(x > y, x, y), torch.heaviside(x, y),
        )  # fmt: skip

    same(tests, *pairs(SPECIAL, f32))
    same(tests, *pairs(SPECIAL, bf16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(dtype):
    def rounded(x):
        return x.round(), x.floor(), x.ceil(), x.trunc(), x.round(decimals=1), x.round(decimals=-1)

    values = (*SPECIAL, -2.5, -0.5, -0.25, 0.5, 1.5, 2.5, 3.5, 0.25, 0.15, 15.0, 25.0, 1e10, -0.3)
    same(rounded, torch.tensor(values).clamp(-6e4, 6e4).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_division_of_floats(dtype):
    def divided(x, y):
        return (
            x / y, x // y, torch.div(x, y, rounding_mode="trunc"), torch.remainder(x, y), torch.fmod(x, y), x // 0.7,
            torch.remainder(x, -2.5), 3.0 / x, 1 // x, torch.fmod(x, 0.7), torch.remainder(2, y),
        )  # fmt: skip

    same(divided, *pairs((*SPECIAL, 0.3, 100.0), dtype), signs=False)


def test_functions_at_their_edges():
    def functions(x, y):
        return (
            F.gelu(y.clamp(-50, 50)), F.silu(x), F.gelu(-x.relu(), approximate="tanh"), F.softplus(x), x.sigmoid(),
            x.tanh(), x.exp(), x.log(),
            x.sqrt(), x.rsqrt(), x.reciprocal(), x.log1p(), x.expm1(), torch.logaddexp(x, y), torch.logaddexp2(x, y),
            x.pow(2), x.pow(0.5), x.pow(-1), x.pow(3), x.pow(0), x.pow(y), torch.pow(2.0, x), x.atan2(y), x.sin(),
            torch.hypot(x, y), x.erf(), x.asinh(), x.acosh(), x.xlogy(y), x.logit(), F.elu(x), F.mish(x), x.sinc(),
            F.hardswish(x), F.hardsigmoid(x), F.leaky_relu(x), F.log_softmax(x, 1), x.angle(), x.lerp(y, 0.3),
        )  # fmt: skip

    same(functions, *pairs((*SPECIAL, 0.5, 30.0, -30.0), f32), rtol=2e-6)


def test_softmax_of_what_is_masked():
    def softmaxes(x):
        return torch.softmax(x, 1), torch.log_softmax(x, 1), x.logsumexp(1), x.logcumsumexp(1), x.softmax(0)

    x = torch.randn(4, 5)
    x[1] = -inf
    x[2, 3] = -inf
    x[3, 0] = inf
    same(softmaxes, x, rtol=2e-6)
    same(lambda x: (torch.softmax(x, 0), torch.log_softmax(x, 0)), torch.tensor(2.0))


@pytest.mark.some(12)
@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16])
@pytest.mark.parametrize(
    ("shape", "axis"), [((), 0), ((0, 3), 0), ((1,), 0), ((61,), 0), ((7, 61, 5), 1), ((2, 70001), 1)]
)
def test_running_logarithms_of_sums(dtype, shape, axis):
    """Over a range in which no common base would do."""
    x = (torch.randn(shape) * 300).to(dtype)
    same(lambda x: x.logcumsumexp(axis), x, rtol={f16: 1e-3, bf16: 1e-2, f32: 2e-7, f64: 2e-15}[dtype])


def test_gradients_of_running_logarithms_of_sums():
    check(lambda x: x.logcumsumexp(1), torch.randn(3, 40).requires_grad_(), ops=("logcumsumexp",))


def test_halves_round_once():
    def chain(x, y):
        return x + y, x * y, x / y, x - y, x.add(y, alpha=0.3), torch.addcmul(x, y, y, value=0.7), x * 0.3, x.exp()

    for dtype in (bf16, f16):
        same(chain, torch.randn(64).to(dtype), torch.randn(64).to(dtype), rtol=1e-6)


# integers


@pytest.mark.parametrize("dtype", [i64, i32, i8, u8])
def test_integers(dtype):
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max

    def arithmetic(x, y):
        return (
            x // y, torch.div(x, y, rounding_mode="trunc"), torch.remainder(x, y), torch.fmod(x, y), x + y, x - y,
            x * y, x // 3, x % 3, 7 // y, x / y, x**2, x**3, 2**x.clamp(0, 3), x.abs(), -x, x.sign(), x & y, x | y,
            x ^ y, ~x, torch.maximum(x, y), x.clamp(2, 5), x.relu(), x.square(), x.float(),
        )  # fmt: skip

    x, y = pairs((7, 1, 3, 2, 5, most, *((-7, -1, -3, least + 1) if least else (200,))), dtype)
    same(arithmetic, x, y)


def test_integers_wrap():
    x = torch.tensor([torch.iinfo(i32).min, 5], dtype=i32)
    same(lambda x: (x + x, x * 3, x.abs(), -x, x - 1), x)
    same(lambda x, y: (x**y, x**5), *(t.clamp(-3, 4) for t in pairs((-3, -2, -1, 0, 1, 2, 3), i64)))


@pytest.mark.parametrize("dtype", [i64, i32, i8, u8])
def test_shifts(dtype):
    x = torch.tensor([1, 5, 100, -100 if dtype.is_signed else 200], dtype=dtype)[:, None]
    by = torch.tensor([0, 1, 7, 8, 31, 32, 63, 64, 100], dtype=dtype)[None]
    same(lambda x, y: (x << y, x >> y, x << 2, x >> 1, x << 70), x, by)
    if dtype.is_signed:
        same(lambda x: (x << x, x >> x), torch.tensor([-1, -7, 3], dtype=dtype))


def test_bools():
    def logic(a, b, i):
        return (
            a + b, a * b, a & b, a | b, a ^ b, ~a, a < b, a <= b, a == b, a != b, a + 1, a * 2.5, a & i, a.sum(),
            b.sum(1), a.any(0), a.all(), a.cumsum(0), a.max(), a.amin(1), torch.where(a, i, 3), a.float().mean(),
            a.prod(0),
            torch.maximum(a, b), a.int(), a.logical_not(), a / b, a.long() - b.long(), a.max(1)[1],
            a.logical_or(i), torch.minimum(a, b), a.masked_fill(b, value=True), a.flip(0),
        )  # fmt: skip

    a, b = pairs((True, False, True), torch.bool)
    same(logic, a, b, torch.tensor([[0, 1, 2]] * 3))


def test_promotion():
    def promoted(f, h, g, u, s, n, d):
        return (
            f + d, h + g, u + s, n / 2, n + 1.5, h * 2.5, h + f, u + n, h + d, f * n, n + d, u * 1.5, h / n, u / 2,
            f + True, h == g, u < s, n > 1.5, u > -1, torch.where(n > 1, h, f), torch.maximum(h, f), h.pow(n), n.sqrt(),
            torch.cat([h, g]), torch.stack([u, s]), h.mul(d), n * d, torch.atan2(n, u), n.exp(), u.mean(dtype=f32),
        )  # fmt: skip

    base = torch.tensor([1.0, 2.0, 3.0])
    same(promoted, base, base.to(bf16), base.to(f16), base.to(u8), base.to(i8), base.to(i64),
         torch.tensor(1.1, dtype=f64), rtol=1e-6)  # fmt: skip


def test_conversions():
    def floats(x):
        return tuple(x.to(d) for d in (i32, i64, u8, i8, i16, torch.bool, f64, bf16, f16))

    values = torch.tensor([0.0, -0.0, 1.5, -1.5, 2.5, 300.0, -1.0, -129.0, 70000.0, 3e-8, 0.1])
    same(floats, values)
    same(lambda x: (x.to(i32), x.to(torch.bool), x.to(bf16)), torch.tensor([nan, inf, -inf]))
    same(lambda x: tuple(x.to(d) for d in (f32, bf16, f16, u8, i8, i32, torch.bool)),
         torch.tensor([0, -1, 255, 256, 1 << 24, (1 << 24) + 1, (1 << 53) + 1, 1 << 40]))  # fmt: skip
    same(lambda x: (x.to(f32), x.view(i16), x.to(i32)), values.to(bf16))
    same(lambda x: (x.view(i32), x.view(i32) + 1), torch.randn(4, 3))


# reductions


def test_reductions_of_halves_and_integers():
    def reduced(h, i, b):
        return (
            h.sum(), h.sum(1), h.mean(), h.mean(0), i.sum(), i.sum(0, dtype=i32), b.sum(1), i.prod(), i.cumsum(1),
            i.amax(), i.max(1)[1], i.mean(dtype=f32), h.amax(1), i.any(), b.all(1), i.cumprod(0), h.sum(dtype=f32),
            i.sum([]), h.sum((0, 1), keepdim=True), i.count_nonzero(), i.float().sum(-1),
        )  # fmt: skip

    same(reduced, torch.full((3, 4), 3e4, dtype=f16), torch.arange(-5, 7, dtype=i32).reshape(3, 4), torch.eye(3, 4) > 0)
    same(lambda x: (x.std(), x.var(1), x.std(0, correction=0), x.norm()), torch.randn(4, 5).to(f16), rtol=2e-3)


def test_moments():
    def moments(x, y):
        return (
            x.var(), x.std(1), torch.var_mean(x, 0), x.var(1, correction=4), x.var(1, correction=7), y.std(0), y.var(),
            y.var(0, correction=0), y.mean(0), x.var(0, correction=0.5),
        )  # fmt: skip

    def flat(x, y):
        return tuple(t for m in moments(x, y) for t in _tuple(m))

    same(flat, torch.randn(3, 4), torch.randn(1), rtol=2e-6)


def test_empty_tensors():
    def empties(x, i):
        return (
            x.sum(), x.sum(0), x.sum(1), x.mean(), x.prod(), x.any(), x.all(), x + 1, x.t(), x @ x.t(), x.t() @ x,
            torch.cat([x, torch.ones(2, 3)]), torch.cat([x, x]), x.softmax(1), x.softmax(0), x.amax(1), x.cumsum(0),
            x.reshape(3, 0), x.max(1)[0], x.argmax(1), x[i], torch.ones(4)[i], torch.ones(4).index_add(0, i, x[:, 0]),
            torch.ones(4).scatter(0, i, 1.0), x.mean(0), x.var(0), x.flip(0), x.gather(1, x.long()), x.norm(),
            F.pad(x, (1, 1, 1, 1)), x.clone(), x.repeat(2, 2), x.masked_fill(x > 0, 2.0),
            x.logsumexp(0), x.clamp(0, 1), x.topk(2, 1)[0], x.sort(1)[0], x.to(f16), x.tril(), x.unfold(1, 2, 1),
        )  # fmt: skip

    same(empties, torch.zeros(0, 3), torch.zeros(0, dtype=i64))


def test_memory_of_no_contents_where_algorithms_are_deterministic():
    kinds = (torch.float32, torch.float16, torch.int8, torch.uint8, i64, torch.bool)

    def made(x):
        return tuple(
            t.flip(0) for k in kinds
            for t in (torch.empty(3, dtype=k), x.new_empty((2, 3), dtype=k), torch.empty_like(x, dtype=k),
                      torch.empty_strided((2, 3), (1, 2), dtype=k))
        )  # fmt: skip

    torch.use_deterministic_algorithms(mode=True)
    try:
        same(made, torch.ones(3))
    finally:
        torch.use_deterministic_algorithms(mode=False)


def test_scalars():
    def scalars(x, i):
        return (
            x.sum(), x.sum(0), x.mean(), x.amax(), x.max(0)[0], x.max(0)[1], x.argmax(), x.cumsum(0), x.softmax(0),
            x.sort()[0], x.topk(1)[1], x.flip(0), x.squeeze(0), x.reshape(1, 1), x.index_select(0, i), x.any(),
            x.index_add(0, i, x), x.index_fill(0, i, 3.0), x.scatter(0, i[0], 2.0), x.gather(0, i[0]), x.var(),
            x.unsqueeze(0), x.expand(2, 3), x.logsumexp(0), x.norm(), x.roll(1), x.repeat(3), x.cummax(0)[0], x.t(),
            x.transpose(0, -1), x.prod(), x.take(i), x.put(i, x), x.unfold(0, 1, 1), torch.stack([x, x]), x.all(0),
        )  # fmt: skip

    same(scalars, torch.tensor(2.5), torch.tensor([0]))


# selections


@pytest.mark.parametrize("dtype", [f32, bf16, i64])
def test_ties_and_order(dtype):
    def selected(x):
        return (
            x.argmax(1), x.argmin(1), x.max(1)[1], x.min(0)[1], x.sort(dim=1, stable=True)[0],
            x.sort(dim=1, stable=True)[1],
            x.sort(dim=0, descending=True, stable=True)[1], x.argsort(dim=1, stable=True), x.topk(3, 1)[0],
            x.topk(2, 0, largest=False)[0], *x.cummax(1), *x.cummin(0), x.msort(),
        )  # fmt: skip

    x = torch.randint(-2, 3, (6, 7)).to(dtype)
    if dtype.is_floating_point:
        x[0, 2] = x[0, 5] = x[3, 1] = nan
        x[4, 4], x[4, 5] = inf, -inf
    same(selected, x)


# movement


def test_views_of_views():
    def moved(x, s, g, n):
        return (
            x + 1, s * 2, g + x[:2, :1], n.sum(0), x.t() + 1, x[1:, ::2].contiguous(), x.flip(0, 1), x.roll(1, 0),
            x.roll((1, -2), (0, 1)), x.roll(3), x.diagonal(1) + 0, x.unfold(0, 2, 1) * 2, x.repeat(2, 1, 2),
            F.pad(x, (1, -1, 0, 2), value=3.0), x.as_strided((2, 2), (1, 2), 1) + 0,
            x.as_strided((3, 2), (1, 1)) + 0, x.tril(-1), x.triu(1), x[-2] + 0, x[..., -1] * 2, x.narrow(1, 1, 2) + 1,
            torch.diagonal_scatter(x, x[0, :4], 1), torch.slice_scatter(x, x[:2, :], 0, 0, 4, 2), x.rot90(),
            torch.select_scatter(x, x[0], 0, -1), x.unflatten(0, (2, 2)).sum(0), torch.stack([x, x], -1),
            x.movedim(0, 1)
            + 1, torch.cat([x[:0], x, x.long()]), *[p + 1 for p in x.split(3)], *[p * 2 for p in x.chunk(3, 1)],
            *[p + 0 for p in x.unbind(1)], torch.eye(3, 5), torch.arange(0, 1, 0.1), torch.arange(5, -3, -2),
            torch.full((2,), -1, dtype=u8), torch.tril_indices(3, 3), torch.arange(1, 4, dtype=f16),
        )  # fmt: skip

    x = torch.randn(4, 5)
    same(
        moved, x, torch.randn(6, 4).t()[::2, 1:3], torch.randn(2, 1).expand(2, 3)[:, :1], torch.randn(3, 1).expand(3, 4)
    )


def test_results_that_share_memory():
    same(lambda x: (x.t(), x[1:], x.unfold(0, 2, 1), x.view(-1), x.expand(2, 4, 5), x.split(2)[1]), torch.randn(4, 5))


# indices


def test_indexing():
    def indexed(x, i, j, m):
        return (
            x[i], x[:, i], x[i, i], x[i, j], x[j, :, i], x[:, j, i], x.index_select(1, i.abs()), x.take(j),
            x.gather(1, j + 3),
            torch.where(m, x[..., 0], 0.0), x.index_fill(1, i, -1.0), x[..., i], x[i][:, i],
            x.masked_fill(m[..., None], 2),
            torch.take_along_dim(x, x.argsort(dim=1, stable=True), 1), x.masked_scatter(m[..., None], x + 5),
        )  # fmt: skip

    x = torch.randn(6, 7, 4)
    same(indexed, x, torch.tensor([1, 3, -1]), torch.tensor([[[0], [2]]]), torch.rand(6, 7) < 0.4)


@pytest.mark.parametrize("dtype", [f32, bf16, i64])
def test_scatters(dtype):
    def scattered(x, i, s):
        kinds = ("sum", "prod", "mean", "amax", "amin")
        row = i[:, 0]
        return (
            x.scatter(0, i, s), x.scatter(0, i, 2), x.scatter_add(0, i, s), x.index_add(0, row, s, alpha=2),
            x.index_put((row,), s), x.index_put((row, row % 3), s[:, 0], accumulate=True),
            x.index_copy(0, torch.arange(4), s), x.put(i, s, accumulate=True), x.scatter(0, i, s, reduce="multiply"),
            *[x.scatter_reduce(0, i, s, k, include_self=own) for k in kinds for own in (True, False)],
            *[x.index_reduce(0, row, s, k, include_self=own) for k in kinds[1:] for own in (True, False)],
        )  # fmt: skip

    x, s = torch.randint(-4, 5, (5, 3)).to(dtype), torch.randint(1, 5, (4, 3)).to(dtype)
    same(scattered, x, torch.tensor([[0, 1, 4], [2, 1, 4], [0, 3, 4], [2, 2, 0]]), s, signs=False)


def test_scatters_of_bool():
    def scattered(x, i):
        return x.scatter_add(0, i, ~x[:3]), x.index_put((i,), x[:3], accumulate=True), x.scatter(0, i, value=True)

    same(scattered, torch.rand(5) < 0.5, torch.tensor([0, 3, 3]))


# products


def test_products():
    def products(a, b, v, n):
        return (
            a @ b, a.t() @ a, a @ v, v @ v, torch.addmm(n, a, b, beta=0), torch.addmm(b[:1], a, b, beta=0.5, alpha=2),
            torch.outer(v, v), torch.bmm(a[None], b[None]), torch.addmv(v[:3], a, v, alpha=0.5), torch.cdist(a, a),
            F.bilinear(a, a, torch.stack([b @ a, b @ a])), torch.einsum("ij,jk->", a, b),
            torch.kron(a, b), torch.cdist(a, a, p=1.0), torch.cdist(a, b.t(), p=3.0), torch.dist(a, b.t(), 3),
        )  # fmt: skip

    a, b = torch.randn(3, 4), torch.randn(4, 3)
    same(products, a, b, torch.randn(4), torch.full((3, 3), nan), rtol=1e-5)
    same(torch._int_mm, torch.full((17, 40), -128, dtype=i8), torch.randint(-128, 128, (40, 8), dtype=i8))
    same(lambda a, b: (a @ b, a @ a[0], a * b.t()), torch.arange(6).reshape(2, 3)[:, :2], torch.arange(4).reshape(2, 2))


@pytest.mark.some(10)
@pytest.mark.parametrize("dtype", [f32, bf16, f16, i64, u8])
@pytest.mark.parametrize("length", [32, 77, 1000, 1 << 18])
def test_places_of_extremes_in_long_rows(dtype, length):
    """Of several that are equal the first; of rows with NaN its place."""
    x = (torch.arange(3 * length) * 7919 % 101).reshape(3, length).to(dtype)
    x[:, length // 2] = x[:, length // 3] = 110
    x[:, length // 5] = x[:, -1] = 0
    if dtype.is_floating_point:
        x[1, length // 2 :: 9] = nan
        x[2] = -inf
    same(lambda x: (x.argmax(1), x.argmin(1), *x.max(1), *x.min(1, keepdim=True), x.argmax()), x)
