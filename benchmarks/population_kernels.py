"""Kernels of the population: every family of operators over drawn shapes, axes, layouts and elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.population_draw import Array, Case, Draw, Family


def pointwise(d: Draw) -> Case:
    """A chain on arrays of any strides, of which some are broadcast."""
    shape = d.sizes(d.one(1, 2, 3, 4))
    names = [
        d.one("sigmoid", "tanh", "exp", "gelu", "silu", "square", "abs", "sin", "relu") for _ in range(d.size(1, 6))
    ]
    other = tuple(1 if d.chance(0.3) else n for n in shape)
    rank = len(shape)
    layouts = [d.layout() if rank > 1 else d.one("", "step") for _ in range(2)]

    def call(x: Any, y: Any) -> Any:
        import torch

        out = x
        for name in names:
            out = (getattr(torch, name, None) or getattr(torch.nn.functional, name))(out * 0.5 + y)
        return out

    arrays = (Array(shape, layout=layouts[0]), Array(other, layout=layouts[1]))
    return Case(f"{', '.join(names)} of {shape} and {other}", arrays, d.dtype(), call, training=d.chance(0.2))


def moved(d: Draw) -> Case:
    """Permuted, joined, rolled, turned around, padded or cut."""
    import torch

    shape = d.sizes(d.one(2, 3, 4))
    rank, kind = len(shape), d.one("permute", "permute", "permute", "cat", "roll", "flip", "pad", "stack", "repeat")
    axis = d.one(*range(rank))
    perm = tuple(d.random.sample(range(rank), rank))
    extra = tuple(shape[p] for p in perm) if kind == "permute" else shape
    pads = [d.size(1, 5) for _ in range(4)]

    def call(x: Any, y: Any) -> Any:
        if kind == "permute":
            return (x.permute(perm) + y) * 2
        if kind in ("cat", "stack"):
            return getattr(torch, kind)([x, y * 2], axis)
        if kind == "pad":
            return torch.nn.functional.pad(x + y, pads)
        if kind == "repeat":
            return (x + y).repeat_interleave(2, axis)
        return (torch.roll(x, 3, axis) if kind == "roll" else x.flip(axis)) + y

    how = perm if kind == "permute" else pads if kind == "pad" else axis
    arrays = (Array(shape, layout=d.layout()), Array(extra))
    return Case(f"{kind} {how} of {shape}", arrays, d.dtype(), call, work=2 * math.prod(shape))


def sums(d: Draw) -> Case:
    """Reductions over any axes of up to four."""
    shape = d.sizes(d.one(1, 2, 2, 3, 3, 4))
    axes = d.axes(len(shape))
    kind = d.one("sum", "amax", "mean", "var", "std", "logsumexp", "norm")
    layout = d.layout() if len(shape) > 1 else ""

    def call(x: Any) -> Any:
        import torch

        return torch.linalg.vector_norm(x, dim=axes) if kind == "norm" else getattr(x, kind)(axes)

    if kind in ("var", "std") and math.prod(shape[a] for a in axes) < 2:
        return sums(d)
    return Case(f"{kind} {list(axes)} of {shape}", (Array(shape, layout=layout),), d.dtype(), call)


def places(d: Draw) -> Case:
    """Where the largest or least is along an axis, with its value."""
    shape = d.sizes(d.one(1, 2, 2, 3))
    axis, kind = d.one(*range(len(shape))), d.one("argmax", "argmin", "max", "min")

    def call(x: Any) -> Any:
        return getattr(x, kind)(axis)

    def read(outs: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        return [given[0].gather(axis, outs[-1].unsqueeze(axis)), *outs[:-1]]

    return Case(f"{kind} {axis} of {shape}", (Array(shape),), d.dtype(), call, read=read)


def rows(d: Draw) -> Case:
    """Softmax and norms along an axis, most often the last."""
    import torch.nn.functional as nn

    m, n = d.sizes(2)
    kind = d.one("softmax", "log softmax", "masked softmax", "layer norm", "rms norm", "residual layer norm")
    axis = d.one(-1, -1, 0) if "softmax" in kind else -1

    def call(x: Any, w: Any, b: Any) -> Any:
        if kind == "masked softmax":
            return (_wide(x) * 0.3).masked_fill(b, -1e30).softmax(axis).to(x.dtype)
        if "softmax" in kind:
            return x.log_softmax(axis) if "log" in kind else x.softmax(axis)
        if kind == "rms norm":
            return nn.rms_norm(x, (n,), w)
        return nn.layer_norm(x + b if "residual" in kind else x, (n,), w)

    last = Array((m, n), mask=True) if "masked" in kind else Array((m, n) if "residual" in kind else (1,))
    case = f"{kind} {m}x{n}" + (f" along {axis}" if axis != -1 else "")
    arrays = (Array((m, n), layout=d.layout()), Array((n,)), last)
    return Case(case, arrays, d.dtype(), call, training=d.chance(0.3))


def cross_entropy(d: Draw) -> Case:
    """Of logits over a vocabulary, with the gradient of the logits as often as not."""
    import torch.nn.functional as nn

    n = d.one(d.size(2, 1 << 17), 30522, 32000, 50257, 128256, 151936)
    m, smooth = d.size(1, 1 << 14), d.one(0.0, 0.0, 0.1)

    def call(x: Any, y: Any) -> Any:
        return nn.cross_entropy(_wide(x), y, label_smoothing=smooth)

    arrays = (Array((m, n)), Array((m,), below=n))
    text = f"{m} of {n} classes, smoothing {smooth}"
    return Case(text, arrays, d.dtype(), call, training=d.even())


def along(d: Draw) -> Case:
    """Sums, products and largest so far, along any axis."""
    shape = d.sizes(d.one(1, 2, 2, 3), 1 << 25)
    axis, kind = d.one(*range(len(shape))), d.one("cumsum", "cumsum", "cumsum", "cumprod", "cummax", "logcumsumexp")

    def call(x: Any) -> Any:
        if kind == "cummax":
            return x.cummax(axis)[0]
        return (1 + x * 0.01).cumprod(axis) if kind == "cumprod" else getattr(x, kind)(axis)

    return Case(f"{kind} {axis} of {shape}", (Array(shape),), "float32", call)


def chosen(d: Draw) -> Case:
    """The largest of lines, lines in order, histograms."""
    kind = d.one("topk", "topk", "sort", "argsort", "bincount", "histc", "kthvalue", "median")
    shape = d.sizes(2 if kind not in ("bincount", "histc") else 1, 1 << 24)
    axis = d.one(-1, -1, 0)
    k = min(shape[axis], d.one(1, 2, 8, 50, d.size(1, 256)))
    bins = d.size(2, 1 << 12)

    def call(x: Any) -> Any:
        import torch

        if kind == "topk":
            return x.topk(k, axis)
        if kind == "bincount":
            return torch.bincount(x, minlength=bins)
        if kind == "histc":
            return x.float().histc(bins, -4, 4)
        return x.kthvalue(k, axis) if kind == "kthvalue" else getattr(x, kind)(axis)

    def exact(x: Any) -> Any:
        import torch

        return torch.bincount(x, minlength=bins) if kind == "bincount" else x.float().histc(bins, -4, 4)

    def read(outs: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        if kind in ("bincount", "histc"):
            return outs
        place = outs[-1].unsqueeze(axis) if kind in ("kthvalue", "median") else outs[-1]
        return [given[0].gather(axis, place), *outs[:-1]]

    what = {"topk": f"topk {k}", "bincount": f"bincount {bins}", "histc": f"histc {bins}"}.get(kind, kind)
    array = Array(shape, below=bins) if kind == "bincount" else Array(shape)
    counted = exact if kind in ("bincount", "histc") else None
    work = math.prod(shape) * (8 if d.device == "cpu" else 1)
    return Case(f"{what} of {shape} along {axis}", (array,), d.dtype(), call, work=work, exact=counted, read=read)


def scattered(d: Draw) -> Case:
    """Rows and elements that are added or written where indices say."""
    import torch

    kind = d.one("index_add", "scatter_add", "embedding", "index_copy_", "index_put", "scatter_reduce", "scatter")
    n, width, count = d.size(1, 1 << 20), d.size(1, 1 << 12), d.size(1, 1 << 20)
    in_place = kind == "index_copy_"
    count = min(count, n) if in_place else count
    kept = max(n, count) * width

    def call(x: Any, i: Any, u: Any) -> Any:
        if kind == "index_add":
            return x.index_add(0, i, u)
        if kind == "embedding":
            return torch.ops.aten.embedding_dense_backward(u, i, n, -1, False)  # noqa: FBT003
        if kind == "index_copy_":
            return x.index_copy_(0, i, u)
        if kind == "index_put":
            return x.index_put((i,), u, accumulate=True)
        if kind == "scatter_reduce":
            return x.scatter_reduce(0, i, u, "amax")
        return x.scatter_add(0, i, u) if kind == "scatter_add" else x.scatter(0, i, 1.0) + u[:1]

    by_element = kind.startswith("scatter")
    indices = Array((count, width) if by_element else (count,), below=n, distinct=in_place)
    arrays = (Array((n, width) if kind != "embedding" else (1,)), indices, Array((count, width)))
    text = f"{kind} of {count} rows of {width} into {n}"
    return Case(text, arrays, d.dtype(), call, work=2 * kept, writes=in_place)


def gathered(d: Draw) -> Case:
    """Rows and elements that indices name."""
    import torch.nn.functional as nn

    kind = d.one("embedding", "index_select", "gather", "index", "take_along", "lookup + position")
    n, width, count = d.size(1, 1 << 18), d.size(1, 1 << 12), d.size(1, 1 << 18)
    axis = d.one(0, 1) if kind in ("gather", "index_select") else 0

    def call(x: Any, i: Any) -> Any:
        if kind == "embedding":
            return nn.embedding(i, x) * 2
        if kind == "index_select":
            return x.index_select(axis, i)
        if kind == "gather":
            return x.gather(axis, i)
        if kind == "take_along":
            return x.take_along_dim(i, 0)
        return x[i] + x[:1] if kind == "lookup + position" else x[i]

    along_axis = n if axis == 0 else width
    if kind in ("gather", "take_along"):
        shape: tuple[int, ...] = (count, width) if axis == 0 else (n, min(count, 1 << 10))
    else:
        shape = (count,)
    work = math.prod(shape) if len(shape) == 2 else count * (width if axis == 0 else n)
    text = f"{kind} {shape} of {(n, width)} axis {axis}"
    return Case(text, (Array((n, width)), Array(shape, below=along_axis)), d.dtype(), call, work=work)


def attention(d: Draw) -> Case:
    """Heads of any width, shared keys, few keys, one query, masks."""
    import torch.nn.functional as nn

    kind = d.one("self", "self", "few keys", "decode")
    heads, group = d.size(1, 32), d.one(1, 1, 2, 4, 7)
    width = d.one(40, 64, 64, 72, 80, 96, 128, 128, 160, 256)
    b, k = d.size(1, 16), d.size(8, 8192)
    q = {"self": k, "decode": 1, "few keys": d.size(64, 8192)}[kind]
    k = d.one(77, 16, 32) if kind == "few keys" else k
    mask = d.one("", "", "causal" if kind == "self" else "", "mask")
    flops = 4 * b * heads * group * q * k * width

    def call(q: Any, k: Any, v: Any, m: Any) -> Any:
        return nn.scaled_dot_product_attention(
            q, k, v, m if mask == "mask" else None, is_causal=mask == "causal", enable_gqa=group > 1
        )

    shared = Array((b, heads, k, width))
    last = Array((b, 1, q, k) if mask == "mask" else (1,))
    text = f"{b} of {heads * group} heads ({heads} of keys) of {width}, {q} queries, {k} keys {mask}"
    arrays = (Array((b, heads * group, q, width)), shared, shared, last)
    return Case(text, arrays, d.half(), call, flops=flops, training=kind == "self" and d.chance(0.3))


def convolution(d: Draw) -> Case:
    """Images as users have them: either layout, any channels, groups, steps, 1-D to 3-D, transposed."""
    import torch.nn.functional as nn

    rank, taps, step = d.one(1, 2, 2, 2, 2, 3), d.one(1, 3, 3, 5, 7), d.one(1, 1, 2)
    groups, transposed = d.one(1, 1, 1, 1, 2, 0), d.chance(0.15)
    n, c, k = d.size(1, 32), d.size(3, 512), d.size(8, 512)
    if groups > 1:
        c, k = c // groups * groups or groups, k // groups * groups or groups
    if groups == 0:  # depthwise
        groups = k = c
    side = d.size(7, {1: 4096, 2: 112, 3: 24}[rank])
    pad = d.one(taps // 2, 0) if side > taps else taps // 2
    flops = 2 * n * (side // (1 if transposed else step)) ** rank * k * c // groups * taps**rank
    conv = getattr(nn, f"conv{'_transpose' * transposed}{rank}d")
    last = "last" if d.even() and rank == 2 else ""

    def call(x: Any, w: Any, b: Any) -> Any:
        return nn.relu(conv(x, w, b, stride=step, padding=pad, groups=groups))

    weights = (c, k // groups) if transposed else (k, c // groups)
    scale = 1 / math.sqrt(c // groups * taps**rank)
    arrays = (
        Array((n, c, *[side] * rank), layout=last),
        Array((*weights, *[taps] * rank), scale, layout=last),
        Array((k,)),
    )
    kind = "transposed, " * transposed
    text = f"{kind}{n}x{c}->{k} {side}^{rank} taps {taps} step {step} pad {pad} groups {groups} {last or 'first'}"
    work = n * max(c, k * (step if transposed else 1) ** rank) * side**rank
    return Case(text, arrays, d.half(), call, flops=flops, work=work, training=d.chance(0.2))


def images(d: Draw) -> Case:
    """Pools and resizes."""
    import torch.nn.functional as nn

    n, c, side = d.size(1, 32), d.size(1, 512), d.size(7, 256)
    kind = d.one("max", "avg", "global", "nearest", "bilinear", "bicubic", "shuffle", "adaptive")
    taps, step = d.one(2, 3, 5), d.one(1, 2)
    c = -(-c // 4) * 4 if kind == "shuffle" else c

    def call(x: Any) -> Any:
        if kind in ("max", "avg"):
            return getattr(nn, f"{kind}_pool2d")(x, taps, step, taps // 2)
        if kind in ("global", "adaptive"):
            return nn.adaptive_avg_pool2d(x, 1 if kind == "global" else 7)
        return nn.pixel_shuffle(x, 2) if kind == "shuffle" else nn.interpolate(x, scale_factor=2, mode=kind)

    text = f"{kind} {taps} step {step}" if kind in ("max", "avg") else kind
    array = Array((n, c, side, side), layout=d.one("", "last"))
    work = array.elements * (4 if "n" in kind[:1] or "bi" in kind else 1)
    return Case(f"{text} of {n}x{c}x{side}x{side}", (array,), d.dtype(), call, work=work, training=d.chance(0.2))


def image_norms(d: Draw) -> Case:
    """Group, batch and instance norms, either layout, with what follows."""
    import torch.nn.functional as nn

    n, side = d.size(1, 64), d.size(4, 128)
    groups = d.one(1, 8, 32, 32)
    kind = d.one("group norm", "group norm", "batch norm", "batch norm, training", "instance norm")
    c = groups * d.size(1, 32) if kind == "group norm" else d.size(3, 1024)

    def call(x: Any, w: Any, b: Any, mean: Any, var: Any) -> Any:
        if kind == "group norm":
            return nn.silu(nn.group_norm(x, groups, w, b))
        if kind == "instance norm":
            return nn.instance_norm(x, weight=w, bias=b)
        trains = "training" in kind
        return nn.relu(nn.batch_norm(x, None if trains else mean, None if trains else var.abs() + 0.5, w, b, trains))

    array = Array((n, c, side, side), layout=d.one("", "last"))
    text = f"{kind}{f' {groups}' if kind == 'group norm' else ''} of {n}x{c}x{side}x{side}"
    each = Array((c,))
    return Case(text, (array, each, each, each, each), d.dtype(), call, training=d.chance(0.3))


def product(d: Draw) -> Case:
    """A linear layer, with what follows."""
    import torch.nn.functional as nn

    m, n, k = d.size(1, 8192), d.size(16, 8192), d.size(16, 8192)
    after = d.one("none", "bias", "bias, gelu", "residual")

    def call(x: Any, w: Any, b: Any, r: Any) -> Any:
        y = nn.linear(x, w, b if "bias" in after else None)
        return nn.gelu(y) if "gelu" in after else y + r if after == "residual" else y

    last = Array((m, n) if after == "residual" else (1,))
    arrays = (Array((m, k)), Array((n, k), 1 / math.sqrt(k)), Array((n,)), last)
    return Case(f"{m}x{n}x{k} {after}", arrays, d.half(), call, flops=2 * m * n * k, work=max(m, n) * k)


def batched(d: Draw) -> Case:
    """Many small products, either factor turned."""
    b, m, n, k = d.size(2, 512), d.size(1, 512), d.size(1, 512), d.size(8, 256)
    arrays = (
        Array((b, m, k), layout=d.one("", "turned")),
        Array((b, k, n), 1 / math.sqrt(k), layout=d.one("", "turned")),
    )

    def call(x: Any, y: Any) -> Any:
        return x @ y

    return Case(f"{b} of {m}x{n}x{k}", arrays, d.half(), call, flops=2 * b * m * n * k)


def quantised(d: Draw) -> Case:
    """Products of bytes, and of weights that are bytes."""
    import torch

    m, n, k = d.size(1, 4096), 8 * d.size(4, 1024), 8 * d.size(4, 1024)
    kind = d.one("int8", "weights in int8", "weights in int8 by groups", "fp8")
    if kind == "fp8" and d.device == "cpu":
        kind = "weights in fp8"
    m = max(m, 17) if kind == "int8" else m
    if kind == "fp8":
        m, n, k = (-(-x // 16) * 16 for x in (m, n, k))
    group = d.one(32, 64, 128) if "groups" in kind else 0
    k = -(-k // 128) * 128 if group else k
    groups = k // group if group else 1

    def call(x: Any, w: Any, s: Any) -> Any:
        if kind == "int8":
            return torch._int_mm(x, w.t()).to(s.dtype) * s
        if kind == "fp8":
            one = torch.ones((), device=x.device)
            return torch._scaled_mm(x, w.t(), one, one, out_dtype=s.dtype) * s
        if group:
            return x @ (w.to(x.dtype).view(n, groups, group) * s.view(n, groups, 1)).view(n, k).t()
        return x @ (w.to(x.dtype) * s[:, None]).t()

    def exact(x: Any, w: Any, s: Any) -> Any:
        if kind in ("int8", "fp8"):
            return x.double() @ w.double().t() * s
        scaled = w.double().view(n, groups, -1) * s.view(n, groups, 1)
        return x @ scaled.view(n, k).t()

    narrow = "float8_e4m3fn" if "fp8" in kind else "int8"
    scales = Array((n * groups if group else n,), 1 / (64 * math.sqrt(k)))
    left = Array((m, k), dtype=narrow if kind in ("int8", "fp8") else "")
    arrays = (left, Array((n, k), dtype=narrow), scales)
    text = f"{kind} {m}x{n}x{k}{f' groups of {group}' if group else ''}"
    work = max(m, n) * k
    return Case(text, arrays, d.half(), call, flops=2 * m * n * k, work=work, exact=exact)


def _wide(x: Any) -> Any:
    return x if x.element_size() == 8 else x.float()


FAMILIES: dict[str, Family] = {
    "pointwise": pointwise, "moved": moved, "sum": sums, "places": places, "rows": rows,
    "cross-entropy": cross_entropy, "along": along, "chosen": chosen, "scattered": scattered, "gathered": gathered,
    "attention": attention, "convolution": convolution, "images": images, "image norms": image_norms,
    "product": product, "batched": batched, "quantised": quantised,
}  # fmt: skip
