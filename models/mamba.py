"""A Mamba language model whose selective scan is unrolled over a fixed sequence (opset 18).

This is what exporting transformers' slow path gives: per step one slice of the discretised
matrices, a fused update of the state, and a product with that step's C.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import _cli
from models._builder import INT64, Builder, Value
from models._layers import linear, rms_norm, silu, token_ids

NAME = "mamba"
DIMS: dict[str, tuple[int, int]] = {"batch": (1, 4)}
TEST_DIMS: list[dict[str, int]] = [{"batch": 1}, {"batch": 2}, {"batch": 3}]


@dataclass(frozen=True)
class _Config:
    width: int
    depth: int
    seq: int
    vocab: int
    state: int = 16
    kernel: int = 4

    @property
    def inner(self) -> int:
        """Width inside the mixer."""
        return 2 * self.width

    @property
    def rank(self) -> int:
        """Rank of the step-size projection."""
        return max(2, self.width // 16)


_FULL = _Config(width=256, depth=2, seq=32, vocab=4096)
_SMALL = _Config(width=16, depth=1, seq=6, vocab=61, state=4)


def build(path: Path, *, small: bool = False, seed: int = 0) -> None:
    """Write the model to `path`."""
    config = _SMALL if small else _FULL
    g = Builder(NAME, opset=18, seed=seed)
    ids = g.input("input_ids", ["batch", config.seq], INT64)
    x = g.Gather(g.normal([config.vocab, config.width], 1.0, "embeddings.weight"), ids, axis=0)
    for i in range(config.depth):
        with g.scope(f"layers.{i}"):
            x = x + _mixer(g, rms_norm(g, x, config.width, "norm"), config)
    x = rms_norm(g, x, config.width, "norm_f")
    logits = linear(g, x, config.width, config.vocab, "lm_head", bias=False)
    g.output(logits, "logits", ["batch", config.seq, config.vocab])
    g.save(path)


def inputs(rng: np.random.Generator, *, small: bool = False, batch: int = 1) -> dict[str, np.ndarray]:
    """Random tokens of the fixed length."""
    config = _SMALL if small else _FULL
    return {"input_ids": token_ids(rng, batch, config.seq, config.vocab)}


def _mixer(g: Builder, x: Value, config: _Config) -> Value:
    """Gate, causal depthwise convolution, selective scan; [B, S, width] -> [B, S, width]."""
    inner, seq = config.inner, config.seq
    with g.scope("mixer"):
        projected = linear(g, x, config.width, 2 * inner, "in_proj", bias=False)
        projected = g.Transpose(projected, perm=[0, 2, 1])
        u, gate = g.split(projected, [inner, inner], axis=1)
        weight = g.weight(inner, 1, config.kernel, fan_in=config.kernel, gain=1.4, stem="conv1d")
        pad = config.kernel - 1
        u = g.Conv(
            u, weight, g.bias(inner, stem="conv1d.bias"),
            kernel_shape=[config.kernel], pads=[pad, pad], group=inner,
        )  # fmt: skip
        u = silu(g, g.Slice(u, [0], [seq], [2], [1]))
        y = _selective_scan(g, u, config) * silu(g, gate)
        return linear(g, g.Transpose(y, perm=[0, 2, 1]), inner, config.width, "out_proj", bias=False)


def _selective_scan(g: Builder, u: Value, config: _Config) -> Value:
    """h_t = exp(dt_t A) h_{t-1} + dt_t B_t u_t and y_t = C_t h_t + D u_t; [B, inner, S]."""
    inner, state, rank = config.inner, config.state, config.rank
    parameters = g.Transpose(u, perm=[0, 2, 1])
    parameters = linear(g, parameters, inner, rank + 2 * state, "x_proj", bias=False)
    step, b, c = g.split(parameters, [rank, state, state], axis=2)
    step = g.Softplus(g.Transpose(linear(g, step, rank, inner, "dt_proj"), perm=[0, 2, 1]))
    a_log = np.log(np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1)))
    a = -g.Exp(g.initializer(a_log, "A_log"))
    decay = g.Exp(g.Unsqueeze(a, g.const([0, 2])) * g.Unsqueeze(step, [3]))
    drive = g.Unsqueeze(step, [3]) * g.Unsqueeze(b, [1]) * g.Unsqueeze(u, [3])
    hidden: Value | None = None
    outputs: list[Value] = []
    for t in range(config.seq):
        kick = g.Gather(drive, g.const(t), axis=2)
        hidden = kick if hidden is None else g.Gather(decay, g.const(t), axis=2) * hidden + kick
        y = hidden @ g.Unsqueeze(g.Gather(c, g.const(t), axis=1), [2])
        outputs.append(y)
    return g.Concat(*outputs, axis=2) + u * g.gain(1, inner, 1, stem="D")


def main() -> None:
    """Write the model from the command line."""
    _cli.run(build, __doc__)


if __name__ == "__main__":
    main()
