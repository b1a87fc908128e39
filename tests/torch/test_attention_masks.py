"""Masks that torch's fused attention of GPUs cannot read as they lie are laid out before it chooses."""

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from graphfuse.torch.attention_masks import lay_out_masks  # noqa: E402

ATTENTION = torch.nn.functional.scaled_dot_product_attention
SHAPE = (2, 1, 5, 5)
MASKS = {
    "one number": (lambda device: torch.zeros((), device=device).expand(SHAPE), True),
    "a number a query": (lambda device: torch.zeros(2, 1, 5, 1, device=device).expand(SHAPE), True),
    "keys apart": (lambda device: torch.zeros(SHAPE, device=device).transpose(-1, -2), True),
    "dense": (lambda device: torch.zeros(SHAPE, device=device), False),
    "the same for every query": (lambda device: torch.zeros(2, 1, 1, 5, device=device).expand(SHAPE), False),
}


def graph(mask, device: str, *, by_name: bool) -> fx.GraphModule:
    """Attention of Dynamo's, with the values it was traced with."""
    out = fx.Graph()
    with FakeTensorMode():
        values = [torch.zeros(2, 3, 5, 8, device=device) for _ in range(3)] + [mask(device)]
    places = [out.placeholder(name) for name in ("q", "k", "v", "mask")]
    for place, value in zip(places, values, strict=True):
        place.meta["example_value"] = value
    given = (tuple(places[:3]), {"attn_mask": places[3]}) if by_name else (tuple(places), {})
    out.output((out.call_function(ATTENTION, *given),))
    return fx.GraphModule({}, out)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize(("mask", "copied"), MASKS.values(), ids=MASKS)
def test_masks_are_dense_along_the_keys(mask, copied: bool, by_name: bool) -> None:
    gm = graph(mask, "cuda", by_name=by_name)
    lay_out_masks(gm)
    gm.graph.lint()
    (call,) = gm.graph.find_nodes(op="call_function", target=ATTENTION)
    read = call.kwargs["attn_mask"] if by_name else call.args[3]
    assert (read.op == "call_method") == copied
    assert read.meta["example_value"].stride(-1) == 1 and read.meta["example_value"].shape == SHAPE


def test_on_a_cpu_masks_stay() -> None:
    gm = graph(MASKS["one number"][0], "cpu", by_name=False)
    before = gm.code
    lay_out_masks(gm)
    assert gm.code == before


def test_the_copy_changes_nothing() -> None:
    gm = graph(MASKS["keys apart"][0], "cuda", by_name=False)
    lay_out_masks(gm)
    q, k, v = torch.randn(3, 2, 3, 5, 8)
    mask = torch.randn(SHAPE).transpose(-1, -2)
    torch.testing.assert_close(gm(q, k, v, mask)[0], ATTENTION(q, k, v, mask))
