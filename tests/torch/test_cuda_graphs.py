"""What of a graph that torch runs keeps it from being recorded; recordings themselves are tested on a GPU."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from graphfuse.torch.cuda_graphs import chosen, unsafe  # noqa: E402

X, AT = torch.arange(12.0).reshape(4, 3), torch.tensor([2, 0])
CALLS = {
    "rows by number": (lambda x, at: x[at], AT, ""),
    "behind a dim": (lambda x, at: x[:, at], AT, ""),
    "where a mask is true": (lambda x, mask: x[mask], X > 3, "index"),
    "places of what is not 0": (lambda x, _: x.nonzero(), AT, "nonzero"),
    "sums": (lambda x, _: x.cumsum(0), AT, ""),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_sizes_that_depend_on_data_cannot_be_recorded(name):
    fn, given, name = CALLS[name]
    graph = make_fx(fn, tracing_mode="symbolic")(X, given).graph
    calls = [n for n in graph.nodes if n.op == "call_function"]
    assert calls
    assert unsafe(calls) == name


def test_what_chooses_by_what_is_computed_cannot_be_recorded():
    choice = make_fx(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))(X)
    assert chosen(choice.graph.nodes) == "cond"
    assert not chosen(make_fx(torch.sin)(X).graph.nodes)
