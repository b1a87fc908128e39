"""The models graphfuse must compile, small and at several dims, imported and interpreted against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import models
from graphfuse.frontends.onnx import import_model
from graphfuse.ir.verifier import verify
from tests.frontends.support import outputs_of, rng

# built without an exporter; the rest need torch and are part of the full run
DIRECT = {
    "bert_base", "bilstm", "digits", "dlrm", "gpt2", "llama_decode", "mamba", "resnet50", "swin_tiny", "unet",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in DIRECT else pytest.mark.full)
        for name in models.names()
        if not name.startswith("light_")
    ],
)
def test_model(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if packages := models.lacking(name):
        pytest.skip(f"building {name} needs {packages}")
    model, path = models.get(name), models.cached(name, small=True)
    func = import_model(path, dims=model.DIMS)
    verify(func)
    session = onnxruntime.InferenceSession(str(path))
    for dims in model.TEST_DIMS[:2]:
        fed = model.inputs(rng(), small=True, **dims)
        want = session.run([str(n) for n in func.attrs["outputs"]], fed)  # type: ignore[union-attr]
        for g, w in zip(outputs_of(func, fed), want, strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape)
            assert float(np.abs(g - w).max()) <= 1e-4 * float(w.std()) if g.dtype.kind == "f" else (g == w).all()


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in models.names() if name.startswith("light_")])
def test_light_model_imports(name: str) -> None:
    verify(import_model(models.cached(name, small=True)))
