"""Special functions against float64 and, at their edges, against eager torch."""

import math

import pytest

torch = pytest.importorskip("torch")
S = torch.special

from graphfuse.torch import backend  # noqa: E402 - they import torch
from tests.torch.support import check  # noqa: E402

nan, inf = math.nan, math.inf
EDGES = (nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 1e-30, -1e-30, 5.0, 8.0, 26.0, -9.5, 104.0, 1e30, 1e-42)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def compiled(fn):
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend, dynamic=False, options={"strict": True})


FAMILIES = {
    "bessel": lambda x: (S.bessel_j0(x), S.bessel_j1(x), S.bessel_y0(x), S.bessel_y1(x), S.spherical_bessel_j0(x)),
    "modified": lambda x: (
        torch.i0(x), S.i0e(x), S.i1(x), S.i1e(x), S.modified_bessel_k0(x), S.modified_bessel_k1(x),
        S.scaled_modified_bessel_k0(x), S.scaled_modified_bessel_k1(x),
    ),
    "airy": lambda x: (S.airy_ai(x),),
    "normal": lambda x: (torch.erfc(x), S.erfcx(x), torch.erfinv(x), S.ndtri(x), S.log_ndtr(x)),
    "gamma": lambda x: (torch.lgamma(x), torch.digamma(x), torch.polygamma(2, x), torch.polygamma(3, x)),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_are_as_accurate_as_eager(family):
    fn, double = FAMILIES[family], torch.float64
    x = torch.cat([torch.linspace(-12, 30, 1201), torch.linspace(0, 1, 401), torch.logspace(-6, 1, 200)])
    for got, want, exact in zip(compiled(fn)(x), fn(x), fn(x.to(double)), strict=True):
        ok = want.isfinite() & exact.isfinite() & (exact.abs() > 1e-36)
        assert torch.equal(got.isfinite(), want.isfinite())
        g, w, e = (t[ok].to(double) for t in (got, want, exact))
        # relative to the function nearby, which has zeros
        scale = torch.maximum(e.abs(), torch.finfo(torch.float32).tiny + 1e-2 * e.abs().median())
        allowed = 2 * ((w - e).abs() / scale).max() + 16 * torch.finfo(torch.float32).eps
        assert ((g - e).abs() / scale).max() <= allowed


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_at_their_edges(family):
    # of as many elements as above: what is compiled is the same
    fn, x = FAMILIES[family], torch.tensor(EDGES).repeat(101)[:1802]
    for i, (got, want) in enumerate(zip(compiled(fn)(x), fn(x), strict=True)):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-5, atol=1e-5, msg=lambda m, i=i: f"{i}: {m}")


def test_gradients():
    def functions(x):
        return torch.i0(x) + S.i0e(x) + S.i1(x) + x.lgamma() + x.digamma() + x.erfc() + S.log_ndtr(x), x.erfinv()

    check(functions, torch.rand(300).mul(0.9).add(0.05).requires_grad_(), ops=("lgamma", "digamma", "polygamma"))


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_other_elements(dtype):
    def functions(x):
        return S.i1e(x), x.erfc(), x.digamma(), torch.polygamma(3, x)

    x = torch.linspace(-4, 5, 64).to(dtype)
    for got, want in zip(compiled(functions)(x), functions(x), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


def test_zeta():
    s = torch.tensor([-1.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 7.5, 20.0, nan])[:, None].expand(-1, 64).contiguous()
    q = torch.cat([torch.linspace(-6.25, 9, 56), torch.tensor([nan, 0.0, -0.0, -1.0, -5.0, 1e30, 1e-3, 100.0])])
    fn, q = S.zeta, q.expand(10, -1).contiguous()
    torch.testing.assert_close(compiled(fn)(s, q), fn(s, q), equal_nan=True, rtol=4e-6, atol=1e-6)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials(kind):
    ours, shifted = (getattr(S, f"{p}chebyshev_polynomial_{kind}") for p in ("", "shifted_"))
    # of NaN torch returns what was never written, but for the first kind
    x = torch.cat([torch.linspace(-3, 3, 97), torch.tensor([inf, -inf, 1e20, -1e20, nan if kind == "t" else 0.0])])
    n = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0, 20.7, 60.0])

    def both(x, n):
        return ours(x, n), shifted(x, 3)

    x, n = (t.contiguous() for t in torch.meshgrid(x, n, indexing="ij"))
    got, want = compiled(both)(x, n), both(x, n)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, equal_nan=True, rtol=2e-5, atol=3e-5)
