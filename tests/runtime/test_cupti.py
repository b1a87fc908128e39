"""What CUPTI says of a run: records read as its headers have them, matched with launches, and refused where unknown."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from graphfuse import profiling
from graphfuse.cli.profile import Profiled
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import DeviceError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.peaks import Peaks
from graphfuse.runtime.cuda import bindings, cupti
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.cuda.cupti import CONCURRENT_KERNEL, CopyRecord, Cupti, KernelRecord
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.runtime.session import StepTime
from graphfuse.targets.driver import LaunchRecord
from tests.runtime.fake_cuda import FakeCuda
from tests.runtime.fake_cupti import KERNEL_BYTES, FakeCupti
from tests.runtime.gpu_sample import executable
from tests.runtime.sample import expected, inputs

PEAKS = Peaks(bytes_per_us=1e3, cached_per_us=1e4, cached=1 << 20, flops_per_us=1e5)


@pytest.fixture(params=KERNEL_BYTES)
def library(request):
    return FakeCupti(request.param)


@pytest.fixture
def traced(library, monkeypatch):
    """A model on the double of the driver, whose launches the double of CUPTI sees."""
    fake = FakeCuda()
    library.watch(fake)
    found = Cupti(library)
    monkeypatch.setattr(bindings, "opened", lambda: found)
    model = CompiledModel(executable(), device="cuda")
    model.__dict__["session"] = GpuSession(executable(), BindingsDriver(fake))
    return SimpleNamespace(library=library, fake=fake, model=model, session=model.session)


def test_fields_are_where_the_headers_have_them():
    """By `offsetof` in a C program, for CUpti_ActivityKernel8, 9 and 10 of CUDA 13.0, and CUpti_ActivityMemcpy6."""
    kernel = {
        "kind": 0, "registers": 6, "start": 16, "end": 24, "device": 40, "stream": 48, "grid": 52, "block": 64,
        "static_shared": 76, "dynamic_shared": 80, "local": 84, "correlation": 92, "name": 104,
    }  # fmt: skip
    assert {name: getattr(KernelRecord, name).offset for name in kernel} == kernel
    copy = {"kind": 0, "copy": 4, "nbytes": 8, "start": 16, "end": 24}
    assert {name: getattr(CopyRecord, name).offset for name in copy} == copy
    assert ctypes.sizeof(KernelRecord) <= min(KERNEL_BYTES.values())


def test_records_of_any_size_are_read_in_the_order_of_their_starts(library):
    with Cupti(library).tracing() as seen:
        library.copied(64)
        library.copied(64, kind=1)  # from the host
        library.clock += 5000
        library.ran("late", registers=255, shared=(0, 232448), local=16)
        library.clock -= 5000
        library.ran("early")
        assert seen() == [
            LaunchRecord("", 1050, 1250),
            LaunchRecord("early", 1800, 2000, 40, 1536, 0),
            LaunchRecord("late", 6550, 6750, 255, 232448, 16),
        ]
        assert seen() == []
        library.ran("again")
        assert [r.name for r in seen()] == ["again"]
    assert not library.enabled


def test_what_is_left_of_one_trace_is_not_in_the_next(library):
    found = Cupti(library)
    with found.tracing() as seen:
        library.ran("a")
    with found.tracing() as seen:
        assert seen() == []
        with pytest.raises(DeviceError, match="another thread measures"), found.tracing():
            pass
        library.ran("b")
        assert [r.name for r in seen()] == ["b"]


def test_buffers_are_used_again(library, monkeypatch):
    monkeypatch.setattr(cupti, "BUFFER_BYTES", 1024)
    monkeypatch.setattr(cupti, "MOST_BUFFERS", 8)
    found = Cupti(library)
    with found.tracing() as seen:
        for _ in range(5):
            for i in range(20):
                library.ran(f"k{i}")
            assert [r.name for r in seen()] == [f"k{i}" for i in range(20)]
        for _ in range(100):
            library.ran("k")
        with pytest.raises(DeviceError, match=r"CUPTI had no room for \d+ records"):
            seen()


def test_records_without_times_are_no_times(library):
    library.clock, library.begin, library.took = 0, 0, 0
    with Cupti(library).tracing() as seen:
        library.ran("k")
        with pytest.raises(DeviceError, match="CUPTI has no times of 'k'"):
            seen()


@pytest.mark.parametrize("version", [12, 17, 29, 120000, 130600, 140000])
def test_releases_that_nobody_looked_at_are_refused(version):
    with pytest.raises(DeviceError, match=f"CUPTI's version {version} has records that are not known here"):
        Cupti(FakeCupti(version))


@pytest.mark.parametrize(("result", "why"), [(39, "another profiler is at work"), (7, "cuptiActivityEnable gave 7")])
def test_refusals_of_the_library_have_a_reason(library, result, why):
    library.results["cuptiActivityEnable"] = result
    with pytest.raises(DeviceError, match=f"CUPTI cannot be used: {why}"), Cupti(library).tracing():
        pass


def test_a_run_is_seen_as_it_is_launched(traced):
    feed = inputs(3)
    with traced.session.tracing() as run:
        for _ in range(4):  # the last of them are graphs
            profile = run(feed)
            names = [r.name for _, r in profile.records]
            assert [s.kernel for s in profile.steps][:3] == [*names[:2], "copy_bytes"] and "" in names
            assert sum(s.ns for s in profile.steps) == 200 * len(names)
            np.testing.assert_allclose(profile.outputs["total"], expected(feed)["total"], rtol=1e-5)
    assert traced.fake.calls["cuGraphLaunch"] == 3


def test_launches_that_are_not_the_runs_own_are_refused(traced):
    with traced.session.tracing() as run:
        traced.library.enabled.clear()
        with pytest.raises(DeviceError, match=r"expected records of \d launches, found 0, or others"):
            run(inputs(3))


def test_a_profile_by_cupti_has_gaps_and_resources(traced, capsys):
    runs = profiling.measured(traced.model, inputs(3), rounds=4, seconds=5.0)
    count = len(runs.records[0])
    assert (runs.by, runs.why, runs.us.shape[0], len(runs.wall_us)) == ("CUPTI", "", 4, 4)
    assert runs.us.sum(1).tolist() == [0.2 * count] * 4
    assert runs.gaps_us == pytest.approx(0.05 * (count - 1)) and runs.overlapped_us == pytest.approx(0.0)
    assert runs.span_us == pytest.approx(0.25 * count - 0.05)
    begins = [e["ts"] for e in profiling.chrome_trace(runs)["traceEvents"]]
    assert begins == pytest.approx([0.25 * i for i in range(count)])
    kernels = profiling.by_kernel(traced.model, runs, {"n": 3}, PEAKS)
    by_name = {k.kernel: k.resources for k in kernels}
    assert by_name["add"] == profiling.Resources(40, 1536, 0) and by_name["copy_bytes"] is None
    Profiled(traced.model, runs, kernels, PEAKS).show("model", 10)
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[-3:] == ["registers", "shared", "local"] and "1.5 KiB" in out
    assert "launches were measured by CUPTI: " in out and " idle, " in out


def test_overlaps_are_no_gaps():
    records = [(0, LaunchRecord("a", 100, 300)), (1, LaunchRecord("b", 250, 400)), (2, LaunchRecord("c", 500, 600))]
    steps = [StepTime(name, "", 1, 0) for name in "abc"]
    runs = profiling.Runs(steps, np.array([[0.2, 0.15, 0.1]]), np.array([1.0]), "CUPTI", records=[records])
    assert (runs.span_us, runs.gaps_us, runs.overlapped_us) == pytest.approx((0.5, 0.1, 0.05))


def test_without_cupti_events_measure_and_say_why(traced, monkeypatch, capsys):
    traced.library.results["cuptiActivityEnable"] = 35
    runs = profiling.measured(traced.model, inputs(3), rounds=2, seconds=5.0)
    assert runs.by == "events" and "lets administrators measure only" in runs.why and not runs.records
    Profiled(traced.model, runs, profiling.by_kernel(traced.model, runs, {"n": 3}, PEAKS), PEAKS).show("model", 10)
    out = capsys.readouterr().out
    assert "launches were measured by events, each by itself: CUPTI cannot be used: the driver" in out
    with pytest.raises(DeviceError, match="the emulator has no times of its own"):
        EmulatedDriver().tracing()


def test_no_library(monkeypatch):
    monkeypatch.setattr(cupti, "_places", lambda: ["/nowhere/libcupti.so"])
    cupti.opened.cache_clear()
    with pytest.raises(DeviceError, match="there is no CUPTI"):
        cupti.opened()


def test_the_real_library_reads_such_buffers():
    """It goes over records without a GPU; their sizes are its own."""
    for place in cupti._places():
        try:
            library = ctypes.CDLL(place)
            break
        except OSError:
            continue
    else:
        pytest.skip("no CUPTI here")
    version = ctypes.c_uint32()
    assert library.cuptiGetVersion(ctypes.byref(version)) == 0
    fake = FakeCupti(version.value)
    if version.value not in KERNEL_BYTES:
        pytest.skip(f"no size of records for version {version.value}")
    fake.enabled.add(CONCURRENT_KERNEL)
    for name in ("one", "two", "three"):
        fake.ran(name)
    buffer = ctypes.create_string_buffer(b"".join(fake.records) + bytes(8))
    found = Cupti.__new__(Cupti)
    found._library = library
    records = list(found._records(ctypes.addressof(buffer), len(buffer) - 9))
    assert [r.name for r in records] == ["one", "two", "three"] and records[0].registers == 40
