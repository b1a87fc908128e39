"""NVIDIA's GPUs, a large part of each architecture.

Multiprocessors and the shared memory of a block are those of the CUDA programming guide's tables and of data sheets.
What schedules cost was fitted on an H200 alone (`profiles/h200.py`): a machine that names no costs has those, and a
note that says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphfuse.targets.machine import GpuMachine


@dataclass(frozen=True, slots=True)
class Profile:
    """An architecture: a PTX version that has it, a machine, and what is not as good on it as it may be."""

    ptx: str
    machine: GpuMachine
    note: str = ""


_NOT_FITTED = "what schedules cost was fitted on an H200, not on a GPU of this architecture"
_NO_SCHEDULES = "it has no schedules of its own for tensor cores: those of sm_80 are taken"

GPUS: dict[str, Profile] = {
    "sm_80": Profile("ptx70", GpuMachine(multiprocessors=108, shared_bytes=163 << 10), _NOT_FITTED),
    "sm_86": Profile("ptx71", GpuMachine(multiprocessors=84, shared_bytes=99 << 10), _NOT_FITTED),
    "sm_89": Profile("ptx78", GpuMachine(multiprocessors=142, shared_bytes=99 << 10), _NOT_FITTED),
    "sm_90": Profile(
        "ptx78",
        GpuMachine(multiprocessors=132, shared_bytes=227 << 10),
        "code for any GPU from sm_90 on has no wgmma: sm_90a is for Hopper itself",
    ),
    "sm_90a": Profile("ptx81", GpuMachine(multiprocessors=132, shared_bytes=227 << 10, has_wgmma=True)),
    "sm_100a": Profile("ptx86", GpuMachine(multiprocessors=148, shared_bytes=227 << 10), _NO_SCHEDULES),
    "sm_120a": Profile("ptx87", GpuMachine(multiprocessors=170, shared_bytes=99 << 10), _NO_SCHEDULES),
}
"""By architecture. An `a` means: this one and no other."""
