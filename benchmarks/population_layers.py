"""Layers of the population: blocks of transformers, language models, image networks and recurrent ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from benchmarks.population_draw import Array, Case, Draw, Family

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "tanh gelu": lambda x: functional.gelu(x, approximate="tanh"),
}  # fmt: skip


class Attention(nn.Module):
    """Of queries to keys, of which several heads may share one; with rotated positions, or without."""

    def __init__(self, width: int, heads: int, shared: int, size: int, *, rotates: bool, causal: bool) -> None:
        super().__init__()
        self.size, self.rotates, self.causal, self.grouped = size, rotates, causal, shared < heads
        self.q, self.k, self.v = (nn.Linear(width, n * size, bias=not rotates) for n in (heads, shared, shared))
        self.out = nn.Linear(heads * size, width, bias=not rotates)

    def forward(self, x: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        """Attend to `of`."""
        q, k, v = (
            f(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for f, y in ((self.q, x), (self.k, of), (self.v, of))
        )
        if self.rotates:
            q, k = rotated(q), rotated(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.grouped)
        return self.out(y.transpose(1, 2).flatten(2))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """With its position: halves are turned by angles."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], device=x.device)[:, None] * 1e4 ** (-torch.arange(half, device=x.device) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half : 2 * half]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half :]], -1)


class Transformer(nn.Module):
    """A block that normalises first; with `context` it also attends to that."""

    def __init__(self, width: int, heads: int, hidden: int, activation: str, *, causal: bool, context: bool) -> None:
        super().__init__()
        size = width // heads
        self.attends = Attention(width, heads, heads, size, rotates=False, causal=causal)
        self.crosses = Attention(width, heads, heads, size, rotates=False, causal=False) if context else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.up, self.down, self.activation = nn.Linear(width, hidden), nn.Linear(hidden, width), activation

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """The block."""
        y = self.norms[0](x)
        x = x + self.attends(y, y)
        if self.crosses is not None:
            x = x + self.crosses(self.norms[1](x), context)
        return x + self.down(ACTIVATIONS[self.activation](self.up(self.norms[2](x))))


class Decoder(nn.Module):
    """A block of a language model: shared keys, rotated positions, RMS norms, a gated MLP."""

    def __init__(self, width: int, heads: int, shared: int, size: int, hidden: int) -> None:
        super().__init__()
        self.attends = Attention(width, heads, shared, size, rotates=True, causal=True)
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        y = self.before(x)
        x = x + self.attends(y, y)
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Squeeze(nn.Module):
    """Channels scaled by what all of the image has."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scaled."""
        return x * torch.sigmoid(self.up(functional.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Residual(nn.Module):
    """A block of a U-Net: group norms, convolutions, and a vector for the time."""

    def __init__(self, width: int, outputs: int, groups: int, time: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, width), nn.GroupNorm(groups, outputs)
        self.narrow, self.wide = nn.Conv2d(width, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.skip = (
            nn.Linear(time, outputs),
            nn.Conv2d(width, outputs, 1) if width != outputs else nn.Identity(),
        )

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The block."""
        y = self.narrow(functional.silu(self.first(x))) + self.time(functional.silu(t))[:, :, None, None]
        return self.skip(x) + self.wide(functional.silu(self.second(y)))


class Next(nn.Module):
    """A block of a ConvNeXt: depthwise, then a norm and an MLP over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)


def _case(d: Draw, text: str, module: Callable[[], nn.Module], *arrays: Array, flops: int, rows: int = 0) -> Case:
    """`rows` are multiplied by each weight: four weights take as long as an element."""
    training = d.even()
    work = max(sum(a.elements for a in arrays), flops // (8 * rows) if rows else 0)
    return Case(
        text, arrays, d.half(), module=module, flops=flops * (3 if training else 1), work=work, training=training
    )


def _tokens(d: Draw) -> tuple[int, int]:
    return d.size(1, 16), d.size(1, 2048 if d.device == "cuda" else 512)


def transformer(d: Draw) -> Case:
    """As in BERT, GPT-2, ViT, or with cross-attention."""
    (b, n), heads = _tokens(d), d.one(1, 3, 6, 8, 12, 16)
    width, hidden = heads * d.one(32, 40, 64, 64, 80, 128), 0
    hidden = d.one(4 * width, 4 * width, d.size(width, 4 * width))
    activation, causal, context = d.one(*ACTIVATIONS), d.even(), d.chance(0.3)
    flops = 2 * b * n * width * (4 * width + 2 * hidden) + 4 * b * n * n * width
    text = f"transformer {b}x{n}x{width}, {heads} heads, hidden {hidden}, {activation}"
    text += ", causal" * causal + ", crosses" * context
    build = lambda: Transformer(width, heads, hidden, activation, causal=causal, context=context)  # noqa: E731
    return _case(d, text, build, Array((b, n, width)), Array((b, 77 if context else 1, width)), flops=flops, rows=b * n)


def decoder(d: Draw) -> Case:
    """As in Llama, Qwen, Mistral."""
    (b, n), shared, group = _tokens(d), d.one(1, 2, 4, 8), d.one(1, 2, 4, 7)
    size, hidden = d.one(64, 64, 80, 96, 128), d.size(64, 8192)
    heads = shared * group
    width = d.one(heads * size, 8 * d.size(8, 512))
    flops = 2 * b * n * (2 * width * size * (heads + shared) + 3 * width * hidden) + 4 * b * n * n * heads * size
    text = f"decoder {b}x{n}x{width}, {heads} heads of {size}, {shared} of keys, hidden {hidden}"
    return _case(
        d, text, lambda: Decoder(width, heads, shared, size, hidden), Array((b, n, width)), flops=flops, rows=b * n
    )


def perceptron(d: Draw) -> Case:
    """Two to five linear layers."""
    b, layers, activation = d.size(1, 8192), d.size(2, 5), d.one("relu", "gelu", "silu")
    sizes = [d.size(8, 2048) for _ in range(layers + 1)]
    made = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}[activation]

    def build() -> nn.Module:
        pairs = pairwise(sizes)
        return nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), made())))

    flops = sum(2 * b * x * y for x, y in pairwise(sizes))
    return _case(d, f"MLP {b} of {sizes}, {activation}", build, Array((b, sizes[0])), flops=flops, rows=b)


def convolutions(d: Draw) -> Case:
    """Convolution, batch norm, activation; bottlenecks, depthwise with squeeze and excitation, ConvNeXt's."""
    kind = d.one("basic", "bottleneck", "inverted", "next")
    b, c, side = d.size(1, 32), d.size(3, 384), d.size(7, 112)
    inner, step = d.size(8, 256), d.one(1, 1, 2)
    act: type[nn.Module] = d.one(nn.ReLU, nn.SiLU, nn.Hardswish)

    def layer(i: int, o: int, taps: int, step: int = 1, groups: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(i, o, taps, step, taps // 2, groups=groups, bias=False), nn.BatchNorm2d(o), act()]

    def build() -> nn.Module:
        if kind == "next":
            return Next(c)
        if kind == "basic":
            parts = [*layer(c, inner, 3, step), *layer(inner, inner, 3)]
        elif kind == "bottleneck":
            parts = [*layer(c, inner, 1), *layer(inner, inner, 3, step), *layer(inner, c, 1)]
        else:
            wide = 4 * c
            parts = [
                *layer(c, wide, 1),
                *layer(wide, wide, 3, step, wide),
                Squeeze(wide, max(1, c // 4)),
                *layer(wide, c, 1)[:-1],
            ]
        return nn.Sequential(*parts)

    area = b * side * side
    weights = {"next": 8 * c * c + 49 * c, "basic": 9 * inner * (c + inner), "bottleneck": 2 * c * inner + 9 * inner**2}
    flops = 2 * area * weights.get(kind, 8 * c * c + 36 * c)
    text = f"{kind} convolutions {b}x{c}x{side}x{side}, inner {inner}, step {step}, {act.__name__}"
    return _case(d, text, build, Array((b, c, side, side), layout=d.one("", "", "last")), flops=flops)


def residual(d: Draw) -> Case:
    """A block of a diffusion U-Net."""
    groups = d.one(4, 8, 32, 32)
    b, c, o, side, time = d.size(1, 8), groups * d.size(1, 24), groups * d.size(1, 24), d.size(8, 96), d.size(32, 1280)
    flops = 2 * b * side * side * 9 * o * (c + o)
    text = f"U-Net residual {b}x{c}->{o} {side}x{side}, {groups} groups"
    image = Array((b, c, side, side), layout=d.one("", "", "last"))
    return _case(d, text, lambda: Residual(c, o, groups, time), image, Array((b, time)), flops=flops)


class _First(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


def recurrent(d: Draw) -> Case:
    """LSTM or GRU, one way or both."""
    kind, layers, both = d.one("LSTM", "GRU"), d.one(1, 1, 2), d.chance(0.3)
    b, n, width, hidden = d.size(1, 32), d.size(2, 32), d.size(8, 512), d.size(8, 512)
    flops = 2 * b * n * (4 if kind == "LSTM" else 3) * hidden * (width + hidden) * layers * (1 + both)
    text = f"{kind} {b}x{n}x{width}, hidden {hidden}, layers {layers}{', both ways' * both}"
    build = lambda: _First(getattr(nn, kind)(width, hidden, layers, batch_first=True, bidirectional=both))  # noqa: E731
    return _case(d, text, build, Array((b, n, width)), flops=flops)


class Head(nn.Module):
    """The loss of a language model: a norm, a product with a vocabulary, cross-entropy."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.embeds, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        nn.init.normal_(self.embeds.weight, std=1 / math.sqrt(width))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Words predict the next."""
        logits = functional.linear(self.norm(self.embeds(ids)), self.embeds.weight)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def head(d: Draw) -> Case:
    """Embeddings that are tied to logits over a real vocabulary."""
    words, width = d.one(30522, 32000, 50257, 128256, 151936), d.size(32, 2048)
    b, n = d.size(1, 8), d.size(2, 1024)
    text = f"head {b}x{n}x{width}, {words} words"
    return _case(
        d, text, lambda: Head(width, words), Array((b, n), below=words), flops=2 * b * n * width * words, rows=b * n
    )


FAMILIES: dict[str, Family] = {
    "transformer": transformer, "decoder": decoder, "MLP": perceptron, "convolutions": convolutions,
    "U-Net residual": residual, "recurrent": recurrent, "head": head,
}  # fmt: skip
