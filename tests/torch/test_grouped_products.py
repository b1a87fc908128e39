"""`grouped_mm`: rows or columns in groups, each times its matrix, drawn and in a mixture of experts."""

import random

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812

from benchmarks.emulated_torch import emulated  # noqa: E402
from tests.torch.support import compiled, compiled_ops, left_to_torch, recorded_graphs  # noqa: E402

bf16 = torch.bfloat16
grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm
"""As torch 2.10 and newer call it, or before."""
ROUNDED = 2.0**-8


def product(a, b, offs):
    return grouped_mm(a, b, offs=offs)


def assert_close(got, want, exact):
    """As near to the product in float64 as eager, or one rounding of each element."""
    assert (got.shape, got.dtype, got.stride()) == (want.shape, want.dtype, want.stride())
    error = (got.double() - exact).abs()
    assert (error <= ROUNDED * exact.abs() + 1e-6).all() or error.max() <= (want.double() - exact).abs().max()


def exact_rows(rows, matrices, ends):
    """Rows [M, K] times the matrices [groups, K, N] of groups that end there, in float64; behind the last, nothing."""
    out, at = torch.zeros(len(rows), matrices.shape[2], dtype=torch.float64), 0
    for matrix, end in zip(matrices.double(), ends.tolist(), strict=True):
        out[at:end] = rows[at:end].double() @ matrix
        at = end
    return out


def ends_of(draw, rows, groups):
    """Where groups end: any, one has all, or some rows are in none."""
    kind = draw.randrange(4)
    last = draw.randint(0, rows) if kind == 0 else rows
    if kind == 1:
        only = draw.randrange(groups)
        ends = [rows if g >= only else 0 for g in range(groups)]
    else:
        ends = [*sorted(draw.randint(0, last) for _ in range(groups - 1)), last]
    return torch.tensor(ends, dtype=torch.int32)


def of_width(*shape, turned=False):
    """Normal bf16 whose last dim, or the one before it, is contiguous."""
    if turned:
        return of_width(*shape[:-2], shape[-1], shape[-2]).mT
    return torch.randn(shape).to(bf16)


@pytest.mark.parametrize("seed", range(30))
def test_rows_drawn(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    groups, dynamic = round(2 ** draw.uniform(0, 5)), draw.random() < 0.5
    width, features = 8 * draw.randint(1, 12), 8 * draw.randint(1, 12)
    matrices = of_width(groups, width, features, turned=draw.random() < 0.5)
    counts = [round(2 ** draw.uniform(1, 8)) for _ in range(3 if dynamic else 1)]
    with recorded_graphs() as graphs:
        fn = compiled(product, dynamic=dynamic)
        for rows in counts:
            a, ends = of_width(rows, width), ends_of(draw, rows, groups)
            got, want, known = fn(a, matrices, ends), product(a, matrices, ends), int(ends[-1])
            assert_close(got[:known], want[:known], exact_rows(a, matrices, ends)[:known])
            assert got.isfinite().all() and got.shape == want.shape
    assert left_to_torch(graphs) == {}
    assert len(graphs) == 1 or len(set(counts)) < len(counts) or groups == 1


@pytest.mark.parametrize("seed", range(8))
def test_columns_drawn(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    groups, rows, width, columns = draw.randint(1, 9), draw.randint(1, 40), *(8 * draw.randint(1, 12) for _ in "kn")
    a, b = of_width(groups, rows, width), of_width(width, columns, turned=draw.random() < 0.3)
    ends = ends_of(draw, columns, groups)
    with recorded_graphs() as graphs:
        got = compiled(product, dynamic=False)(a, b, ends)
    want, known = product(a, b, ends), int(ends[-1])
    exact = exact_rows(b.mT, a.mT, ends).mT
    assert left_to_torch(graphs) == {}
    assert got.shape == want.shape
    assert_close(got[:, :known], want[:, :known], exact[:, :known])
    assert got.isfinite().all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_of_a_batch(dynamic):
    a, b = of_width(3, 10, 16), of_width(3, 16, 24, turned=True)
    with recorded_graphs() as graphs:
        got = compiled(lambda a, b: grouped_mm(a, b, out_dtype=bf16), dynamic=dynamic)(a, b)
    assert left_to_torch(graphs) == {}
    assert_close(got, grouped_mm(a, b), a.double() @ b.double())


def test_ends_behind_all_rows():
    a, b, ends = of_width(9, 16), of_width(3, 16, 24), torch.tensor([4, 11, 30], dtype=torch.int32)
    assert_close(compiled(product)(a, b, ends), product(a, b, ends), exact_rows(a, b, ends))


def test_no_rows():
    a, b, ends = of_width(0, 16), of_width(3, 16, 24), torch.zeros(3, dtype=torch.int32)
    with recorded_graphs() as graphs:
        assert compiled(product, dynamic=False)(a, b, ends).shape == (0, 24)
    assert left_to_torch(graphs) == {}


def test_gradients():
    """That of the rows is one more product of rows; sums of each group, those of the matrices, are torch's."""
    found = []
    a, b, ends = of_width(64, 16), of_width(3, 16, 24), torch.tensor([7, 7, 64], dtype=torch.int32)
    for wrap in (compiled, lambda fn: fn):
        leaves = [t.clone().requires_grad_() for t in (a, b)]
        with recorded_graphs() as graphs:
            out = wrap(lambda a, b, ends: product(a, b, ends).sin() * 2)(*leaves, ends)
            found.append(torch.autograd.grad(out, leaves, torch.linspace(-1, 1, out.numel()).to(bf16).view_as(out)))
        if wrap is compiled:
            assert "_grouped_mm" in compiled_ops(graphs)
            assert left_to_torch(graphs) == {"_grouped_mm": "its groups are parts of its sums"}
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)


class Mixture(torch.nn.Module):
    """Each token's two best experts of eight, whose rows are sorted by expert."""

    def __init__(self, width, hidden, experts=8, k=2):
        super().__init__()
        self.gate, self.k = torch.nn.Linear(width, experts, bias=False), k
        self.up = torch.nn.Parameter(torch.randn(experts, 2 * hidden, width) / width**0.5)
        self.down = torch.nn.Parameter(torch.randn(experts, width, hidden) / hidden**0.5)

    def forward(self, x):
        best, chosen = torch.softmax(self.gate(x), -1, dtype=torch.float32).topk(self.k)
        chosen, order = chosen.flatten().sort(stable=True)
        experts = torch.arange(len(self.up), dtype=chosen.dtype, device=x.device)
        ends = torch.searchsorted(chosen, experts, right=True, out_int32=True)
        gate, up = grouped_mm(x[order // self.k], self.up.mT, offs=ends).chunk(2, -1)
        out = grouped_mm(F.silu(gate) * up, self.down.mT, offs=ends)
        out = out * best.flatten()[order, None].to(x.dtype)
        return torch.zeros_like(x).index_add(0, order // self.k, out)


@torch.no_grad()
def test_a_mixture_of_experts():
    model = Mixture(64, 96).to(bf16)
    with recorded_graphs() as graphs:
        fn = compiled(model, dynamic=True)
        for tokens in (5, 33, 150):
            x = torch.randn(tokens, 64).to(bf16)
            torch.testing.assert_close(fn(x), model(x), rtol=3e-2, atol=3e-2)
    assert {"_grouped_mm"} <= compiled_ops(graphs)
    assert "_grouped_mm" not in left_to_torch(graphs)
    assert len(graphs) == 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_matrices_that_are_looked_up_for_a_batch_are_not_copied(dynamic, turned):
    """What a model does for few tokens: a matrix for each."""
    matrices, x, which = torch.randn(5, 24, 64), torch.randn(9, 64), torch.tensor([4, 0, 0, -1, 2, 2, 1, 4, 0])

    def looked_up(w, x, i):
        return torch.bmm(x[:, None], w[i].mT).squeeze(1) if turned else torch.bmm(w[i], x[..., None]).squeeze(-1)

    with recorded_graphs() as graphs:
        got = compiled(looked_up, dynamic=dynamic)(matrices, x, which)
    torch.testing.assert_close(got, looked_up(matrices, x, which))
    ((part,),) = (g.parts for g in graphs)
    assert {b.kind for b in part.executable.plan.buffers} == {"input", "output"}, "nothing lies between kernels"


@pytest.mark.parametrize("dynamic", [False, True])
def test_on_an_emulated_gpu_only_matrices_of_groups_that_have_rows_are_read(dynamic):
    a, b = of_width(3, 64), of_width(32, 48, 64).mT
    ends = torch.tensor([*[0] * 5, *[1] * 9, *[3] * 18], dtype=torch.int32)
    with emulated() as reports:
        got = torch.compile(product, backend="graphfuse", dynamic=dynamic)(a, b, ends)
    assert_close(got, product(a, b, ends), exact_rows(a, b, ends))
    assert 0 < sum(report.global_bytes for _, report in reports) < b.nbytes / 2
