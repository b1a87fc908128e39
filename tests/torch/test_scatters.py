"""What writes at indices: values beside eager, no copies of what is changed in place, and what a GPU makes of it."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from graphfuse import compiler  # noqa: E402
from graphfuse.errors import IndexRangeError  # noqa: E402
from graphfuse.knobs import Options  # noqa: E402
from graphfuse.targets import Target  # noqa: E402
from tests.torch.support import check, compiled, left_to_torch, recorded_graphs  # noqa: E402
from tests.torch.test_unaligned import on_an_emulated_gpu, shifted  # noqa: E402, F401

aten = torch.ops.aten
AT = torch.tensor([3, 1, 3, 0, 8, 3])
X, ROWS = torch.randn(9, 5), torch.randn(6, 5)
CACHE, PLACE, NEW = torch.randn(2, 3, 8, 4), torch.tensor([5]), torch.randn(2, 3, 1, 4)


def of_grid(i):
    return torch.stack([i, i.flip(0), i, i, i.flip(0)], 1)


VALUES = {
    "embedding": lambda x, s: aten.embedding_dense_backward(s, AT, 9, -1, scale_grad_by_freq=False),
    "embedding with padding": lambda x, s: aten.embedding_dense_backward(s, AT, 9, 3, scale_grad_by_freq=False),
    "index_add": lambda x, s: x.index_add(0, AT, s, alpha=0.5),
    "index_add, columns": lambda x, s: x.t().index_add(1, AT, s.t()),
    "scatter_add": lambda x, s: x.scatter_add(0, of_grid(AT), s),
    "scatter_reduce": lambda x, s: x.scatter_reduce(0, of_grid(AT), s, "prod"),
    "index_copy": lambda x, s: x.index_copy(0, torch.arange(6), s),
    "index_put, accumulated": lambda x, s: x.index_put((AT,), s, accumulate=True),
    "index_put, the last wins": lambda x, s: x.index_put((AT,), s),
    "index_put, columns": lambda x, s: put(x, [None, AT[:4] % 5], s[:1, :4]),
    "index_put, apart": lambda x, s: put(x.reshape(3, 3, 5), [AT % 3, None, AT % 5], s[:, :3]),
    "index_put, inside": lambda x, s: put(x.reshape(3, 3, 5), [None, AT % 3, -AT % 5], s[:, 0]),
}


def put(x, at, values):
    return aten.index_put(x, at, values, accumulate=True)


@pytest.mark.some(12)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, dtype):
    check(VALUES[name], X.to(dtype), ROWS.to(dtype))


def test_halves_are_summed_before_they_are_rounded():
    """256 and 300 times 1: in bf16 a sum stays 256."""
    ones, at = torch.ones(300, 4, dtype=torch.bfloat16), torch.zeros(300, dtype=torch.int64)
    fn = compiled(lambda x: x.index_add(0, at, ones))
    assert (fn(torch.full((2, 4), 256.0).bfloat16())[0] == 556).all()


# what is changed in place


def index_copy(c, new):
    c.index_copy_(2, PLACE, new)
    return (c * 2).sum(-1)


def setitem(c, new):
    c[:, :, PLACE] = new
    return (c * 2).sum(-1)


def slices(c, new):
    c[:, :, 3:4] = new
    c[:, :, 5:6] = new * 2
    return (c * 2).sum(-1)


def paged(c, new):
    c[torch.tensor([1, 0]), :, torch.tensor([5, 2])] = new[:, :, 0]
    return (c * 2).sum(-1)


def added(c, new):
    c.index_add_(2, PLACE.expand(3), new.expand(2, 3, 3, 4))
    return (c * 2).sum(-1)


def attended(c, new):
    c.index_copy_(2, PLACE, new)
    return F.scaled_dot_product_attention(new, c, c)


def of_gaps(c, new):
    c[:, :, ::2].index_copy_(2, PLACE - 3, new)
    return c.sum()


def read_before(c, new):
    old = c.exp()
    c.index_copy_(2, PLACE, new)
    return old, c.sum(-1)


def of_flat(c, new):
    c.view(-1, 4)[PLACE * 3] = new[0, 1]
    return (c * 2).sum(-1)


def of_kinds(c, new):
    keys, values = c.unbind()
    keys.index_copy_(1, PLACE, new[0])
    values[:, PLACE] = new[1] * 2
    return keys.sum(-1) * values.sum(-1)


def of_layers(c, new):
    layers = c.view(2, 3, 2, -1, 4)
    layers[1, :, 0].index_copy_(1, PLACE - 4, new[0])
    layers[0, :, 1, 2:].index_copy_(1, PLACE - 4, new[1])
    return (c * 2).sum(-1)


def of_slots(c, new):
    c[1].view(-1, 2, 4)[PLACE * 2] = new[0, :2, 0]
    return (c * 2).sum(-1)


def of_a_slice(c, new):
    c[:, 1:, 2:7].index_copy_(2, PLACE - 1, new[:, 1:])
    return (c * 2).sum(-1)


def from_its_end(c, new):
    c[:, :, 1:7][:, :, -PLACE] = new
    return (c * 2).sum(-1)


def of_columns(c, new):
    c[..., 1:3].index_copy_(2, PLACE, new[..., 1:3])
    return (c * 2).sum(-1)


def added_to_one(c, new):
    c[1].index_add_(1, PLACE.expand(2), new[0].expand(3, 2, 4))
    return (c * 2).sum(-1)


def few_elements(c, new):
    c[:, :, 2:].scatter_(2, PLACE.view(1, 1, 1, 1).expand(1, 3, 1, 2), new)
    return (c * 2).sum(-1)


def turned(c, new):
    c.transpose(1, 2).index_copy_(1, PLACE, new.transpose(1, 2))
    return (c * 2).sum(-1)


def slice_of_turned(c, new):
    c.permute(2, 0, 1, 3)[3:4] = new.permute(2, 0, 1, 3)
    return (c * 2).sum(-1)


THROUGH_VIEWS = (
    of_flat, of_kinds, of_layers, of_slots, of_a_slice, from_its_end, of_columns, added_to_one, few_elements, turned,
    slice_of_turned,
)  # fmt: skip
IN_PLACE = (index_copy, setitem, slices, paged, added, attended, of_gaps, read_before, *THROUGH_VIEWS)


def read_after(c, new):
    old = c[:, :, :1].clone()
    c.index_copy_(2, PLACE, new)
    return c.sum(-1) * 2 + old.sum()


def returned(c, new):
    out = c.index_copy(2, PLACE, new)
    c.copy_(out)
    return out


def read_by_itself(c, new):
    c.index_copy_(2, PLACE, c[:, :, :1].clone() + new)
    return c.sum()


COPIED = (read_after, returned, read_by_itself)


def run(fn, *given):
    """Compiled beside eager, twice; whether parts share the memory of what is changed, and the kernels."""
    given = [x.clone() for x in given]
    ours = [shifted(x, 0) for x in given]
    with recorded_graphs() as graphs, torch.no_grad():
        made = compiled(fn)
        for _ in range(2):
            torch.testing.assert_close(made(*ours), fn(*given))
            torch.testing.assert_close(ours, given)
    assert left_to_torch(graphs) == {}
    parts = [p for g in graphs for p in g.parts]
    return any(p.executable.shared for p in parts), {s.kernel for p in parts for _, s in p.executable.plan.walk()}


@pytest.mark.parametrize("fn", IN_PLACE, ids=lambda f: f.__name__)
def test_what_is_changed_is_not_copied(fn):
    shares, kernels = run(fn, CACHE, NEW)
    assert shares
    assert "copy_bytes" not in kernels


@pytest.mark.parametrize("fn", THROUGH_VIEWS, ids=lambda f: f.__name__)
def test_nor_is_a_view_of_it(fn):
    given = torch.randn(2, 3, 64, 4)
    with recorded_graphs() as graphs, torch.no_grad():
        compiled(fn)(given, NEW)
    (part,) = graphs[0].parts
    assert all(b.nbytes < given.nbytes / 8 for b in part.executable.plan.buffers if b.kind == "arena")


@pytest.mark.parametrize(
    "of", [lambda c: c[1], lambda c: c[0].flip(0), lambda c: c[0] + 0], ids=["other", "turned", "new"]
)
def test_a_view_that_becomes_something_else(of):
    def fn(c, new):
        c[0] = of(c).index_copy(1, PLACE, new[0])
        return c.sum()

    run(fn, CACHE, NEW)


@pytest.mark.parametrize("fn", COPIED, ids=lambda f: f.__name__)
def test_what_is_needed_otherwise_is_copied(fn):
    shares, kernels = run(fn, CACHE, NEW)
    assert not shares
    assert "copy_bytes" in kernels


@pytest.mark.parametrize("fn", [*IN_PLACE, *COPIED], ids=lambda f: f.__name__)
def test_on_a_gpu(fn, emulated):
    shares, _ = run(fn, CACHE, NEW)
    assert shares == (fn in IN_PLACE)


def test_what_is_not_aligned_is_copied_there_and_back(emulated):
    given, ours = CACHE.clone(), shifted(CACHE)
    with torch.no_grad():
        torch.testing.assert_close(compiled(index_copy)(ours, NEW), index_copy(given, NEW))
    torch.testing.assert_close(ours, given)


def test_sizes_that_change():
    fn = compiled(index_copy, dynamic=True)
    for n in (8, 9, 13):
        given = torch.randn(2, 3, n, 4)
        ours = given.clone()
        with torch.no_grad():
            torch.testing.assert_close(fn(ours, NEW), index_copy(given, NEW))
        torch.testing.assert_close(ours, given)


def test_many_launches_run_in_pieces():
    def fn(c, new):
        c.index_copy_(0, AT[:2], new)
        for i in range(70):
            c = c.cumsum(i % 2) * 0.5
        return c

    given = X.clone()
    ours = X.clone()
    with recorded_graphs() as graphs, torch.no_grad():
        torch.testing.assert_close(compiled(fn)(ours, ROWS[:2]), fn(given, ROWS[:2]))
    torch.testing.assert_close(ours, given)
    (part,) = graphs[0].parts
    assert part.in_pieces
    assert part.shared


def test_what_is_in_range_is_written_before_the_error():
    """As by eager."""
    x, fn = torch.zeros(4), compiled(lambda x, i: x.index_copy_(0, i, torch.ones(2)).sum())
    with pytest.raises(IndexRangeError), torch.no_grad():
        fn(x, torch.tensor([1, 9]))
    assert x.tolist() == [0, 1, 0, 0]


def past_its_end(c, new):
    """In range of what the view is of."""
    c[:, 1:, 2:6].index_copy_(2, PLACE - 1, new[:, 1:])
    return c.sum()


def test_what_is_out_of_range_of_a_view_is_dropped(emulated):
    given = shifted(CACHE, 0)
    with recorded_graphs() as graphs, torch.no_grad():
        compiled(past_its_end)(given, NEW)
    torch.testing.assert_close(given, CACHE, rtol=0, atol=0)
    assert graphs[0].parts[0].executable.shared


def test_what_is_out_of_range_of_a_view_is_an_error():
    given = CACHE.clone()
    with pytest.raises(IndexRangeError, match="from 0 to 3, found 4"), torch.no_grad():
        compiled(past_its_end)(given, NEW)
    torch.testing.assert_close(given, CACHE, rtol=0, atol=0)


# for a GPU


def built(fn, *given):
    """The PTX, and the kernels in their order, of a function for sm_90a."""
    with recorded_graphs() as graphs, torch.no_grad():
        compiled(fn)(*given)
    (part,) = graphs[0].parts
    target = Target.parse("cuda:sm_90a")
    made = compiler.build(part.func, target, Options())
    return made.code[str(target)].ptx, [s.kernel for _, s in made.plan.walk()]


def test_a_histogram_computes_its_places():
    """Beside what makes zeros; sums meet in shared memory before they are added to what is there."""
    ptx, kernels = built(lambda x: torch.histc(x.float(), 20, -4, 4), torch.randn(10_001).half())
    assert kernels == ["pointwise_0", "scatter_0"]
    assert "red.relaxed.gpu.shared.add.f32" in ptx


def test_sums_are_vectors_of_atomics():
    at, new = torch.randint(0, 100, (40,)), torch.randn(40, 64)
    ptx, kernels = built(lambda g: aten.embedding_dense_backward(g, at, 100, -1, scale_grad_by_freq=False), new)
    assert kernels == ["pointwise_0", "scatter_0"]
    assert "red.relaxed.gpu.global.add.v4.f32" in ptx
    ptx, kernels = built(lambda x: x.index_add(0, at, new), torch.randn(100, 64))
    assert kernels == ["pointwise_0", "scatter_0"]
    assert "red.relaxed.gpu.global.add.v4.f32" in ptx


def test_in_order_where_algorithms_are_to_be_deterministic():
    at, new = torch.randint(0, 100, (40,)), torch.randn(40, 64)
    torch.use_deterministic_algorithms(mode=True)
    try:
        ptx, _ = built(lambda x: x.index_add(0, at, new), torch.randn(100, 64))
    finally:
        torch.use_deterministic_algorithms(mode=False)
    assert "red." not in ptx
    assert "atom." not in ptx
