"""Attention that torch has no fused kernel for is one operator, where no gradient is asked for."""

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

import graphfuse.torch  # noqa: E402
from graphfuse.frontends.fx.ops.attention import WHOLE_ATTENTION  # noqa: E402
from graphfuse.torch.whole_attention import keep_attention_whole  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
LATENT = (2, 4, 3, 48), (2, 1, 70, 48), (2, 1, 70, 32)
DEEP = (1, 2, 5, 264), (1, 2, 19, 264), (1, 2, 19, 264)
SQUARE = (1, 2, 5, 32), (1, 2, 19, 32), (1, 2, 19, 32)


def latent(q, k, v):
    return attention(q, k, v, enable_gqa=True)


def masked(q, k, v):
    seen = torch.arange(k.shape[2]) <= torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    return attention(q, k, v, seen, scale=0.3, enable_gqa=True)


def biased(q, k, v):
    return attention(q, k, v, torch.linspace(-2, 2, k.shape[2]).to(q.dtype)[None], 0.0, enable_gqa=True)


def causal(q, k, v):
    return attention(q, k, v, is_causal=True, enable_gqa=True)


def dropped(q, k, v):
    return attention(q, k, v, dropout_p=0.1, enable_gqa=True)


def inputs(shapes, dtype=torch.float32):
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def calls_kept(function, given) -> int:
    """Calls that are one operator, of a graph as Dynamo makes it; the graph is run."""
    kept: list[int] = []

    def look(gm: fx.GraphModule, _):
        keep_attention_whole(gm)
        gm.graph.lint()
        kept.append(len(gm.graph.find_nodes(op="call_function", target=WHOLE_ATTENTION)))
        return gm

    torch._dynamo.reset()
    found = torch.compile(function, backend=look)(*given)
    torch.testing.assert_close(found, function(*given)) if function is not dropped else None
    return sum(kept)


@pytest.mark.parametrize(
    ("function", "shapes", "kept"),
    [
        (latent, LATENT, 1),
        (masked, LATENT, 1),
        (biased, DEEP, 1),
        (causal, DEEP, 1),
        (latent, SQUARE, 0),
        (dropped, LATENT, 0),
    ],
)
def test_which_calls_are_kept(function, shapes, kept) -> None:
    with torch.no_grad():
        assert calls_kept(function, inputs(shapes)) == kept


def test_a_gradient_is_left_to_torch() -> None:
    given = inputs(LATENT)
    given[1].requires_grad_()
    assert calls_kept(latent, given) == 0
    latent(*given).sum().backward()
    wanted, given[1].grad = given[1].grad, None
    torch._dynamo.reset()
    torch.compile(latent, backend=graphfuse.torch.backend)(*given).sum().backward()
    torch.testing.assert_close(given[1].grad, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [latent, masked, biased, causal])
@pytest.mark.parametrize("shapes", [LATENT, DEEP], ids=["latent", "deep"])
def test_values(function, shapes, dtype) -> None:
    given = inputs(shapes, dtype)
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(function, backend=graphfuse.torch.backend)(*given)
    wanted = function(*(x.double() for x in given))
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


def test_any_number_of_keys() -> None:
    step = torch.compile(latent, backend=graphfuse.torch.backend, dynamic=True)
    with torch.no_grad():
        for keys in (7, 30, 101):
            given = inputs(((2, 4, 1, 48), (2, 1, keys, 48), (2, 1, keys, 32)))
            torch.testing.assert_close(step(*given), latent(*given), rtol=1e-4, atol=1e-5)
