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


def test_gradients():
    torch.manual_seed(0)
    x, w = torch.randn(2, 64, 13, 13).bfloat16(), (torch.randn(64, 8, 3, 3) / 9).bfloat16()
    pairs = [[t.to(kind).requires_grad_() for t in (x, w)] for kind in (torch.float64, torch.bfloat16)]
    F.conv2d(*pairs[0], padding=1, groups=8).square().sum().backward()
    with emulated():
        torch.compile(lambda x, w: F.conv2d(x, w, padding=1, groups=8), backend="graphfuse")(
            *pairs[1]
        ).square().sum().backward()
    for exact, found in zip(*pairs, strict=True):
        assert (found.grad - exact.grad).norm() < 0.02 * exact.grad.norm()
