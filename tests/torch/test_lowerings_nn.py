"""Lowerings of what networks are built of: convolutions, norms, pooling, attention, losses."""

import operator
from itertools import product

import pytest

from graphfuse.interp import graph as interp

torch = pytest.importorskip("torch")
F = torch.nn.functional

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from benchmarks.emulated_torch import emulated  # noqa: E402
from graphfuse.frontends.fx.importer import Part, PartError, import_part, order_of  # noqa: E402 - these import torch
from graphfuse.frontends.fx.ops import conv as conv_ops  # noqa: E402
from graphfuse.torch import backend  # noqa: E402
from graphfuse.torch.compile import compile_graph  # noqa: E402
from graphfuse.torch.options import TorchOptions  # noqa: E402
from tests.torch.support import check  # noqa: E402

f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16


def rand(*shape, dtype=f32, grad=True):
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


# convolutions


@pytest.fixture
def compiled_in_training(monkeypatch):
    monkeypatch.setattr(conv_ops, "torch_is_faster", lambda *_, **__: "")


def conv(**options):
    weight_first = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
    return lambda x, w, *b: weight_first[x.dim() - 2](x, w, *b, **options)


def transposed(**options):
    of = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
    return lambda x, w, *b: of[x.dim() - 2](x, w, *b, **options)


CONVOLUTIONS = {
    "1d": (conv(padding=1, stride=2), (2, 4, 9), (6, 4, 3), (6,)),
    "3d": (conv(padding=1), (1, 2, 4, 5, 6), (3, 2, 2, 1, 2), (3,)),
    "same": (conv(padding=1), (2, 5, 8, 7), (6, 5, 3, 3), (6,)),
    "strides": (conv(padding=1, stride=2), (2, 4, 9, 8), (6, 4, 2, 3)),
    "dilated": (conv(padding=(2, 1), dilation=(2, 1)), (2, 4, 9, 8), (6, 4, 2, 2)),
    "one tap": (conv(stride=2), (2, 4, 9, 8), (6, 4, 1, 1)),
    "groups": (conv(padding=1, groups=2), (2, 4, 7, 7), (6, 2, 2, 2), (6,)),
    "depthwise": (conv(padding=1, stride=2, groups=4), (2, 4, 9, 9), (4, 1, 2, 2)),
    "transposed": (transposed(stride=2, padding=1, output_padding=1), (2, 4, 5, 6), (4, 3, 2, 2), (3,)),
    "transposed groups": (transposed(groups=2), (1, 4, 5, 5), (4, 3, 2, 2)),
    "transposed 1d": (transposed(stride=3, dilation=2), (2, 3, 5), (3, 2, 4), (2,)),
}


def quick(*some, of):
    """All cases, of which the others take too long for every run."""
    return [pytest.param(c, marks=() if c in some else pytest.mark.full) for c in of]


@pytest.mark.parametrize("case", quick("same", "one tap", "transposed", of=CONVOLUTIONS))
def test_convolution(case, compiled_in_training):
    fn, *shapes = CONVOLUTIONS[case]
    check(fn, *(rand(*s) for s in shapes), ops=("convolution", "convolution_backward"))


@pytest.mark.parametrize("dtype", [bf16, pytest.param(f16, marks=pytest.mark.full)])
def test_convolution_of_halves(dtype, compiled_in_training):
    x, w, b = rand(2, 4, 9, 8, dtype=dtype), rand(6, 2, 2, 2, dtype=dtype), rand(6, dtype=dtype)
    check(conv(padding=1, stride=2, groups=2), x, w, b, ops=("convolution", "convolution_backward"))


@pytest.mark.parametrize("dtype", [bf16, f16])
@pytest.mark.parametrize(
    ("call", "weight"),
    [(conv(padding=1), (24, 11)), (transposed(padding=1), (11, 24)), (transposed(stride=2), (11, 24))],
    ids=["plain", "transposed", "transposed by 2"],
)
def test_a_convolution_and_its_bias_are_rounded_once(call, weight, dtype):
    given = (torch.randn(s).to(dtype) for s in ((2, 11, 20, 20), (*weight, 3, 3), (24,)))
    with torch.no_grad():
        x, w, b = given
        found = torch.compile(call, backend="graphfuse")(x, w, b)
        wide = call(x.double(), w.double(), b.double())
    rounded = wide.to(dtype).double()
    torch.testing.assert_close(found.double(), wide, rtol=0, atol=1.01 * float((rounded - wide).abs().max()))


def channels_last(*shape):
    return rand(*shape, grad=False).to(memory_format=torch.channels_last).requires_grad_()


def test_convolution_channels_last():
    x, w = channels_last(2, 4, 9, 8), rand(6, 4, 2, 2)
    check(conv(padding=1), x, w, ops=("convolution", "convolution_backward"))


def test_training_with_channels_first_is_torchs():
    x, w = rand(2, 4, 9, 8), rand(4, 4, 3, 3)
    check(lambda x, w: conv()(x, w) * 2, x, w, ops=("mul",), left=("convolution", "convolution_backward"))
    check(conv(), x.detach(), w.detach(), training=False, ops=("convolution",))


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.full), 2])
def test_convolution_dynamic(stride, compiled_in_training):
    module = torch.nn.Conv2d(4, 6, 2, stride=stride, padding=1)
    check(module, rand(3, 4, 9, 8), dynamic=True, ops=("convolution", "convolution_backward"))


@pytest.mark.parametrize("shape", [(4, 3, 7, 7), (3, 1, 3, 3)], ids=["many taps", "groups"])
def test_some_gradients_are_torchs(shape):
    fn = conv(padding=3, groups=3 // shape[1])
    check(fn, channels_last(1, 3, 12, 12), rand(*shape), ops=("convolution",), left=("convolution_backward",))


TRAINED_ON_A_GPU = {
    "channels first": (conv(padding=1), (2, 7, 33, 34), (5, 7, 2, 2)),
    "channels last": (conv(padding=1), (2, 7, 33, 34), (5, 7, 2, 2)),
    "steps of two": (conv(padding=1, stride=2), (3, 7, 1501), (16, 7, 3)),
    "one tap": (conv(), (8, 35, 17, 16), (24, 35, 1, 1)),
    "every second position": (conv(stride=2), (3, 16, 55, 57), (5, 16, 1, 1)),
}


@pytest.mark.parametrize("dtype", [f16, pytest.param(bf16, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", quick("channels last", "steps of two", "every second position", of=TRAINED_ON_A_GPU))
def test_gradients_of_convolutions_on_the_emulator(name, dtype, compiled_in_training):
    """As many positions as make a sum over them worth copies, and parts."""
    fn, *shapes = TRAINED_ON_A_GPU[name]
    x, w = (torch.randn(shape).to(dtype) for shape in shapes)
    x = x.to(memory_format=torch.channels_last) if name == "channels last" else x
    y = torch.randn_like(fn(x, w))

    def gradients(f, to):
        leaves = [v.detach().to(to).requires_grad_() for v in (x, w)]
        return torch.autograd.grad(f(*leaves), leaves, y.to(to))

    with emulated():
        gots = gradients(torch.compile(fn, backend=backend, options={"strict": True}), dtype)
    for got, want in zip(gots, gradients(fn, torch.float64), strict=True):
        assert (got.double() - want).abs().max() < want.abs().max() * torch.finfo(dtype).eps


# norms


class Norms(torch.nn.Module):
    """Norms of images."""

    def __init__(self):
        super().__init__()
        self.batch = torch.nn.BatchNorm2d(6)
        self.group = torch.nn.GroupNorm(3, 6)
        self.instance = torch.nn.InstanceNorm2d(6)
        self.layer = torch.nn.LayerNorm(5)
        torch.nn.init.normal_(self.batch.running_mean)
        for p in self.parameters():
            torch.nn.init.normal_(p)

    def forward(self, x):
        return self.batch(x), self.group(x), self.instance(x), self.layer(x)


NORMS = ("native_group_norm", "native_layer_norm", "native_group_norm_backward", "native_layer_norm_backward")


def test_norms_train():
    check(
        Norms().train(), rand(4, 6, 3, 5),
        ops=(*NORMS, "_native_batch_norm_legit_functional", "native_batch_norm_backward", "_native_batch_norm_legit"),
    )  # fmt: skip


def test_norms_of_halves_dynamic():
    module = torch.nn.Sequential(torch.nn.GroupNorm(3, 6), torch.nn.LayerNorm(5)).to(bf16)
    check(module, rand(4, 6, 3, 5, dtype=bf16), ops=NORMS, dynamic=True)


def test_batch_norm_of_halves():
    # what is normalised is rounded, the parameters and statistics are not
    x = rand(4, 6, 3, 5, dtype=bf16)
    stats = (torch.randn(6), torch.rand(6) + 0.5, rand(6), rand(6))
    ops = ("_native_batch_norm_legit_functional", "native_batch_norm_backward")
    check(lambda x, m, v, w, b: F.batch_norm(x, m.clone(), v.clone(), w, b, training=True), x, *stats, ops=ops)


def test_norms_infer():
    x = rand(4, 6, 3, 5)
    check(Norms().eval(), x, training=False, ops=("_native_batch_norm_legit_no_training",))


@pytest.mark.full
def test_batch_norm_as_inference_on_a_gpu_is_traced(monkeypatch):
    # on a CPU torch's dispatcher for tracing makes another operator of it
    op = torch.ops.aten.native_batch_norm.default
    monkeypatch.setattr(op, "py_kernels", {})
    monkeypatch.setattr(op, "_dispatch_cache", {})
    x, *stats = rand(4, 6, 3, 5), *(rand(6) for _ in range(3)), rand(6).abs() + 1
    w, b, m, v = stats

    def fn(x, w, b, m, v):
        return torch.ops.aten.native_batch_norm(x, w, b, m, v, training=False, momentum=0.1, eps=1e-5)[0]

    check(fn, x, w, b, m, v, training=False, ops=("native_batch_norm",))


def test_batch_norm_infers_with_gradients():
    check(torch.nn.BatchNorm2d(6).eval(), rand(4, 6, 3, 5), ops=("native_batch_norm_backward",))


def test_rms_norm():
    def norm(x, w):
        return F.rms_norm(x, (5,), w) * 2

    check(norm, rand(4, 6, 5, dtype=bf16), rand(5, dtype=bf16))


# pooling


def images(*shape, dtype=f32):
    """Numbers with ties, as max pooling has to choose between them."""
    return torch.randn(*shape).mul(2).round().div(2).to(dtype).requires_grad_()


def test_max_pool():
    def pools(x):
        a, i = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        b, j = F.max_pool2d(x, (2, 3), ceil_mode=True, return_indices=True)
        d, k = F.adaptive_max_pool2d(x[..., :8, :6], (4, 3), return_indices=True)
        return a, i, b, j, d, k

    names = ("max_pool2d_with_indices", "adaptive_max_pool2d")
    check(pools, images(2, 3, 9, 8), ops=(*names, *(f"{n}_backward" for n in names)))


@pytest.mark.full
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_max_pool_dynamic(dtype):
    x = images(2, 3, 9, 8, dtype=dtype)
    check(lambda x: F.max_pool2d(x, 3, 2, 1), x, dynamic=True, ops=("max_pool2d_with_indices_backward",))


@pytest.mark.full
def test_max_pool_of_dilated_windows():
    def pool(x):
        return F.max_pool2d(x, 3, 2, 1, dilation=2, return_indices=True)

    x = images(2, 3, 11, 9)
    check(pool, x, ops=("max_pool2d_with_indices",), left=("max_pool2d_with_indices_backward",))
    nan = torch.full((1, 1, 5, 5), float("-inf"))
    nan[0, 0, 3, 2] = float("nan")
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), nan, ops=("max_pool2d_with_indices",))
    check(lambda x: F.max_pool3d(x, 2, return_indices=True), images(1, 2, 4, 4, 4).detach(), training=False,
          ops=("max_pool3d_with_indices",))  # fmt: skip


@pytest.mark.parametrize("rank", [2, 3])
def test_what_was_largest_goes_back_to_its_place(rank):
    pool, back = getattr(F, f"max_pool{rank}d"), getattr(F, f"max_unpool{rank}d")

    def fn(x):
        y, at = pool(x, 3, stride=2, return_indices=True)  # windows overlap: some places are met twice
        return back(y, at, 3, stride=2, output_size=x.shape[2:])

    check(fn, images(2, 3, *[9] * rank), ops=(f"max_unpool{rank}d",))


def test_avg_pool():
    def pools(x):
        return (
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, (2, 3), ceil_mode=True),
            F.avg_pool2d(x, 2, 3, divisor_override=3),
            F.adaptive_avg_pool2d(x[..., :8, :6], (4, 3)),
        )

    ops = ("avg_pool2d", "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward")
    check(pools, rand(2, 3, 9, 8), ops=ops)


@pytest.mark.full
def test_avg_pool_dynamic():
    def pools(x):
        return F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 1)

    check(pools, rand(2, 3, 9, 8, dtype=bf16), dynamic=True, ops=("avg_pool2d_backward",))


@pytest.mark.full
def test_avg_pool_of_other_ranks():
    check(lambda x: F.avg_pool1d(x, 3, 2, 1), rand(2, 3, 9))
    check(lambda x: F.avg_pool3d(x, 2, 1, 1), rand(2, 3, 4, 5, 4), ops=("avg_pool3d", "avg_pool3d_backward"))


# resizes


def resize(mode, **how):
    return lambda x: F.interpolate(x, mode=mode, **how)


LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
RESIZED = {
    "twice": ((2, 3, 5, 7), {"scale_factor": 2}),
    "thirds": ((2, 3, 9, 4), {"size": (3, 11)}),
    "scales": ((1, 2, 7, 6), {"scale_factor": (0.4, 1.7)}),
    "every other": ((2, 3, 6, 8), {"size": (3, 16)}),
    "one pixel": ((2, 3, 1, 1), {"size": (3, 4)}),
    "to one pixel": ((2, 3, 4, 5), {"size": (1, 1)}),
    "one axis": ((2, 3, 6, 5), {"size": (6, 8)}),
    "as it is": ((2, 3, 6, 5), {"size": (6, 5)}),
    "a line": ((2, 3, 6), {"size": 11}),
    "a volume": ((1, 2, 3, 4, 5), {"size": (5, 3, 9)}),
}


@pytest.mark.parametrize("name", quick("twice", "every other", "scales", "a volume", of=RESIZED))
def test_resize_to_the_nearest(name):
    shape, how = RESIZED[name]
    which = f"{len(shape) - 2}d"
    ops = {f"{op}{which}{end}" for op in ("upsample_nearest", "_upsample_nearest_exact") for end in ("", "_backward")}
    check(lambda x: (resize("nearest", **how)(x), resize("nearest-exact", **how)(x)), rand(*shape), ops=ops)


@pytest.mark.parametrize("case", quick(("a line", f32), ("thirds", f16), of=product(RESIZED, (f32, bf16, f16))))
def test_resize_between_neighbours(case):
    name, dtype = case
    shape, how = RESIZED[name]

    def resized(x):
        return [resize(LINEAR[len(shape)], align_corners=corners, **how)(x) for corners in (False, True)]

    op = f"upsample_{LINEAR[len(shape)]}{len(shape) - 2}d"
    check(resized, rand(*shape, dtype=dtype), ops=(op, f"{op}_backward"))


@pytest.mark.parametrize("dtype", [pytest.param(f32, marks=pytest.mark.full), f16])
@pytest.mark.parametrize("name", quick("to one pixel", of=["twice", "scales", "one pixel", "to one pixel"]))
def test_resize_by_cubes(name, dtype):
    shape, how = RESIZED[name]
    ops = ("upsample_bicubic2d", "upsample_bicubic2d_backward")
    check(resize("bicubic", **how), rand(*shape, dtype=dtype), ops=ops)
    check(resize("bicubic", align_corners=True, **how), rand(*shape, dtype=dtype), ops=ops)


@pytest.mark.parametrize("how", [{"mode": "bilinear", "scale_factor": 2}, {"mode": "nearest", "size": 7}])
def test_resize_of_channels_last(how):
    check(resize(**how), torch.randn(2, 19, 5, 6).to(memory_format=torch.channels_last), training=False)


def test_resize_of_integers():
    x = torch.arange(30, dtype=torch.uint8).reshape(1, 2, 3, 5)
    check(resize("nearest", size=(7, 4)), x, ops=("upsample_nearest2d",))
    check(resize("bilinear", size=(7, 4)), x, left=("upsample_bilinear2d",))


def test_resize_reads_no_infinity_beside():
    x = torch.zeros(1, 1, 5, 6)
    x[0, 0, 2, 3] = torch.inf
    check(resize("nearest", size=(8, 9)), x, training=False)
    sizes = {"output_size": [5, 6], "input_size": [1, 1, 4, 5], "align_corners": False}
    check(lambda g: torch.ops.aten.upsample_bilinear2d_backward(g, **sizes), x)


def test_resize_dynamic():
    def resized(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear")

    # torch decomposes these into indexing before a backend sees them
    check(resized, rand(2, 3, 5, 7), dynamic=True, ops=("_unsafe_index",))


# attention


ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward")


def heads(*, queries=6, keys=6, dtype=f32):
    return [rand(2, 3, n, 8, dtype=dtype) for n in (queries, keys, keys)]


def test_attention_causal():
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *heads(), ops=ATTENTION)


def test_attention_masked():
    mask = torch.rand(2, 1, 5, 7) < 0.7
    mask[..., 0] = True

    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=0.3)

    check(attend, *heads(queries=5, keys=7), mask, ops=ATTENTION)


def test_attention_is_one_kernel():
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    q, k, v = (x.detach() for x in heads())
    (graph,) = check(attend, q, k, v, ops=ATTENTION[:1], training=False)
    (part,) = graph.parts
    assert [k.kind for k in part.executable.kernels if k.kind != "copy"] == ["attention"]


@pytest.mark.full
def test_attention_rows_without_keys():
    mask = torch.rand(2, 1, 5, 7) < 0.5
    mask[:, :, 2] = False
    mask = torch.zeros(2, 1, 5, 7).masked_fill(~mask, float("-inf"))
    check(F.scaled_dot_product_attention, *heads(queries=5, keys=7), mask, ops=ATTENTION)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [bf16, f16])
def test_attention_of_halves(dtype):
    for x in (leaves := heads(dtype=dtype)):
        torch._dynamo.mark_dynamic(x, 2)
    check(F.scaled_dot_product_attention, *leaves, ops=ATTENTION, slack=2e-2)


GPU_ATTENTION = {
    "_scaled_dot_product_flash_attention": (0.0, True),
    "_scaled_dot_product_efficient_attention": (None, False, 0.0, True),
    "_scaled_dot_product_cudnn_attention": (None, False, 0.0, True),
}


def imported(op, tensors, rest, *results):
    """The function of one call on a GPU, of which some results are read, and these as fake tensors.

    Among `tensors` are other arguments.
    """
    graph = torch.fx.Graph()
    given = [*tensors, *rest]
    with FakeTensorMode():
        fakes = [torch.empty(x.shape, dtype=x.dtype, device="cuda") if torch.is_tensor(x) else x for x in given]
        made = op(*fakes)
    args = [graph.placeholder(f"x{i}") if torch.is_tensor(x) else x for i, x in enumerate(given)]
    places = [x for x in args if isinstance(x, torch.fx.Node)]
    call = graph.call_function(op, tuple(args))
    picked = [graph.call_function(operator.getitem, (call, i)) for i in results]
    fake = [made[i] for i in results]
    values = [x for x in fakes if torch.is_tensor(x)]
    for node, value in zip((*places, call, *picked), (*values, made, *fake), strict=True):
        node.meta["val"] = value
    return import_part(Part([call, *picked], places, picked)), fake


def interpreted(op, tensors, rest, *results):
    """Results of one call on a GPU, by the interpreter."""
    func, fakes = imported(op, tensors, rest, *results)
    out = []
    for fake, stored in zip(fakes, interp.run(func, *(x.numpy() for x in tensors if torch.is_tensor(x))), strict=True):
        got = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype)
        order = order_of(fake) or range(fake.dim())  # what has gaps is spread afterwards
        got.permute(*order).copy_(torch.from_numpy(stored))
        out.append(got)
    return out


@pytest.mark.parametrize("name", GPU_ATTENTION)
def test_attention_of_a_gpu(name):
    tensors = [x.detach() for x in heads()]
    op = getattr(torch.ops.aten, name).default
    (got,) = interpreted(op, tensors, GPU_ATTENTION[name], 0)
    torch.testing.assert_close(got, F.scaled_dot_product_attention(*tensors, is_causal=True))
    long = [torch.empty(1, 2, 129, 8)] * 3
    with pytest.raises(PartError, match="its gradient is torch's"):
        imported(op, long, GPU_ATTENTION[name], 1)


def backward_of_a_gpu(name, grad, q, k, v, out, sums, *, causal):
    """The gradient of an operator as torch calls it."""
    seed, queries, keys = torch.zeros((), dtype=torch.int64), q.shape[2], k.shape[2]
    op = getattr(torch.ops.aten, f"{name}_backward").default
    args = {
        "_scaled_dot_product_efficient_attention": (
            grad, q, k, v, None, out, sums, seed, seed, 0.0, [True, True, True, False], causal,
        ),
        "_scaled_dot_product_cudnn_attention": (
            grad, q, k, v, out, sums, seed, seed, None, None, None, queries, keys, 0.0, causal,
        ),
        "_scaled_dot_product_flash_attention": (
            grad, q, k, v, out, sums, None, None, queries, keys, 0.0, causal, seed, seed,
        ),
    }[name]  # fmt: skip
    return interpreted(op, args, (), 0, 1, 2)


SHARED = [*((name, 1) for name in GPU_ATTENTION), *((name, 2) for name in GPU_ATTENTION if "efficient" not in name)]
"""Operators, and query heads that share keys: torch repeats them for the third."""


@pytest.mark.parametrize(("name", "shared"), SHARED)
@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_a_short_attention_of_a_gpu(name, shared, causal):
    keys = 33 if causal else 20
    q, k, v = rand(2, 4, 33, 8), rand(2, 4 // shared, keys, 8), rand(2, 4 // shared, keys, 8)
    eager = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared > 1)
    want = torch.autograd.grad(eager, (q, k, v), grad := torch.randn_like(eager))
    inputs = [x.detach() for x in (q, k, v)]
    *before, _ = GPU_ATTENTION[name]
    before = [True if x is False else x for x in before]  # the sums are wanted
    out, sums = interpreted(getattr(torch.ops.aten, name).default, inputs, (*before, causal), 0, 1)
    torch.testing.assert_close(out, eager.detach())
    for found, exact in zip(backward_of_a_gpu(name, grad, *inputs, out, sums, causal=causal), want, strict=True):
        torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("name", GPU_ATTENTION)
def test_seeds_of_no_dropout(name):
    q = torch.randn(2, 4, 9, 8)
    numbers = (2, 3) if "efficient" in name else (6, 7)
    func, fakes = imported(getattr(torch.ops.aten, name).default, (q, q, q), GPU_ATTENTION[name], *numbers)
    seeds = interp.run(func, *[q.numpy()] * 3)
    assert [tuple(f.shape) for f in fakes] == [seed.shape for seed in seeds]
    assert not any(seed.any() for seed in seeds)


@pytest.mark.parametrize("name", GPU_ATTENTION)
def test_gradients_that_stay(name):
    long, many = torch.zeros(1, 1, 129, 8), torch.zeros(9, 16, 64, 8)
    for x, y, causal, why in (
        (long, long, False, "the gradient of an attention of many keys"),
        (many, many, False, "the gradient of an attention of many keys"),
        (long[:, :, :9], long[:, :, :11], True, "causal attention of fewer queries than keys"),
    ):
        with pytest.raises(PartError, match=why):
            backward_of_a_gpu(name, x, x, y, y, x, torch.zeros(*x.shape[:3], 1), causal=causal)


def test_gradient_of_a_bias_of_attention():
    q, k, v = heads()
    bias, seed = rand(*q.shape[:3], k.shape[2]), torch.zeros((), dtype=torch.int64)
    eager = F.scaled_dot_product_attention(q, k, v, bias)
    want = torch.autograd.grad(eager, (q, k, v, bias), grad := torch.randn_like(eager))
    inputs = [x.detach() for x in (q, k, v, bias)]
    forward = torch.ops.aten._scaled_dot_product_efficient_attention.default
    out, sums = interpreted(forward, inputs, (True, 0.0, False), 0, 1)
    torch.testing.assert_close(out, eager.detach())
    args = (grad, *inputs, out, sums, seed, seed, 0.0, [True] * 4, False)
    found = interpreted(torch.ops.aten._scaled_dot_product_efficient_attention_backward.default, args, (), 0, 1, 2, 3)
    for got, exact in zip(found, want, strict=True):
        torch.testing.assert_close(got, exact)


def test_statistics_that_a_gpu_keeps_of_inference():
    x, weight, bias, mean, variance = rand(2, 3, 4, 5).detach(), *(torch.rand(3) + 0.5 for _ in range(4))
    tensors, op = (x, weight, bias, mean, variance), torch.ops.aten._native_batch_norm_legit_no_training.default
    for result, want in ((1, mean), (2, (variance + 1e-5).rsqrt())):
        func, _ = imported(op, tensors, (0.1, 1e-5), result)
        (got,) = interp.run(func, *(t.numpy() for t in tensors))
        torch.testing.assert_close(torch.from_numpy(got), want)


def test_query_heads_that_share_keys():
    q, k, v = rand(2, 6, 5, 8).detach(), rand(2, 2, 5, 8).detach(), rand(2, 2, 5, 8).detach()
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(interpreted(op, (q, k, v), (0.0, True), 0)[0], want)
    with pytest.raises(PartError, match="6 query heads share 4 of keys"):
        imported(op, (q, rand(2, 4, 5, 8).detach(), v), (0.0, True), 0)
    (graph,) = check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        q, k, v, training=False,
    )  # fmt: skip
    assert [k.kind for k in graph.parts[0].executable.kernels if k.kind != "copy"] == ["attention"]


# losses and the rest


def test_losses():
    def losses(x, y, z, weight, t):
        return (
            F.mse_loss(x, y), F.smooth_l1_loss(x, y, reduction="sum"), F.huber_loss(x, y, reduction="none"),
            F.cross_entropy(x, t, weight, ignore_index=2), F.nll_loss(F.log_softmax(y, 1), t, reduction="sum"),
            F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), F.cross_entropy(z, t.reshape(2, 3, 2)),
        )  # fmt: skip

    t = torch.randint(5, (12,))
    t[0] = 2
    check(
        losses,
        rand(12, 5),
        rand(12, 5),
        rand(2, 5, 3, 2),
        torch.rand(5),
        t,
        ops=("nll_loss_backward", "nll_loss2d_backward"),
    )


def test_activations_with_parameters():
    def functions(x, w):
        return (
            F.glu(x), F.logsigmoid(x), F.prelu(x, w), F.celu(x, 0.7), F.hardshrink(x), F.softshrink(x, 0.3),
            F.mish(x), x.norm(), torch.linalg.vector_norm(x, 3, dim=-1), x.norm(p=float("inf"), dim=0),
        )  # fmt: skip

    check(functions, rand(4, 6), rand(6), ops=("linalg_vector_norm",))


def test_dropout_stays_torchs():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: F.dropout(x * 2, 0.5) * 3, backend=backend)
    x = rand(64, 64)
    torch.manual_seed(1)
    got = compiled(x)
    torch.manual_seed(1)
    want = F.dropout(x * 2, 0.5) * 3
    torch.testing.assert_close(got, want)
    (grad,) = torch.autograd.grad(got.sum(), x)
    torch.testing.assert_close(grad, (want != 0).to(f32) * 12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_what_rms_norm_adds_to_squares_is_small_in_what_they_are_summed_in(dtype):
    """The operator is one of a GPU's: on a CPU torch traces what it is made of."""
    x = (torch.randn(5, 8) * 0.01).to(dtype)
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    norm = graph.call_function(torch.ops.aten._fused_rms_norm.default, (given, [8], None, None))
    first = graph.call_function(operator.getitem, (norm, 0))
    graph.output((first,))
    given.meta["val"], norm.meta["val"] = x, torch.ops.aten._fused_rms_norm(x, [8], None, None)
    first.meta["val"] = norm.meta["val"][0]
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else f32).eps
    run = compile_graph(torch.fx.GraphModule({}, graph), TorchOptions(strict=True))
    torch.testing.assert_close(run.module(x)[0], F.rms_norm(x.double(), (8,), eps=eps).to(dtype), rtol=2e-3, atol=0)
