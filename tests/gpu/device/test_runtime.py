"""The runtime on a real driver: memory, streams, graphs, arrays of torch, and what goes wrong."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import graphfuse
from graphfuse.errors import DeviceError, InputError
from graphfuse.runtime.gpu.arrays import DeviceArray
from graphfuse.runtime.gpu.memory import _trim_torch
from graphfuse.runtime.gpu.session import GpuSession
from tests.gpu.device.graphs import GRAPHS, feed_of, pointwise, softmax
from tests.kernels.places import Foreign
from tests.runtime.gpu_sample import executable
from tests.runtime.sample import expected, inputs

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).parents[3]


def test_loops_copies_scratch_and_graphs(driver):
    with GpuSession(executable(), driver) as session:
        for n in (1, 64, 2, 17, 17, 17, 64, 64, 3, 1):
            feed = inputs(n, n)
            found, wanted = session.run(feed), expected(feed)
            for name, array in wanted.items():
                np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
        assert any(s.graphs for s in session._callers.idle[-1].shaped.values())


def test_large_arrays_are_not_staged(driver):
    model = pointwise((1 << 24,))
    compiled = graphfuse.compile(model, device="cuda")
    feed = feed_of(model)
    first = compiled(feed)["z"]
    np.testing.assert_array_equal(compiled(feed)["z"], first)
    assert np.isfinite(first).all()


def test_profile(driver):
    profile = GpuSession(executable(), driver).profile(inputs(3))
    assert all(0 < s.ns < 1e9 for s in profile.steps)


def test_memory_is_given_back(context, driver):
    with context.current():
        context.pool.trim()
        before = driver.memory_info()[0]
    session = GpuSession(executable(), driver)
    for n in (3, 20, 3):
        session.run(inputs(n))
    session.close()
    with context.current():
        context.pool.trim()
        assert driver.memory_info()[0] >= before - (64 << 20)


# torch


@pytest.fixture
def norm():
    model = GRAPHS["layer_norm"]()
    return graphfuse.compile(model, device="cuda"), feed_of(model)


def test_torch_tensors(torch, norm):
    compiled, feed = norm
    wanted = compiled(feed)["z"]
    tensors = {k: torch.from_numpy(v).cuda() for k, v in feed.items()}
    for _ in range(4):
        found = compiled(tensors)["z"]
        assert found.device.type == "cuda"
        np.testing.assert_array_equal(found.cpu().numpy(), wanted)
    out = torch.empty_like(found)
    assert compiled.session.run(tensors, {"z": out})["z"] is out
    np.testing.assert_array_equal(out.cpu().numpy(), wanted)


def test_torch_streams(torch, norm):
    compiled, feed = norm
    wanted = compiled(feed)["z"]
    stream = torch.cuda.Stream()
    for _ in range(5):
        with torch.cuda.stream(stream):
            tensors = {k: torch.from_numpy(v).cuda() * 2 / 2 for k, v in feed.items()}
            found = compiled(tensors)["z"] + 1
        stream.synchronize()
        np.testing.assert_allclose(found.cpu().numpy(), wanted + 1, rtol=1e-6)
        tensors = {k: v.clone() for k, v in tensors.items()}
        np.testing.assert_array_equal(compiled(tensors)["z"].cpu().numpy(), wanted)


def test_torch_work_behind_ours(torch, norm):
    """Nothing waits between a run and what uses its result."""
    compiled, feed = norm
    tensors = {k: torch.from_numpy(v).cuda() for k, v in feed.items()}
    wanted = compiled(tensors)["z"].clone()
    results = [compiled(tensors)["z"] - wanted for _ in range(50)]
    assert max(float(r.abs().max()) for r in results) == 0


def test_torch_tensors_that_need_a_copy(torch):
    model = softmax(300, 200)
    compiled, feed = graphfuse.compile(model, device="cuda"), feed_of(model)
    wanted, x = compiled(feed)["z"], torch.from_numpy(feed["x"]).cuda()
    transposed = x.t().contiguous().t()
    room = torch.zeros(300 * 200 + 1, device="cuda")
    room[1:] = x.reshape(-1)
    for given in (transposed, room[1:].reshape(300, 200)):
        np.testing.assert_array_equal(compiled(x=given)["z"].cpu().numpy(), wanted)
    with pytest.raises(InputError, match="input 'x': expected float32, found"):
        compiled(x=x.half())


def test_dlpack_to_torch_and_back(torch, norm):
    compiled, feed = norm
    wanted = compiled(feed)["z"]
    foreign = {k: Foreign(torch.from_numpy(v).cuda()) for k, v in feed.items()}
    for _ in range(3):
        found = compiled(foreign)["z"]
        assert isinstance(found, DeviceArray)
        np.testing.assert_array_equal(found.numpy(), wanted)
        tensor = torch.from_dlpack(found)
        assert tensor.data_ptr() == found.address
        del found
        gc.collect()
        np.testing.assert_array_equal(tensor.cpu().numpy(), wanted)


def test_bfloat16_tensors(torch, target):
    from onnx import TensorProto

    from tests.gpu.device.graphs import graph, node

    model = graph([node("Add", "x y", "z")], {"x": (64, 33), "y": (33,)}, {"z": (64, 33)}, elem=TensorProto.BFLOAT16)
    compiled = graphfuse.compile(model, target=target, device="cuda")
    x, y = (torch.randn(*s, device="cuda").bfloat16() for s in ((64, 33), (33,)))
    assert torch.equal(compiled(x=x, y=y)["z"], x + y)


def test_several_gpus(context, driver):
    if driver.device_count() < 2:
        pytest.skip("there is one GPU")
    sessions = [GpuSession(executable(), driver, i) for i in range(driver.device_count())]
    for seed in range(3):
        for session in sessions:
            feed = inputs(5, seed)
            np.testing.assert_allclose(session.run(feed)["y"], expected(feed)["y"], rtol=1e-6)


# what goes wrong


def test_too_little_memory(context, driver):
    """The rest of the memory is taken, so there is none; afterwards all is as before."""
    session = GpuSession(executable(), driver)
    session.run(inputs(2))
    with context.current():
        context.pool.trim()
        _trim_torch()  # or its memory would be enough
        free, _ = driver.memory_info()
        with pytest.raises(DeviceError, match=r"too much: \d+ bytes do not fit into the memory of cuda:0"):
            context.pool.take(free + (1 << 30), "too much", 0)
    feed = inputs(3)
    np.testing.assert_allclose(session.run(feed)["y"], expected(feed)["y"], rtol=1e-6)


def test_a_kernel_that_faults(context):
    """In a process of its own: the context is lost. With GRAPHFUSE_DEBUG the kernel has its name."""
    code = """
        from graphfuse.api import CompiledModel
        from graphfuse.errors import DeviceError
        from tests.runtime.gpu_sample import FAULTY, executable
        from tests.runtime.sample import inputs

        model = CompiledModel(executable(kernels=FAULTY), device="cuda")
        for _ in range(2):
            try:
                model(inputs(64))
            except DeviceError as e:
                print(e.message)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "GRAPHFUSE_DEBUG": "1", "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert "kernel 'scale_row' (node 'x * w'): CUDA_ERROR_" in run.stdout, run.stdout + run.stderr
    assert "start a new process" in run.stdout
