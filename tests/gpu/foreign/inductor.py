"""Functions whose kernels Inductor wrote on an H200: `take_down.py` keeps the PTX, and how each kernel was launched."""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from graphfuse.findings import Finding
from graphfuse.gpu.emulator import Emulator
from graphfuse.gpu.emulator.check import Launch, check_ptx

TAKEN_DOWN = Path(__file__).parent / "inductor.json.xz"


@dataclass(frozen=True)
class Taken:
    """A function, its inputs, and the options of Inductor that it was compiled with."""

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    options: tuple[tuple[str, Any], ...] = ()
    is_random: bool = False

    def results(self) -> list[torch.Tensor]:
        """By eager torch: what it returns, and its inputs as it leaves them."""
        inputs = [x.clone() for x in self.inputs]
        found = self.function(*inputs)
        return [*([found] if isinstance(found, torch.Tensor) else found), *inputs]


@functools.cache
def taken_down() -> dict[str, Any]:
    """Of each function: `buffers` that its kernels share, its `inputs` and `outputs` among them, and `launches`."""
    return json.loads(lzma.decompress(TAKEN_DOWN.read_bytes()))["functions"]


@dataclass(frozen=True)
class Run:
    """What was found in the first kernel where something was, and what the function left, as `Taken.results` has it."""

    findings: list[Finding]
    results: list[np.ndarray]


def run(name: str, texts: Sequence[str] = (), seed: int = 0) -> Run:
    """All kernels of a function on the emulator, one after the other, with the texts that were taken down or others."""
    taken, kept = FUNCTIONS[name], taken_down()[name]
    buffers = [np.zeros(b["count"], _numpy_type(b["dtype"])) for b in kept["buffers"]]
    known = {i for i, b in enumerate(kept["buffers"]) if b["kind"] in {"input", "given"}}
    for view, x in zip(kept["inputs"], taken.inputs, strict=True):
        buffers[view["buffer"]][:] = as_numpy(x).reshape(-1)
    found: list[Finding] = []
    for launch, text in zip(kept["launches"], texts or [made["ptx"] for made in kept["launches"]], strict=True):
        emulator = Emulator(text, name=f"{name}.ptx", seed=seed)
        params = [p.name for p in emulator.kernel(launch["kernel"]).params]
        places = {p: a["buffer"] for p, a in zip(params, launch["arguments"], strict=False) if "buffer" in a}
        numbers = [a.get("number", 0) for a in launch["arguments"]] + [0] * len(params)
        values: dict[str, Any] = dict(zip(params, numbers, strict=False)) | {p: buffers[i] for p, i in places.items()}
        if launch["scratch"]:
            values[params[-2]] = np.zeros(launch["scratch"] * int(np.prod(launch["grid"])), np.uint8)
        done = check_ptx(emulator, Launch(
            kernel=launch["kernel"], grid=launch["grid"], block=(32 * launch["warps"],), arguments=values,
            shared_bytes=launch["shared"], empty=frozenset(p for p, i in places.items() if i not in known),
        ))  # fmt: skip
        for p, i in places.items():
            buffers[i] = done.arguments[p]
        known |= set(places.values())
        found += done.findings
        if done.is_wrong:
            break
    views = [*kept["outputs"], *kept["inputs"]]
    return Run(found, [_view(buffers[v["buffer"]], v["shape"], v["strides"]) for v in views])


def _view(flat: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(flat, shape, [n * flat.itemsize for n in strides])


def _numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def as_numpy(x: torch.Tensor) -> np.ndarray:
    """The same elements."""
    flat = x.detach().reshape(-1).view(torch.uint8).numpy()
    return flat.view(_numpy_type(str(x.dtype).removeprefix("torch."))).reshape(x.shape)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The same numbers wherever it runs."""
    return torch.from_numpy(np.random.default_rng(shape).standard_normal(shape).astype(np.float32)).to(dtype)


def integers(most: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """From 0 to below `most`."""
    return torch.from_numpy(np.random.default_rng(shape).integers(0, most, shape)).to(dtype)


HALF, BF16, FP8 = torch.float16, torch.bfloat16, torch.float8_e4m3fn
TRITON = (("max_autotune", True), ("max_autotune_gemm_backends", "TRITON"), ("max_autotune_conv_backends", "TRITON"))
TMA = (("triton.enable_persistent_tma_matmul", True), ("test_configs.autotune_choice_name_regex", ".*tma.*"))


def gelu(x, bias):
    return functional.gelu(x + bias)


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x, y, weight):
    z = (x + y).float()
    return (z * torch.rsqrt(z.square().mean(-1, keepdim=True) + 1e-5) * weight).to(x.dtype), z.to(x.dtype)


def total(x):
    return x.sum(), x.abs().max()


def cumsum(x):
    return x.cumsum(-1)


def dropout(x):
    return functional.dropout(x, 0.25, training=True)


def embedding(table, index, places):
    return table[index] + places


def put(x, index, values):
    return x.index_put((index,), values, accumulate=True)


def joined(x, y):
    return torch.cat([x, y.relu(), x * 2], -1)


def turned(x, y):
    return x.transpose(1, 2).contiguous() + y


def argmax(x):
    return x.argmax(-1), x.amin(-1)


def group_norm(x, weight, bias):
    return functional.silu(functional.group_norm(x, 4, weight, bias))


def batch_norm(x, weight, bias, mean, variance):
    return functional.batch_norm(x, mean, variance, weight, bias, training=True, momentum=0.1)


def max_pool(x):
    return functional.max_pool2d(x, 3, 2, 1)


def cross_entropy(x, target):
    return functional.cross_entropy(x, target)


def linear(x, weight, bias):
    return functional.relu(x @ weight + bias)


def batched(x, y):
    return torch.bmm(x, y)


def convolution(x, weight):
    return functional.conv2d(x, weight, padding=1)


def attention(q, k, v):
    """FlexAttention, which says that it is not for eager torch."""
    if not torch.compiler.is_compiling():
        rows, columns = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
        scores = q.float() @ k.float().mT / q.shape[-1] ** 0.5 + (rows - columns) * 0.01
        return (scores.softmax(-1) @ v.float()).to(q.dtype)
    return flex_attention(q, k, v, score_mod=lambda score, b, h, row, column: score + (row - column) * 0.01)


def sort(x):
    return torch.sort(x, dim=-1, stable=True)


def quantised(x):
    scale = x.float().abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(FP8), scale


def dequantised(x, weight, scale):
    return x * (weight.to(x.dtype) * scale)


def rope(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return functional.silu(gate) * up


def buckets(x, edges):
    return torch.bucketize(x, edges)


def steps(*tensors):
    """A step of an optimiser over lists."""
    weights, gradients = list(tensors[::2]), list(tensors[1::2])
    torch._foreach_mul_(weights, 0.99)
    torch._foreach_add_(weights, gradients, alpha=-0.1)
    return weights


def image(x):
    return (x.permute(0, 3, 1, 2).float() / 255 - 0.45) / 0.225


def bits(x, y):
    return (x ^ (y << 3)).bitwise_and(0x7FFF), (x > y).any(-1), x // (y + 1)


def bilinear(x):
    return functional.interpolate(x, size=(13, 17), mode="bilinear", align_corners=False)


def special(x):
    return (
        torch.erf(x)
        + torch.sin(x * 1000)
        + torch.pow(x.abs(), 1.7)
        + torch.lgamma(x.abs() + 0.5)
        + torch.atan2(x, x + 1)
    )


def doubles(x):
    return (x.double() - x.double().mean(-1, keepdim=True)).exp().sum(-1)


def layer_norm_gradients(x, weight, grad):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    unit = centred * scale
    g = grad * weight
    dx = (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True)) * scale
    return dx, (grad * unit).sum(0), grad.sum(0)


def padded(x):
    return functional.pad(x, (2, 3, 1, 2), mode="reflect") * 2


FUNCTIONS = {
    "gelu": Taken(gelu, (normal(13, 260, dtype=BF16), normal(260, dtype=BF16))),
    "softmax": Taken(softmax, (normal(9, 1000),)),
    "softmax, long rows": Taken(softmax, (normal(3, 5003),)),
    "layer norm": Taken(layer_norm, (normal(7, 768, dtype=BF16), normal(768, dtype=BF16), normal(768, dtype=BF16))),
    "rms norm": Taken(rms_norm, (normal(5, 2056, dtype=HALF), normal(5, 2056, dtype=HALF), normal(2056))),
    "sum in two steps": Taken(total, (normal(40_001),)),
    "sum by blocks that wait": Taken(total, (normal(40_002),), (("triton.force_cooperative_reductions", True),)),
    "cumsum": Taken(cumsum, (normal(6, 700),)),
    "cumsum across blocks": Taken(cumsum, (normal(1, 9000),)),
    "dropout": Taken(dropout, (normal(30, 70),), is_random=True),
    "embedding": Taken(embedding, (normal(50, 72, dtype=BF16), integers(50, 3, 11), normal(11, 72, dtype=BF16))),
    "index put": Taken(put, (normal(40, 30), integers(40, 60), normal(60, 30))),
    "cat": Taken(joined, (normal(14, 60), normal(14, 35))),
    "turned": Taken(turned, (normal(2, 45, 70), normal(2, 70, 45))),
    "argmax": Taken(argmax, (normal(11, 300, dtype=HALF),)),
    "group norm": Taken(group_norm, (normal(2, 16, 9, 9), normal(16), normal(1, 16)[0])),
    "batch norm": Taken(batch_norm, (normal(4, 6, 8, 8), normal(6), normal(1, 6)[0], torch.zeros(6), torch.ones(6))),
    "max pool": Taken(max_pool, (normal(2, 5, 15, 17),)),
    "cross entropy": Taken(cross_entropy, (normal(21, 500), integers(500, 21))),
    "linear": Taken(linear, (normal(80, 96, dtype=HALF), normal(96, 72, dtype=HALF), normal(72, dtype=HALF)), TRITON),
    "linear, f32": Taken(linear, (normal(40, 64), normal(64, 48), normal(48)), TRITON),
    "linear by TMA": Taken(
        linear, (normal(128, 320, dtype=BF16), normal(320, 128, dtype=BF16), normal(128, dtype=BF16)),
        (*TRITON, *TMA),
    ),
    "batched products": Taken(batched, (normal(3, 33, 48, dtype=BF16), normal(3, 48, 40, dtype=BF16)), TRITON),
    "convolution": Taken(convolution, (normal(1, 16, 9, 10, dtype=HALF), normal(24, 16, 3, 3, dtype=HALF)), TRITON),
    "flex attention": Taken(attention, tuple(normal(1 + i, 2, 128, 64, dtype=HALF)[:1].clone() for i in range(3))),
    "sort": Taken(sort, (normal(5, 100),)),
    "to fp8": Taken(quantised, (normal(6, 264, dtype=BF16),)),
    "from int8": Taken(
        dequantised, (normal(9, 200, dtype=HALF), integers(127, 9, 200, dtype=torch.int8), normal(9, 1, dtype=HALF)),
    ),
    "rope": Taken(rope, (normal(2, 3, 12, 32, dtype=BF16), normal(12, 32), normal(1, 12, 32))),
    "swiglu": Taken(swiglu, (normal(13, 192, dtype=BF16),)),
    "buckets": Taken(buckets, (normal(700), normal(40).sort().values)),
    "steps": Taken(steps, (normal(300), normal(1, 300)[0], normal(17, 30), normal(17, 31)[:, 1:].contiguous())),
    "image": Taken(image, (integers(256, 1, 19, 21, 3, dtype=torch.uint8),)),
    "bits": Taken(bits, (integers(9000, 20, 33, dtype=torch.int32), integers(77, 1, 20, 33, dtype=torch.int32)[0])),
    "bilinear": Taken(bilinear, (normal(2, 3, 7, 9),)),
    "special functions": Taken(special, (normal(500),)),
    "doubles": Taken(doubles, (normal(8, 130),)),
    "gradients of a layer norm": Taken(layer_norm_gradients, (normal(130, 96), normal(96), normal(1, 130, 96)[0])),
    "padding": Taken(padded, (normal(2, 3, 9, 14),)),
}  # fmt: skip
"""By name."""
