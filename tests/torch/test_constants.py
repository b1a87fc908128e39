"""Numbers that a program holds as tensors are known when it is compiled."""

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from graphfuse.torch.constants import inline_numbers  # noqa: E402
from graphfuse.torch.cut import cut  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

aten = torch.ops.aten


def test_numbers_held_as_tensors_are_known():
    def fn(x):
        rest = torch.tensor(1.0, dtype=torch.float16) - torch.ones(2, 5)  # 0 everywhere
        return x + rest.masked_fill(rest.bool(), torch.finfo(torch.float16).min), torch.tensor(3) * x

    x = torch.randn(2, 5)
    with recorded_graphs() as graphs:
        got = compiled(fn)(x)
    torch.testing.assert_close(got, fn(x))
    (part,) = graphs[0].parts
    assert len(part.func.params) == 1
    assert "select" not in part.executable.ir["regions"]
    assert left_to_torch(graphs) == {}


def test_a_number_is_made_where_it_is_read():
    graph = fx.Graph()
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = torch.empty(3, device="cuda"), torch.empty(())
    x, held = graph.placeholder("x"), graph.get_attr("held")
    number = graph.call_function(aten.lift_fresh_copy.default, (held,))
    y = graph.call_function(aten.add.Tensor, (x, number))
    graph.output((y,))
    for node, fake in zip((x, held, number, y), (fakes[0], fakes[1], fakes[1], fakes[0]), strict=True):
        node.meta["val"] = fake
    gm = fx.GraphModule({"held": torch.tensor(2.5)}, graph)
    inline_numbers(gm)
    found = cut(gm.graph, {})
    assert not found.reasons
    assert [len(r.part.inputs) for r in found.regions] == [1]
    assert "held" not in gm.code
