"""Every model under `--precision` against ONNX Runtime in f32, at all its shapes."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
import models
from models import _compare

pytest.importorskip("onnxruntime")

BOUNDS = {"f16": 2e-2, "bf16": 1e-1}
"""Largest difference, in standard deviations of the output. Half of it, and less, is what most models show."""
OWN_BOUNDS = {("wav2vec2", "bf16"): 2e-1}
"""Seven convolutions over raw samples: rounding the weights to bf16, and nothing else, moves its output by 0.034."""
QUICK = {
    ("bilstm", "bf16"), ("digits", "f16"), ("dlrm", "f16"), ("llama_decode", "f16"), ("mamba", "f16"),
    ("mobilenet_v3", "bf16"), ("tinygpt", "f16"), ("unet", "bf16"), ("vit_tiny", "f16"),
}  # fmt: skip
"""Recurrences, convolutions, tables, a cache, scans, depthwise and transposed convolutions, attention of both kinds."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


@pytest.mark.parametrize(
    ("name", "precision"),
    [pytest.param(n, p, marks=() if (n, p) in QUICK else pytest.mark.full) for n in models.names() for p in BOUNDS],
)
def test_halves_stay_near_f32(name, precision):
    if packages := models.lacking(name):
        pytest.skip(f"building {name} needs {packages}")
    model, path = models.get(name), models.cached(name, small=True)
    compiled = graphfuse.compile(path, dims=model.DIMS, precision=precision)
    reference = _compare.onnxruntime_of(path)
    for seed, dims in enumerate(_compare.shapes(model)):
        feeds = model.inputs(np.random.default_rng(seed), small=True, **dims)
        distance = _compare.distance(reference(feeds), compiled(feeds))
        print(f"{name} {precision} {dims}: {distance:.1e}")  # noqa: T201  # shown by `-rP`
        assert 1e-6 < distance <= OWN_BOUNDS.get((name, precision), BOUNDS[precision]), dims
