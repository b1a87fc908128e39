"""Indices that are not within their tensor: an error where eager torch has one, never a result."""

import pickle

import pytest

torch = pytest.importorskip("torch")

from graphfuse.errors import GraphfuseError, IndexRangeError  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

aten = torch.ops.aten
X = torch.arange(12.0).reshape(4, 3)
ROWS, ROW = torch.ones(2, 3), torch.ones(1, 3)


# of X or its first column, by two indices
OPERATORS = {
    "embedding": lambda i: aten.embedding(X, i),
    "index_select": lambda i: aten.index_select(X, 0, i),
    "take": lambda i: aten.take(X[:, 0] * 2, i),
    "gather": lambda i: aten.gather(X, 0, i[:, None].expand(2, 3)),
    "index": lambda i: X[i],
    "index of two dims": lambda i: X[i, i.clamp(0, 2)],
    "scatter": lambda i: aten.scatter(X, 0, i[:1, None].expand(1, 3), ROW),
    "scatter of a number": lambda i: aten.scatter(X, 0, i[:, None].expand(2, 3), 2.0),
    "scatter_add": lambda i: aten.scatter_add(X, 0, i[:, None].expand(2, 3), ROWS),
    "scatter_reduce": lambda i: aten.scatter_reduce(X, 0, i[:, None].expand(2, 3), ROWS, "amax"),
    "index_put": lambda i: aten.index_put(X, [i], ROWS),
    "index_put, accumulated": lambda i: aten.index_put(X, [i], ROWS, accumulate=True),
    "index_add": lambda i: aten.index_add(X, 0, i, ROWS),
    "index_copy": lambda i: aten.index_copy(X, 0, i, ROWS),
    "index_fill": lambda i: aten.index_fill(X, 0, i, 2.0),
    "put": lambda i: aten.put(X[:, 0] * 2, i, torch.ones(2)),
    "cross_entropy": lambda i: torch.nn.functional.cross_entropy(X.t()[:2], i),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_eager_takes_is_taken_and_what_it_refuses_refused(name):
    fn = OPERATORS[name]
    with recorded_graphs() as graphs:
        ours = compiled(lambda i: fn(i) + 0)
        for index in (-5, -4, -1, 3, 4, 1 << 40, -(1 << 63)):
            given = torch.tensor([index, 0])
            try:
                want = fn(given)
            except (IndexError, RuntimeError) as e:
                with pytest.raises(type(e)):
                    ours(given)
                continue
            torch.testing.assert_close(ours(given), want)
    assert left_to_torch(graphs) == {}


def test_the_error_names_operator_line_and_index():
    def fn(table, i):
        return table[i] * 2

    with pytest.raises(IndexRangeError, match=r"test_indices.py:\d+:.*aten.index.Tensor: .* -4 to 3, found 9"):
        compiled(fn)(X, torch.tensor([1, 9]))
    assert issubclass(IndexRangeError, IndexError) and issubclass(IndexRangeError, RuntimeError)
    assert issubclass(IndexRangeError, GraphfuseError)


def test_sizes_that_change_and_indices_that_are_computed():
    fn = compiled(lambda x, i: x.cos()[(i + 1) * 2], dynamic=True)
    for n in (5, 7, 9):
        x = torch.arange(float(n))
        torch.testing.assert_close(fn(x, torch.tensor([0, 1])), x.cos()[[2, 4]])
        with pytest.raises(IndexRangeError, match=f"from -{n} to {n - 1}, found {2 * n}"):
            fn(x, torch.tensor([0, n - 1]))


def test_nothing_is_written_before_the_error():
    def fn(x, i):
        x.add_(1)
        return x[i]

    x = torch.zeros(4)
    with pytest.raises(IndexRangeError):
        compiled(fn)(x, torch.tensor([4]))
    assert torch.equal(x, torch.zeros(4))


def test_a_mask_that_is_longer_than_its_source():
    fn = compiled(lambda x, s: x.masked_scatter(x > 0, s))
    with pytest.raises(RuntimeError):
        fn(torch.ones(4), torch.arange(3.0))


def test_an_empty_table():
    fn = compiled(lambda x, i: torch.nn.functional.embedding(i, x) + 1)
    with pytest.raises((IndexError, RuntimeError), match="index"):
        fn(torch.empty(0, 3), torch.tensor([0]))
    assert fn(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).shape == (0, 3)


def known(x, i):
    n = x.shape[0]
    positions = torch.arange(n)
    return (
        x[positions], x[positions.flip(0)], x[i.clamp(0, n - 1)], x[(i % n).reshape(1, 2)],
        x[x.argmax(0)], x[torch.where(i > 3, 0, 1)], x[positions[:, None] - torch.arange(2)[None]],
    )  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_known_to_be_in_range_is_not_looked_at(dynamic):
    with recorded_graphs() as graphs:
        found = compiled(known, dynamic=dynamic)(X, torch.tensor([7, -3]))
    torch.testing.assert_close(found, known(X, torch.tensor([7, -3])))
    assert [p.watched for g in graphs for p in g.parts] == [()]


def test_what_is_read_twice_is_looked_at_once():
    with recorded_graphs() as graphs:
        compiled(lambda x, y, i: (x[i], y[i], x[i] + y[i]))(X, X * 2, torch.tensor([1, 2]))
    assert [len(p.watched) for g in graphs for p in g.parts] == [1]


def test_a_graph_of_the_cache_looks_too():
    with recorded_graphs() as graphs:
        compiled(lambda x, i: x[i] + 1)(X, torch.tensor([1, 2]))
    part = pickle.loads(pickle.dumps(graphs[0].parts[0]))
    with pytest.raises(IndexRangeError):
        part(X, torch.tensor([1, 4]))


def test_places_that_no_maximum_has():
    def fn(x, i):
        return torch.nn.functional.max_unpool2d(x, i, 2) + 1

    x, i = torch.randn(1, 2, 2, 2), torch.tensor([0, 3, 9, 15]).reshape(1, 1, 2, 2).repeat(1, 2, 1, 1)
    run = compiled(fn)
    torch.testing.assert_close(run(x, i), fn(x, i))
    for wrong in (16, -1):
        i[0, 1, 1, 1] = wrong
        with pytest.raises(IndexRangeError):
            run(x, i)
