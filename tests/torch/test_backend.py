"""`torch.compile(..., backend="graphfuse")`: what a user may rely on, whatever the operators are."""

import copy
import json
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812
from torch.utils._pytree import tree_leaves  # noqa: E402

from graphfuse.errors import InputError, UsageError, VerifyError  # noqa: E402
from graphfuse.torch import aot, backend, compiled_part  # noqa: E402
from graphfuse.torch.check import Promises  # noqa: E402
from graphfuse.torch.options import TorchOptions, options_of  # noqa: E402
from tests.torch.support import compiled, left_to_torch, recorded_graphs  # noqa: E402


def test_it_is_registered():
    assert "graphfuse" in torch._dynamo.list_backends()


def test_one_kernel_forward_and_a_gradient():
    def fn(x, w, b):
        return torch.softmax(F.gelu(F.linear(x, w, b)), -1)

    inputs = [torch.randn(s, requires_grad=True) for s in ((4, 16), (8, 16), (8,))]
    with recorded_graphs() as graphs:
        got, want = compiled(fn)(*inputs), fn(*inputs)
        grads = torch.autograd.grad((got * got).sum(), inputs)
    assert [len(g.parts) for g in graphs] == [1, 1]
    assert left_to_torch(graphs) == {}
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(grads, torch.autograd.grad((want * want).sum(), inputs))


def test_a_backward_that_runs_twice():
    """What the forward kept is still what it was."""

    def fn(x, w):
        return (torch.tanh(x @ w) * torch.sigmoid(x)).softmax(-1).square()

    inputs = [torch.randn(8, 8, requires_grad=True) for _ in range(2)]
    want = torch.autograd.grad(fn(*inputs).sum(), inputs)
    loss = compiled(fn)(*inputs).sum()
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(loss, inputs, retain_graph=True), want)
    loss.backward()
    torch.testing.assert_close([x.grad for x in inputs], list(want))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sin().unfold(0, 4, 1), lambda x: x.tanh().unfold(1, 3, 2)[1:].mT,
        lambda x: (x.exp().as_strided((3, 4), (2, 1)), x.cos()),
        lambda x: (x * 2).expand(2, *x.shape),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_what_overlaps(fn, dynamic):
    """One that arrives has a number for each element, also where elements of the output share memory."""
    x = torch.randn(7, 8, requires_grad=True)
    results = [tree_leaves(run(x)) for run in (compiled(fn, dynamic=dynamic), fn)]
    given = [torch.randn(y.shape) for y in results[0]]
    got, want = (torch.autograd.grad(found, x, given) for found in results)
    torch.testing.assert_close(got, want)


def test_what_is_not_compiled_runs_between_two_parts():
    def fn(x):
        values, order = torch.sort((x * 2).exp(), dim=-1)
        return values.tanh() + 1, order

    x = torch.randn(3, 100)
    with recorded_graphs() as graphs:
        got = compiled(fn)(x)
    assert [len(g.parts) for g in graphs] == [2]
    assert list(left_to_torch(graphs)) == ["sort"]
    torch.testing.assert_close(got, fn(x))


def test_random_numbers_are_eagers():
    def fn(x):
        return F.dropout(x + 1, 0.5) * torch.rand(8)

    x = torch.randn(4, 8)
    torch.manual_seed(3)
    got = compiled(fn)(x)
    torch.manual_seed(3)
    torch.testing.assert_close(got, fn(x))


def test_inputs_are_changed_in_place():
    def fn(x, y):
        x.add_(1)
        y[1:] = x[:2]
        return x * 2

    x, y = torch.randn(3, 4), torch.zeros(3, 4)
    a, b = x.clone(), y.clone()
    torch.testing.assert_close(compiled(fn)(x, y), fn(a, b))
    torch.testing.assert_close((x, y), (a, b))


def test_running_statistics():
    layer, other = (torch.nn.BatchNorm2d(3).train() for _ in range(2))
    x = torch.randn(4, 3, 5, 5)
    torch.testing.assert_close(compiled(layer)(x), other(x))
    torch.testing.assert_close(layer.running_var, other.running_var)
    assert layer.num_batches_tracked == 1


def test_outputs_that_share_memory():
    def fn(x):
        y = x * 2
        return y, y.view(-1), y.t(), x[1:], y.split(2)[1]

    x = torch.randn(4, 6)
    with torch.no_grad():
        y, flat, turned, rest, part = compiled(fn)(x)
    y.zero_()
    assert flat.abs().sum() == turned.abs().sum() == part.abs().sum() == 0
    assert turned.stride() == (1, 6)
    x.zero_()
    assert rest.abs().sum() == 0


def test_strides_are_eagers():
    def fn(x, y):
        return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) + 1, y.t() * 2

    x, y = torch.randn(2, 3, 4, 5), torch.randn(6, 7)
    for a, b in zip(compiled(fn)(x, y), fn(x, y), strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("launches", [1, 64])
@pytest.mark.parametrize("dynamic", [False, True])
def test_strides_of_what_has_gaps_are_eagers(dynamic, launches, monkeypatch):
    """Kernels write without gaps."""
    monkeypatch.setattr(compiled_part, "LEAST_LAUNCHES", launches)

    def fn(x, i):
        n = x.shape[1]
        padded = x.new_empty_strided((x.shape[0], n), (n + 5, 1)).copy_(x * 2)
        stepped = x.new_empty_strided((3, 2), (20, 2)).copy_(x[:, 1:3])
        return padded, stepped, padded[:, 1:], x.gather(1, i)  # indices are looked at, too

    run = compiled(fn, dynamic=dynamic)
    for n in (4, 7):
        x, i = torch.randn(3, n), torch.zeros(3, 2, dtype=torch.int64)
        for a, b in zip(run(x, i), fn(x, i), strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (torch.mm, "33 33"), (torch.mv, "33 3"), (torch.matmul, "233 33"), (lambda x, y: F.linear(x.T, y), "33 33"),
        (lambda x, y: F.linear(x, x, y), "33 3"), (lambda x, y: F.linear(y, x, y[0]), "33 33"),
        (lambda x, y: torch.addmm(x, y, y), "33 33"), (lambda x, y: torch.addmm(y, x, y), "33 33"),
        (lambda x, y: torch.baddbmm(x, y, y), "233 233"),
        (lambda x, y: torch.addbmm(x, y, y), "33 233"), (lambda x, y: torch.einsum("ij,jk->ik", x, y), "33 33"),
        (F.conv1d, "133 133"), (F.scaled_dot_product_attention, "133 133 133"), (torch.dot, "3 3"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.int64, torch.float32)])
def test_products_of_mixed_types_are_refused(fn, shapes, dtypes):
    def tensors():
        for i, shape in enumerate(shapes.split()):
            yield torch.ones(tuple(map(int, shape)), dtype=dtypes[i > 0])

    for run in (fn, compiled(fn)):
        with pytest.raises(RuntimeError):
            run(*tensors())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(6, 8)[::2, 1:],
        lambda: torch.randn(1, 8).expand(5, 8),
        lambda: torch.randn(20).as_strided((5, 8), (2, 1)),
        lambda: torch.randn(0, 8),
        lambda: torch.randn(2, 8, 3).transpose(1, 2),
    ],
    ids=["gaps", "expanded", "overlapping", "empty", "permuted"],
)
def test_inputs_that_are_not_contiguous(make):
    x = make()
    torch.testing.assert_close(compiled(lambda x: (x * 2 + 1).sum(-1))(x), (x * 2 + 1).sum(-1))


def test_sizes_that_change_compile_once():
    with recorded_graphs() as graphs:
        fn = compiled(lambda x, y: torch.softmax(x @ y, -1).sum(0), dynamic=True)
        for m, n in ((3, 5), (7, 2), (16, 9)):
            x, y = torch.randn(m, 4), torch.randn(4, n)
            torch.testing.assert_close(fn(x, y), torch.softmax(x @ y, -1).sum(0))
    assert len(graphs) == 1


def test_complex_numbers_are_torchs():
    x = torch.randn(4, dtype=torch.complex64)
    torch.testing.assert_close(compiled(lambda x: (x * x).abs() + 1)(x), (x * x).abs() + 1)


SECOND_PROCESS = """
import sys
import torch
from graphfuse.torch import aot
made = []
whole = aot.compile_graph
aot.compile_graph = lambda *a: made.append(1) or whole(*a)
# the pools' windows are constants, which are read from a file
model = torch.nn.Sequential(torch.nn.Linear(8, 11), torch.nn.GELU(), torch.nn.AdaptiveAvgPool1d(4))
fn = torch.compile(model, backend="graphfuse", dynamic="dynamic" in sys.argv)
x = torch.ones(3, 8)
fn(x).sum().backward()
torch.testing.assert_close(fn(x), model(x))
print("graphs", len(made))
"""


@pytest.mark.parametrize("sizes", [pytest.param("fixed", marks=pytest.mark.full), "dynamic"])
def test_a_second_process_compiles_nothing(sizes, tmp_path):
    folders = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"), "GRAPHFUSE_CACHE": str(tmp_path / "graphfuse")}

    def run(**knobs):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SECOND_PROCESS, sizes], capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **folders, **knobs},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    assert run() == "2"
    assert run() == "0"
    assert run(GRAPHFUSE_DUMP=str(tmp_path / "passes")) == "2"  # passes that are watched are run


def test_a_graph_becomes_bytes_where_it_is_kept(monkeypatch):
    made, whole = [], aot.saved
    monkeypatch.setattr(aot, "saved", lambda *args, **how: made.append(whole(*args, **how)) or made[-1])
    x = torch.randn(3, 4)
    want = compiled(lambda x: x.exp() + 1)(x)
    (graph,) = made
    assert graph.payload == b""
    kept = copy.copy(graph)
    kept.prepare_for_serialization()
    found = pickle.loads(pickle.dumps(kept))
    found.post_compile([x], None, {})
    for g in (graph, found):
        torch.testing.assert_close(g([x])[0], want)


def test_max_autotune_tries_the_ways_to_make_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))
    layer = torch.nn.Linear(96, 136).eval()
    x = torch.randn(40, 96)
    with torch.no_grad():
        found = torch.compile(layer, backend="graphfuse", mode="max-autotune-no-cudagraphs")(x)
        torch.testing.assert_close(found, layer(x))
    kept = json.loads((tmp_path / "tuned.json").read_text())["kernels"]
    assert kept["contraction"]["entries"], "and that of the product alone, if that was faster"


def test_options():
    assert options_of(None, None) == TorchOptions()
    assert options_of("reduce-overhead", None).cuda_graphs
    assert options_of("max-autotune", None) == TorchOptions(cuda_graphs=True, tune=True)
    with pytest.raises(Exception, match=r"options: expected one of .*, found 'numeric'; did you mean 'numerics'\?"):
        options_of(None, {"numeric": "fast"})
    with pytest.raises(Exception, match="mode: expected one of default, .* found 'fast'"):
        options_of("fast", None)
    for numerics in (3, None):
        with pytest.raises(UsageError, match="unknown numerics .*; expected one of strict, eager, fast"):
            options_of(None, {"numerics": numerics})
    with pytest.raises(UsageError, match="options: expected one of .*, found 3"):
        options_of(None, {3: True})
    with pytest.raises(Exception, match="options: check: expected True or False, found 3"):
        torch.compile(lambda x: x + 1, backend=backend, options={"check": 3})(torch.ones(2))


def promises(fn, *inputs):
    return Promises.of(torch.fx.experimental.proxy_tensor.make_fx(fn, tracing_mode="fake")(*inputs))


def test_the_checker_sees_each_broken_promise():
    x = torch.randn(3, 4)
    made = promises(lambda x: [x.t() * 1, x.view(-1)], x)
    good = [(x.t() * 1), x.view(-1)]
    made.check([x], good)
    for bad, message in (
        ([good[0].contiguous(), good[1]], "strides"),
        ([good[0].double(), good[1]], "float64"),
        ([good[0][:2], good[1]], "size"),
        ([good[0], good[1].clone()], "was to be shared"),
        ([good[0]], "expected 2 outputs"),
    ):
        with pytest.raises(VerifyError, match=message):
            made.check([x], bad)


def test_what_torch_itself_computes_is_not_checked():
    def fn(i, w, offsets):
        return torch.nn.functional.embedding_bag(i, w * 2, offsets, mode="sum").float().exp()

    w = torch.randn(5, 4, dtype=torch.bfloat16, requires_grad=True)
    i, offsets = torch.tensor([0, 3, 4]), torch.tensor([0, 2])
    found, want = compiled(fn)(i, w, offsets), fn(i, w, offsets)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), w) for y in (found, want)), rtol=1e-2, atol=1e-2)


def test_an_operator_that_does_not_return_what_it_promised():
    @torch.library.custom_op("graphfuse_tests::odd", mutates_args=())
    def odd(x: torch.Tensor) -> torch.Tensor:
        return x[:2].double()

    odd.register_fake(torch.empty_like)
    with pytest.raises(InputError, match=r"odd: torch traced 32 elements of torch.float32, found 16 of torch.float64"):
        torch.compile(lambda x: odd(x * 2) + 1, backend="graphfuse")(torch.randn(4, 8))


def test_torch_exports_afterwards():
    """What its exporter looks up once is not looked up while some operators are kept whole."""
    from torch._export import utils

    from graphfuse.torch.decompositions import decompositions

    utils._collect_all_valid_cia_ops_for_aten_namespace.cache_clear()
    decompositions.cache_clear()
    compiled(lambda x: x + 1)(torch.ones(3))
    remembered = utils._collect_all_valid_cia_ops_for_aten_namespace()
    assert remembered == utils._collect_all_valid_cia_ops_for_namespace(torch.ops.aten)
