"""What eager torch refuses because of types, sizes or values is refused by the same program compiled.

Inputs are those that torch itself keeps for this (`error_inputs` of its operators), and its samples with one thing
changed: the type, a size or the rank of one tensor, or an index. Where `aot_eager` gives numbers as well, torch has
traced something else than it was asked for (results of another type than `out` has).
"""

import itertools
import sys
import types
import unittest
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

from torch.utils import _pytree as pytree  # noqa: E402

from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402

MOST = 40
"""Inputs of one operator."""
EVERY = 24
"""Operators of which one is tried each time; all in `full`."""
KILLED = ("linalg.ldl_solve", "nn.functional.ctc_loss", "lu_unpack")
"""Operators of which eager torch 2.13 reads beyond an input that does not fit, or ends the process."""


@pytest.fixture(scope="module")
def operators():
    # torch's tests need its `TestCase` to be imported, nothing else
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if "backward" not in op.name]  # `why_refused` asks of no gradients


def changed(leaves):
    """The same arguments with one thing changed that may not fit."""
    flat, spec = pytree.tree_flatten(leaves)
    places = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    for i in places:
        x = flat[i].detach()

        def put(y, i=i):
            return pytree.tree_unflatten([y if j == i else z for j, z in enumerate(flat)], spec)

        for dtype in (torch.float64, torch.int64, torch.float16):
            if len(places) > 1 and x.dtype != dtype and not x.dtype.is_complex:
                yield f"argument {i} as {dtype}", put(x.to(dtype))
        for dim in range(x.dim()):
            if 0 < x.numel() < 10000:
                yield f"argument {i} longer in dim {dim}", put(torch.cat([x, x.narrow(dim, 0, 1)], dim))
        if x.dim():
            yield f"argument {i} with a dim more", put(x[None])
        if x.dtype in (torch.int64, torch.int32) and x.numel():
            for index in (10**6, -(10**6), -1):
                y = x.clone()
                y.view(-1)[0] = index
                yield f"argument {i} with {index}", put(y)


def inputs_that_do_not_fit(op):
    """Descriptions and arguments, as nested lists."""
    if op.error_inputs_func is not None:
        for i, e in enumerate(op.error_inputs("cpu")):
            yield f"error input {i}", [e.sample_input.input, e.sample_input.args, e.sample_input.kwargs]
    dtype = next((d for d in (torch.float32, torch.int64) if d in op.dtypes and op.name not in KILLED), None)
    samples = [] if dtype is None else itertools.islice(op.sample_inputs("cpu", dtype), 1, 4, 2)
    yield from itertools.chain.from_iterable(changed([s.input, s.args, s.kwargs]) for s in samples)


def outcome(call, leaves):
    """What a call raises; None if it returns."""
    copied = pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, leaves)
    try:
        call(*copied)
    except Exception as e:  # noqa: BLE001 (anything an operator may raise)
        return e
    return None


def wrong_answers(op, most):
    """How many inputs eager torch refuses of the first ones, and those that are not refused when compiled."""
    wrong, refused = [], 0

    def call(x, args, kwargs):
        return op.op(x, *args, **kwargs)

    for what, leaves in inputs_that_do_not_fit(op):
        if refused == most:
            break
        if (wanted := outcome(call, leaves)) is None:
            continue
        refused += 1
        torch._dynamo.reset()
        found = outcome(compiled(call), leaves)
        if isinstance(found, (RuntimeError, type(wanted))):
            continue
        torch._dynamo.reset()
        if type(outcome(torch.compile(call, backend="aot_eager"), leaves)) is not type(found):
            wrong.append(f"{op.name}: {what}: eager {wanted!r:.200}, compiled {found!r:.200}")
    return refused, wrong


@pytest.mark.some(4)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("index_reduce", "amax"), ("nn.functional.grid_sample", ""), ("native_batch_norm", ""), ("addmm", ""),
        ("nn.functional.binary_cross_entropy_with_logits", ""), ("masked_scatter", ""), ("gather", ""),
    ],
)  # fmt: skip
def test_operators_whose_fake_tensors_let_much_pass(operators, name, variant):
    (op,) = (o for o in operators if (o.name, o.variant_test_name) == (name, variant))
    refused, wrong = wrong_answers(op, 5)
    assert refused == 5
    assert not wrong


f64, i32 = torch.float64, torch.int32
F = torch.nn.functional
LARGE = {
    "layer_norm": (lambda x, w: F.layer_norm(x, (x.shape[-1],), w), [(9, 131072), ((131072,), f64)]),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w), [(2, 4, 512, 512), ((4,), f64)]),
    "batch_norm": (F.batch_norm, [(2, 4, 512, 512), ((4,), f64), ((4,), f64)]),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), [(9, 131072), ((3,), torch.int64), ((3, 131072), f64)]),
    "index_put": (lambda x, i, y: x.index_put((i,), y), [(9, 131072), ((3,), torch.int64), ((3, 131072), f64)]),
    "binary_cross_entropy": (F.binary_cross_entropy, [(9, 131072), ((9, 131072), f64)]),
    "nll_loss": (F.nll_loss, [(32, 40000), ((32,), i32)]),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False), [(1, 2, 512, 1024), ((1, 512, 1024, 2), f64)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in ("layer_norm", "nll_loss") else pytest.param(n, marks=pytest.mark.full) for n in LARGE]
)
def test_types_of_many_elements(name):
    fn, kinds = LARGE[name]
    leaves = [torch.zeros(k[0], dtype=k[1]) if isinstance(k[0], tuple) else torch.zeros(k) for k in kinds]
    assert outcome(fn, leaves) is not None
    assert isinstance(outcome(compiled(fn), leaves), RuntimeError)
    alike = [x.to({f64: torch.float32, i32: torch.int64}.get(x.dtype, x.dtype)) for x in leaves]
    with recorded_graphs() as graphs:
        assert outcome(compiled(fn), alike) is None
    assert not left_to_torch(graphs)


VIEWS = {
    "diagonal": (lambda x, y: torch.diagonal_scatter(x, y, 1), (89,)),
    "select": (lambda x, y: torch.select_scatter(x, y, 0, 1), (90,)),
    "slice": (lambda x, y: torch.slice_scatter(x, y, 0, 1, 8), (7, 90)),
    "as_strided": (lambda x, y: torch.as_strided_scatter(x, y, (3, 3), (90, 1)), (3, 3)),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_to_a_view_has_its_sizes(name, dynamic):
    """Of as many elements torch is not asked."""
    fn, fits = VIEWS[name]
    x = torch.randn(90, 90)
    for axis in range(len(fits)):
        torch._dynamo.reset()
        given = x, torch.zeros([n + (i == axis) for i, n in enumerate(fits)])
        with pytest.raises(RuntimeError, match="size"):
            fn(*given)
        with pytest.raises(RuntimeError, match="size"):
            compiled(fn, dynamic=dynamic)(*given)
    torch._dynamo.reset()
    given = x, torch.zeros(fits)
    with recorded_graphs() as graphs:
        assert torch.equal(compiled(fn, dynamic=dynamic)(*given), fn(*given))
    assert dynamic or not left_to_torch(graphs)


def test_an_answer_is_about_its_sizes():
    """Neither what was refused nor what was taken once says anything about other sizes."""

    def fn(x, y):
        return torch.diagonal_scatter(x, y, 1).exp()

    x = torch.zeros(12, 12)
    for size in (12, 11, 12):
        torch._dynamo.reset()
        with recorded_graphs() as graphs:
            raised = outcome(compiled(fn), [x, torch.zeros(size)])
        assert (raised is None) == (size == 11)
        assert bool(left_to_torch(graphs)) == (size != 11)


@pytest.mark.filterwarnings("default")
def test_some_operators(operators):
    assert not [w for op in operators[3 :: 2 * EVERY] for w in wrong_answers(op, 2)[1]]


@pytest.mark.full
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("first", range(EVERY))
def test_operators(operators, first):
    assert not [w for op in operators[first::EVERY] for w in wrong_answers(op, MOST)[1]]
