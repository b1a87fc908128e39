"""Sizes that change: one graph serves them all, and what is computed of sizes is right at each."""

import re
import warnings

import pytest

torch = pytest.importorskip("torch")

from graphfuse.torch.compile import LeftToTorch  # noqa: E402
from graphfuse.torch.compiled_part import CompiledPart  # noqa: E402 - they import torch
from tests.torch.support import check, compiled, left_to_torch, recorded_graphs  # noqa: E402

F = torch.nn.functional


def agree(fn, calls, compiles=1, **options):
    """`fn` compiled gives at every call what it gives itself, and is compiled so often."""
    with recorded_graphs() as graphs:
        run = compiled(fn, **{"dynamic": True, **options})
        for inputs in calls:
            torch.testing.assert_close(run(*inputs), fn(*inputs), rtol=1e-4, atol=1e-5)
    assert len(graphs) == compiles
    return graphs


def test_an_encoder_at_every_batch_and_length():
    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(50, 32), torch.nn.Embedding(64, 32)
            self.qkv, self.out, self.norm = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32), torch.nn.LayerNorm(32)

        def forward(self, ids, mask):
            b, s = ids.shape
            x = self.words(ids) + self.places(torch.arange(s))
            q, k, v = self.qkv(x).view(b, s, 3, 4, 8).permute(2, 0, 3, 1, 4)
            bias = torch.where(mask[:, None, None, :] > 0, 0.0, -1e9)
            y = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5 + bias, -1) @ v
            return self.norm(x + F.gelu(self.out(y.transpose(1, 2).reshape(b, s, 32))))

    model = Encoder().eval()
    calls = [(torch.randint(0, 50, (b, s)), torch.ones(b, s)) for b in (2, 3, 5, 9, 17) for s in (7, 2, 8, 33, 64)]
    with torch.no_grad():
        agree(model, calls)


def test_sizes_that_are_computed():
    def fn(x, n):
        halves = x[: x.shape[0] // 2].exp(), x[1:] - x[:-1]
        numbers = torch.arange(x.shape[0]) * x.shape[1], x.new_ones(x.shape[0] - 1) + x.shape[0]
        return (*halves, *numbers, torch.cat([x, x.sin()]) * 2, x.repeat(n, 1) + n, x.sum() / x.numel(), x.shape[0] * 2)

    agree(fn, [(torch.randn(s, s + 2), n) for s, n in ((4, 3), (7, 5), (10, 2), (33, 4))])


@pytest.mark.filterwarnings("error::graphfuse.torch.compile.LeftToTorch")  # as of a lowering that fails
def test_parameters_that_are_sizes():
    def compiled_ones(x):
        n = x.shape[0]
        return F.hardtanh(x, -1, n), F.leaky_relu(x, n), F.softplus(x, n, 2 * n), F.threshold(x, n, 0), F.celu(x, n)

    calls = [(4 * torch.randn(n, 7),) for n in (5, 3, 8)]
    graphs = agree(compiled_ones, calls)
    assert left_to_torch(graphs) == {}
    graphs = agree(lambda x: (F.elu(x, x.shape[0]), x.var(0, correction=x.shape[0] - 2)), calls[:1])
    reasons = left_to_torch(graphs)
    assert reasons.keys() == {"elu", "var"}
    assert all("is the size" in reason for reason in reasons.values()), reasons


def test_sizes_that_dims_cannot_express():
    def fn(x):
        y = F.interpolate(x, scale_factor=1.5, mode="nearest")
        sizes = int(x.shape[2] * 2.5) + 1, -(-x.shape[2] // 3), x.shape[2] & 15, x.shape[3] << 1
        return (y * 2).flatten(1), *(y.new_ones(n) * x.shape[3] ** 0.5 for n in sizes)

    agree(fn, [(torch.randn(2, 3, n, n + 1),) for n in (4, 7, 10)])


def test_sizes_that_only_a_result_has():
    def fn(n):
        return torch.arange(n, 19.5), torch.arange(n, 40, 3, dtype=torch.float32)

    agree(fn, [(2,), (5,), (13,)])


def test_a_range_of_counts_that_may_change():
    with recorded_graphs() as graphs, warnings.catch_warnings():
        warnings.simplefilter("error", LeftToTorch)
        run = compiled(lambda x, n: torch.histc(x, 5, 0, n), dynamic=True)
        for n in (3, 7):
            assert torch.equal(run(torch.arange(9.0), n), torch.histc(torch.arange(9.0), 5, 0, n))
    (why,) = left_to_torch(graphs).values()
    assert re.fullmatch(r"a parameter is the size \w+, which may change", why)


@pytest.mark.parametrize(("m", "k", "n"), [(4, 0, 5), (0, 3, 5), (4, 3, 0)])
def test_products_without_elements(m, k, n):
    x, y, b = (torch.randn(s, requires_grad=True) for s in ((m, k), (k, n), (n,)))
    check(lambda x, y, b: (torch.addmm(b, x, y), F.linear(x, y.t(), b)), x, y, b, dynamic=True)


def test_a_gradient_whose_sizes_dims_cannot_express():
    def fn(x, w):
        return F.interpolate(x * w, scale_factor=1.5, mode="nearest").sin().sum()

    with recorded_graphs() as graphs:
        run = compiled(fn, dynamic=True)
        for n in (4, 7):
            inputs = torch.randn(2, 3, n, n + 1, requires_grad=True), torch.randn(3, 1, 1, requires_grad=True)
            found = torch.autograd.grad(run(*inputs), inputs)
            torch.testing.assert_close(found, torch.autograd.grad(fn(*inputs), inputs), rtol=1e-4, atol=1e-4)
    assert len(graphs) == 2


def test_training():
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4), torch.nn.Softmax(-1)
    )
    with recorded_graphs() as graphs:
        run = compiled(model, dynamic=True)
        for b, s in ((2, 3), (5, 7), (16, 2)):
            x = torch.randn(b, s, 16, requires_grad=True)
            wanted = [x, *model.parameters()]
            found = torch.autograd.grad(run(x).square().sum(), wanted)
            torch.testing.assert_close(found, torch.autograd.grad(model(x).square().sum(), wanted))
    assert len(graphs) == 2


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w, y: F.cross_entropy((x @ w).flatten(0, 1), y.flatten()),
        pytest.param(
            lambda x, w, y: F.nll_loss((x @ w).view(-1, 8).log_softmax(-1), y.view(-1), ignore_index=3),
            marks=pytest.mark.full,
        ),
        lambda x, w, y: torch.where(y.flatten()[:, None] > 3, x.flatten(0, 1), (x @ w).flatten(0, 1)).sum(0),
        lambda x, w, y: (x @ w).flatten(0, 1).gather(1, y.reshape(-1, 1)).sin(),
        pytest.param(
            lambda x, w, y: torch.cat([x.flatten(0, 1), F.one_hot(y.flatten(), 8) * w.sum()], 1).softmax(0),
            marks=pytest.mark.full,
        ),
        lambda x, w, y: (x.flatten(0, 1).T @ F.one_hot(y.flatten(), 8).to(x.dtype)) @ w,
        pytest.param(
            lambda x, w, y: torch.zeros(8, 8).index_add(0, y.flatten(), x.flatten(0, 1) @ w), marks=pytest.mark.full
        ),
        pytest.param(
            lambda x, w, y: (x.flatten() + (F.one_hot(y, 8) * 2.0).flatten()).view(x.shape) @ w, marks=pytest.mark.full
        ),
    ],
)
def test_sizes_that_are_equal_by_a_guard(fn):
    """Batch and length change, in two inputs each: torch only knows that their products are equal."""
    w = torch.randn(8, 8, requires_grad=True)
    with recorded_graphs() as graphs:
        run = compiled(fn)
        for b, s in ((2, 5), (3, 7), (4, 9)):
            x, y = torch.randn(b, s, 8, requires_grad=True), torch.randint(0, 8, (b, s))
            got, want = run(x, w, y), fn(x, w, y)
            torch.testing.assert_close(got, want)
            seed = torch.ones_like(want)
            torch.testing.assert_close(torch.autograd.grad(got, (x, w), seed), torch.autograd.grad(want, (x, w), seed))
    assert len(graphs) == 4
    assert left_to_torch(graphs).keys() <= {"_assert_async"}  # of one_hot


def test_equal_sizes_are_not_taken_to_be_equal():
    def fn(x, y):
        return torch.softmax(x @ y.T, -1).reshape(-1) + 1

    shapes = (3, 4, 5), (4, 4, 4), (7, 7, 2), (6, 3, 3), (64, 128, 32)
    agree(fn, [(torch.randn(a, k), torch.randn(b, k)) for a, b, k in shapes])


def test_none_and_one():
    sizes = 5, 1, 0, 3, 1, 0
    agree(lambda x: (torch.softmax(x, -1) + x.sum(0), x.sum()), [(torch.randn(n, 4),) for n in sizes], compiles=3)


def test_marked_dims():
    def marked(n):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        return (x,)

    agree(lambda x: torch.relu(x @ x.T).sum(-1), map(marked, (5, 9, 2, 64)), dynamic=None)


def test_sizes_that_depend_on_data():
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        found = (x > 0).nonzero() * 2 + 1, (x[x > 0].sin() * 2).sum(), torch.masked_select(x, x < 0).exp()
        return *found, x[:k].exp() + k, torch.arange(k) * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        calls = [(torch.randn(s), torch.tensor(k)) for s, k in ((5, 4), (9, 2), (12, 3), (30, 7))]
        graphs = agree(fn, calls, fullgraph=True)
    assert {"nonzero", "masked_select", "_local_scalar_dense"} <= set(left_to_torch(graphs))


def test_a_check_of_a_size_says_what_the_program_says():
    """Before anything is computed of such a size."""

    def fn(x):
        y = x[x > 0]
        torch._check(y.shape[0] < 3, lambda: "fewer than 3 may be positive")
        return y * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(fn)
        for x in (torch.tensor([1.0, -1, 2, -2]), torch.tensor([1.0, 1, -1, -2])):
            torch.testing.assert_close(run(x), fn(x))
        # torch 2.11 has forgotten the program's words
        words = "u0 <= 2" if torch.__version__.startswith("2.11") else "fewer than 3 may be positive"
        with pytest.raises(RuntimeError, match=words):
            run(torch.ones(4))


def test_the_gradient_of_what_a_mask_selects():
    def fn(x, w):
        return torch.tanh(x[x > 0] * w).square().sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(fn, fullgraph=True, dynamic=True)
        for n in (5, 9, 20):
            inputs = torch.randn(n, requires_grad=True), torch.tensor(1.5, requires_grad=True)
            found = torch.autograd.grad(run(*inputs), inputs)
            torch.testing.assert_close(found, torch.autograd.grad(fn(*inputs), inputs))


def test_floats_that_change():
    with torch._functorch.config.patch(enable_autograd_cache=True):  # torch's cache ignores the comparison
        agree(lambda x, s: x * s + (s > 0.5), [(torch.randn(4, 3), s) for s in (0.4, 0.7, 2.5)], compiles=2)


def test_a_size_beyond_all_bounds_is_refused():
    with recorded_graphs() as graphs:
        torch.compile(lambda x: x + 1, backend="graphfuse", dynamic=True)(torch.zeros(8))
    (part,) = graphs[0].parts
    assert isinstance(part, CompiledPart)
    (name,) = part.symbols
    with pytest.raises(Exception, match=f"size {name}: expected at most 2147483647, found 2147483648"):
        part._sized((1 << 31,), ())
