"""The rules that every executable keeps, whoever wrote it: plan, signature, kernels and weights fit each other.

Trust. An artifact is a program: its object code runs in this process. What `check` promises is that
a plan that passes cannot make the *runtime* go wrong (an index out of range, a pointer outside its
buffer, a kernel called with too few arguments), so damage is an error and never a crash.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence

from graphfuse.artifact import (
    COPY,
    ELEMS,
    HOST_VALUES,
    KERNEL_DIMS,
    Arg,
    Executable,
    KernelMeta,
    Loop,
    Scalar,
    Signature,
    Step,
    elem_dtype,
)
from graphfuse.errors import ArtifactError
from graphfuse.host.program import HostGraph, check_program
from graphfuse.symbolic import Dim, bounds, is_name, symbols


def check(executable: Executable) -> None:
    """Raise ArtifactError unless the plan fits its signature, kernels and weights.

    What depends on the shapes (offsets inside their buffers, grids not negative) is refused here
    when it is wrong for every shape, and checked again for the actual one when it is bound.
    """
    _check_signature(executable.signature)
    signature = executable.signature
    taken = {*ELEMS, *(HOST_VALUES if executable.host else ())}
    if other := [s for s in (*signature.inputs, *signature.outputs) if s.elem not in taken]:
        raise ArtifactError(f"tensor {other[0].name!r}: expected elements that are numbers, found {other[0].elem}")
    for dim in (d for c in executable.checks for d in (c.low, c.high) if d is not None):
        _check_known("a check", symbols(dim), signature.ranges)
    if executable.host is not None:
        _check_host(executable, executable.host)
    else:
        _check_plan(executable)
    for other in executable.others:
        check(other)
    check_variants(executable)


def _check_plan(executable: Executable) -> None:
    _require_unique("kernel", [k.name for k in executable.kernels])
    _require_unique("weight", [w.name for w in executable.weights])
    for kernel in executable.kernels:
        _check_kernel(kernel, executable)
    _check_buffers(executable)
    kernels = {k.name: k for k in executable.kernels}
    for i, step in enumerate(executable.plan.steps):
        _check_step(step, i, f"step {i}", executable, kernels, frozenset())
    if executable.target not in executable.code:
        raise ArtifactError(f"expected code for {executable.target!r}, found {', '.join(executable.code) or 'none'}")


def _check_host(executable: Executable, program: HostGraph) -> None:
    if executable.plan.steps or executable.kernels or executable.code:
        raise ArtifactError("host: expected a program of parts, found kernels of its own")
    for i, part in enumerate(executable.parts):
        if part.host is not None or part.others or part.target != executable.target:
            raise ArtifactError(f"part {i}: expected kernels for {executable.target}, found {part.target}")
        check(part)
    ends = [_names(p.signature) for p in (*executable.parts, executable)]
    if (program.inputs, program.outputs) != ends[-1]:
        raise ArtifactError("host: expected the inputs and outputs of the signature")
    check_program(program, ends[:-1], len(executable.weights))


def _names(signature: Signature) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(s.name for s in signature.inputs), tuple(s.name for s in signature.outputs)


def check_variants(executable: Executable) -> None:
    """Raise ArtifactError unless the code for several targets is of one model."""
    _require_unique("target", [v.target for v in executable.variants])
    for other in executable.others:
        if other.signature != executable.signature or other.others:
            raise ArtifactError(f"code for {other.target!r}: expected the signature of {executable.target!r}")


def _check_kernel(kernel: KernelMeta, executable: Executable) -> None:
    if not kernel.name.isidentifier():
        raise ArtifactError(f"kernel name {kernel.name!r}: expected an identifier")
    if set(kernel.params) - set("rwxi"):
        raise ArtifactError(f"kernel {kernel.name!r}: expected parameters out of 'rwxi', found {kernel.params!r}")
    for key in KERNEL_DIMS:
        _check_size(f"kernel {kernel.name!r}: {key}", getattr(kernel, key), executable.signature)
    _check_launch(kernel, executable)


def _check_launch(kernel: KernelMeta, executable: Executable) -> None:
    """A GPU's kernel says how it is launched, and its tensor maps are of its own pointers."""
    where = f"kernel {kernel.name!r}"
    if kernel.launch is None:
        if executable.is_gpu and (kernel.kind, kernel.params) != (COPY, "rwi"):
            raise ArtifactError(f"{where}: expected how it is launched on {executable.target}")
        return
    if len(kernel.launch.symbols) != kernel.params.count("i"):
        raise ArtifactError(f"{where}: expected a name for each of its integers, found {kernel.launch.symbols}")
    names = frozenset(kernel.launch.symbols)
    for m in kernel.launch.tensor_maps:
        if not 0 <= m.param < len(kernel.params) or kernel.params[m.param] == "i":
            raise ArtifactError(f"{where}: expected a tensor map of a pointer, found parameter {m.param}")
        if m.swizzle not in (0, 32, 64, 128):
            raise ArtifactError(f"{where}: expected a swizzle of 0, 32, 64 or 128 bytes, found {m.swizzle}")
        if m.im2col and not 3 <= len(m.dims) <= 5:
            raise ArtifactError(f"{where}: expected im2col of 3 to 5 dims, found {len(m.dims)}")
        for dim in (m.offset, *m.dims, *m.strides):
            _check_known(f"{where}: tensor map: {dim}", symbols(dim), names)


def _check_known(what: str, names: frozenset[str], known: Collection[str]) -> None:
    if unknown := names.difference(known):
        raise ArtifactError(f"{what} names the undeclared symbol {min(unknown)!r}")


def _require_unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ArtifactError(f"two {what}s are called {twice!r}")


def _check_signature(signature: Signature) -> None:
    _require_unique("dim", [name for name, _, _ in signature.dims])
    _require_unique("input", [s.name for s in signature.inputs])
    _require_unique("output", [s.name for s in signature.outputs])
    for name, lo, hi in signature.dims:
        if not is_name(name) or not 0 <= lo <= hi:
            raise ArtifactError(f"dim {name!r}: expected a range lo..hi, found {lo}..{hi}")
    for spec in (*signature.inputs, *signature.outputs):
        if len(spec.shape) > 64:
            raise ArtifactError(f"tensor {spec.name!r}: expected at most 64 dims, found {len(spec.shape)}")
        for dim in spec.shape:
            _check_size(f"tensor {spec.name!r}", dim, signature)
    _require_unique("dim", [name for _, name in signature.names])
    if unknown := {symbol for symbol, _ in signature.names} - signature.ranges.keys():
        raise ArtifactError(f"the undeclared symbol {min(unknown)!r} has a name")
    for c in signature.constraints:
        _check_known(f"constraint: {c}", c.symbols, signature.ranges)


def _check_size(
    what: str, dim: Dim, signature: Signature, most: Dim | None = None, loops: frozenset[str] = frozenset()
) -> None:
    """Refuse unknown symbols, and values that are negative or above `most` whatever the shapes are."""
    if wrong := _wrong_size(dim, signature.dims, most, loops):
        raise ArtifactError(f"{what}: {wrong}")


@functools.lru_cache(maxsize=8192)  # the layers of a model have the same sizes
def _wrong_size(dim: Dim, dims: tuple[tuple[str, int, int], ...], most: Dim | None, loops: frozenset[str]) -> str:
    ranges = {name: (low, high) for name, low, high in dims}
    if unknown := frozenset(symbols(dim)) - ranges.keys() - loops:
        return f"{dim} names the undeclared symbol {min(unknown)!r}"
    if bounds(dim, ranges)[1] < 0:
        return f"expected at least 0, found {dim}"
    if most is not None and bounds(most - dim, ranges)[1] < 0:
        return f"expected at most {most}, found {dim}"
    return ""


def _check_buffers(executable: Executable) -> None:
    signature, plan = executable.signature, executable.plan
    known: dict[str, Sequence[Dim]] = {
        "input": [s.nbytes for s in signature.inputs],
        "output": [s.nbytes for s in executable.results],
        "weight": [math.prod(w.shape) * elem_dtype(w.elem).itemsize for w in executable.weights],
    }
    outputs: list[int] = []
    for i, buffer in enumerate(plan.buffers):
        _check_size(f"buffer {i}", buffer.nbytes, signature)
        if buffer.kind == "arena":
            if not 0 <= buffer.first <= buffer.last < max(len(plan.steps), 1):
                raise ArtifactError(
                    f"buffer {i}: expected a lifetime inside 0..{len(plan.steps) - 1}, "
                    f"found {buffer.first}..{buffer.last}"
                )
            continue
        sizes = known[buffer.kind]
        if not 0 <= buffer.index < len(sizes):
            raise ArtifactError(f"buffer {i}: expected one of {len(sizes)} {buffer.kind}s, found {buffer.index}")
        if buffer.nbytes != sizes[buffer.index]:
            raise ArtifactError(
                f"buffer {i}: expected the {sizes[buffer.index]} bytes of {buffer.kind} "
                f"{buffer.index}, found {buffer.nbytes}"
            )
        if buffer.kind == "output":
            outputs.append(buffer.index)
    for output, number in executable.shared:
        if output >= len(signature.outputs) or number >= len(signature.inputs):
            raise ArtifactError(f"output {output} shares memory with input {number}: expected numbers of both")
        if signature.outputs[output].nbytes != signature.inputs[number].nbytes:
            raise ArtifactError(f"output {output} shares memory with input {number}, which is of another size")
    arena = {i: b.nbytes for i, b in enumerate(executable.plan.buffers) if b.kind == "arena"}
    for number, given in executable.over:
        if number not in arena or given >= len(signature.inputs) or signature.inputs[given].nbytes != arena[number]:
            raise ArtifactError(
                f"buffer {number} in the place of input {given}: expected one of the arena, of its size"
            )
    # an output without a buffer would hand the caller memory nobody wrote
    if sorted(outputs) != list(range(len(known["output"]))):
        raise ArtifactError(f"expected one buffer for each of {len(known['output'])} outputs")


def _check_step(
    step: Step | Loop,
    top: int,
    where: str,
    executable: Executable,
    kernels: Mapping[str, KernelMeta],
    loops: frozenset[str],
) -> None:
    signature = executable.signature
    if isinstance(step, Loop):
        if step.symbol in loops or step.symbol in signature.ranges or not step.symbol.isidentifier():
            raise ArtifactError(f"{where}: loop symbol {step.symbol!r} is already taken or not a name")
        _check_size(f"{where}: count", step.count, signature, loops=loops)
        for j, inner in enumerate(step.steps):
            _check_step(inner, top, f"{where}.{j}", executable, kernels, loops | {step.symbol})
        return
    if (kernel := kernels.get(step.kernel)) is None:
        raise ArtifactError(f"{where}: no kernel is called {step.kernel!r}")
    if len(step.args) != len(kernel.params):
        raise ArtifactError(
            f"{where}: kernel {kernel.name!r} takes {len(kernel.params)} arguments, found {len(step.args)}"
        )
    _check_size(f"{where}: grid", step.grid, signature, loops=loops)
    _check_size(f"{where}: work", step.work, signature, loops=loops)
    for j, (arg, param) in enumerate(zip(step.args, kernel.params, strict=True)):
        _check_arg(arg, param, top, f"{where}: argument {j}", executable, loops)


def _check_arg(arg: Arg, param: str, top: int, where: str, executable: Executable, loops: frozenset[str]) -> None:
    buffers = executable.plan.buffers
    if isinstance(arg, Scalar) != (param == "i"):
        wanted, found = ("an integer", "a pointer") if param == "i" else ("a pointer", "an integer")
        raise ArtifactError(f"{where}: expected {wanted}, found {found}")
    if isinstance(arg, Scalar):
        _check_known(f"{where}: {arg.value}", symbols(arg.value), executable.signature.ranges.keys() | loops)
        return
    if not 0 <= arg.buffer < len(buffers):
        raise ArtifactError(f"{where}: expected one of {len(buffers)} buffers, found {arg.buffer}")
    buffer = buffers[arg.buffer]
    _check_size(f"{where}: offset", arg.offset, executable.signature, buffer.nbytes, loops)
    if param != "r" and buffer.kind in ("input", "weight"):
        raise ArtifactError(f"{where}: writes {buffer.kind} {buffer.index}, which is read-only")
    if buffer.kind == "arena" and not buffer.first <= top <= buffer.last:
        raise ArtifactError(f"{where}: uses buffer {arg.buffer} outside of its lifetime {buffer.first}..{buffer.last}")
