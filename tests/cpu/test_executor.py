"""The native launch loop: order, coverage, barriers, sleeping, teardown and forks."""

import ctypes
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from graphfuse.llvm.executor_ir import LAUNCH_BYTES, LINGER_NS, executor_ir
from graphfuse.llvm.executor_place_ir import ANYWHERE_NS

KERNELS = """
; args: { ptr counts }: one count per program, and never two threads on one program
define void @count(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %counts = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i32, ptr %counts, i64 %i
  %old = load i32, ptr %at
  %new = add i32 %old, 1
  store i32 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

; args: { ptr in; ptr out; i64 n }: out[i] = in[n - 1 - i] + 1, so chunks read what others wrote
define void @reverse(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %in = load ptr, ptr %args
  %out_at = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %out_at
  %n_at = getelementptr ptr, ptr %args, i64 2
  %n = load i64, ptr %n_at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %from = sub i64 %n, %next
  %from_at = getelementptr i64, ptr %in, i64 %from
  %old = load i64, ptr %from_at
  %new = add i64 %old, 1
  %to_at = getelementptr i64, ptr %out, i64 %i
  store i64 %new, ptr %to_at
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

; args: { ptr log; ptr cursor; i64 value }: appends value, on the caller only
define void @append(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %log = load ptr, ptr %args
  %cursor_at = getelementptr ptr, ptr %args, i64 1
  %cursor = load ptr, ptr %cursor_at
  %value_at = getelementptr ptr, ptr %args, i64 2
  %value = load i64, ptr %value_at
  %i = load i64, ptr %cursor
  %at = getelementptr i64, ptr %log, i64 %i
  store i64 %value, ptr %at
  %next = add i64 %i, 1
  store i64 %next, ptr %cursor
  ret void
}

; args: { ptr owners }: owners[i] = scratch, and a while of work on the scratch
define void @owner(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %owners = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %spun ]
  %at = getelementptr ptr, ptr %owners, i64 %i
  store ptr %scratch, ptr %at
  br label %spin
spin:
  %k = phi i64 [ 0, %loop ], [ %k_next, %spin ]
  store volatile i64 %k, ptr %scratch
  %k_next = add i64 %k, 1
  %again = icmp slt i64 %k_next, 20000
  br i1 %again, label %spin, label %spun
spun:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @empty(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  ret void
}
"""


class Launch(ctypes.Structure):
    _fields_ = (
        ("fn", ctypes.c_uint64),
        ("args", ctypes.c_uint64),
        ("grid", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
    )


class Executor:
    """The compiled executor and the kernels above, by name."""

    def __init__(self, arch: str, system: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(executor_ir(arch, system))
        module.link_in(llvm.parse_assembly(KERNELS))
        module.verify()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), opt=2, jit=True)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        p, i = ctypes.c_void_p, ctypes.c_int64
        self.create = self._function("gf_pool_create", p, i)
        self.destroy = self._function("gf_pool_destroy", None, p)
        self.scratch = self._function("gf_pool_scratch", None, p, p, i)
        self.run = self._function("gf_run", i, p, p, i)
        self.run_profiled = self._function("gf_run_profiled", i, p, p, i, p)

    def _function(self, name, result, *arguments):
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))

    def address(self, name: str) -> int:
        return self._engine.get_function_address(name)


@cache
def executor(arch: str = os.uname().machine, system: str = "linux") -> Executor:
    return Executor(arch, system)


@pytest.fixture(params=[1, 2, 3, 4])
def pool(request: pytest.FixtureRequest) -> Iterator[int]:
    handle = executor().create(request.param)
    assert handle
    yield handle
    executor().destroy(handle)


def argument_block(*words: int) -> np.ndarray:
    return np.array(words, dtype=np.uint64)


def launch_array(launches: Sequence[tuple[str, np.ndarray | None, int, int]]):
    run = executor()
    rows = [
        Launch(run.address(name), 0 if args is None else args.ctypes.data, grid, chunk)
        for name, args, grid, chunk in launches
    ]
    return (Launch * len(rows))(*rows)


def test_launch_layout() -> None:
    assert ctypes.sizeof(Launch) == LAUNCH_BYTES


@pytest.mark.parametrize("threads", [0, -3])
def test_create_refuses_no_threads(threads: int) -> None:
    assert executor().create(threads) is None


def test_destroy_of_null_does_nothing() -> None:
    executor().destroy(None)


def test_every_program_runs_once(pool: int) -> None:
    rng = random.Random(7)
    for _ in range(30):
        cases = [(rng.randint(0, 3000), rng.choice([1, 2, 7, 64, 5000])) for _ in range(20)]
        counts = [np.zeros(grid + 1, np.int32) for grid, _ in cases]
        blocks = [argument_block(c.ctypes.data) for c in counts]
        launches = launch_array([("count", b, grid, chunk) for b, (grid, chunk) in zip(blocks, cases, strict=True)])
        assert executor().run(pool, launches, len(cases)) == 0
        for count, (grid, _) in zip(counts, cases, strict=True):
            assert (count[:grid] == 1).all()
            assert count[grid] == 0


@pytest.mark.parametrize("chunk", [0, -5])
def test_chunk_below_one_counts_as_one(pool: int, chunk: int) -> None:
    count = np.zeros(100, np.int32)
    launches = launch_array([("count", argument_block(count.ctypes.data), 100, chunk)])
    executor().run(pool, launches, 1)
    assert (count == 1).all()


@pytest.mark.parametrize("grid", [0, -1])
def test_empty_grid_is_skipped(pool: int, grid: int) -> None:
    # a null argument block: a call would crash
    launches = launch_array([("count", None, grid, 1), ("count", None, grid, 64)])
    assert executor().run(pool, launches, 2) == 0


def test_direct_launches_keep_order_between_shared_ones(pool: int) -> None:
    n = 200
    log, cursor = np.zeros(n, np.int64), np.zeros(1, np.int64)
    blocks = [argument_block(log.ctypes.data, cursor.ctypes.data, i) for i in range(n)]
    rows = []
    for block in blocks:
        rows += [("append", block, 1, 1), ("empty", None, 16, 1)]
    executor().run(pool, launch_array(rows), len(rows))
    assert (log == np.arange(n)).all()


def test_a_launch_sees_all_writes_of_the_one_before(pool: int) -> None:
    n, rounds = 512, 4000
    a, b = np.arange(n, dtype=np.int64), np.zeros(n, np.int64)
    there = argument_block(a.ctypes.data, b.ctypes.data, n)
    back = argument_block(b.ctypes.data, a.ctypes.data, n)
    rng = random.Random(3)
    rows = [("reverse", back if i % 2 else there, n, rng.choice([8, 31, 64, 200, 512])) for i in range(rounds)]
    executor().run(pool, launch_array(rows), rounds)
    assert (a == np.arange(n) + rounds).all()


def test_twenty_thousand_launches(pool: int) -> None:
    count = np.zeros(8, np.int32)
    block = argument_block(count.ctypes.data)
    launches = launch_array([("count", block, 8, 1)] * 1000)
    for _ in range(20):
        executor().run(pool, launches, 1000)
    assert (count == 20_000).all()


def test_scratch_is_per_thread() -> None:
    threads, stride = 4, 256
    handle = executor().create(threads)
    area = np.zeros(threads * stride, np.uint8)
    executor().scratch(handle, area.ctypes.data, stride)
    owners = np.zeros(64, np.uint64)
    launches = launch_array([("owner", argument_block(owners.ctypes.data), 64, 1)])
    executor().run(handle, launches, 1)
    offsets = owners.astype(np.int64) - area.ctypes.data
    assert set(offsets.tolist()) <= {t * stride for t in range(threads)}
    executor().destroy(handle)


def test_workers_take_part() -> None:
    handle = executor().create(2)
    area = np.zeros(512, np.uint8)
    executor().scratch(handle, area.ctypes.data, 256)
    owners = np.zeros(4096, np.uint64)
    launches = launch_array([("owner", argument_block(owners.ctypes.data), 4096, 1)])
    executor().run(handle, launches, 1)
    assert len(set(owners.tolist())) == 2
    executor().destroy(handle)


def test_a_thread_runs_neighbours() -> None:
    """But for what it takes of another's part when its own is done."""
    handle = executor().create(2)
    area = np.zeros(512, np.uint8)
    executor().scratch(handle, area.ctypes.data, 256)
    owners = np.zeros(256, np.uint64)
    block = argument_block(owners.ctypes.data)
    launches = launch_array([("owner", block, 256, 1)])
    borders: list[int] = []
    while len(borders) < 20:
        executor().run(handle, launches, 1)
        if np.count_nonzero(owners == owners[0]) in range(64, 193):
            borders.append(int(np.count_nonzero(owners[1:] != owners[:-1])))
    assert min(borders) < 32
    executor().destroy(handle)


def test_sleepers_wake(pool: int) -> None:
    count = np.zeros(64, np.int32)
    launches = launch_array([("count", argument_block(count.ctypes.data), 64, 1)] * 3)
    for _ in range(40):
        executor().run(pool, launches, 3)
        time.sleep(0.001)
    assert (count == 120).all()


def processor_of(thread: int) -> int:
    """Where a thread of this process runs, or last ran."""
    return int(Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[36])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no sets of processors")
def test_workers_sleep_off_the_callers_processor_and_get_it_back() -> None:
    allowed = os.sched_getaffinity(0)
    before = set(Path("/proc/self/task").iterdir())
    handle = executor().create(2)
    (worker,) = (int(task.name) for task in set(Path("/proc/self/task").iterdir()) - before)
    launches = launch_array([("empty", None, 64, 1)] * 10)
    asleep = 2 * LINGER_NS
    try:
        for home in sorted(allowed)[:2] * 3:
            os.sched_setaffinity(0, {home})
            rest = (allowed - {home}) or allowed
            for _ in range(5 * ANYWHERE_NS // asleep):  # where others keep the processor busy, it tries again then
                executor().run(handle, launches, 10)
                time.sleep(asleep * 1e-9)
                if (os.sched_getaffinity(worker), processor_of(worker) in rest) == (rest, True):
                    break
            else:
                pytest.fail(f"the worker may run on {os.sched_getaffinity(worker)}, not {rest}")
        # a set that somebody else chose stays
        os.sched_setaffinity(worker, {home})
        for _ in range(3):
            executor().run(handle, launches, 10)
            time.sleep(asleep * 1e-9)
            assert os.sched_getaffinity(worker) == {home}
    finally:
        os.sched_setaffinity(0, allowed)
        executor().destroy(handle)


def test_idle_pool_uses_no_processor_time() -> None:
    handle = executor().create(4)
    launches = launch_array([("empty", None, 64, 1)] * 10)
    executor().run(handle, launches, 10)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05
    executor().destroy(handle)


def test_create_and_destroy_many() -> None:
    launches = launch_array([("empty", None, 64, 1)])
    for i in range(200):
        handle = executor().create(1 + i % 4)
        if i % 3:
            executor().run(handle, launches, 1)
        executor().destroy(handle)


def test_profile_times_each_launch(pool: int) -> None:
    ns = np.full(3, -1, np.int64)
    owners = np.zeros(64, np.uint64)
    area = np.zeros(4 * 64, np.uint8)
    executor().scratch(pool, area.ctypes.data, 64)
    rows = [("empty", None, 1, 1), ("owner", argument_block(owners.ctypes.data), 64, 1)]
    launches = launch_array([*rows, ("empty", None, 0, 1)])
    executor().run_profiled(pool, launches, 3, ns.ctypes.data)
    assert (ns >= 0).all()
    assert ns[1] > ns[0]


def test_destroy_in_a_forked_child_returns() -> None:
    # a fresh interpreter: pytest's own process may hold threads that dislike a fork
    here = Path(__file__).parent
    code = f"""
import os, sys
sys.path[:0] = [{str(here.parents[1])!r}, {str(here)!r}]
from test_executor import executor, launch_array
run = executor()
pool = run.create(4)
rows = launch_array([("empty", None, 64, 1)] * 10)
run.run(pool, rows, 10)
pid = os.fork()
run.destroy(pool)
fresh = run.create(2)
run.run(fresh, rows, 10)
run.destroy(fresh)
if pid == 0:
    os._exit(7)
sys.exit(0 if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7 else 1)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arch", "system"),
    [("x86_64", "darwin"), ("aarch64", "linux"), ("aarch64", "darwin"), ("mips64", "linux")],
)
def test_other_systems_are_valid_ir(arch: str, system: str) -> None:
    module = llvm.parse_assembly(executor_ir(arch, system))
    module.verify()
    names = {function.name for function in module.functions}
    assert ("syscall" in names) == (system == "linux" and arch == "aarch64")
    assert ("llvm.x86.sse2.pause" in names) == (arch == "x86_64")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="runs the portable IR on linux")
def test_condition_variable_variant_runs() -> None:
    portable = executor(system="posix")
    count = np.zeros(64, np.int32)
    launches = launch_array([("count", argument_block(count.ctypes.data), 64, 1)] * 50)
    for threads in (1, 2, 4):
        handle = portable.create(threads)
        for _ in range(20):
            portable.run(handle, launches, 50)
            time.sleep(0.0005)
        portable.destroy(handle)
    assert (count == 3 * 20 * 50).all()
