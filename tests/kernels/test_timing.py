"""Rounds of tuning, on machines that change their speed; and what launches again and again."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

import graphfuse
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.timing import CACHE_BYTES, MOST_CLOSE, ON_GPU, GpuClock, Timing, close, race, rotated


class Machine:
    """A GPU that is slower the warmer it is, and warm after 0.3 s; a kernel is (microseconds when cold, watts)."""

    def __init__(self, kernels, drift=0.0):
        self.kernels, self.drift = kernels, drift
        self.now = self.heat = 0.0
        self.running = None

    def run_of(self, name):
        def run():
            self.running = self.kernels[name]

        return run

    def us(self, run, warm, seconds):
        run()
        us, watts = self.running
        self.now += warm
        self.heat += (watts - self.heat) * min(1.0, (warm + seconds) / 0.3)
        slower = max(1.0, self.heat / 700) * (1 + self.drift * self.now)
        self.now += seconds
        return us * slower


def raced(machine, timing):
    return race({name: machine.run_of(name) for name in machine.kernels}, machine, timing)


def test_what_takes_less_energy_wins_under_load():
    machine = Machine({"hungry": (100.0, 900.0), "frugal": (106.0, 750.0)})
    short = {name: machine.us(machine.run_of(name), *ON_GPU.short) for name in machine.kernels}
    assert min(short, key=short.__getitem__) == "hungry"
    assert close(short) == ["hungry", "frugal"]
    long = raced(machine, ON_GPU)
    assert min(long, key=long.__getitem__) == "frugal"


def test_drift_meets_everybody_alike():
    kernels = {"a": (101.0, 0.0), "b": (102.0, 0.0), "c": (100.0, 0.0)}
    once = raced(Machine(kernels, drift=0.02), Timing(0.0, (0.0, 0.0), (0.0, 0.5), 1))
    assert min(once, key=once.__getitem__) == "a", "who is first is lucky"
    often = raced(Machine(kernels, drift=0.02), Timing(0.0, (0.0, 0.0), (0.0, 0.5), 3))
    assert min(often, key=often.__getitem__) == "c"


def test_who_goes_on():
    assert close({"a": 1.0, "b": 1.2, "c": 1.3}) == [], "there is nothing to decide"
    assert close({"a": 1.05, "b": 1.0, "c": 1.11}) == ["b", "a"]
    assert close({i: 1 + i / 1000 for i in range(20)}) == list(range(MOST_CLOSE))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_first_places_go_round(count):
    names = list(range(count))
    orders = [rotated(names, i, 3) for i in range(3)]
    assert all(sorted(order) == names for order in orders)
    assert len({order[0] for order in orders}) == min(count, 3)


ADD = """
__global__ void add(float *x __readonly, float *y, int n) {
  int o[32] = get_program_id(0) * 32 + 0 ... 32;
  *?(o < n)(y + o) = *?(o < n)(x + o) + *?(o < n)(y + o);
}
"""


@pytest.mark.parametrize(("device", "after"), [("cpu", 3), ("emulator", 0)])
def test_launches_again_and_again(device, after):
    """A GPU has copies of arrays of the host, which nobody waits for."""
    k = graphfuse.kernel(ADD, device=device)
    assert isinstance(k, Kernel)
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    with k.repeated(2, (x, y, 40)) as run:
        for _ in range(3):
            run()
    np.testing.assert_array_equal(y, after)
    k[2](x, y, 40)
    np.testing.assert_array_equal(y, after + 1)


def test_tuning_on_the_emulator(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))
    monkeypatch.setattr("graphfuse.kernels.tuner.ON_GPU", Timing(0.0, (0.0, 0.0), (0.0, 0.0), 1))
    k = graphfuse.kernel(ADD.replace("32", "SIZE"), SIZE=[32, 64], device="emulator")
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    rows = k.tune(lambda m: -(-40 // m.SIZE), (x, y, 40))
    assert len(rows) == 2
    assert all(r.us and r.us > 0 for r in rows)
    np.testing.assert_array_equal(y, 0)


@pytest.mark.parametrize("nbytes", [0, CACHE_BYTES])
def test_calls_back_to_back_or_each_with_a_cold_cache(nbytes):
    """A stream whose clock is the number of things it was given; a call is five of them."""

    class Driver:
        now, copies, at, handles = 0, 0, {}, iter(range(10**6))

        def create_event(self):
            return next(self.handles)

        def destroy_event(self, event):
            pass

        def record(self, event, stream):
            self.now += 1
            self.at[event] = self.now

        def copy(self, *_):
            self.copies += 1

        def synchronize(self, stream):
            pass

        def elapsed_ms(self, start, end):
            return (self.at[end] - self.at[start]) / 1e3

    driver = Driver()
    pool = SimpleNamespace(take=lambda *_: SimpleNamespace(address=0, nbytes=8), give=lambda *_: None)
    calls = 0

    def run():
        nonlocal calls
        calls += 1
        driver.now += 5

    context = SimpleNamespace(driver=driver, pool=pool, current=contextlib.nullcontext)
    with GpuClock(context, 0, nbytes) as clock:
        us = clock.us(run, 0.001, 0.002)
    assert driver.copies == (0 if nbytes else calls)
    assert us == 6 if not nbytes else 5 < us <= 6, "an event is one more"
