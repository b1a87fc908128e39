"""Memory of large outputs: another call's once nobody refers to it, and nobody's sooner."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graphfuse
from graphfuse.runtime import lent
from models._builder import Builder


@pytest.fixture(scope="module")
def model() -> graphfuse.CompiledModel:
    g = Builder("wide", opset=18, seed=0)
    x = g.input("x", ["rows", 1])
    g.output(g.Add(x, g.initializer(np.arange(1 << 20, dtype=np.float32)[None], "w")), "y", ["rows", 1 << 20])
    return graphfuse.compile(g.model(), dims={"rows": (1, 64)})


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    gc.collect()
    lent._kept.clear()


def called(model: graphfuse.CompiledModel, value: float, rows: int = 8) -> np.ndarray:
    return model(x=np.full((rows, 1), value, np.float32))["y"]


def test_memory_comes_back(model: graphfuse.CompiledModel) -> None:
    first = called(model, 1.0)
    place = first.ctypes.data
    del first
    second = called(model, 2.0)
    assert second.ctypes.data == place
    assert (second[3] == np.arange(1 << 20) + 2).all()


def test_what_is_referred_to_stays(model: graphfuse.CompiledModel) -> None:
    """A view, a view of that, and another library's, of any part."""
    first = called(model, 1.0)
    views = [first[2:3].reshape(-1)[::2], memoryview(first)[5:6], np.from_dlpack(first)[7]]
    place = first.ctypes.data
    del first
    while views:
        other = called(model, 5.0)
        assert other.ctypes.data != place
        assert np.asarray(views[0]).ravel()[1] == (3 if len(views) == 3 else 2)
        del other
        views.pop(0)
    gc.collect()
    places = [called(model, 1.0) for _ in range(4)]
    assert place in {x.ctypes.data for x in places}


def test_sizes_do_not_mix(model: graphfuse.CompiledModel) -> None:
    for rows in (8, 16, 8, 32, 5):
        assert called(model, 1.0, rows).shape == (rows, 1 << 20)
    assert {b.nbytes >> 22 for b in lent._kept.values()} <= {5, 8, 16, 32}
    assert sum(b.nbytes for b in lent._kept.values()) <= lent.MOST_BYTES
    called(model, 1.0, rows=64)
    assert {b.nbytes >> 22 for b in lent._kept.values()} == {64}


def test_callers_share_nothing(model: graphfuse.CompiledModel) -> None:
    def calls(value: int) -> bool:
        return all((called(model, float(value))[:, 7] == value + 7).all() for _ in range(6))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(8)))


def test_arrays_are_as_any_others(model: graphfuse.CompiledModel) -> None:
    y = called(model, 1.0)
    assert y.flags.writeable
    assert y.flags.aligned
    assert y.flags.c_contiguous
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y[:1])), y[:1])


def test_more_than_is_kept(model: graphfuse.CompiledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent, "MOST_BYTES", 64 << 20)
    called(model, 1.0, rows=20)
    assert not lent._kept
    two = [called(model, float(i), rows=10) for i in range(2)]
    two.clear()
    assert len(lent._kept) == 1


def test_the_end_of_a_process_is_quiet() -> None:
    code = "from graphfuse.runtime.lent import lent_bytes as f; x = f(1 << 25); y = f(1 << 26); del y"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_small_outputs_are_the_allocator_s(model: graphfuse.CompiledModel) -> None:
    called(model, 1.0, rows=2)
    assert not lent._kept
