"""These tests run on an NVIDIA GPU, `python -m pytest -m gpu tests/gpu/device`, and are skipped where there is none."""

from __future__ import annotations

import pytest

from graphfuse.errors import DeviceError
from graphfuse.runtime.cuda.bindings import open_driver
from graphfuse.runtime.cuda.context import context_of


@pytest.fixture(scope="session")
def context():
    """The first GPU."""
    try:
        return context_of(open_driver(), 0)
    except DeviceError as e:
        pytest.skip(e.message)


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
