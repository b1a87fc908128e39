"""The emulator's front: parse a module once, launch its kernels with numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from graphfuse.errors import Loc
from graphfuse.gpu.emulator.decode import Decoder
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.gpu.emulator.heap import BASE, Heap
from graphfuse.gpu.emulator.instructions import memory, wgmma
from graphfuse.gpu.emulator.layout import Layout, Triple
from graphfuse.gpu.emulator.machine import MOST_TURNS, Machine, orders
from graphfuse.gpu.emulator.parse import Kernel, Variable, parse
from graphfuse.gpu.emulator.report import Report
from graphfuse.gpu.emulator.tensormap import Buffer, TensorMap
from graphfuse.gpu.emulator.types import Array

SHARED_BYTES = 227 << 10
"""Of a block, as on an H200."""


class Emulator:
    """A PTX module. `launch` runs a kernel for a whole grid and checks what it does.

    Args:
        ptx: The text, of any compiler.
        seed: Orders warps, lanes of atomics, and what completes when: the same seed, the same run.
        checks: Whether accesses are checked; without, only results are computed, faster.
        name: What errors call the text.
        most_turns: How often a warp may go round a loop.

    Raises:
        EmulatorError: The text is no PTX, or has instructions that the emulator does not know.
    """

    def __init__(
        self, ptx: str, *, seed: int = 0, checks: bool = True, name: str = "<ptx>", most_turns: int = MOST_TURNS
    ) -> None:
        self.module = parse(ptx, name)
        self.seed, self.checks, self.most_turns = seed, checks, most_turns

    def kernel(self, name: str) -> Kernel:
        """A kernel of the module. Raises EmulatorError."""
        found = self.module.kernels.get(name)
        if found is None:
            raise EmulatorError(f"no kernel {name!r}: have {', '.join(self.module.kernels) or 'none'}")
        return found

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_bytes: int = 0,
        cluster: Sequence[int] = (),
    ) -> Report:
        """Run a kernel; arrays are changed in place.

        Args:
            kernel: Its name in the module.
            grid: How many blocks, along one to three axes.
            block: Threads of a block, likewise: 1024 at most.
            args: One for each parameter: a numpy array, a `Buffer`, a `TensorMap`, or a number.
            shared_bytes: Of dynamic shared memory.
            cluster: Blocks of a cluster; by default what the kernel requires.

        Returns:
            What it did: instructions, traffic, operations, what it printed.

        Raises:
            EmulatorError: The first thing that is wrong, at its line.
        """
        found = self.kernel(kernel)
        cluster = cluster or found.limits.get("reqnctapercluster", (1,))
        machine = self._machine(found, _triple(grid), _triple(block), _triple(cluster), shared_bytes, args)
        try:
            machine.run()
        finally:
            machine.heap.write_back()
        return machine.report

    def _machine(
        self, kernel: Kernel, grid: Triple, block: Triple, cluster: Triple, shared_bytes: int, args: Sequence[Any]
    ) -> Machine:
        self._check_launch(kernel, grid, block, cluster)
        variables = {**self.module.variables, **kernel.variables}
        symbols: dict[str, tuple[str, int]] = {}
        sizes: dict[str, int] = {}
        for space in ("shared", "local"):
            own = (v for v in variables.values() if v.space == space)
            # the dynamic shared memory, whose size is 0, comes last
            sizes[space], places = _laid_out(sorted(own, key=lambda v: v.bytes == 0))
            symbols |= {name: (space, at) for name, at in places.items()}
        layout = Layout(
            grid,
            block,
            cluster,
            sizes["shared"] + shared_bytes,
            shared_bytes,
            max(sizes["local"], 16),
            memory.narrowest(kernel.code, "shared"),
            memory.narrowest(kernel.code, "global"),
            sum(max(t.bytes, 2) for t in kernel.registers.values()),
            has_wgmma=any(i.name == "wgmma" for i in kernel.code),
            has_bulk_stores=any("bulk_group" in i.mods for i in kernel.code),
            has_mbarriers=any(i.name == "mbarrier" for i in kernel.code),
            ordered=any(map(orders, kernel.code)),
        )
        if layout.shared_bytes > SHARED_BYTES:
            raise self._error(f"{layout.shared_bytes} bytes of shared memory: a block has at most {SHARED_BYTES}")
        if layout.threads > 1024:
            raise self._error(f"{layout.threads} threads in a CTA: at most 1024")
        heap = Heap()
        param_bytes, offsets = _laid_out(kernel.params)
        params = np.zeros(max(param_bytes, 8), np.uint8)
        param_address = heap.add("parameters", Buffer(params, writable=False))
        maps = self._bind(kernel, args, heap, offsets, params.data)
        for variable in variables.values():
            if variable.space in ("global", "const"):
                content = np.array(bytearray(variable.initial or bytes(variable.bytes)))
                is_const = variable.space == "const"
                address = heap.add(variable.name, Buffer(content, writable=not is_const, constant=is_const))
                symbols[variable.name] = (variable.space, address - BASE)
        heap.seal()
        machine = Machine(
            self.module, kernel, layout, heap, seed=self.seed, checks=self.checks, most_turns=self.most_turns
        )
        machine.param_address, machine.param_offsets = param_address, offsets
        machine.symbols = symbols
        machine.tensor_maps = {param_address + at: found for at, found in maps.items()}
        layout.set_special(machine.special, [(0, 0, 0)])
        machine.wgmma_registers = wgmma.tracked(kernel)
        decoders = [Decoder(machine, i) for i in kernel.code]
        machine.steps = [wgmma.watched(d, d.step()) for d in decoders]
        return machine

    def _check_launch(self, kernel: Kernel, grid: Triple, block: Triple, cluster: Triple) -> None:
        name, threads = f"kernel {kernel.name!r}", int(np.prod(block))
        required, most = kernel.limits.get("reqntid"), kernel.limits.get("maxntid")
        if required and _triple(required) != block:
            raise self._error(f"{name}: block {block}: .reqntid says {_triple(required)}")
        if most and threads > int(np.prod(most)):
            raise self._error(f"{name}: {threads} threads: .maxntid says {int(np.prod(most))}")
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise self._error(f"{name}: grid {grid} is no multiple of cluster {cluster}")
        if min(*grid, *block) < 1:
            raise self._error(f"{name}: grid {grid}, block {block}: expected positive sizes")

    def _error(self, message: str) -> EmulatorError:
        return EmulatorError(message, Loc(self.module.name))

    def _bind(
        self, kernel: Kernel, args: Sequence[Any], heap: Heap, offsets: dict[str, int], content: memoryview
    ) -> dict[int, tuple[TensorMap, int]]:
        """Fill in the parameters' content; the tensor maps among them, and where in the heap they begin."""
        if len(args) != len(kernel.params):
            raise self._error(f"kernel {kernel.name!r}: {len(args)} arguments: expected {len(kernel.params)}")
        maps: dict[int, tuple[TensorMap, int]] = {}
        for param, arg in zip(kernel.params, args, strict=True):
            at, buffer = offsets[param.name], Buffer(cast("Array", arg)) if isinstance(arg, np.ndarray) else arg
            if isinstance(buffer, TensorMap):
                self._expect_bytes(kernel, param, 128, "a tensor map")
                source = Buffer(buffer.array, buffer.initialised, buffer.name, constant=buffer.constant)
                maps[at] = (buffer, heap.add(param.name, source) - BASE + buffer.offset)
            elif isinstance(buffer, Buffer):
                self._expect_bytes(kernel, param, 8, "a buffer")
                if not buffer.array.flags.c_contiguous:
                    raise self._error(f"argument {param.name!r} is not contiguous")
                made = _table(heap, buffer) if buffer.reached else buffer
                content[at : at + 8] = (heap.add(param.name, made) + buffer.offset).to_bytes(8, "little")
            else:
                content[at : at + param.bytes] = self._scalar(kernel, param, arg)
        return maps

    def _expect_bytes(self, kernel: Kernel, param: Variable, nbytes: int, what: str) -> None:
        if param.bytes != nbytes:
            raise self._error(f"kernel {kernel.name!r}: {what} for {param.name!r}, which has {param.bytes} bytes")

    def _scalar(self, kernel: Kernel, param: Variable, arg: Any) -> bytes:
        if isinstance(arg, np.generic):
            raw = arg.tobytes()
            self._expect_bytes(kernel, param, len(raw), f"a {arg.dtype} number")
            return raw
        if isinstance(arg, bool | int):
            return (int(arg) & ((1 << 8 * param.bytes) - 1)).to_bytes(param.bytes, "little")
        if isinstance(arg, float):
            return np.array(arg, {2: np.float16, 4: np.float32, 8: np.float64}[param.bytes]).tobytes()
        message = f"kernel {kernel.name!r}: argument {param.name!r} is a {type(arg).__name__}"
        raise self._error(f"{message}: expected an array, a Buffer, a TensorMap or a number")


def _table(heap: Heap, buffer: Buffer) -> Buffer:
    """Addresses as they are in the heap, where what they are of is put."""
    by_size = sorted(buffer.reached, key=lambda b: b.array.nbytes)  # of those that begin at one place the largest
    places = {int(b.array.__array_interface__["data"][0]): heap.add(b.name, b) for b in by_size}
    held = buffer.array.view(np.int64)
    return replace(buffer, array=np.array([places.get(int(at), at) for at in held], np.int64), writable=False)


def _triple(sizes: Sequence[int]) -> Triple:
    x, y, z = (*(int(s) for s in sizes), 1, 1)[:3]
    return x, y, z


def _laid_out(variables: Iterable[Variable]) -> tuple[int, dict[str, int]]:
    """Bytes of all together, and where each begins."""
    at, offsets = 0, dict[str, int]()
    for variable in variables:
        at = -(-at // variable.align) * variable.align
        offsets[variable.name] = at
        at += variable.bytes
    return at, offsets
