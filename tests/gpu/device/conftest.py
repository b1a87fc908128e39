"""These tests run on an NVIDIA GPU, `python -m pytest -m gpu tests/gpu/device`, and are skipped where there is none.

Those that ask for `device`, and not for a driver, also run with `--gpu emulator`: a test of the tests without a GPU.
"""

from __future__ import annotations

import pytest

from graphfuse.errors import DeviceError
from graphfuse.runtime.cuda.bindings import open_driver
from graphfuse.runtime.gpu.context import context_of


@pytest.fixture(scope="session")
def context():
    """The first GPU."""
    try:
        return context_of(open_driver(), 0)
    except DeviceError as e:
        pytest.skip(e.message)


@pytest.fixture(scope="session")
def device(request):
    """Where hand-written kernels run."""
    name = request.config.getoption("--gpu")
    if name == "cuda":
        request.getfixturevalue("context")
    return name


@pytest.fixture(scope="session")
def torch():
    """torch, if it has CUDA."""
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return found


@pytest.fixture(scope="session")
def where(request, device):
    """The same for torch, whose tensors the emulator takes from the host."""
    if device == "cuda":
        request.getfixturevalue("torch")
        return "cuda"
    pytest.importorskip("torch")
    return "cpu"


@pytest.fixture
def driver(context):
    return context.driver


@pytest.fixture
def target(context):
    """What to compile for."""
    return f"cuda:{context.info.best_target}"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")
