"""Kernels as operators of torch: results, tracing, gradients, errors."""

from __future__ import annotations

import pytest

import graphfuse
from graphfuse.errors import GraphfuseError, UsageError
from tests.kernels.test_graft import OPS

torch = pytest.importorskip("torch")
tc_op = graphfuse.tc_op

SILU = """
// op: graphfuse_test::silu
// inputs: x: T[N...];  outputs: y: T[N...];  attrs: beta: float = 1.0
// macros: TYPE = T, TN = 64
// grid: cdiv(N, TN)
// args: x, y, N, beta
// kernel: silu

// op: graphfuse_test::silu_backward
// inputs: x: T[N...], grad_y: T[N...];  outputs: grad_x: T[N...];  attrs: beta: float
// macros: TYPE = T, TN = 64
// grid: cdiv(N, TN)
// args: x, grad_y, grad_x, N, beta
// kernel: silu_backward
__global__ void silu(TYPE *x __readonly, TYPE *y, int N, float beta) {
  int i[TN] = get_program_id(0) * TN + 0 ... TN;
  bool in[TN] = i < N;
  TYPE *px[TN] = x + i, *py[TN] = y + i;
  float v[TN] = in ? *px : 0;
  *?(in) py = v / (1 + exp(-beta * v));
}
__global__ void silu_backward(TYPE *x __readonly, TYPE *g __readonly, TYPE *d, int N, float beta) {
  int i[TN] = get_program_id(0) * TN + 0 ... TN;
  bool in[TN] = i < N;
  TYPE *px[TN] = x + i, *pg[TN] = g + i, *pd[TN] = d + i;
  float v[TN] = in ? *px : 0;
  float s[TN] = 1 / (1 + exp(-beta * v));
  float w[TN] = in ? *pg : 0;
  *?(in) pd = w * (s + beta * v * s * (1 - s));
}
"""


@pytest.fixture(scope="module")
def silu():
    return tc_op("graphfuse_test::silu", SILU, backward=SILU)


@pytest.fixture
def where():
    """The tensors' device."""
    return "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_operator(silu, dtype, where):
    x = torch.randn(5, 1, 33, dtype=dtype, device=where)
    torch.testing.assert_close(silu(x), torch.nn.functional.silu(x))
    strided = x.transpose(0, 2)
    torch.testing.assert_close(torch.ops.graphfuse_test.silu(strided, 2.0), strided * torch.sigmoid(2 * strided))
    assert silu(x[:0]).shape == (0, 1, 33)


def test_views_that_begin_anywhere(silu, where):
    source = SILU.replace("_test::silu\n", "_test::aligned_silu\n").replace("(TYPE *x", "(TYPE *x __aligned(16)")
    promised = tc_op("graphfuse_test::aligned_silu", source)
    x = torch.randn(70, device=where)
    for op in (silu, promised):
        for start in (0, 1, 4):
            torch.testing.assert_close(op(x[start : start + 64]), torch.nn.functional.silu(x[start : start + 64]))


def test_what_torch_checks_of_operators(silu, where):
    x = torch.randn(4, 9, dtype=torch.float32, requires_grad=True, device=where)
    torch.library.opcheck(silu, (x, 1.5))


def test_a_gradient_by_a_kernel(silu, where):
    x = torch.randn(4, 9, requires_grad=True, device=where)
    (found,) = torch.autograd.grad(silu(x, 0.5).pow(2).sum(), x)
    again = x.detach().clone().requires_grad_()
    y = again * torch.sigmoid(0.5 * again)
    (wanted,) = torch.autograd.grad(y.pow(2).sum(), again)
    torch.testing.assert_close(found, wanted)


def test_a_gradient_by_a_function(where):
    def backward(inputs, outputs, grads):
        (a, b), (g,) = inputs, grads
        assert outputs[0].shape == g.shape
        return g @ b.T, a.T @ g

    fields = {"inputs": "a: T[M, K], b: T[K, N]", "outputs": "c: T[M, N]", "args": "a, b, c, M, N, K"}
    fields |= {"macros": "TYPE = T, TM = 16, TN = 16, TK = 16", "grid": "cdiv(M, TM), cdiv(N, TN)"}
    op = tc_op("graphfuse_test::product", OPS / "matmul.tc", backward=backward, **fields)
    a, b = (torch.randn(*s, requires_grad=True, device=where) for s in ((20, 30), (30, 40)))
    torch.testing.assert_close(op(a, b), a @ b)
    found = torch.autograd.grad(op(a, b).sum(), (a, b))
    torch.testing.assert_close(found, torch.autograd.grad((a @ b).sum(), (a, b)))


def test_no_graph_break(silu, where):
    def f(x):
        return silu(x + 1).sum(dim=1) * 2

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (3, 8):
        x = torch.randn(4, n, requires_grad=True, device=where)
        torch.testing.assert_close(compiled(x), f(x))
        torch.testing.assert_close(*(torch.autograd.grad(g(x).sum(), x) for g in (compiled, f)))


HISTOGRAM = """
// op: graphfuse_test::histogram
// inputs: x: int[N...];  outputs: counts: int[bins] = 0, most: int[1] = -7;  attrs: bins: int
// macros: TN = 64
// grid: cdiv(N, TN)
// args: x, counts, most, N
__global__ void histogram(int *x __readonly, int *counts, int *most, int N) {
  int i[TN] = get_program_id(0) * TN + 0 ... TN;
  int v[TN] = *?(i < N)(x + i);
  atomic_add(counts + v, 1, i < N);
  atomic_max(most, v[max]);
}
"""


def test_outputs_that_are_accumulated(where):
    histogram = tc_op("graphfuse_test::histogram", HISTOGRAM)
    x = torch.randint(0, 9, (7, 50), dtype=torch.int32, device=where)
    for _ in range(2):
        counts, most = histogram(x, 10)
        assert counts.tolist() == torch.bincount(x.flatten(), minlength=10).tolist()
        assert most.tolist() == [int(x.max())]
    assert [t.tolist() for t in histogram(x[:0], 3)] == [[0, 0, 0], [-7]], "they hold that without a program too"
    torch.library.opcheck(histogram, (x, 9))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x: int[N...]", "x: int[N...] = 0", "inputs: expected an initial value of outputs only"),
        ("= -7", "= none", "outputs: expected a number as the initial value, found 'none'"),
        ("= -7", "", "expected plain stores, as outputs hold nothing before it runs"),
    ],
)
def test_initial_values_that_are_none(old, new, message, where):
    with pytest.raises(GraphfuseError, match=message):
        text = HISTOGRAM.replace(old, new).replace("::histogram", f"::histogram_{len(message)}")
        tc_op(f"graphfuse_test::histogram_{len(message)}", text)(torch.ones(3, dtype=torch.int32, device=where), 2)


def test_mistakes():
    with pytest.raises(UsageError, match="tc_op: expected a name such as 'mine::gelu', found 'silu'"):
        tc_op("silu", SILU)
    with pytest.raises(
        UsageError, match="expected a header that begins with '// op: graphfuse_test::none', found none"
    ):
        tc_op("graphfuse_test::none", "int f;\n")
    with pytest.raises(UsageError, match="found graphfuse_test::silu, graphfuse_test::silu_backward"):
        tc_op("graphfuse_test::none", SILU)
    text = SILU.replace("graphfuse_test::silu", "graphfuse_test::other")
    with pytest.raises(UsageError, match="backward: expected inputs among x, y, grad_y, found 'dy'"):
        tc_op("graphfuse_test::other", text, backward=text.replace("grad_y", "dy"))


def test_tensors_that_do_not_fit(silu, where):
    with pytest.raises(GraphfuseError, match="expected tensors of a type that kernels have, found torch.complex64"):
        silu(torch.randn(3, dtype=torch.complex64, device=where))
    gelu = tc_op("graphfuse_test::scaled_gelu", OPS / "scaled_gelu.tc")
    with pytest.raises(GraphfuseError, match=r"input 'bias': expected bias: T\[N\] = \[8\], found \[7\]"):
        gelu(torch.randn(4, 8, device=where), torch.randn(7, device=where))
    x, bias = torch.randn(4, 8, device=where), torch.randn(8, device=where)
    wanted = torch.nn.functional.gelu(x + bias, approximate="tanh")
    torch.testing.assert_close(gelu(x, bias), wanted, rtol=1e-4, atol=1e-5)
