"""Several callers of one model at the same time: each has a context of its own, and there are not too many of them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.runtime.callers import WINDOW, Callers
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.runtime.session import Session
from graphfuse.runtime.workspace import Workspace, most_callers
from tests.runtime import gpu_sample
from tests.runtime.sample import executable, expected, inputs


class Made:
    """What a list of contexts has made and closed: numbers, in order."""

    def __init__(self, most: int = 8) -> None:
        self.count, self.closed = 0, []
        self.callers = Callers(self._make, self.closed.append, most)

    def _make(self) -> int:
        self.count += 1
        return self.count


def test_a_caller_gets_its_own_back():
    made = Made()
    with ThreadPoolExecutor(1) as other:
        mine, theirs = made.callers.take(), other.submit(made.callers.take).result()
        made.callers.give(mine)
        other.submit(made.callers.give, theirs).result()
        for _ in range(3):
            assert (made.callers.take(), other.submit(made.callers.take).result()) == (mine, theirs)
            made.callers.give(mine)
            other.submit(made.callers.give, theirs).result()
    assert made.count == 2


def test_as_many_as_were_ever_at_once_then_fewer():
    made = Made()
    lent = [made.callers.take() for _ in range(3)]
    for context in lent:
        made.callers.give(context)
    for _ in range(2 * WINDOW):
        made.callers.give(made.callers.take())
    assert (made.count, len(made.closed), made.callers.idle) == (3, 2, [3])


def test_more_callers_than_contexts_wait():
    made = Made(most=1)
    mine = made.callers.take()
    with ThreadPoolExecutor(2) as others:
        waiting = [others.submit(lambda: made.callers.give(made.callers.take())) for _ in range(2)]
        assert not any(w.done() for w in waiting)
        made.callers.give(mine)
        for w in waiting:
            w.result(10)
    assert made.count == 1


def test_one_that_cannot_be_made_leaves_its_place():
    failing = Callers(lambda: 1 // 0, lambda _: None, 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failing.take()


def test_a_lower_limit_holds_as_they_come_back():
    made = Made()
    lent = [made.callers.take() for _ in range(3)]
    made.callers.limit(1)
    for context in lent:
        made.callers.give(context)
    assert len(made.closed) == 2 and len(made.callers.idle) == 1


def test_closing_waits_for_calls():
    made = Made()
    mine = made.callers.take()
    with ThreadPoolExecutor(1) as other:
        closing = other.submit(made.callers.close)
        assert not closing.done()
        made.callers.give(mine)
        closing.result(10)
    assert made.closed == [1] and not made.callers.idle


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forgets_what_others_had():
    made = Made(most=1)
    made.callers.take()
    made.callers.after_fork()
    assert made.callers.take() == 2


def test_callers_are_few_enough_for_the_cores(monkeypatch):
    monkeypatch.setattr("graphfuse.runtime.workspace.available_cores", lambda: 8)
    assert [most_callers(n) for n in (1, 3, 8, 64)] == [16, 5, 2, 2]


# of a model


def within(seconds: float, *works) -> None:
    """Run functions at the same time; fails where one raises or does not end."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(w) for w in works]:
            done.result(seconds)


def at_once(monkeypatch, callers: int) -> list[Workspace]:
    """Make each of so many calls wait, while it runs, until all run; the workspaces they run in."""
    barrier, used, run = threading.Barrier(callers, timeout=20), [], Workspace.run

    def meeting(self, *args):
        used.append(self)
        barrier.wait()
        run(self, *args)

    monkeypatch.setattr(Workspace, "run", meeting)
    return used


def test_two_calls_of_a_model_run_at_the_same_time(monkeypatch):
    session = Session(executable(), 1)
    feeds = [inputs(n, seed=n) for n in (3, 60)]
    used, found = at_once(monkeypatch, 2), {}
    within(30, *(lambda i=i: found.update({i: session.run(feeds[i])}) for i in range(2)))
    assert len(set(used)) == 2
    for i, feed in enumerate(feeds):
        np.testing.assert_allclose(found[i]["total"], expected(feed)["total"], rtol=1e-5, atol=1e-5)
    assert not np.shares_memory(found[0]["y"], found[1]["y"])


def test_two_calls_of_onnx_runtimes_interface_run_at_the_same_time(monkeypatch):
    session = graphfuse.InferenceSession(rooted(host=False).SerializeToString())
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    session.run(None, {"x": x})
    at_once(monkeypatch, 2)
    within(30, *[lambda: session.run(None, {"x": x})] * 2)


def rooted(*, host: bool) -> onnx.ModelProto:
    """y = relu(x) * 2; with host code also where it is not 0, and a constant."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Mul", ["r", "two"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])]
    if host:
        nodes += [helper.make_node("NonZero", ["y"], ["at"]), helper.make_node("Identity", ["table"], ["same"])]
        outputs += [
            helper.make_tensor_value_info("at", TensorProto.INT64, [2, "k"]),
            helper.make_tensor_value_info("same", TensorProto.FLOAT, [5]),
        ]
    weights = [
        numpy_helper.from_array(np.float32(2), "two"),
        numpy_helper.from_array(np.arange(5, dtype=np.float32), "table"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])
    graph = helper.make_graph(nodes, "g", [x], outputs, weights[: 1 + host])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_two_calls_of_a_model_with_host_code_run_at_the_same_time(monkeypatch):
    model = graphfuse.compile(rooted(host=True))
    feeds = [np.full((3, 4), v, np.float32) for v in (1, -1)]
    model(x=feeds[0])
    found = {}
    at_once(monkeypatch, 2)
    within(30, *(lambda i=i: found.update({i: model(x=feeds[i])}) for i in range(2)))
    assert [found[i]["at"].shape for i in range(2)] == [(2, 12), (2, 0)]


def test_what_a_caller_writes_into_an_output_stays_its_own():
    """A constant that is an output, behind an operator that Python runs."""
    model = graphfuse.compile(rooted(host=True))
    x = np.ones((3, 4), np.float32)
    model(x=x)["same"][:] = -1
    np.testing.assert_array_equal(model(x=x)["same"], np.arange(5, dtype=np.float32))


def test_two_launches_of_a_kernel_run_at_the_same_time(monkeypatch):
    from graphfuse.kernels import on_cpu

    kernel = graphfuse.kernel("__global__ void twice(float *x) {\n int r[8] = 0 ... 8; *(x + r) = 2.0f * *(x + r);\n}")
    arrays = [np.ones(8, np.float32), np.full(8, 3, np.float32)]
    kernel[(1,)](np.ones(8, np.float32))
    barrier, reserve = threading.Barrier(2, timeout=20), on_cpu._Pool.reserve
    monkeypatch.setattr(on_cpu._Pool, "reserve", lambda self, n: (reserve(self, n), barrier.wait()))
    within(30, *(lambda a=a: kernel[(1,)](a) for a in arrays))
    assert [a[0] for a in arrays] == [2, 6]


# on a GPU


def test_two_calls_on_a_gpu_run_at_the_same_time(monkeypatch):
    session = GpuSession(gpu_sample.executable(), EmulatedDriver())
    feeds = [inputs(n, seed=n) for n in (2, 5)]
    barrier, found, execute = threading.Barrier(2, timeout=20), {}, GpuSession._execute

    def meeting(self, *args, **named):
        barrier.wait()
        return execute(self, *args, **named)

    monkeypatch.setattr(GpuSession, "_execute", meeting)
    within(60, *(lambda i=i: found.update({i: session.run(feeds[i])}) for i in range(2)))
    for i, feed in enumerate(feeds):
        np.testing.assert_allclose(found[i]["total"], expected(feed)["total"], rtol=1e-5, atol=1e-5)


def test_callers_take_turns_on_a_gpu_that_has_not_room_for_two():
    """The weights and one caller's memory fit, and so no call fails."""
    source, driver = gpu_sample.executable(), EmulatedDriver()
    with GpuSession(source, driver) as alone:
        alone.run(inputs(5))
        one = driver.allocated
    session = GpuSession(source, EmulatedDriver(memory_bytes=one))
    feeds = [inputs(n, seed=n) for n in (5, 5, 5)]
    found = {}

    def work(i):
        for _ in range(3):
            found[i] = session.run(feeds[i])

    within(60, *(lambda i=i: work(i) for i in range(3)))
    for i, feed in enumerate(feeds):
        np.testing.assert_allclose(found[i]["total"], expected(feed)["total"], rtol=1e-5, atol=1e-5)
