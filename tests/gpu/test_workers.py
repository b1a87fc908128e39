"""Kernels that other processes compile: the same code, also where those do not do as they should."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from graphfuse.errors import TargetError
from graphfuse.gpu import workers as workers_module
from graphfuse.gpu.code import gpu_code
from graphfuse.gpu.compiled_kernel import LoweredKernel
from graphfuse.gpu.workers import Worker, Workers, worker_count
from graphfuse.ir.parser import parse
from graphfuse.knobs import scope
from tests.gpu.launching import SM_90A
from tests.runtime.test_gpu_limits import TURNED

COPY = """func @NAME(%a: ptr<f16>, %out: ptr<f16>, %n: i64) {grid = (n)} dims (n in 1..4096) {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (256*p), names = ["p"]} : i64
  %v = block.load_view(%a, %at) {shape = [256], strides = [1]} : tile<256xf16>
  %e = block.exp(%v) : tile<256xf16>
  block.store_view(%out, %at, %e) {strides = [1]}
  return()
}"""


def copies(count):
    return [parse(COPY.replace("NAME", f"copy_{i}")) for i in range(count)]


@pytest.fixture
def pool():
    pool = Workers()
    yield pool
    pool.stop()


def compiled(pool, kernels, *, together=True):
    """Names in order, and how many kernels were compiled in this process; at first it waits for a worker's."""
    found, mine = {}, []
    somebody = threading.Event()

    def done(i, kernel):
        found[i] = kernel
        somebody.set()

    def here(i):
        assert not together or somebody.wait(60)
        mine.append(i)
        found[i] = LoweredKernel.of(kernels[i], SM_90A).compiled()

    with scope(threads=4):
        pool.start()
        pool.compile(kernels, SM_90A, done, here)
    return [found[i] for i in range(len(kernels))], mine


def test_the_same_from_both(pool):
    kernels = copies(8)
    found, mine = compiled(pool, kernels)
    assert len(mine) < len(kernels)
    assert found == [LoweredKernel.of(k, SM_90A).compiled() for k in kernels]
    processes = [w._process for w in pool._workers]
    assert len(processes) == 2
    pool.stop()
    assert [p.returncode for p in processes] == [0, 0], "they end by themselves, and are waited for"


@pytest.mark.parametrize(
    "life",
    [
        "import sys; sys.exit(1)",
        "import sys; sys.stdin.buffer.read(64); sys.exit(1)",
        "import sys; sys.stdout.write('what?' * 999)",
        "import time; time.sleep(600)",
    ],
    ids=["ends", "ends at work", "answers nonsense", "hangs"],
)
def test_workers_that_do_not_work(pool, monkeypatch, life):
    monkeypatch.setattr(workers_module, "_START", life)
    monkeypatch.setattr(workers_module, "PATIENCE_SECONDS", 0.2)
    kernels = copies(3)
    found, mine = compiled(pool, kernels, together=False)
    assert [k.info.name for k in found] == ["copy_0", "copy_1", "copy_2"]
    assert sorted(mine) == [0, 1, 2]
    assert not pool._workers


def test_an_error_is_raised_here(pool):
    worker = Worker()
    assert worker.compiled(parse(TURNED.replace("warps = 1", "warps = 32")), SM_90A) is None
    assert worker.alive
    pool._workers.append(worker)
    with pytest.raises(TargetError, match="kernel 'turn': expected at most 232448 bytes of shared memory"):
        compiled(pool, [parse(TURNED.replace("warps = 1", "warps = 32"))], together=False)
    assert len(compiled(pool, copies(3))[1]) < 3, "others are compiled after it"


def test_a_second_thread_does_without(pool):
    kernels = copies(2)
    with pool._lock:
        _, mine = compiled(pool, kernels, together=False)
    assert mine == [0, 1]


def test_how_many():
    with scope(threads=3):
        assert worker_count() == 0
    with scope(threads=8):
        assert worker_count() == 4
    with scope(threads=128):
        assert worker_count() == workers_module.MOST_WORKERS


def test_no_more_than_are_of_use(pool):
    with scope(threads=8):
        pool.start(1)
        pool._started()
        assert len(pool._workers) == 1
        pool.start(3)
        pool._started()
        assert len(pool._workers) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_none(tmp_path):
    """A script without `if __name__ == "__main__"` runs once, and a child of it keeps no worker from ending."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(f"""
            import os
            from graphfuse.gpu.workers import workers
            from tests.gpu.test_workers import compiled, copies
            print("begun", flush=True)
            made, mine = compiled(workers, copies(4))
            assert len(mine) < len(made)
            child = os.fork()
            if not child:
                ok = not workers._workers
                if ok:
                    import time
                    time.sleep(600)
                os._exit(1)
            processes = [w._process for w in workers._workers]
            workers.stop()
            print([p.returncode for p in processes], os.waitpid(child, os.WNOHANG)[0], flush=True)
            os.kill(child, {9})
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["begun", "[0, 0] 0"]


def test_code_is_the_same_in_groups(monkeypatch):
    """Cubins of a few kernels each, one behind the other."""
    kernels = copies(5)
    whole = gpu_code(kernels, SM_90A)
    monkeypatch.setattr("graphfuse.gpu.code.GROUP_CHARACTERS", 3000)
    made = gpu_code(kernels, SM_90A)
    assert made.code.ptx == whole.code.ptx
    assert made.launches == whole.launches
    assert not whole.code.cubins
    assert len(whole.code.images) == bool(whole.code.object)
    if whole.code.object:
        assert 1 < len(made.code.images) < 5
        assert all(image.startswith(b"\x7fELF") for image in made.code.images)
        names = [b"copy_%d" % i for i in range(5)]
        assert [sum(n in image for image in made.code.images) for n in names] == [1] * 5
