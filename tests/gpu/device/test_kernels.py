"""Kernels written by hand on a GPU: the cases of the CPU and of the emulator, arrays of every kind, streams, tuning."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from graphfuse.errors import InputError
from tests.cli.test_kernel import file, run_once  # noqa: F401  # a fixture
from tests.kernels import test_gallery as gallery
from tests.kernels import test_gallery_products as products
from tests.kernels import test_seeds as seeds
from tests.kernels import test_tuning as tuning
from tests.kernels.places import dlpack, torch_tensors
from tests.kernels.printing import GRIDS, check_lines
from tests.kernels.test_graft import test_on_a_gpu_it_is_wgmma_with_an_epilogue  # noqa: F401
from tests.kernels.test_graft_before import computed_where_it_was_loaded
from tests.kernels.test_launch import scale

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).parents[3]

SMALL = {
    **{f"seed {name}": make for name, make in seeds.SMALL.items()},
    **gallery.SMALL,
    **{f"product {name}": make for name, make in products.SMALLEST.items()},
}
MORE = {
    **{f"seed {i}": make for i, make in enumerate(seeds.MORE)},
    **{f"gallery {i}": make for i, make in enumerate(gallery.ODD)},
    **{f"large {i}": make for i, make in enumerate(gallery.LARGE)},
    **{f"product {name}": make for name, make in products.CPU.items()},
    **{f"large product {name}": make for name, make in products.LARGE.items()},
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name, device):
    SMALL[name]().run(device)


@pytest.mark.parametrize("name", MORE)
def test_odd_and_large(name, device):
    if device == "emulator":
        pytest.skip("what is small is enough for the emulator")
    MORE[name]().run(device)


@pytest.fixture(params=["torch", "dlpack"])
def place(request, where):
    """Arrays on the GPU, on the host for the emulator."""
    torch = pytest.importorskip("torch")
    return {"torch": torch_tensors, "dlpack": dlpack}[request.param](torch, where)


@pytest.mark.parametrize("name", SMALL)
def test_arrays_of_other_libraries(name, device, place):
    """A kernel that is not told where to run runs where its arrays are."""
    SMALL[name]().run("" if device == "cuda" else device, place)


def test_arrays_on_two_devices(device, where):
    torch = pytest.importorskip("torch")
    if where == "cpu":
        pytest.skip("the emulator's arrays are on the host")
    with pytest.raises(InputError, match="expected all arrays on one device, found x on cuda:0, y on the host"):
        scale()[1](torch.ones(8, device=where), np.ones(8, np.float32), 8, 2.0, True)  # noqa: FBT003
    with pytest.raises(InputError, match="expected arrays on cpu or on the host, found some on cuda:0"):
        scale("cpu")[1](*torch.ones(2, 8, device=where), 8, 2.0, True)  # noqa: FBT003


def work(torch, where, kernel, n, seed):
    """What torch and a kernel compute in turn, and what it should be."""
    generator = torch.Generator(where).manual_seed(seed)
    start = torch.rand(n, device=where, generator=generator)
    x, want = start, start
    for _ in range(10):
        y = torch.empty_like(x)
        kernel[-(-n // 32)](x, y, n, 2.0, True)  # noqa: FBT003
        x, want = y + 1, want * 2 + 1
    return x, want


def own_stream(torch, where):
    return torch.cuda.stream(torch.cuda.Stream()) if where == "cuda" else contextlib.nullcontext()


def test_nothing_waits_between_torch_and_a_kernel(device, where):
    """On the stream that is current, whichever it is."""
    torch = pytest.importorskip("torch")
    kernel, n = scale("" if where == "cuda" else device), 2_000_000 if where == "cuda" else 100
    for seed in range(4):
        with own_stream(torch, where) if seed % 2 else contextlib.nullcontext():
            found, want = work(torch, where, kernel, n, seed)
            assert torch.equal(found, want)


def test_threads_launch_on_streams_of_their_own(device, where):
    torch = pytest.importorskip("torch")
    kernel, n = scale("" if where == "cuda" else device), 500_000 if where == "cuda" else 100
    wrong = []

    def run(seed):
        with own_stream(torch, where):
            for _ in range(5 if where == "cuda" else 1):
                found, want = work(torch, where, kernel, n, seed)
                if not torch.equal(found, want):
                    wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.fixture
def gpu(device):
    """Where the graph with a kernel in it runs."""
    return device


def test_a_graph_with_work_in_front_of_a_kernel(device, tmp_path):
    computed_where_it_was_loaded(device, tmp_path)


@pytest.fixture
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))


@pytest.mark.usefixtures("_cache")
def test_arrays_are_as_they_were(device, place):
    tuning.test_arrays_are_as_they_were(device, place)


@pytest.mark.usefixtures("_cache")
def test_what_was_chosen_is_kept(device, place, tmp_path):
    tuning.test_what_was_chosen_is_kept(device, place, tmp_path)


def test_the_command_line(file, device, tmp_path, capsys):  # noqa: F811  # the fixture
    run_once(file, device, tmp_path, capsys)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_lines_name_programs(device, grid, capfd):
    check_lines(device, grid, capfd)


def test_an_assertion_that_fails(device):
    """In a process of its own: a GPU's context is lost."""
    code = f"""
        from graphfuse.errors import GraphfuseError
        from tests.kernels.printing import checked

        checked({device!r})[1](100)
        print("holds")
        for _ in range(2):
            try:
                checked({device!r})[1](99)
            except GraphfuseError as e:
                print(e.message)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    assert run.stdout.startswith("holds"), run.stdout + run.stderr
    assert "all are below n" in run.stdout + run.stderr
    if device == "cuda":
        assert "kernel 'checked': CUDA_ERROR_ASSERT" in run.stdout
        assert "start a new process" in run.stdout
