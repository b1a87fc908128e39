"""`torch.compile(..., backend=backend)` on CUDA tensors, also recorded as CUDA graphs."""

import copy
import functools

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def backend(torch):
    """Not by its name, which only an installed graphfuse has."""
    from graphfuse.torch import backend

    return backend


def block(torch, width=64, heads=4):
    """A transformer block."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            parts = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (t.unflatten(-1, (heads, width // heads)).transpose(1, 2) for t in parts)
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).flatten(-2))
            return x + self.down(nn.functional.gelu(self.up(x)))

    return Block()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_training_and_inference(torch, backend, dtype, mode):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = block(torch).cuda().to(getattr(torch, dtype))
    exact = copy.deepcopy(model).double()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, mode=mode)
    for step in range(4):
        x = torch.randn(2, 32, 64, device="cuda", dtype=getattr(torch, dtype))
        torch.compiler.cudagraph_mark_step_begin()
        results = []
        for m, inputs in ((compiled, x), (other, x), (exact, x.double())):
            m.zero_grad()
            out = m(inputs)
            out.square().mean().backward()
            results.append([out.detach().double().clone()] + [p.grad.double().clone() for p in m.parameters()])
        for got, want, true in zip(*results, strict=True):
            error, eager = ((t - true).abs().max() / (true.abs().max() + 1e-9) for t in (got, want))
            assert error <= 2 * eager + 3e-6, (step, float(error), float(eager))
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(2, 32, 64, device="cuda", dtype=getattr(torch, dtype))
            torch.compiler.cudagraph_mark_step_begin()
            tolerance = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}[dtype]
            torch.testing.assert_close(compiled(x), other(x), rtol=tolerance, atol=tolerance)


def test_sizes_that_change(torch, backend):
    torch._dynamo.reset()
    fn = torch.compile(lambda x, w: torch.softmax(x @ w, -1), backend=backend, dynamic=True)
    for m, n in ((64, 96), (33, 40), (128, 256)):
        x, w = torch.randn(m, 64, device="cuda"), torch.randn(64, n, device="cuda")
        torch.testing.assert_close(fn(x, w), torch.softmax(x @ w, -1), rtol=1e-4, atol=1e-5)


def test_the_current_stream_is_used(torch, backend):
    torch._dynamo.reset()
    fn = torch.compile(lambda x: (x * 2 + 1).relu().sum(-1), backend=backend)
    x = torch.randn(4096, 4096, device="cuda")
    fn(x)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(20):
            y = torch.randn(4096, 4096, device="cuda")
            got, want = fn(y), (y * 2 + 1).relu().sum(-1)
    side.synchronize()
    torch.testing.assert_close(got, want)


def test_operators_of_torch_between_parts(torch, backend):
    torch._dynamo.reset()

    def fn(x):
        values, order = torch.sort(x.exp(), -1)
        return values.tanh(), order

    # further apart than exp of either may be off
    x = torch.stack([torch.randperm(1000, device="cuda") for _ in range(8)]) / 500 - 1
    torch.testing.assert_close(torch.compile(fn, backend=backend)(x), fn(x))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_inference_leaves_nothing_to_torch(torch, backend, dtype):
    torch._dynamo.reset()
    torch.manual_seed(0)
    nn, kind = torch.nn, getattr(torch, dtype)
    images = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
    cases = [
        (images.to(memory_format=torch.channels_last), torch.randn(2, 16, 9, 7).to(memory_format=torch.channels_last)),
        (block(torch), torch.randn(2, 32, 64)),
    ]
    for model, x in cases:
        model, x = model.cuda().to(kind).eval(), x.cuda().to(kind)
        compiled = torch.compile(model, backend=backend, options={"strict": True})
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)


def test_attention_with_a_mask_in_memory(torch, backend):
    """Of a size at which warps are far apart."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    attention = torch.nn.functional.scaled_dot_product_attention
    fn = torch.compile(lambda q, mask: attention(q, q, q, attn_mask=mask), backend=backend)
    q = torch.randn(4, 512, 12, 64, device="cuda", dtype=torch.float16).transpose(1, 2)
    mask = torch.ones(4, 1, 512, 512, device="cuda", dtype=torch.bool).tril()
    mask[:, :, 7] = False  # a row that sees nothing
    with torch.no_grad():
        for _ in range(20):
            got = fn(q, mask)
        torch.testing.assert_close(got, attention(q, q, q, attn_mask=mask), rtol=1e-2, atol=1e-2)


def _on_the_cpu_between(torch, x, w):
    y = torch.softmax(x @ w, -1)
    return torch.sort((y @ w).cpu(), -1)[0].cuda().tanh() @ w


def _input_changed(torch, x, w):
    y = torch.softmax(x @ w, -1)
    x.copy_(torch.sort(y @ w, -1)[0] * 2)
    return torch.sort(y @ w @ w, -1)[0].tanh()


def _chooses(torch, x, w):
    y = torch.softmax(torch.sort(x @ w, -1)[0] @ w, -1)
    z = torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))
    return torch.sort(z @ w, -1)[0].tanh() @ w


@pytest.mark.parametrize(
    ("fn", "trains"),
    [(_on_the_cpu_between, False), (_on_the_cpu_between, True), (_input_changed, False), (_chooses, False)],
)
def test_stretches_are_recorded_around_what_cannot_be(torch, backend, fn, trains, monkeypatch):
    from graphfuse.torch import saved, stretches

    replayed = []
    recorded = saved.recorded

    def noted(*args):
        made = recorded(*args)

        def call(inputs):
            replayed.append(args[1])
            return made(inputs)

        return call

    monkeypatch.setattr(saved, "recorded", noted)
    monkeypatch.setattr(stretches, "LEAST_LAUNCHES", 1)
    torch._dynamo.reset()
    torch.manual_seed(0)
    w = torch.randn(64, 64, device="cuda").div_(8).requires_grad_(trains)
    compiled = torch.compile(functools.partial(fn, torch), backend=backend, mode="reduce-overhead")
    for _ in range(5):
        x = torch.randn(32, 64, device="cuda")
        results = []
        torch.compiler.cudagraph_mark_step_begin()
        for call in (compiled, functools.partial(fn, torch)):
            here, w.grad = x.clone(), None
            out = call(here, w)
            if trains:
                out.square().sum().backward()
            results.append((out.detach().clone(), here, w.grad))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    assert replayed
