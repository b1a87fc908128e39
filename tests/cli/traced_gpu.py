"""A GPU that computes nothing, and of whose launches the double of CUPTI has times: for pages of profiles."""

from __future__ import annotations

from graphfuse import peaks
from graphfuse.cli import main
from graphfuse.peaks import Peaks
from graphfuse.runtime import gfx
from graphfuse.runtime.cuda import bindings
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.cuda.cupti import Cupti
from models import bert_base
from tests.runtime.fake_cuda import FakeCuda
from tests.runtime.fake_cupti import FakeCupti

PEAKS = Peaks(bytes_per_us=1e3, cached_per_us=1e4, cached=1 << 10, flops_per_us=1e8)
DIMS = {"batch": 2, "seq": 64}
SLOWEST = "reduction_2"
"""Of the kernels of `traced_bert`; others move more."""


def traced_bert(tmp_path, monkeypatch):
    """An artifact of a BERT, and the library that has seen its kernels: each takes something else, in ns."""
    bert_base.build(tmp_path / "bert.onnx", small=True)
    artifact = tmp_path / "bert.gfx"
    assert main(["compile", str(tmp_path / "bert.onnx"), "--target", "cuda:sm_90a", "-o", str(artifact)]) == 0
    fake, library = FakeCuda(), FakeCupti()
    driver = fake.driver
    driver.launch = lambda call, stream: driver._do(stream, lambda: driver.reports.append((call.name, None)))
    library.watch(fake)
    names = [k.name for k in gfx.load(artifact).kernels if k.launch is not None]
    library.known = {name: {"took": 1000 * (i + 1), "registers": 32 + i} for i, name in enumerate(names)}
    library.known[SLOWEST] = {"took": 450_000, "registers": 168, "local": 64, "shared": (2048, 1024)}
    found = Cupti(library)
    monkeypatch.setattr(bindings, "opened", lambda: found)
    monkeypatch.setattr(bindings, "open_driver", lambda arch="": BindingsDriver(fake))
    monkeypatch.setattr(peaks, "peaks_of", lambda device, threads: PEAKS)
    return artifact, library


def traced_page(artifact, tmp_path):
    """What `graphfuse inspect` makes of its profile."""
    page = tmp_path / "page.html"
    dims = [word for name, size in DIMS.items() for word in ("--dim", f"{name}={size}")]
    assert main(["inspect", str(artifact), "--profile", "--device", "cuda", "--html", str(page), *dims]) == 0
    return page.read_text()
