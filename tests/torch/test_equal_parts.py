"""Equal layers are compiled once, and so are kernels that parts have in common."""

import re

import pytest

torch = pytest.importorskip("torch")

from benchmarks.emulated_torch import emulated  # noqa: E402 - it imports torch
from graphfuse.errors import IndexRangeError  # noqa: E402
from graphfuse.knobs import scope  # noqa: E402
from tests.torch.support import compiled, recorded_graphs  # noqa: E402

SIZE = 8


def layer(y, x):
    """A part, and an operator of torch's."""
    return torch.linalg.inv(torch.softmax(y + x, -1) + y)


def layers(y, x):
    """Two equal parts, read as the operator lays them out, and one with a kernel more."""
    for _ in range(3):
        x = layer(y, x)
    return torch.softmax(y + x, -1) + y, x.T.cumsum(0)


def matrices():
    return 2 * torch.eye(SIZE), torch.randn(SIZE, SIZE)


def executables(graphs):
    return [part.executable for graph in graphs for part in graph.parts]


def test_equal_parts_have_one_executable():
    given = matrices()
    with scope(cache="0"), recorded_graphs() as graphs:
        got = compiled(layers)(*given)
    torch.testing.assert_close(got, layers(*given), rtol=1e-4, atol=1e-4)
    _, first, second, last = executables(graphs)
    assert first is second is not last


def test_a_graph_that_is_there_lends_its_executables():
    with scope(cache="0"), recorded_graphs() as graphs:
        compiled(layers)(*matrices())
        compiled(lambda a, b: layer(a, b).sum())(*matrices())
    parts = executables(graphs)
    assert parts[4] is parts[0]


def test_nothing_is_lent_where_passes_are_watched(tmp_path):
    with scope(dump=str(tmp_path)), recorded_graphs() as graphs:
        compiled(layers)(*matrices())
    _, first, second, _ = executables(graphs)
    assert first is not second


def test_an_index_is_refused_by_the_part_that_reads_it():
    def looked_up(y, first, second, third, x):
        for index in (first, second, third):
            x = torch.linalg.inv(torch.softmax(y + x, -1)[index] + y)
        return x

    y, x = matrices()
    fine, far = torch.zeros(SIZE, dtype=torch.int64), torch.full((SIZE,), 9)
    with scope(cache="0"), recorded_graphs() as graphs:
        fn = compiled(looked_up, dynamic=False)
        fn(y, fine, fine, fine.clone(), x)
        with pytest.raises(IndexRangeError, match="found 9"):
            fn(y, fine, fine.clone(), far, x)
    _, second, third = graphs[0].parts
    assert second.executable.code is third.executable.code
    assert second.watched[0][0].node != third.watched[0][0].node


def test_kernels_of_parts_are_one_on_a_gpu():
    given = matrices()
    with emulated(), recorded_graphs() as graphs:
        got = compiled(layers)(*given)
    torch.testing.assert_close(got, layers(*given), rtol=1e-4, atol=1e-4)
    _, first, _, last = map(kernels_of, executables(graphs))
    assert first.items() < last.items()


def kernels_of(executable):
    """The text of each kernel that an executable has, by its name."""
    (code,) = executable.code.values()
    found = dict(re.findall(r"\.entry (\w+)\((.*?)^}", code.ptx, re.DOTALL | re.MULTILINE))
    assert found.keys() == {k.name for k in executable.kernels if k.launch is not None}
    return found
