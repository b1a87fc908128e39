"""Train the tiny GPT and write `models/tinygpt.onnx`: `python -m models.train_tinygpt`.

Needs torch; a few minutes on two cores. The torch network exists only to be trained: the graph is
written by hand from its weights, with the cache, and checked against it.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import graphfuse
from graphfuse.generation import Decoder, Generator
from models import tinygpt
from models._builder import FLOAT, Builder, Value, run_model
from models._layers import gelu_tanh
from models.tinygpt import HEAD_DIM, LAYERS, N_HEADS

WIDTH = N_HEADS * HEAD_DIM
_CONTEXT = 128
_BATCH = 24
_FREQUENCY = (10000.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))).astype(np.float32)


class _Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        split = self.qkv(self.norm1(x)).view(batch, seq, 3, N_HEADS, HEAD_DIM)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        q, k = _rotate_torch(q, cos, sin), _rotate_torch(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.proj(mixed.transpose(1, 2).reshape(batch, seq, WIDTH)))
        hidden = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.dropout(self.down(hidden))


class Network(nn.Module):
    """The network without a cache, for training."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocab, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [batch, seq, vocab] of token ids [batch, seq]."""
        angle = torch.arange(ids.shape[1])[:, None] * torch.from_numpy(_FREQUENCY)
        angle = torch.cat([angle, angle], dim=-1)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, angle.cos(), angle.sin())
        return self.head(self.norm(x))


def _rotate_torch(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def train(steps: int, seed: int) -> Network:
    """Return the network after `steps` batches of random windows of the corpus."""
    torch.manual_seed(seed)
    text = torch.tensor(tinygpt.Tokenizer().encode(tinygpt.CORPUS.read_text(encoding="utf-8")))
    net = Network(len(tinygpt.alphabet()))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    window = torch.arange(_CONTEXT + 1)
    for step in range(1, steps + 1):
        starts = torch.randint(0, len(text) - _CONTEXT, (_BATCH, 1))
        chunk = text[starts + window]
        logits = net(chunk[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step:5d}  loss {loss.item():.3f}", flush=True)
    return net.eval()


def graph(net: Network) -> Builder:
    """Write the network as a graph with a cache; past and step are dynamic."""
    g = Builder("tinygpt", opset=18, seed=0)
    parameters = {name: g.initializer(_stored(name, tensor), name) for name, tensor in net.state_dict().items()}
    ids = g.input("input_ids", [1, "step"], np.int64)
    shape = [1, N_HEADS, "past", HEAD_DIM]
    pasts = [(g.input(f"past_key_{i}", shape), g.input(f"past_value_{i}", shape)) for i in range(LAYERS)]
    past, step = g.dim(pasts[0][0], 2), g.dim(ids, 1)
    total = past + step
    queries = g.Unsqueeze(g.Range(past, total, g.const(1)), [1])
    keys = g.Range(g.const(0), total, g.const(1))
    mask = g.Where(g.LessOrEqual(keys, queries), 0.0, float("-inf"))
    angle = g.Cast(queries, to=FLOAT) * _FREQUENCY
    angle = g.Concat(angle, angle, axis=-1)
    rope = (g.Cos(angle), g.Sin(angle))
    x = g.Gather(parameters["embedding.weight"], ids, axis=0)
    presents: list[tuple[Value, Value]] = []
    for i, cache in enumerate(pasts):
        own = {
            name.removeprefix(f"blocks.{i}."): value
            for name, value in parameters.items()
            if name.startswith(f"blocks.{i}.")
        }
        x, present = _block(g, x, own, rope, mask, cache, step)
        presents.append(present)
    x = g.LayerNormalization(x, parameters["norm.weight"], parameters["norm.bias"], axis=-1)
    logits = x @ parameters["head.weight"]
    g.output(logits, "logits", [1, "step", len(tinygpt.alphabet())])
    for i, (key, value) in enumerate(presents):
        g.output(key, f"present_key_{i}", [1, N_HEADS, "past + step", HEAD_DIM])
        g.output(value, f"present_value_{i}", [1, N_HEADS, "past + step", HEAD_DIM])
    return g


def _stored(name: str, tensor: torch.Tensor) -> np.ndarray:
    """Linear weights transposed to [in, out], everything else as it is."""
    array = tensor.detach().numpy()
    return array.T.copy() if array.ndim == 2 and "embedding" not in name else array


def _block(
    g: Builder,
    x: Value,
    own: dict[str, Value],
    rope: tuple[Value, Value],
    mask: Value,
    past: tuple[Value, Value],
    step: Value,
) -> tuple[Value, tuple[Value, Value]]:
    def linear(y: Value, name: str) -> Value:
        return y @ own[f"{name}.weight"] + own[f"{name}.bias"]

    def norm(y: Value, name: str) -> Value:
        return g.LayerNormalization(y, own[f"{name}.weight"], own[f"{name}.bias"], axis=-1)

    qkv = g.reshape(linear(norm(x, "norm1"), "qkv"), 1, step, 3, N_HEADS, HEAD_DIM)
    qkv = g.Transpose(qkv, perm=[2, 0, 3, 1, 4])
    q, k, v = (g.Gather(qkv, g.const(part), axis=0) for part in range(3))
    k = g.Concat(past[0], _rotate(g, k, rope), axis=2)
    v = g.Concat(past[1], v, axis=2)
    scores = _rotate(g, q, rope) @ g.Transpose(k, perm=[0, 1, 3, 2]) / math.sqrt(HEAD_DIM) + mask
    mixed = g.Transpose(g.Softmax(scores, axis=-1) @ v, perm=[0, 2, 1, 3])
    x = x + linear(g.reshape(mixed, 1, step, WIDTH), "proj")
    return x + linear(gelu_tanh(g, linear(norm(x, "norm2"), "up")), "down"), (k, v)


def _rotate(g: Builder, x: Value, rope: tuple[Value, Value]) -> Value:
    cos, sin = rope
    low, high = g.split(x, [HEAD_DIM // 2, HEAD_DIM // 2], axis=3)
    return x * cos + g.Concat(-high, low, axis=-1) * sin


def check(net: Network, g: Builder) -> float:
    """Return the largest difference between the network and the graph fed in two pieces."""
    ids = np.asarray([tinygpt.Tokenizer().encode("The wind is from the north.")])
    first = run_model(g.model(), {"input_ids": ids[:, :10], **tinygpt.empty_cache()})
    cache = {name: first[name.replace("past", "present")] for name in tinygpt.empty_cache()}
    second = run_model(g.model(), {"input_ids": ids[:, 10:], **cache})
    with torch.no_grad():
        expected = net(torch.from_numpy(ids)).numpy()
    actual = np.concatenate([first["logits"], second["logits"]], axis=1)
    return float(np.abs(expected - actual).max())


def main() -> None:
    """Train, check, write and show a sample."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=tinygpt.FILE)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    net = train(args.steps, args.seed)
    g = graph(net)
    print(f"largest difference between network and graph: {check(net, g):.1e}")
    g.save(args.output)
    print(f"{args.output}: {args.output.stat().st_size / 1e6:.2f} MB")
    decoder = Decoder(graphfuse.compile(args.output, dims=tinygpt.DIMS))
    (sample,) = Generator(decoder, tinygpt.Tokenizer()).generate("The wind", max_new_tokens=200, temperature=0.5)
    print(f"The wind{sample.text}")


if __name__ == "__main__":
    main()
