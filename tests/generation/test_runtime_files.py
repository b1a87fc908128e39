"""Files whose weights ONNX Runtime's own tool has quantised, with a shared cache: 128 tokens beside ONNX Runtime's."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest

from graphfuse import generation
from tests.generation.decoders import logits_of, shared

STEPS, TIE = 128, 1e-4
PROMPTS = [[5, 17, 3, 40, 8, 2, 11], [9]]


def quantised(bits: int, *, symmetric: bool) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=symmetric, bits=bits)
        quantizer = MatMulNBitsQuantizer(shared(), algo_config=config)
        quantizer.process()
    return quantizer.model.model


@pytest.mark.some(1)
@pytest.mark.parametrize(("bits", "symmetric"), [(4, True), (4, False), (8, True)])
def test_the_tokens_are_onnx_runtime_s(bits: int, symmetric: bool, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = quantised(bits, symmetric=symmetric)
    assert sum(n.op_type == "MatMulNBits" for n in model.graph.node) > 10
    onnx.save(model, tmp_path / "model.onnx")
    run = logits_of(onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))
    generator = generation.load(tmp_path / "model.onnx", context_length=160)
    for prompt, found in zip(PROMPTS, generator.generate(PROMPTS, max_new_tokens=STEPS), strict=True):
        assert len(found.tokens) == STEPS
        logits = run(prompt + list(found.tokens))[len(prompt) - 1 : -1]
        assert (logits.max(1) - logits[np.arange(STEPS), found.tokens]).max() < TIE
        assert len(set(found.tokens)) > 4
