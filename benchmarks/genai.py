"""A decoder of benchmarks/decode.py as a file that ONNX Runtime GenAI's builder would write, and runs of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from models import _genai
from models._llama import Config

if TYPE_CHECKING:
    from benchmarks.decode import Shape


def save_folder(torch: Any, module: Any, shape: Shape, folder: Path) -> None:
    """Write the model, and what its builder writes beside it, but for a tokenizer."""
    save(torch, module, shape, folder / "model.onnx")
    settings = _genai.settings(_config(shape), len(module.cos))
    (folder / "genai_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _config(shape: Shape) -> Config:
    return Config(shape.width, shape.layers, shape.heads, shape.groups, shape.hidden, shape.words)


def save(torch: Any, module: Any, shape: Shape, path: Path) -> None:
    """Write the model, and its weights beside it, one by one."""
    config = _config(shape)
    g = _genai.Given("decoder", opset=21, given=_parameters(torch, module, shape))
    tables = [_array(torch, turns[:, : shape.size // 2]) for turns in (module.cos, module.sin)]
    given = _genai.inputs(g, config, elem := tables[0].dtype)
    x, head = _genai.embed(g, given.ids, config, tied=shape.tied)
    _genai.decode(g, x, head, given, config, tables, elem)
    g.save_apart(path)


def _parameters(torch: Any, module: Any, shape: Shape) -> Mapping[str, np.ndarray]:
    """By the names in the file; matrices are [in, out] there."""
    matrices = {"lm_head": module.head.weight}
    vectors = {"model.norm": module.norm.weight}
    for i, layer in enumerate(module.layers):
        path = f"model.layers.{i}"
        vectors |= {f"{path}.input_layernorm": layer.before.weight}
        vectors |= {f"{path}.post_attention_layernorm": layer.behind.weight}
        packed = torch.cat([layer.q.weight, layer.k.weight, layer.v.weight])
        matrices |= {f"{path}.attn.qkv_proj": packed, f"{path}.attn.o_proj": layer.o.weight}
        mlp = {"gate": layer.gate, "up": layer.up, "down": layer.down}
        matrices |= {f"{path}.mlp.{name}_proj": linear.weight for name, linear in mlp.items()}
    if not shape.tied:
        vectors["model.embed_tokens"] = module.embedding.weight
    named = {**vectors, **{name: weight.T for name, weight in matrices.items()}}
    return {f"{name}.weight": _array(torch, tensor) for name, tensor in named.items()}


def _array(torch: Any, tensor: Any) -> np.ndarray:
    """The same memory; numpy has bf16 from elsewhere."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def by_onnxruntime(torch: Any, module: Any, shape: Shape, threads: int) -> Callable[[Any, Any], Any]:
    """The module's forward in ONNX Runtime, on the CPU; it writes the module's own cache, as past and as present."""
    with tempfile.TemporaryDirectory() as folder:
        save(torch, module, shape, path := Path(folder) / "model.onnx")
        step = step_of(torch, session(path, threads), module, shape)
    return lambda words, at: step(words.numpy(), int(at) + 1)


def session(path: Path, threads: int) -> Any:
    """ONNX Runtime's, on so many threads of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def step_of(torch: Any, session: Any, module: Any, shape: Shape) -> Callable[[np.ndarray, int], Any]:
    """One step of a file of the module: of words [batch, 1], with so many tokens in the cache then, its logits."""
    batch = len(module.layers[0].keys)
    binding, logits = session.io_binding(), torch.empty(batch, 1, shape.words)
    for i, layer in enumerate(module.layers):
        for what, cache in (("key", layer.keys), ("value", layer.values)):
            memory = "cpu", 0, _array(torch, cache).dtype, list(cache.shape), cache.data_ptr()
            binding.bind_input(_genai.CACHE.format(i, what), *memory)
            binding.bind_output(f"present.{i}.{what}", *memory)
    binding.bind_output("logits", "cpu", 0, np.float32, list(logits.shape), logits.data_ptr())

    def step(words: np.ndarray, total: int) -> Any:
        binding.bind_cpu_input("input_ids", words)
        binding.bind_cpu_input("attention_mask", np.ones((batch, total), np.int64))
        session.run_with_iobinding(binding)
        return logits[:, 0]

    return step
