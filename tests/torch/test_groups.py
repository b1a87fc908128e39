"""Convolutions in groups on an emulated GPU: groups of few channels are joined, or filled up."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from benchmarks.emulated_torch import emulated  # noqa: E402


@pytest.mark.some(4)
@pytest.mark.parametrize(("groups", "channels", "out"), [(8, 8, 8), (2, 24, 8), (6, 9, 5), (3, 33, 11), (4, 16, 3)])
@pytest.mark.parametrize("last", [False, True])
def test_groups(groups, channels, out, last):
    torch.manual_seed(0)
    x = torch.randn(2, groups * channels, 19, 17).half()
    w = torch.randn(groups * out, channels, 3, 3).half() / (3 * channels**0.5)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    want = F.conv2d(x.double(), w.double(), padding=1, groups=groups)
    with emulated():
        got = torch.compile(lambda x, w: F.conv2d(x, w, padding=1, groups=groups), backend="graphfuse")(x, w)
    torch.testing.assert_close(got.double(), want, rtol=2e-3, atol=2e-3)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("groups", "channels", "out", "stride", "elem"),
    [
        (8, 8, 8, 1, torch.bfloat16), (32, 4, 4, 2, torch.float16), (3, 4, 8, 2, torch.float16),
        (8, 1, 2, 1, torch.float32), (24, 1, 1, 1, torch.float16), (6, 16, 8, 1, torch.bfloat16),
    ],
)  # fmt: skip
def test_gradients(groups, channels, out, stride, elem):
    torch.manual_seed(0)
    x, w = torch.randn(2, groups * channels, 13, 13).to(elem), torch.randn(groups * out, channels, 3, 3).to(elem) / 9
    pairs = [[t.to(kind).requires_grad_() for t in (x, w)] for kind in (torch.float64, elem)]

    def loss(x, w):
        return F.conv2d(x, w, padding=1, stride=stride, groups=groups).square().sum()

    loss(*pairs[0]).backward()
    with emulated():
        torch.compile(loss, backend="graphfuse")(*pairs[1]).backward()
    for exact, found in zip(*pairs, strict=True):
        assert (found.grad - exact.grad).norm() < 0.02 * exact.grad.norm()


def test_groups_that_do_not_meet_may_be_infinite():
    """The product of a group's gradient and another's image is nobody's, whatever it is."""
    x, y = torch.randn(1, 16, 6, 6).half(), torch.ones(1, 16, 6, 6).half()
    x[:, 3], y[:, 9] = 300, 300
    grads = []
    for kind in (torch.float64, torch.float16):
        w = torch.zeros(16, 4, 1, 1, dtype=kind, requires_grad=True)
        call = lambda x, w: F.conv2d(x, w, groups=4)  # noqa: E731
        with emulated():
            out = (call if kind == torch.float64 else torch.compile(call, backend="graphfuse"))(x.to(kind), w)
            out.backward(y.to(kind))
        grads.append(w.grad)
    torch.testing.assert_close(grads[1].double(), grads[0], rtol=1e-2, atol=1)
