"""Configurations, what is kept of tuning, and arrays that tuning leaves as they were."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphfuse
from graphfuse.dialects.block import SCHEDULES
from graphfuse.errors import FileError, UsageError
from graphfuse.frontends.tc import SourceError
from graphfuse.kernels.configs import Config, Space
from graphfuse.kernels.tuned import Key, Record, parse_config
from graphfuse.kernels.tuner import TunedKernel
from tests.kernels.places import HOST, Place

ADD = """
__global__ void add(float *x __readonly, float *y, int n) {
  int o[SIZE] = get_program_id(0) * SIZE + 0 ... SIZE;
  bool inside[SIZE] = o < n;
  float *py[SIZE] = y + o;
  *?(inside) py = *?(inside)(x + o) + *?(inside) py;
}
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))


@pytest.fixture
def device() -> str:
    """Where kernels run."""
    return ""


@pytest.fixture
def place() -> Place:
    """Where arrays are."""
    return HOST


def tuned(device: str = "", **macros: Any) -> TunedKernel:
    made = graphfuse.kernel(ADD, device=device, **{"SIZE": [16, 64], **macros})
    assert isinstance(made, TunedKernel)
    return made


def test_points_are_a_product_under_requirements() -> None:
    defines = {"TM": ("32", "64"), "TN": ("32", "64"), "T": ("half",)}
    space = Space(defines, (4, 8), (2,), ("TM*TN <= 2048", "num_warps*TM>=256"))
    assert [str(p) for p in space.points()] == [
        "TM=32 TN=32 T=half num_warps=8 num_stages=2",
        "TM=32 TN=64 T=half num_warps=8 num_stages=2",
        "TM=64 TN=32 T=half num_warps=4 num_stages=2",
        "TM=64 TN=32 T=half num_warps=8 num_stages=2",
    ]
    assert len(space) == 8
    assert space.varying == ("TM", "TN")


@pytest.mark.parametrize(
    ("expr", "message"),
    [("TM <", "expected"), ("TK > 1", "'TK' has no value here"), ("", "expected an expression, found nothing")],
)
def test_requirements_that_mean_nothing(expr: str, message: str) -> None:
    with pytest.raises(UsageError, match="require") as caught:
        list(Space({"TM": ("1",)}, require=(expr,)).points())
    assert message in str(caught.value)


def test_no_point_is_left() -> None:
    with pytest.raises(UsageError, match="no configuration satisfies 'SIZE > 100'"):
        tuned(require="SIZE > 100")


def test_how_programs_run_is_tuned_too() -> None:
    space = Space({"TM": ("64",)}, (4,), (2,), ("num_ctas == 1 || schedule == pingpong",), (1, 2), SCHEDULES[:2])
    assert len(space) == 4
    assert [str(p) for p in space.points()] == [
        "TM=64 num_warps=4 num_stages=2",
        "TM=64 num_warps=4 num_stages=2 schedule=pingpong",
        "TM=64 num_warps=4 num_stages=2 num_ctas=2 schedule=pingpong",
    ]
    made = tuned(SIZE=16, num_ctas=[1, 2], schedule="pingpong")
    assert [k.func.attrs["ctas"] for k in map(made.variant, made.space.points())] == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "round robin"}, "schedule: expected one of cooperative, pingpong, stream, got 'round robin'"),
        ({"num_ctas": 3}, "num_ctas: expected at most 2, got 3"),
    ],
)
def test_options_that_there_are_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        graphfuse.kernel(ADD, SIZE=16, **options)
    with pytest.raises(UsageError, match=re.escape(message)):
        tuned(**options).variant(Config({"SIZE": "16"}, **options))


@pytest.mark.parametrize(
    "text",
    [
        "TM=64 num_warps=4 num_stages=3",
        "S=newaxis, : T=half num_warps=8 num_stages=1",
        "TM=64 num_warps=4 num_stages=3 num_ctas=2 schedule=pingpong",
    ],
)
def test_configurations_as_text(text: str) -> None:
    assert str(parse_config(text)) == text


SCALE = """
#if SIZE == 16
#define REAL double
#else
#define REAL float
#endif
__global__ void scale(float *x, REAL s, int n __multipleof(SIZE)) {
  float *px[SIZE] = x + get_program_id(0) * SIZE + 0 ... SIZE;
  float f = s;
  *px = n > 0 ? *px * f : 0;
}
"""


def test_promises_and_types_may_depend_on_macros() -> None:
    """The first configuration cannot be launched; what was bound for it has another number of another type."""
    x = np.arange(48, dtype=np.float32)
    k = graphfuse.kernel(SCALE, SIZE=[64, 16])
    for _ in range(2):
        k[lambda m: 48 // m.SIZE](x, 2.5, 48)
    np.testing.assert_array_equal(x, np.arange(48) * 6.25)
    assert isinstance(k, TunedKernel)
    assert "expected a number that is a multiple of 64, found 48" in k.table[-1].why


def test_arrays_are_as_they_were(device: str, place: Place) -> None:
    x, y = place.put(np.ones(100, np.float32)), place.put(np.arange(100, dtype=np.float32))
    k = tuned(device)
    rows = k.tune(lambda m: -(-100 // m.SIZE), (x, y, 100))
    assert len(rows) == 2
    assert all(r.us and r.us > 0 for r in rows)
    np.testing.assert_array_equal(place.get(y), np.arange(100))
    k[lambda m: -(-100 // m.SIZE)](x, y, 100)
    np.testing.assert_array_equal(place.get(y), np.arange(100) + 1)


def test_what_was_chosen_is_kept(device: str, place: Place, tmp_path: Path) -> None:
    x, y = (place.put(a) for a in (np.ones(100, np.float32), np.zeros(100, np.float32)))
    grid = lambda m: -(-100 // m.SIZE)  # noqa: E731
    first = tuned(device)
    first[grid](x, y, 100)
    again = tuned(device)
    again[grid](x, y, 100)
    assert first.table
    assert not again.table, "the choice came from the record"
    again[grid](x, y, 30)
    assert again.table, "sizes of another magnitude are tuned for"
    lock = tmp_path / "graphfuse.lock"
    assert again.export(lock) == 2
    entries = json.loads(lock.read_text())["kernels"]["add"]["entries"]
    assert {e["key"]["n"] for e in entries} == {32, 128}
    locked = TunedKernel(ADD, "<string>", None, again.space, device=device, record=Record(lock))
    locked[grid](x, y, 100)
    assert not locked.table


def test_sizes_marked_for_tuning_count_exactly() -> None:
    k = graphfuse.kernel(ADD.replace("int n", "int n __retune"), SIZE=[16, 64])
    assert isinstance(k, TunedKernel)
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    for n in (100, 101):
        k.table = []
        k[lambda m: -(-128 // m.SIZE)](x, y, n)
        assert k.table


def test_what_cannot_be_compiled_is_left_out() -> None:
    k = tuned(SIZE=[16, 0])
    rows = k.tune(lambda m: 7, (np.ones(100, np.float32), np.zeros(100, np.float32), 100))
    assert [bool(r.why) for r in rows] == [False, True]
    with pytest.raises(SourceError, match="expected a positive number, found 0"):
        tuned(SIZE=[0, -1]).tune(1, (np.ones(1, np.float32), np.zeros(1, np.float32), 1))


def test_a_damaged_record(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text('{"version": 1}')
    with pytest.raises(FileError, match="not a file of tuned kernels"):
        Record(path).get(Key("k", "s", "d", ()))
    path.write_text('{"version": 7, "kernels": {}}')
    with pytest.raises(FileError, match="expected version 1, found 7"):
        Record(path).put(Key("k", "s", "d", ()), Config(), 1.0)
