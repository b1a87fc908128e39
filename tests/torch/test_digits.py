"""What is read where a dim of the result is several of an operand: runs of these, on an emulated GPU."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from benchmarks.emulated_torch import emulated, touched  # noqa: E402

CASES = {
    "batch and channels of images with channels last": (
        lambda x: x.contiguous().view(1, 66, 31, 29) * 2,
        torch.randn(2, 33, 31, 29).to(memory_format=torch.channels_last),
    ),
    "behind what they are turned with": (
        lambda x: (x.permute(2, 1, 0, 3).reshape(51, 3, 320) + 1).permute(2, 0, 1).contiguous(),
        torch.randn(16, 3, 51, 20),
    ),
    "instance norm": (F.instance_norm, torch.randn(2, 24, 65, 64).to(memory_format=torch.channels_last)),
    "a part of them": (lambda x: x.permute(1, 0, 2).reshape(7, 768)[:, 5:701] * 2, torch.randn(12, 7, 64)),
    "from the end": (lambda x: x.permute(1, 0, 2).reshape(7, 768).flip(1) * 2, torch.randn(12, 7, 64)),
    "groups of channels that change places": (
        lambda x: x.view(2, 4, 16, 9, 9).transpose(1, 2).reshape(2, 64, 9, 9) + 1,
        torch.randn(2, 64, 9, 9).to(memory_format=torch.channels_last),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_runs_are_read_as_they_lie(name):
    call, x = CASES[name]
    want = call(x)
    with emulated() as reports:
        compiled = torch.compile(call, backend="graphfuse", dynamic=False)
        compiled(x)
        reports.clear()
        got = compiled(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    # an instance norm reads its image twice; what is not in runs takes a sector of eight for each element
    assert touched(reports, x.nbytes + got.nbytes, 0).bytes < 2.5
