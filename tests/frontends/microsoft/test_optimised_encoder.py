"""An encoder after `onnxruntime.transformers.optimizer`: the fused operators that it writes, and their numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphfuse

WIDTH, HEADS, WORDS = 64, 4, 100
NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def encoder():
    """BERT as its exporters trace it, with weights of a spread that shows every layer."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
            self.first, self.second = nn.LayerNorm(WIDTH, 1e-12), nn.LayerNorm(WIDTH, 1e-12)

        def heads(self, x):
            return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

        def forward(self, x, mask):
            q, k, v = (self.heads(f(x)) for f in (self.query, self.key, self.value))
            weights = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS) + mask
            mixed = torch.matmul(nn.functional.softmax(weights, -1), v).permute(0, 2, 1, 3).contiguous()
            x = self.first(self.out(mixed.view((*mixed.size()[:-2], WIDTH))) + x)
            return self.second(self.down(nn.functional.gelu(self.up(x))) + x)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.segments = (nn.Embedding(n, WIDTH) for n in (WORDS, 40, 2))
            self.norm, self.layers = nn.LayerNorm(WIDTH, 1e-12), nn.ModuleList(Layer() for _ in range(2))
            self.register_buffer("positions", torch.arange(40).expand((1, -1)))

        def forward(self, input_ids, attention_mask, token_type_ids):
            mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
            x = self.words(input_ids) + self.segments(token_type_ids)
            x = self.norm(x + self.places(self.positions[:, : input_ids.size(1)]))
            for layer in self.layers:
                x = layer(x, mask)
            return x

    torch.manual_seed(0)
    module = Encoder().eval()
    for p in module.parameters():
        torch.nn.init.normal_(p, 0 if p.dim() > 1 else 1, p.shape[-1] ** -0.5)
    return module


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    torch = pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("encoder") / "plain.onnx"
    words = torch.randint(0, WORDS, (2, 16))
    torch.onnx.export(
        encoder(),
        (words, torch.ones_like(words), torch.zeros_like(words)),
        path,
        input_names=NAMES,
        output_names=["last"],
        dynamic_axes={n: {0: "batch", 1: "steps"} for n in NAMES},
        opset_version=14,
        dynamo=False,
    )
    return path


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("halves", "error"), [(False, 2e-5), (True, 2e-2)])
@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_encoder(exported, tmp_path, halves, error, device):
    runtime = pytest.importorskip("onnxruntime")
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    better = optimizer.optimize_model(str(exported), "bert", num_heads=HEADS, hidden_size=WIDTH, opt_level=0)
    if halves:
        better.convert_float_to_float16(keep_io_types=True)
    path = tmp_path / "optimised.onnx"
    better.save_model_to_file(str(path))
    graph = onnx.load(path).graph
    written = {n.op_type for n in graph.node if n.domain == "com.microsoft"}
    assert written == {"EmbedLayerNormalization", "Attention", "SkipLayerNormalization", "BiasGelu"}
    dtype = np.int32 if graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT32 else np.int64
    compiled, plain = graphfuse.compile(path, device=device), runtime.InferenceSession(exported)
    for batch, steps in ((2, 16), (1, 1), (3, 33)):
        words = np.random.default_rng(steps).integers(0, WORDS, (batch, steps))
        mask = np.ones_like(words)
        mask[-1, (steps + 1) // 2 :] = 0
        fed = dict(zip(NAMES, (words, mask, words % 2), strict=True))
        (want,) = plain.run(None, fed)
        got = compiled({n: a.astype(dtype) for n, a in fed.items()})["last"]
        np.testing.assert_allclose(got[mask == 1], want[mask == 1], rtol=error, atol=error)
