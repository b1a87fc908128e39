"""At which level a node is computed: what is cheap waits for its first reader, where it is no larger to keep."""

import operator

import pytest

torch = pytest.importorskip("torch")

from graphfuse.torch.cut import cut  # noqa: E402 - it imports torch
from tests.torch.support import compiled, recorded_graphs  # noqa: E402


def later(x, y):
    """Nothing but the last sum reads what is computed of halves."""
    return torch.linalg.inv(x.exp()) + (y.float().exp() * 2).tanh()


def smaller(x, y):
    """Halves are less to keep."""
    return torch.linalg.inv(x.exp()) + y.exp().half().float()


def shared(x, y):
    """The operator of torch reads it as well."""
    z = y.float().exp()
    return torch.linalg.inv(x.exp() * z) + z


def returned(x, y):
    z = y.float().exp()
    return torch.linalg.inv(x.exp()) + z, z


@pytest.mark.parametrize(
    ("fn", "half", "waits"),
    [(later, True, True), (smaller, False, False), (shared, True, False), (returned, True, False)],
)
def test_what_is_cheap_waits_for_its_reader(fn, half, waits):
    x = torch.randn(4, 4)
    y = torch.randn(4, 4).half() if half else torch.randn(4, 4)
    with recorded_graphs() as graphs:
        got = compiled(fn)(x, y)
    torch.testing.assert_close(got, fn(x, y))
    (graph,) = graphs
    assert len(graph.cut.regions) == 2
    first = [n.target for n in graph.cut.regions[0].part.nodes]
    assert first.count(torch.ops.aten.exp.default) == (1 if waits else 2)


def test_nothing_waits_where_an_operator_writes():
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    wide = graph.call_function(torch.ops.aten._to_copy.default, (y,), {"dtype": torch.float32})
    inverse = graph.call_function(torch.ops.aten.linalg_inv_ex.default, (x,))
    first = graph.call_function(operator.getitem, (inverse, 0))
    added = graph.call_function(torch.ops.aten.add.Tensor, (wide, first))
    graph.output((added,))
    fakes = (torch.empty(4, 4), torch.empty(4, 4, dtype=torch.float16), *[torch.empty(4, 4)] * 4)
    for node, fake in zip(graph.nodes, fakes, strict=False):
        node.meta["val"] = (fake, fake) if node is inverse else fake
    assert cut(graph, {}).levels[wide] == 1
    with graph.inserting_before(first):
        written = graph.call_function(torch.ops.aten.relu_.default, (y,))
    written.meta["val"] = y.meta["val"]
    assert cut(graph, {}).levels[wide] == 0
