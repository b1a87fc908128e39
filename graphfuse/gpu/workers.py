"""Processes that compile kernels beside this one, whose Python, and whose LLVM, take one core each.

They are started when a large graph begins to be compiled, while its passes run, and stopped when none was for a while.
Each runs `serve`: it reads a target and a block function from its standard input, and writes what became of it. They
are new interpreters that import nothing of the program's (no `__main__`, no fork of a process with threads and a GPU),
and end when their input does, however this process ends.

Nothing depends on them. Whoever compiles takes kernels from the same list as they do, so that a worker that is still
starting costs no time; what a worker fails at, or does not give back, is compiled here, and any error is raised here.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from io import BufferedReader, BufferedWriter
from typing import cast

from graphfuse.gpu.compiled_kernel import CompiledKernel, LoweredKernel
from graphfuse.ir import snapshots
from graphfuse.ir.core import Func
from graphfuse.knobs import settings
from graphfuse.llvm.host import available_cores
from graphfuse.targets import Target

MOST_WORKERS = 8
"""Each is a process with LLVM in it, and the longest kernel of a graph ends when it does."""
LEAST_CORES = 4
"""Where there are fewer, this process keeps them busy: with Python, LLVM and an assembler."""
IDLE_SECONDS = 30.0
"""After that workers end: a process that compiles again soon finds them started."""
PATIENCE_SECONDS = 60.0
"""How long a worker may take for what is then compiled here."""
_START = "import sys; sys.path[:] = sys.argv[1:]; from graphfuse.gpu.workers import serve; serve()"

Done = Callable[[int, CompiledKernel], None]
"""Is told, in any thread and order, of each kernel by its number."""


class Batch:
    """Kernels that several threads share out among them, in order."""

    def __init__(self, kernels: Sequence[Func], target: Target, done: Done) -> None:
        self._kernels, self._target, self._done = kernels, target, done
        self._todo = deque(range(len(kernels)))
        self._returned: deque[int] = deque()
        self._with_workers = 0
        self._changed = threading.Condition()

    def take(self, *, to_worker: bool) -> int | None:
        """The number of a kernel that nobody has begun; this process also gets what workers failed at."""
        with self._changed:
            source = self._todo if to_worker or self._todo else self._returned
            if not source:
                return None
            self._with_workers += to_worker
            return source.popleft()

    def worked(self, worker: Worker) -> None:
        """Let a worker compile until there is nothing left, or it fails."""
        while (i := self.take(to_worker=True)) is not None:
            made = worker.compiled(self._kernels[i], self._target)
            try:
                if made is not None:
                    self._done(i, made)
            except Exception:  # noqa: BLE001  # the thread that waits finds it, too
                made = None
            with self._changed:
                self._with_workers -= 1
                if made is None:
                    self._returned.append(i)
                self._changed.notify_all()
            if not worker.alive:
                return

    def wait(self) -> bool:
        """Until there is more to do here, or all is done; False if workers do not answer."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._returned) or not self._with_workers, PATIENCE_SECONDS)

    def drop(self) -> None:
        """Nobody needs the rest."""
        with self._changed:
            self._todo.clear()
            self._returned.clear()


class Worker:
    """A process, and the pipes to it."""

    def __init__(self) -> None:
        command = [sys.executable, *(["-B"] if sys.dont_write_bytecode else []), "-c", _START, *map(str, sys.path)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # numpy would start as many as there are cores
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = cast("BufferedWriter", self._process.stdin), cast("BufferedReader", self._process.stdout)
        self.alive = True

    def compiled(self, kernel: Func, target: Target) -> CompiledKernel | None:
        """What the process makes of a kernel; None if it fails, or is not there any more."""
        asked, answers = self._pipes
        try:
            asked.write(pickle.dumps((kernel, target), pickle.HIGHEST_PROTOCOL))
            asked.flush()
            return cast("CompiledKernel | None", pickle.load(answers))  # noqa: S301  # of our own process
        except Exception:  # noqa: BLE001  # whatever it is, the kernel is compiled here
            self.kill()
            return None

    def kill(self) -> None:
        """End it, whatever it does."""
        self.alive = False
        self._process.kill()

    def stop(self) -> None:
        """Let it end by itself, which it does when it has nothing to read, and see it off."""
        self.alive = False
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked process, which must not keep its parent's workers from ending."""
        for pipe in self._pipes:
            pipe.raw.close()  # writes nothing, and waits for no lock
        self._process.returncode = 0  # it is no child of this one


class Workers:
    """The processes; one thread uses them at a time, and others do without."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._starting: threading.Thread | None = None
        self._timer: threading.Timer | None = None

    def start(self, most: int = MOST_WORKERS) -> None:
        """Begin to start as many as there may be, `most` of them, where that pays; returns at once."""
        if snapshots.wanted():
            return
        with self._unless_used() as mine:
            if mine and self._starting is None and len(self._workers) < (count := min(most, worker_count())):
                self._starting = threading.Thread(target=self._start, args=(count,), daemon=True)
                self._starting.start()
                self._stop_later()

    @contextlib.contextmanager
    def _unless_used(self) -> Generator[bool]:
        """Whether the processes are this thread's for now; false if another one uses them."""
        mine, lock = self._lock.acquire(blocking=False), self._lock  # `forget` makes another
        try:
            yield mine
        finally:
            if mine:
                lock.release()

    def _start(self, count: int) -> None:
        with contextlib.suppress(OSError):  # there may be no process to be had
            while len(self._workers) < count:
                self._workers.append(Worker())

    def _started(self) -> None:
        if self._starting is not None:
            self._starting.join()
            self._starting = None

    def compile(self, kernels: Sequence[Func], target: Target, done: Done, here: Callable[[int], None]) -> None:
        """Compile kernels: `here` in this thread, those that workers take are given to `done`. All are when it ends."""
        batch = Batch(kernels, target, done)
        with self._unless_used() as mine:
            (self._shared if mine else self._alone)(batch, here)

    def _alone(self, batch: Batch, here: Callable[[int], None]) -> None:
        while (i := batch.take(to_worker=False)) is not None:
            here(i)

    def _shared(self, batch: Batch, here: Callable[[int], None]) -> None:
        threads: list[threading.Thread] = []
        try:
            self._started()
            for worker in self._workers:
                threads.append(threading.Thread(target=batch.worked, args=(worker,), daemon=True))
                threads[-1].start()
            while True:
                self._alone(batch, here)
                if not batch.wait():
                    self._kill()
                elif (i := batch.take(to_worker=False)) is None:
                    return
                else:
                    here(i)
        except KeyboardInterrupt:
            self._kill()
            raise
        finally:
            batch.drop()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
                if thread.is_alive():
                    self._kill()
                    thread.join()
            self._see_off([w for w in self._workers if not w.alive])
            if self._workers:
                self._stop_later()

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _see_off(self, workers: Sequence[Worker]) -> None:
        self._workers = [w for w in self._workers if w not in workers]
        for worker in workers:
            worker.stop()

    def _stop_later(self) -> None:
        """Or later still, if there is more to do until then."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE_SECONDS, self.stop)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop the processes, unless somebody uses them."""
        with self._unless_used() as mine:
            if not mine:
                return
            self._started()
            if self._timer is not None:
                self._timer.cancel()
            self._see_off(self._workers)

    def forget(self) -> None:
        """In a forked process: these are its parent's."""
        for worker in self._workers:
            worker.forget()
        self._lock, self._workers = threading.Lock(), []
        self._starting = self._timer = None


def worker_count() -> int:
    """How many there may be."""
    cores = settings.threads or available_cores()
    # a program that was frozen into its interpreter would run again
    able = bool(sys.executable) and not getattr(sys, "frozen", False)
    return min(MOST_WORKERS, cores // 2) if able and cores >= LEAST_CORES else 0


workers = Workers()
atexit.register(workers.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.forget)


def serve() -> None:
    """A worker's whole life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nobody else's words belong between the answers
    gc.disable()  # IR has no cycles
    with contextlib.suppress(EOFError, OSError):
        while True:
            kernel, target = pickle.load(sys.stdin.buffer)  # noqa: S301  # of our own process
            try:
                made = LoweredKernel.of(kernel, target).compiled()
            except Exception:  # noqa: BLE001  # the parent finds the same, and raises it
                made = None
            pickle.dump(made, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    os._exit(0)
