"""What convolutions make for the backward is stored as they make it, unless somebody else reads it."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import conv2d, group_norm  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.torch.support import recorded_graphs  # noqa: E402


@pytest.fixture(autouse=True)
def convolutions_are_ours(monkeypatch):
    monkeypatch.setattr("graphfuse.frontends.fx.ops.conv.torch_is_faster", lambda *_, **__: "")


@pytest.fixture
def halved():
    """An operator of torch's whose gradient reads what it was given, and has its strides."""
    seen = []

    @torch.library.custom_op("graphfuse_tests::halved_gradient", mutates_args=())
    def op(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append(x.stride())
        return torch.empty_like(x).copy_(x * grad)

    op.register_fake(lambda grad, x: torch.empty_like(x))

    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x / 2

        @staticmethod
        def backward(ctx, grad):
            return op(grad, *ctx.saved_tensors)

    op.seen, op.call = seen, Halved.apply
    return op


def image(**how):
    return torch.randn(2, 8, 6, 10, **how)


def weights():
    return [(torch.randn(8, 8, 3, 3) / 8).requires_grad_() for _ in range(2)]


def two(x, w, v):
    y = conv2d(x, w, padding=1).sigmoid()
    return conv2d(group_norm(y, 2), v, padding=1).tanh().sum((2, 3))


def gradients(fn, inputs, again=False):
    y = fn(*inputs)
    loss = sum(t.square().sum() for t in (y if isinstance(y, tuple) else (y,)))
    for _ in range(again):
        torch.autograd.grad(loss, inputs, retain_graph=True)
    return y, torch.autograd.grad(loss, inputs)


def compare(fn, *inputs, dynamic=False, again=False):
    with recorded_graphs() as graphs:
        compiled = torch.compile(fn, backend="graphfuse", options={"check": True}, dynamic=dynamic)
        got, want = gradients(compiled, inputs, again), gradients(fn, inputs)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=2e-3)
    return graphs


def turned(graphs):
    """How many tensors the forward stores otherwise than traced."""
    return sum(len(r.part.laid) for r in graphs[0].cut.regions)


def test_it_is_stored_as_it_is_made():
    assert turned(compare(two, image(requires_grad=True), *weights())) >= 2


def test_a_backward_that_runs_twice():
    compare(two, image(requires_grad=True), *weights(), again=True)


def test_hooks_that_store_it_otherwise():
    x, *w = image(requires_grad=True), *weights()
    want = gradients(two, (x, *w))
    compiled = torch.compile(two, backend="graphfuse")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.contiguous(), lambda t: t):
        torch.testing.assert_close(gradients(compiled, (x, *w)), want, rtol=1e-3, atol=2e-3)


def test_hooks_that_store_what_was_traced_with_channels_last_otherwise():
    def fn(x):
        return x.sin().exp()

    x = image().to(memory_format=torch.channels_last).requires_grad_()
    want = gradients(fn, (x,))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.contiguous(), lambda t: t):
        torch.testing.assert_close(gradients(torch.compile(fn, backend="graphfuse"), (x,)), want)


def test_what_is_returned_has_torchs_strides():
    def fn(x, w, v):
        y = conv2d(x, w, padding=1).sigmoid()
        return conv2d(y, v, padding=1).sum(), y

    assert not turned(compare(fn, image(requires_grad=True), *weights()))


def test_a_view_of_it_is_returned():
    def fn(x, w, v):
        y = conv2d(x, w, padding=1).sigmoid()
        return conv2d(y, v, padding=1).sum(), y.flatten(1)

    compare(fn, image(requires_grad=True), *weights())


def test_an_operator_of_torch_reads_it(halved):
    def fn(x, w, v):
        return conv2d(halved.call(conv2d(x, w, padding=1)), v, padding=1).sum((2, 3))

    compare(fn, image(requires_grad=True), *weights())
    assert halved.seen == [image().stride()] * 2


def test_a_view_that_is_none_of_channels_last():
    def fn(x, w, v):
        y = conv2d(x, w, padding=1).sigmoid().flatten(1)
        return y @ v.flatten()[: y.shape[1], None].sin()

    compare(fn, image(requires_grad=True), weights()[0], (torch.randn(8, 8, 3, 3)).requires_grad_())


def test_an_operator_that_declines_late_reads_it_as_traced(monkeypatch):
    """Whether a lowering takes a gradient is known after the forward is compiled."""
    monkeypatch.setattr("graphfuse.frontends.fx.ops.conv.MOST_TAPS", 1)
    graphs = compare(two, image(requires_grad=True), *weights())
    assert turned(graphs)
    assert any("convolution_backward" in str(n.target) for n in graphs[1].cut.reasons)


def test_sizes_that_change():
    fn = torch.compile(two, backend="graphfuse", options={"check": True}, dynamic=True)
    w = weights()
    for size in (6, 7):
        x = torch.randn(size, 8, size, 10, requires_grad=True)
        torch.testing.assert_close(gradients(fn, (x, *w)), gradients(two, (x, *w)), rtol=1e-3, atol=2e-3)


def test_what_is_computed_again():
    def begin(x, w):
        return conv2d(x, w, padding=1).sin()

    def fn(x, w, v):
        return checkpoint(two, checkpoint(begin, x, w, use_reentrant=False), w, v, use_reentrant=False)

    compare(fn, image(requires_grad=True), *weights())
