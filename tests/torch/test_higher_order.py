"""Operators that call graphs, effects, custom operators: what is in the graphs, and what around them is compiled."""

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import associative_scan, scan, while_loop  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import graphfuse  # noqa: E402
from tests.kernels.test_graft import OPS  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

F = torch.nn.functional


def agree(fn, *calls, left=(), training=False, **options):
    """`fn` compiled gives what it gives itself; returns its graphs. Only operators in `left` are torch's."""
    with recorded_graphs() as graphs:
        run = compiled(fn, **options)
        for inputs in calls:
            torch.manual_seed(1)
            found = run(*inputs)
            torch.manual_seed(1)
            want = fn(*inputs)
            torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)
            if training:
                leaves = [x for x in inputs if x.requires_grad]
                grads = [torch.autograd.grad(y.square().sum(), leaves) for y in (found, want)]
                torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    assert set(left_to_torch(graphs)) == set(left)
    return graphs


def branches(x, p):
    return torch.cond(p.sum() > 0, lambda x: F.gelu(x) * 2 + x.shape[0], lambda x: x.sin() - x.cos(), (x,)) + 1


@pytest.mark.parametrize("training", [False, True])
def test_cond(training):
    x = torch.randn(4, 8, requires_grad=training)
    graphs = agree(branches, (x, torch.ones(2)), (x, -torch.ones(2)), training=training)
    # what a branch computes is one kernel
    assert all(len(b.parts) == 1 for b in graphs[0].bodies.values()) and len(graphs[0].bodies) == 2


def test_cond_of_sizes_that_change():
    agree(branches, *((torch.randn(n, 8), torch.ones(2)) for n in (4, 7)), dynamic=True)


def test_cond_of_sizes_that_depend_on_data():
    def fn(x):
        some = x[x > 0]
        return torch.cond(some.shape[0] > 2, lambda z: z.sin() * 2, lambda z: z.cos() + 1, (some,)).sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        calls = [(x,) for x in (torch.ones(3) * -1 + torch.arange(3), torch.randn(50))]
        (graph,) = agree(fn, *calls, left={"index", "_assert_scalar"}, dynamic=True, fullgraph=True)
    assert len(graph.bodies) == 2


def test_loops():
    def counted(x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x * 1.1).sin() + x), (torch.tensor(0), x))

    agree(counted, (torch.randn(4),))
    agree(lambda i, x: scan(lambda c, x: ((c * 0.9 + x).tanh(), c * x), i, x), (torch.ones(3), torch.randn(5, 3)))
    agree(lambda x: associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic"), (torch.randn(6, 3),))


def test_regions_that_are_compiled_once():
    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin() * 2 + 1

    graphs = agree(lambda x: region(x) + region(x + 1), (torch.randn(5, requires_grad=True),), training=True)
    assert all(len({id(b) for b in g.bodies.values()}) == 1 for g in graphs)


def test_checkpoints_draw_the_same_numbers_again():
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.GELU(), torch.nn.Linear(16, 8))

    def fn(x):
        return checkpoint(layers, x, use_reentrant=False) + torch.rand_like(x)

    left = {"run_and_save_rng_state", "run_with_rng_state", "rand_like"}
    agree(fn, (torch.randn(4, 8, requires_grad=True),), left=left, training=True)


def test_flex_attention_is_torchs():
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (torch.randn(1, 2, 128, 16) for _ in range(3))
    run = compiled(lambda q, k, v: flex_attention(q * 2, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01) + 1)
    places = torch.arange(128)
    want = F.scaled_dot_product_attention(q * 2, k, v, (places[:, None] - places) * 0.01) + 1
    with torch.no_grad():
        torch.testing.assert_close(run(q, k, v), want, rtol=1e-3, atol=1e-3)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()  # not the derivative: it is this that must run


def test_functions_with_a_gradient_of_their_own():
    agree(lambda x: Swish.apply(x * 2), (torch.randn(5, requires_grad=True),), training=True)
    agree(torch.func.vmap(torch.func.grad(lambda t: t.sin().sum() * 2)), (torch.randn(4, 3),))


LOG = []


@torch.library.custom_op("graphfuse_test::scaled", mutates_args=())
def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
    LOG.append(k)
    return x * k


@torch.library.custom_op("graphfuse_test::add_in", mutates_args={"x"})
def add_in(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return y * 2


@scaled.register_fake
def _(x, k):
    return torch.empty_like(x)


@add_in.register_fake
def _(x, y):
    return torch.empty_like(y)


def test_custom_operators():
    agree(lambda x: scaled(x.sin(), 2.0) + 1, (torch.randn(5),), left={"scaled"})

    def fn(x, y):
        z = x * 2
        first, second = add_in(z[1:3], y), add_in(z[0], y[0])
        add_in(x, x.sin())
        return z + 1, first + second

    for n in (4, 6):
        x, y = torch.randn(5, n), torch.randn(2, n)
        ours, theirs = x.clone(), x.clone()
        run = compiled(fn, dynamic=True)
        torch.testing.assert_close(run(ours, y), fn(theirs, y))
        torch.testing.assert_close(ours, theirs)


def test_effects_keep_their_order(capfd):
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(torch.ops.graphfuse_test.scaled.default, _EffectType.ORDERED)

    def fn(x):
        torch._higher_order_ops.print("found {}", 3)
        scaled(x.sum(), 3.0)
        y = scaled(x, 4.0)
        scaled(y.exp(), 5.0)
        return y + 1

    LOG.clear()
    found = compiled(fn)(torch.ones(3))
    assert LOG == [3.0, 4.0, 5.0] and torch.equal(found, torch.full((3,), 5.0))
    assert "found 3" in capfd.readouterr().out


def test_assertions_are_kept():
    def fn(x):
        torch._assert_async((x.exp() < 100).all(), "too large")
        return x + 1

    run = compiled(fn)
    assert torch.equal(run(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="too large"):
        run(torch.full((3,), 9.0))


@pytest.fixture(scope="module")
def product():
    return graphfuse.tc_op("graphfuse_test::product", (OPS / "matmul.tc").read_text())


def test_a_kernel_written_by_hand_is_grafted_onto(product):
    def fn(x, w, bias):
        return F.gelu(product(x * 2, w) + bias)

    calls = [(torch.randn(n, 40), torch.randn(40, 72) / 6, torch.randn(72)) for n in (5, 70)]
    (graph,) = agree(fn, *calls, dynamic=True)
    (part,) = graph.parts
    assert [step.kernel for _, step in part.executable.plan.walk()] == ["call_0"]
