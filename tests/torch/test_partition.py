"""What a forward keeps for its backward."""

import pytest

torch = pytest.importorskip("torch")

from tests.torch.support import check  # noqa: E402


@pytest.fixture(autouse=True)
def convolutions_are_ours(monkeypatch):
    monkeypatch.setattr("graphfuse.frontends.fx.ops.conv.torch_is_faster", lambda *_, **__: "")


class Excited(torch.nn.Module):
    """Channels of a batch that is normalised, as a network of their means says."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Conv2d(4, 8, 1, bias=False), norm, torch.nn.Conv2d(8, 4, 1)

    def forward(self, x):
        y = self.norm(self.first(x)).relu()
        return self.last(y * y.mean((2, 3), keepdim=True).sigmoid())


def kept(graph):
    """The sizes of what a graph returns that it was not given."""
    (*_, end) = next(iter(graph.cut.kinds)).graph.nodes
    outs = [o for o in end.args[0] if isinstance(o, torch.fx.Node) and o.op != "placeholder"]
    return sorted(o.meta["val"].numel() for o in outs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "norm",
    [
        torch.nn.BatchNorm2d(8),
        torch.nn.BatchNorm2d(8, affine=False),
        torch.nn.BatchNorm2d(8, track_running_stats=False),
        torch.nn.InstanceNorm2d(8, affine=True),
    ],
    ids=["batch", "without weights", "of its own statistics", "instance"],
)
def test_a_normalised_batch_is_made_again(norm, dynamic):
    forward, _ = check(Excited(norm), torch.randn(3, 4, 20, 20, requires_grad=True), dynamic=dynamic)
    if not dynamic:
        # the image that is normalised, the one that is multiplied, and the result
        assert [n for n in kept(forward) if n > 3 * 8] == [3 * 4 * 400, 3 * 8 * 400, 3 * 8 * 400]


def test_halves_are_normalised_by_statistics_in_f32():
    """A CPU keeps them in halves, of which no batch is normalised again."""
    net = Excited(torch.nn.BatchNorm2d(8)).bfloat16()
    net.norm.float()
    check(net, (3 + torch.randn(3, 4, 20, 20)).bfloat16().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_places_of_maxima_are_kept_in_half_the_bytes(dtype):
    forward, _ = check(
        lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1) ** 2,
        torch.randn(2, 3, 17, 19, dtype=dtype, requires_grad=True),
    )
    (*_, end) = next(iter(forward.cut.kinds)).graph.nodes
    found = [o.meta["val"].dtype for o in end.args[0] if isinstance(o, torch.fx.Node)]
    assert torch.int32 in found
    assert torch.int64 not in found


def test_places_that_are_returned_stay_as_they_are():
    x = torch.randn(2, 3, 17, 19, requires_grad=True)
    forward, _ = check(lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    (*_, end) = next(iter(forward.cut.kinds)).graph.nodes
    assert torch.int32 not in [o.meta["val"].dtype for o in end.args[0] if isinstance(o, torch.fx.Node)]
