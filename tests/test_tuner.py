"""Ways to make a kernel: all give the same, the fastest is written into the region and kept."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphfuse import tuner
from graphfuse.artifact import Array, Executable, TensorSpec, elem_dtype
from graphfuse.compiled_model import CompiledModel
from graphfuse.compiler import build_regions, stages
from graphfuse.dialects import control, graph
from graphfuse.dialects.ranges import ranges_of
from graphfuse.errors import DeviceError, UsageError
from graphfuse.fusion.regions.apart import apart
from graphfuse.ir.core import Builder, Func, Op, Params
from graphfuse.ir.types import F16, F32, Scalar, Tensor
from graphfuse.kernels.timing import Clock, Run, Timing
from graphfuse.knobs import Options, Tuning
from graphfuse.llvm.host import host_target
from graphfuse.symbolic import evaluate, sym
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from graphfuse.tuner import APART, Tuner, alone

SIZES = (40, 48, 136)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))


def layer(elem: Scalar = F32, rows: Any = SIZES[0]) -> Func:
    """max(x @ w + b, 0)."""
    _, k, n = SIZES
    params = Params((Tensor((rows, k), elem), Tensor((k, n), elem), Tensor((n,), elem)), ("x", "w", "b"))
    x, w, bias = params.values
    b = Builder()
    y = b(graph.add, b(graph.contract, x, w, spec="mk,kn->mn"), b(graph.broadcast, bias, shape=(rows, n)))
    y = b(graph.max_, y, b(graph.full, shape=(rows, n), value=0.0, elem=elem))
    b.append(control.return_(y))
    dims = () if isinstance(rows, int) else (("m", 1, 512),)
    return Func("main", b.block(params), {"inputs": ("x", "w", "b"), "outputs": ("y",), "promised": True}, dims)


def attention() -> Func:
    """softmax(q @ k.T) @ v of one head."""
    heads, rows, keys, depth = 1, 130, 70, 64
    shapes = [(heads, n, depth) for n in (rows, keys, keys)]
    params = Params(tuple(Tensor(s, F16) for s in shapes), ("q", "k", "v"))
    q, k, v = params.values
    b = Builder()
    scores = b(graph.contract, q, k, spec="hqd,hkd->hqk")
    high = b(graph.broadcast, b(graph.reduce, scores, kind="max", axes=(2,), keepdims=True), shape=(heads, rows, keys))
    e = b(graph.exp, b(graph.sub, scores, high))
    total = b(graph.broadcast, b(graph.reduce, e, kind="sum", axes=(2,), keepdims=True), shape=(heads, rows, keys))
    b.append(control.return_(b(graph.contract, b(graph.div, e, total), v, spec="hqk,hkd->hqd")))
    return Func("main", b.block(params), {"inputs": ("q", "k", "v"), "outputs": ("y",), "promised": True}, ())


def region_of(func: Func, target: Target) -> Op:
    (region,) = [op for op in stages(func, target, Options()).regions.walk() if op.kind is graph.region]
    return region


def numbers(executable: Executable, symbols: Mapping[str, int]) -> dict[str, Array]:
    random = np.random.default_rng(0)

    def drawn(spec: TensorSpec) -> Array:
        return (random.standard_normal([evaluate(d, symbols) for d in spec.shape]) / 4).astype(elem_dtype(spec.elem))

    return {spec.name: drawn(spec) for spec in executable.signature.inputs}


def results(func: Func, target: Target, device: str = "") -> Array:
    """What a graph of regions gives for the same numbers each time."""
    executable = build_regions(func, target, Options())
    (found,) = CompiledModel(executable, device=device)(numbers(executable, {"m": SIZES[0]})).values()
    return np.asarray(found, np.float64)


def test_every_way_on_a_processor_gives_the_same() -> None:
    region = region_of(layer(), host_target())
    ways = backend_of(host_target()).schedules(region, {})
    assert len(ways) > 3
    expected = results(alone(region, "", {}), host_target())
    for way in ways:
        np.testing.assert_allclose(results(alone(region, way, {}), host_target()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("made", [layer(F16), attention()], ids=["layer", "attention"])
def test_ways_on_a_gpu_give_the_same(made: Func, arch: str) -> None:
    target = Target.parse(f"cuda:{arch}")
    region = region_of(made, target)
    ways = backend_of(target).schedules(region, {})
    if arch == "sm_80" and region.attrs["kind"] == "attention":
        assert not ways, "one schedule"
        return
    first, *others = ways
    expected = results(alone(region, first, {}), target, "emulator")
    for way in others[:: 1 if len(others) < 8 else len(others) // 5]:
        np.testing.assert_allclose(results(alone(region, way, {}), target, "emulator"), expected, atol=2e-3)


def test_a_way_that_is_unknown_is_the_one_taken_unasked() -> None:
    region = region_of(layer(), host_target())
    texts = [build_regions(alone(region, way, {}), host_target(), Options()).ir["block"] for way in ("", "9x9 k=3")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("target", [host_target(), Target.parse("cuda:sm_90a")], ids=str)
def test_a_product_and_what_is_done_with_it_are_two_kernels(target: Target) -> None:
    region = region_of(layer(F16 if target.is_gpu else F32), target)
    two = apart(region, backend_of(target).rules({}, {}))
    assert two is not None
    regions = [op for op in two.ops if op.kind is graph.region]
    assert [str(op.attrs["kind"]) for op in regions] == ["contraction", "pointwise"]
    assert apart(regions[0], backend_of(target).rules({}, {})) is None, "a product alone stays"
    whole = alone(region, "", {})
    device = "emulator" if target.is_gpu else ""
    found = results(Func("main", two, whole.attrs, whole.dims), target, device)
    np.testing.assert_allclose(found, results(whole, target, device), atol=4e-3 if target.is_gpu else 1e-5)


# what is fastest


class Told(Clock):
    """Takes as long as it is told, for one that runs."""

    def __init__(self, times: Mapping[Run, float]) -> None:
        self.times = times

    def us(self, run: Run, warm: float, seconds: float) -> float:
        del warm, seconds
        run()
        return self.times[run]


class Known:
    """A machine of which it is known how long kernels take; results are those of the first way, or wrong."""

    name, timing = "told", Timing(0.0, (0.0, 0.0), (0.0, 0.0), 1)

    def __init__(self, fastest: str, wrong: str = "", us: float = 1.0) -> None:
        self.fastest, self.wrong, self.us, self.asked = fastest, wrong, us, 0
        self.clock = Told(times := {})
        self.times, self.last = times, ""

    @contextmanager
    def bench(self, inputs: Sequence[Array], results: Sequence[Array]) -> Generator[Known]:
        self.asked += 1
        assert [x.shape for x in inputs] == [(SIZES[0], SIZES[1]), SIZES[1:], SIZES[2:]][: len(inputs)]
        assert [x.shape for x in results] == [(SIZES[0], SIZES[2])]
        yield self

    def run_of(self, executable: Executable, symbols: Mapping[str, int]) -> Run:
        del symbols
        kernels = len(executable.kernels)
        way = APART if kernels > 2 else executable.ir["regions"].partition('schedule = "')[2].partition('"')[0]

        def run() -> None:
            self.last = way

        self.times[run] = self.us if way == self.fastest else 10.0
        return run

    def results(self) -> list[Array]:
        return [np.full(3, 2.0 if self.last == self.wrong else 1.0, np.float32)]


def tuner_on(machine: Any) -> Tuner:
    made = Tuner(host_target(), Options(), Tuning())
    made._machine = machine
    return made


def schedules(regions: Func) -> list[str]:
    return [str(op.attrs.get("schedule", "")) for op in regions.walk() if op.kind is graph.region]


def test_the_fastest_way_is_written_into_the_region_and_kept() -> None:
    regions = stages(layer(), host_target(), Options()).regions
    ways = backend_of(host_target()).schedules(region_of(layer(), host_target()), {})
    machine = Known(ways[2])
    tuned, found = tuner_on(machine).tuned(regions)
    assert schedules(tuned) == [ways[2]]
    (decision,) = found
    tried = len(ways[: tuner.MOST]) + 1
    assert decision.reason == f"{ways[2]}: 1.00 us, of {tried} ways; unasked {ways[0]}: 10.00 us"
    again, found = tuner_on(machine).tuned(regions)
    assert schedules(again) == [ways[2]]
    assert found[0].reason == f"{ways[2]} (kept)"
    assert machine.asked == 1, "what is kept is not timed"
    other = Known(ways[1])
    other.name = "another machine"
    assert schedules(tuner_on(other).tuned(regions)[0]) == [ways[1]]


def test_what_is_about_as_fast_stays_as_it_is_made_unasked() -> None:
    regions = stages(layer(), host_target(), Options()).regions
    ways = backend_of(host_target()).schedules(region_of(layer(), host_target()), {})
    assert schedules(tuner_on(Known(ways[2], us=9.9)).tuned(regions)[0]) == [ways[0]]


def test_a_way_that_gives_other_results_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    regions = stages(layer(), host_target(), Options()).regions
    ways = backend_of(host_target()).schedules(region_of(layer(), host_target()), {})
    with caplog.at_level(logging.WARNING, "graphfuse.tuner"):
        tuned, _ = tuner_on(Known(ways[1], wrong=ways[1])).tuned(regions)
    assert schedules(tuned) == [ways[0]]
    assert f"contraction_0: {ways[1]} gives other results, and is left out: please report it" in caplog.text


def test_two_kernels_where_they_are_faster() -> None:
    regions = stages(layer(), host_target(), Options()).regions
    machine = Known(APART)
    tuned, found = tuner_on(machine).tuned(regions)
    kernels = [str(op.attrs["kernel"]) for op in tuned.walk() if op.kind is graph.region]
    assert kernels == ["contraction_0_0", "contraction_0_1"]
    assert [d.consumer for d in found] == ["contraction_0", "contraction_0_0"], "the product alone is tuned too"
    whole = alone(region_of(layer(), host_target()), "", {})
    func = Func("main", tuned.body, whole.attrs, ())
    np.testing.assert_allclose(results(func, host_target()), results(whole, host_target()), atol=1e-5)


def test_dims_that_vary_are_timed_at_typical_sizes() -> None:
    regions = stages(layer(rows=sym("m")), host_target(), Options()).regions
    tuned, _ = Tuner(host_target(), Options(), Tuning("cpu", 1)).tuned(regions)
    whole = alone(region_of(layer(), host_target()), "", {})
    found = results(Func("main", tuned.body, whole.attrs, regions.dims), host_target())
    np.testing.assert_allclose(found, results(whole, host_target()), atol=1e-5)
    assert ranges_of(regions) == {"m": (1, 512)}


def test_results_agree_but_for_roundings() -> None:
    x = np.linspace(-3, 3, 50, dtype=np.float16)
    assert tuner._agree(x, x + np.float16(0.05))
    assert not tuner._agree(x, x + np.float16(0.5))
    gone = np.where(x > 2, np.float16(np.nan), x)
    assert tuner._agree(gone, gone)
    assert not tuner._agree(x, gone)
    assert not tuner._agree(np.arange(3), np.arange(1, 4))


def test_other_machines_cannot_be_tuned_for() -> None:
    with pytest.raises(UsageError, match=r"tuning: expected cpu:.*, which this machine is, found cpu:x86-64-v2"):
        Tuner(Target.parse("cpu:x86-64-v2"), Options(), Tuning())
    with pytest.raises(UsageError, match=r"tuning: expected cuda:sm_90a, which emulator runs best, found cuda:sm_80"):
        Tuner(Target.parse("cuda:sm_80"), Options(), Tuning("emulator"))


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(DeviceError):
        Tuner(Target.parse("cuda:sm_90a"), Options(), Tuning("cuda:63"))


def test_arrays_on_a_gpu_are_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.parse("cuda:sm_90a")
    region = region_of(layer(F16), target)
    monkeypatch.setattr(tuner.GpuClock, "us", lambda self, run, warm, seconds: run() or 1.0)
    made = Tuner(target, Options(), Tuning("emulator"))
    ways = backend_of(target).schedules(region, {})[:2]
    compiled = {way: build_regions(alone(region, way, {}), target, Options()) for way in ways}
    assert set(made._times("layer", compiled, {})) == set(ways), "both ran, and agree"
