"""Views that are kept for the backward: stored without gaps, unless torch or another part reads them as traced."""

import pytest

torch = pytest.importorskip("torch")

from tests.torch.support import recorded_graphs  # noqa: E402

HEADS = 4


@pytest.fixture
def as_it_came():
    """An operator of torch's whose result has the strides of its operand, as those of attention have."""
    seen = []

    @torch.library.custom_op("graphfuse_tests::as_it_came", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.stride())
        return torch.empty_like(x).copy_(x)

    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad)
    op.seen = seen
    return op


def heads(x, w):
    return [t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (x @ w).chunk(3, -1)]


def weights():
    return (torch.randn(16, 48) / 4).requires_grad_()


def compare(fn, *inputs):
    with recorded_graphs() as graphs:
        compiled = torch.compile(fn, backend="graphfuse", options={"check": True})
        got, want = compiled(*inputs), fn(*inputs)
        torch.testing.assert_close(got, want)
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), inputs[1:]) for y in (got, want)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    return graphs


def test_an_operator_of_torch_reads_it(as_it_came):
    def fn(x, w):
        q, k, v = heads(x, w)
        a = as_it_came(q)
        return (a * k.tanh()).transpose(1, 2).flatten(-2) + v.sum()

    x, w = torch.randn(2, 8, 16), weights()
    compare(fn, x, w)
    strides = heads(x, w)[0].stride()
    assert as_it_came.seen == [strides, strides]


def test_a_later_part_reads_it(as_it_came):
    def fn(x, w):
        q, k, v = heads(x, w)
        return (as_it_came(k) * q).sin() * v

    compare(fn, torch.randn(2, 8, 16), weights())


def test_only_its_own_part_reads_it():
    def fn(x, w):
        q, _, _ = heads(x, w)  # a third of what is multiplied
        return q.sin() * q

    forward, _ = compare(fn, torch.randn(2, 8, 16), weights())
    assert forward.cut.compacted
