"""Views that begin one element later, in every kind of kernel, where a wrong access would end the process' context."""

import pytest

pytestmark = pytest.mark.gpu

SHAPE = (64, 128)


def cases(torch):
    f = torch.nn.functional
    return {
        "pointwise": lambda x: x * 2 + 1,
        "permuted": lambda x: x.permute(1, 0) + 1,
        "sum": lambda x: x.sum(-1),
        "sum_of_columns": lambda x: x.sum(0),
        "softmax": lambda x: x.softmax(-1),
        "layer_norm": lambda x: f.layer_norm(x, x.shape[-1:]),
        "cumsum": lambda x: x.cumsum(-1),
        "cumsum_of_columns": lambda x: x.cumsum(0),
        "product": lambda x: x @ x.T,
        "attention": lambda x: f.scaled_dot_product_attention(*x.view(1, 2, 64, 64).expand(3, 2, 64, 64)[:, None]),
        "gather": lambda x: x[x.argsort(0)[:, 0]],
        "concatenation": lambda x: torch.cat([x, x[:, 1:]], -1),
        "extern": lambda x: torch.sort(x + 1, -1)[0][:, 1:] * 2,
    }


def shifted(torch, x, by=1):
    """The same numbers, that many elements further on in memory."""
    room = torch.empty(x.numel() + by, dtype=x.dtype, device=x.device)
    return room[by:].as_strided(x.shape, x.stride()).copy_(x)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_inference(torch, dtype, mode):
    from graphfuse.torch import backend

    x = torch.randn(SHAPE, device="cuda").to(getattr(torch, dtype))
    tolerance = {"rtol": 2e-2, "atol": 2e-1} if dtype != "float32" else {"rtol": 1e-4, "atol": 1e-3}
    for name, fn in cases(torch).items():
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend=backend, mode=mode)
        for by in (0, 1, 0, 3, 1):
            torch.compiler.cudagraph_mark_step_begin()
            got = compiled(shifted(torch, x, by) if by else x)
            # eager rounds every sum so far of a scan to halves
            want = fn(x.float()).to(x.dtype)
            torch.testing.assert_close(got, want, **tolerance, msg=lambda m, name=name: f"{name}: {m}")
    torch.cuda.synchronize()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_training_and_a_backward_that_runs_twice(torch, mode):
    from graphfuse.torch import backend

    torch._dynamo.reset()
    w = shifted(torch, torch.randn(128, 128, device="cuda").half()).requires_grad_()

    def fn(x, w):
        return torch.tanh(x @ w).softmax(-1)

    compiled = torch.compile(fn, backend=backend, mode=mode)
    x = torch.randn(SHAPE, device="cuda").half()
    for by in (1, 2, 1, 3):
        torch.compiler.cudagraph_mark_step_begin()
        y = shifted(torch, x, by).requires_grad_()
        out, seed = compiled(y, w), shifted(torch, x, 5)
        want = torch.autograd.grad(fn(y, w), (y, w), seed)
        for _ in range(2):
            got = torch.autograd.grad(out, (y, w), seed, retain_graph=True)
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_buffers_and_inputs_that_are_changed(torch, mode):
    from graphfuse.torch import backend

    torch._dynamo.reset()

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", shifted(torch, torch.zeros(256, device="cuda")))

        def forward(self, x):
            self.total.add_(x)
            return self.total * 2

    counter = Counter()
    compiled = torch.compile(counter, backend=backend, mode=mode)
    x = torch.arange(256, device="cuda").float()
    with torch.no_grad():
        for step in range(1, 5):
            torch.compiler.cudagraph_mark_step_begin()
            torch.testing.assert_close(compiled(shifted(torch, x, step % 3)), 2 * step * x)
            torch.testing.assert_close(counter.total, step * x)

    def change(y, x):
        y.mul_(2).add_(x)
        return y.sum()

    run, y = torch.compile(change, backend=backend, mode=mode), shifted(torch, x)
    for _ in range(3):
        want = y * 2 + x
        torch.compiler.cudagraph_mark_step_begin()
        run(y, shifted(torch, x, 3))
        torch.testing.assert_close(y, want)
    out = shifted(torch, torch.zeros(256, device="cuda"))
    torch.compile(lambda x, out: torch.add(x, x, out=out), backend=backend, mode=mode)(shifted(torch, x), out)
    torch.testing.assert_close(out, x + x)
