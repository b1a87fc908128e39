"""NVIDIA's GPUs as targets: `cuda:sm_90a`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from graphfuse.errors import TargetError, meant
from graphfuse.targets.profiles.nvidia import GPUS
from graphfuse.targets.target import FAMILIES, Instructions, Target


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """A GPU there is: name, compute capability, bytes of memory, the most shared memory a block may have, size."""

    name: str
    major: int
    minor: int
    memory_bytes: int
    shared_bytes: int
    multiprocessors: int

    @property
    def arch(self) -> str:
        """Such as `sm_90`."""
        return f"sm_{self.major}{self.minor}"

    @property
    def number(self) -> int:
        """Such as 90."""
        return 10 * self.major + self.minor

    @property
    def best_target(self) -> str:
        """The architecture to compile for."""
        return self.best_of([a for a in GPUS if self.why_not(a) is None]) or "sm_80"

    @staticmethod
    def best_of(archs: Iterable[str]) -> str:
        """Of those whose code it runs: its very own, else the newest."""
        return max(archs, key=lambda a: (not a[3:].isdigit(), int(a[3:].rstrip("af"))), default="")

    def why_not(self, arch: str) -> str | None:
        """Why code for `arch` does not run on it; None if it does."""
        digits = arch.removeprefix("sm_")
        number = digits.rstrip("af")
        if not number.isdigit():
            return f"{arch!r} is no architecture"
        if digits.endswith("a") and int(number) != self.number:
            return f"expected {arch}, found {self.arch} ({self.name})"
        if int(number) > self.number:
            return f"expected {arch} or newer, found {self.arch} ({self.name})"
        return None


class Nvidia:
    """The family."""

    is_gpu = True
    backend = "graphfuse.gpu.backend"
    drivers: Mapping[str, str] = {
        "cuda": "graphfuse.runtime.cuda.bindings",
        "emulator": "graphfuse.gpu.emulator.driver",
    }

    def parse(self, name: str) -> Target:
        """Such as `sm_90a`."""
        if name not in GPUS:
            hint = meant(name, GPUS) or f": one of {', '.join(GPUS)}"
            raise TargetError(f"unknown GPU architecture {name!r}{hint}")
        return Target("cuda", "nvptx64", name, f"+{GPUS[name].ptx}", 16, 16, "nvptx64-nvidia-cuda")

    def names(self) -> Collection[str]:
        """The architectures."""
        return GPUS.keys()

    def instructions(self, target: Target) -> Instructions:
        """PTX has halves and fma; 64-bit integers are made of parts.

        LLVM 22 drops a test of a shift's count, as shifts clamp it, but truncates counts of i64 to 32 bits before.
        """
        del target
        return Instructions(
            bfloats=True,
            halves_of_integers=True,
            long_integers=False,
            whole_counts=False,
            most_programs=(1 << 31) - 1,
        )

    def tools(self) -> str:
        """The assembler."""
        from graphfuse.gpu.assembler import assembler_version

        return assembler_version()


FAMILIES["cuda"] = Nvidia()
