"""One GPU in this process: its primary context, the modules loaded into it, its memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Generator, Sequence

from graphfuse.artifact import GPU_PREFIX, Code, Executable, Launch
from graphfuse.errors import ArtifactError, DeviceError, GraphfuseError
from graphfuse.findings import FaultError, FoundError
from graphfuse.runtime.gpu.memory import Pool
from graphfuse.targets.driver import Driver, DriverError
from graphfuse.targets.nvidia import GpuInfo

STATIC_SHARED = 48 << 10
"""Bytes of dynamic shared memory a kernel may have without asking."""


class Context:
    """A GPU's primary context, shared with others in this process; calls are made inside `with context.current():`."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        count = driver.device_count()
        if not count:
            raise DeviceError("there is no GPU")
        if ordinal >= count:
            raise DeviceError(f"no device cuda:{ordinal}: expected at most cuda:{count - 1}")
        self.driver, self.ordinal = driver, ordinal
        try:
            self.info: GpuInfo = driver.device_info(ordinal)
            self.handle = driver.retain(ordinal)
        except DriverError as e:
            raise DeviceError(f"cuda:{ordinal} cannot be used: {e}") from None
        self.where = f"cuda:{ordinal} ({self.info.name})"
        self.pool = Pool(driver, self.where)
        self._modules: dict[str, tuple[int, ...]] = {}
        self._images: dict[bytes, int] = {}
        self._functions: dict[tuple[tuple[int, ...], str], int] = {}
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.lost = ""
        """Why nothing works here any more; empty as long as it does."""

    @contextlib.contextmanager
    def current(self) -> Generator[None]:
        """Make the context this thread's, and afterwards the one before it."""
        if self.lost:
            raise DeviceError(f"{self.where} failed earlier in this process ({self.lost}): start a new process")
        if self._pid != os.getpid():
            raise DeviceError("a GPU cannot be used in a forked process: start it with 'spawn'")
        try:
            self.driver.push(self.handle)
            try:
                yield
            finally:
                with contextlib.suppress(DriverError):  # a lost context has had its say
                    self.driver.pop()
        except DriverError as e:
            raise self.failure(e, "") from None

    def failure(self, error: DriverError, what: str) -> DeviceError:
        """The error for users; remembers when the context is lost."""
        if error.is_sticky:
            self.lost = error.name
        return DeviceError(f"{self.where}: {what}{': ' if what else ''}{error}")

    def guarded(self, what: str | Callable[[], str], work: Callable[[], None]) -> None:
        """Say what the driver, or the emulator, was doing when it fails."""
        try:
            work()
        except DriverError as e:
            raise self.failure(e, what if isinstance(what, str) else what()) from None
        except DeviceError:
            raise
        except GraphfuseError as e:
            words = what if isinstance(what, str) else what()
            message = f"{self.where}: {words}: {e.message}"
            if isinstance(e, FoundError):
                raise FaultError(message, e.source, e.about, e.code) from None
            raise DeviceError(message, e.loc) from None

    def function(self, code: Code, name: str, launch: Launch) -> int:
        """A kernel ready to launch; a module is loaded once, whoever has its code."""
        with self._lock:
            modules = self._code_modules(code)
            key = (modules, name)
            if key not in self._functions:
                self._functions[key] = self._prepared(modules, name, launch)
            return self._functions[key]

    def functions(self, executable: Executable) -> dict[str, int]:
        """All kernels of an executable, by name."""
        code = executable.code[executable.target]
        return {k.name: self.function(code, k.name, k.launch) for k in executable.kernels if k.launch}

    def _prepared(self, modules: Sequence[int], name: str, launch: Launch) -> int:
        if launch.shared_bytes > self.info.shared_bytes:
            raise DeviceError(
                f"kernel {name!r} needs {launch.shared_bytes} bytes of shared memory, "
                f"a block of {self.where} has at most {self.info.shared_bytes}"
            )
        try:
            function = self._found(modules, name)
            if launch.shared_bytes > STATIC_SHARED:
                self.driver.allow_shared(function, launch.shared_bytes)
        except DriverError as e:
            raise ArtifactError(f"kernel {name!r} cannot be loaded: {e}") from None
        return function

    def _found(self, modules: Sequence[int], name: str) -> int:
        """A kernel of one of several modules."""
        *others, last = modules
        for module in others:
            with contextlib.suppress(DriverError):
                return self.driver.function(module, name)
        return self.driver.function(last, name)

    def _code_modules(self, code: Code) -> tuple[int, ...]:
        digest = hashlib.sha256(code.object or code.ptx.encode()).hexdigest()
        if digest not in self._modules:
            self._modules[digest] = self._load(code)
        return self._modules[digest]

    def _load(self, code: Code) -> tuple[int, ...]:
        """The cubins if there are any, else the PTX; that also when the driver does not take a cubin."""
        if code.object and self.driver.takes_cubins:
            try:
                return tuple(map(self._image, code.images))
            except DriverError as e:
                if not (e.unusable or e.too_old) or not code.ptx:
                    raise self._unloadable(code, e) from None
        try:
            return (self.driver.load_module(code.ptx.encode() + b"\0"),)
        except DriverError as e:
            raise self._unloadable(code, e) from None

    def _image(self, image: bytes) -> int:
        """A cubin, of which parts of a program may have the same one."""
        digest = hashlib.sha256(image).digest()
        if digest not in self._images:
            self._images[digest] = self.driver.load_module(image)
        return self._images[digest]

    def _unloadable(self, code: Code, error: DriverError) -> DeviceError | ArtifactError:
        if error.too_old:
            return DeviceError(error.too_old)
        if error.unusable:
            return ArtifactError(f"code for {code.arch} on {self.where}: {error.unusable} ({error})")
        return self.failure(error, f"loading code for {code.arch}")


def choose_variant(executable: Executable, info: GpuInfo) -> Executable:
    """The variant with the best code for this GPU."""
    found: dict[str, Executable] = {}
    reasons: list[str] = []
    for v in executable.variants:
        if not v.is_gpu:
            continue
        arch = v.target.removeprefix(GPU_PREFIX)
        reason = info.why_not(arch)
        if reason is None:
            found.setdefault(arch, v)
        else:
            reasons.append(f"code for {v.target}: {reason}")
    if found:
        return found[info.best_of(found)]
    have = "; ".join(reasons) or f"the artifact has code for {', '.join(v.target for v in executable.variants)} only"
    raise ArtifactError(f"{have}; rebuild it with 'graphfuse compile --recompile --target cuda:{info.best_target}'")


_contexts_lock = threading.Lock()


def context_of(driver: Driver, ordinal: int) -> Context:
    """The context of a GPU, one per driver and GPU."""
    with _contexts_lock:
        if ordinal not in driver.contexts:
            driver.contexts[ordinal] = Context(driver, ordinal)
        return driver.contexts[ordinal]
