"""What a compiled model is: signature, plan, kernels, weights, code.

Owns the data classes. It owns neither the rules that they keep (`artifact_rules.py`), their JSON (`artifact_json.py`),
the bytes of a file (`runtime/gfx.py`) nor how a plan runs (`runtime/`), and knows no IR.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast

import ml_dtypes
import numpy as np

from graphfuse.constraints import Constraint
from graphfuse.host.program import HostGraph
from graphfuse.symbolic import Dim, product
from graphfuse.targets import Target
from graphfuse.value_checks import REFUSED, Check

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Array: TypeAlias = np.ndarray[Any, Any]

ELEM_DTYPES: dict[str, Any] = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i2": ml_dtypes.int2, "u2": ml_dtypes.uint2,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0": ml_dtypes.float8_e8m0fnu, "f4e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip

MAX_SHARED_BYTES = 256 << 10
"""More than the blocks of any GPU have."""


ELEMS = tuple(ELEM_DTYPES)
"""Names of element types."""

TEXT, SEQUENCE, OPTIONAL, MAP = "text", "sequence", "optional", "map"
HELD = (SEQUENCE, OPTIONAL, MAP)
HOST_VALUES = (TEXT, *HELD)
"""What else Python's operators give: an array of `str` objects, or a list of arrays or of dicts, whose shape is ()."""


@functools.cache
def elem_dtype(name: str) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype that stores elements called `name`."""
    return np.dtype(ELEM_DTYPES[name])


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The name, element type (`f32`, `bf16`, `i64`, ...) and shape of an input or output.

    A dim is a number, or an expression over the symbols of `Signature.dims`. What Python runs may take `HOST_VALUES`.
    """

    name: str
    elem: str
    shape: tuple[Dim, ...]

    @property
    def nbytes(self) -> Dim:
        """How many bytes it takes in memory."""
        return product(self.shape) * elem_dtype(self.elem).itemsize

    def __str__(self) -> str:
        return f"{self.name}: {self.elem}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model takes and gives, and the inclusive range of every symbol in its shapes.

    A run whose dims break one of the `constraints` is refused. `names` has symbols that the model calls otherwise, as
    no symbol can be called (`2*n`).
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: tuple[tuple[str, int, int], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Symbol name to inclusive bounds."""
        return {name: (lo, hi) for name, lo, hi in self.dims}

    def symbol(self, name: str) -> str:
        """The symbol of a dim, by that or by the model's own name."""
        return name if name in self.ranges else {own: symbol for symbol, own in self.names}.get(name, name)

    def shown(self, dim: object) -> str:
        """A dim, or a text about dims, with the model's own names."""
        names, text = dict(self.names), str(dim)
        return names.get(text) or re.sub(r"[\w$]+", lambda m: f"({names[m[0]]})" if m[0] in names else m[0], text)

    def text(self, spec: TensorSpec) -> str:
        """A tensor for people: `x: f32[batch, 8]`."""
        return f"{spec.name}: {spec.elem}[{', '.join(map(self.shown, spec.shape))}]"


BufferKind = Literal["input", "output", "weight", "arena"]
BUFFER_KINDS: tuple[BufferKind, ...] = ("input", "output", "weight", "arena")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory a plan uses: the caller's, a weight's, or a range of the arena.

    `index` says which input, output or weight. An arena buffer lives from top-level step `first` to
    `last`, both included; another may take its place outside of that.
    """

    kind: BufferKind
    nbytes: Dim
    index: int = 0
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument: the address `offset` bytes into a buffer."""

    buffer: int
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class Scalar:
    """An argument: an integer known once the shapes are."""

    value: Dim


Arg: TypeAlias = Pointer | Scalar


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of `kernel` over programs `[0, grid)`, each of about `work` nanoseconds on one core."""

    kernel: str
    args: tuple[Arg, ...]
    grid: Dim
    work: Dim = 1
    label: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps that run for `symbol` = 0, 1, ... `count` - 1; their dims may name the symbol."""

    symbol: str
    count: Dim
    steps: tuple[Step | Loop, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The buffers of a model and the order of its launches."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step | Loop, ...]

    def walk(self) -> Iterator[tuple[int, Step]]:
        """Every step with the index of the top-level step it belongs to."""
        for i, step in enumerate(self.steps):
            for leaf in _leaves(step):
                yield i, leaf


def _leaves(step: Step | Loop) -> Iterator[Step]:
    if isinstance(step, Step):
        yield step
    else:
        for inner in step.steps:
            yield from _leaves(inner)


@dataclass(frozen=True, slots=True)
class Im2col:
    """Which positions TMA copies from in im2col mode, along each dim but the first and the last, innermost first.

    Along a dim they lie `steps` apart, from `lower` to `upper` past the dim's last element; an instruction adds an
    offset to them (a filter's tap). Positions outside of the dim read as zero.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor that a GPU kernel copies in boxes (TMA): what the driver encodes once its address is known.

    `param` points to it; its first element is `offset` elements from there. `dims` and `box` are in elements,
    innermost first; `strides`, in elements, are those of dims 1 and up. `swizzle` is in bytes (0: none).
    With `im2col`, `box` is (elements along dim 0, positions): positions go on from row to row.
    """

    param: int
    elem: str
    offset: Dim
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    box: tuple[int, ...]
    swizzle: int
    im2col: Im2col | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """How a GPU kernel is launched: a block of `threads` is one program.

    After its arguments a kernel takes the address of its scratch memory and the tensor maps, whose dims are in terms of
    the integer arguments: `symbols` names these in order. One that `overlaps` waits for the kernels before it by itself
    (`griddepcontrol.wait`). What the assembler says is -1 where there was none.

    A program may be made by `split` blocks, with `flags` by that many at most. If `persistent` is not 0, no more than
    so many blocks for each multiprocessor are launched, in whole clusters: they share out the programs among
    themselves.

    Each block has `flags` words of 4 bytes, of which those of block 0 end where scratch memory begins. They must be 0
    before a launch, and are 0 after it. Scratch memory is then that of blocks, not of programs.
    """

    threads: int
    shared_bytes: int = 0
    cluster: int = 1
    split: int = 1
    persistent: int = 0
    flags: int = 0
    overlaps: bool = False
    symbols: tuple[str, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    registers: int = -1
    spill_bytes: int = -1
    static_shared_bytes: int = -1

    def blocks(self, programs: int, multiprocessors: int) -> int:
        """How many blocks a launch of so many programs has."""
        count = programs * self.split
        if not self.persistent:
            return count
        most = max(1, multiprocessors * self.persistent // self.cluster) * self.cluster
        return min(count, most)

    def flag_bytes(self, blocks: int) -> int:
        """What lies before the scratch memory of so many blocks; its address stays aligned."""
        return -(-4 * self.flags * blocks // 256) * 256


COPY = "copy"
"""The kind of the kernel that copies bytes: source, destination, count. A GPU leaves it to the driver."""


@dataclass(frozen=True, slots=True)
class KernelMeta:
    """What is known of a kernel besides its code. `scratch_bytes` is per thread, on a GPU per program.

    `params` has one letter per argument slot: `r` a pointer that is only read, `w` one that is only
    written, `x` one that is both, `i` an integer. `label` says where the kernel came from.
    """

    name: str
    params: str
    kind: str = ""
    label: str = ""
    scratch_bytes: Dim = 0
    flops: Dim = 0
    bytes_read: Dim = 0
    bytes_written: Dim = 0
    launch: Launch | None = None


KERNEL_DIMS = ("scratch_bytes", "flops", "bytes_read", "bytes_written")
"""What of a kernel is a dim."""


FOUR = 4
"""Steps of k that are multiplied at once, of bytes."""


@dataclass(frozen=True, slots=True)
class Panels:
    """How a constant is laid out for the kernels that multiply by it: `[panel, rest..., width]`, cut along `axis`.

    Of bytes that are multiplied by fours, four steps along the axis `fours` are one lane: `[..., width, 4]`.
    """

    axis: int
    width: int
    fours: int | None = None

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of the panels, for a constant of this shape."""
        rest = [n // FOUR if i == self.fours else n for i, n in enumerate(shape) if i != self.axis]
        count = -(-shape[self.axis] // self.width)
        return (count, *rest, self.width, *((FOUR,) if self.fours is not None else ()))

    def of(self, array: Array) -> Array:
        """The panels; lanes beyond the array are 0."""
        moved = np.moveaxis(array, self.axis, -1)
        panels = -(-moved.shape[-1] // self.width)
        if missing := panels * self.width - moved.shape[-1]:
            moved = np.concatenate([moved, np.zeros((*moved.shape[:-1], missing), array.dtype)], axis=-1)
        split = moved.reshape(*moved.shape[:-1], panels, self.width)
        out = np.moveaxis(split, -2, 0)
        if self.fours is not None:
            k = 1 + self.fours - (self.axis < self.fours)  # behind the panels, the axis taken out
            lanes = out.reshape(*out.shape[:k], out.shape[k] // FOUR, FOUR, *out.shape[k + 1 :])
            out = np.moveaxis(lanes, k + 1, -1)
        return np.ascontiguousarray(out)

    def back(self, panels: Array, shape: Sequence[int]) -> Array:
        """The constant of this shape that the panels are of."""
        if self.fours is not None:
            k = 1 + self.fours - (self.axis < self.fours)
            lanes = np.moveaxis(panels, -1, k + 1)
            panels = lanes.reshape(*lanes.shape[:k], lanes.shape[k] * FOUR, *lanes.shape[k + 2 :])
        split = np.moveaxis(panels, 0, -2)
        merged = split.reshape(*split.shape[:-2], split.shape[-2] * self.width)
        return np.ascontiguousarray(np.moveaxis(merged[..., : shape[self.axis]], -1, self.axis))


class Stored(Protocol):
    """An array that is read from a file when it is first used."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Known without reading it."""
        ...

    @property
    def nbytes(self) -> int:
        """Known without reading it."""
        ...

    def array(self) -> Array:
        """The array, whose address stays."""
        ...

    def fresh(self) -> Array:
        """The array, for a caller that does not keep it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A constant. `shape` is that of the array, in which packed layouts have their own.

    `packed` is the constant that it is panels of, if it is: files for several targets have that once.
    """

    name: str
    elem: str
    data: Array | Stored
    packed: tuple[Array | Stored, Panels] | None = None

    @property
    def array(self) -> Array:
        """In memory, from now on at the latest; its address stays."""
        return self.data if isinstance(self.data, np.ndarray) else self.data.array()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return cast("tuple[int, ...]", self.data.shape)

    @property
    def nbytes(self) -> int:
        """Those of the array."""
        return self.data.nbytes


def fresh(data: Array | Stored) -> Array:
    """An array that is used once."""
    return data if isinstance(data, np.ndarray) else data.fresh()


@dataclass(frozen=True, slots=True)
class Code:
    """A relocatable object for one kind of CPU, and what it needs of that CPU.

    For a GPU, `arch` is such as `sm_90a`, `os` is `cuda`, and `object` is a cubin, or empty where none could be made:
    then the driver assembles `ptx`. `warnings` are the assembler's. Where `object` is several cubins, one behind the
    other, `cubins` says how long each is.
    """

    arch: str
    os: str
    features: tuple[str, ...]
    object: bytes = field(repr=False)
    ptx: str = field(default="", repr=False)
    warnings: tuple[str, ...] = ()
    cubins: tuple[int, ...] = ()

    @property
    def images(self) -> tuple[bytes, ...]:
        """The cubins; none where there is only PTX."""
        ends = itertools.accumulate(self.cubins or (len(self.object),))
        return tuple(self.object[a:b] for a, b in itertools.pairwise((0, *ends)) if b > a)

    @staticmethod
    def of(target: Target, code: bytes) -> Code:
        """An object compiled for `target`, which may use all of its features."""
        os = next((os for word, os in _TRIPLES if word in target.triple), "linux")
        return Code(target.arch, os, tuple(sorted(target.feature_set)), code)


_TRIPLES = (("darwin", "darwin"), ("macos", "darwin"), ("windows", "win32"))
"""Words in a target triple, and what `sys.platform` is there."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Executable:
    """A compiled model. `code` is by target text; `ir` has the texts of the stages, by stage.

    `others` are the same model compiled for other targets, each with its own plan, kernels and weights.

    `shared` are outputs, by number, each with the input whose memory the caller gives it: what the plan does not write
    of such an output is what the input holds.

    `over` are buffers of the plan's arena, by number, each with the input that is not read any more when the buffer is
    written first: a caller that does not need the input may give its memory to the buffer.

    `checks` are those of values that it makes as it runs: it reports on them in one output more than its signature has.

    A model with host code is `parts`, compiled each by itself, and the `host` program that runs them; it has no plan
    and no kernels, and its weights are the constants of the program.
    """

    signature: Signature
    plan: Plan
    kernels: tuple[KernelMeta, ...]
    weights: tuple[Weight, ...]
    target: str
    code: Mapping[str, Code]
    ir: Mapping[str, str] = field(default_factory=dict[str, str])
    ledger: Sequence[Json] = ()
    meta: Mapping[str, Json] = field(default_factory=dict[str, Json])
    others: tuple[Executable, ...] = ()
    host: HostGraph | None = None
    parts: tuple[Executable, ...] = ()
    checks: tuple[Check, ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    over: tuple[tuple[int, int], ...] = ()

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """All that its plan writes for the caller: the outputs, and what it reports of checks."""
        report = (TensorSpec(REFUSED, "i64", (len(self.checks),)),) if self.checks else ()
        return (*self.signature.outputs, *report)

    @property
    def is_gpu(self) -> bool:
        """Whether its kernels are a GPU's."""
        return self.target.startswith(GPU_PREFIX)

    @property
    def variants(self) -> tuple[Executable, ...]:
        """This one and the others."""
        return (self, *self.others)


GPU_PREFIX = "cuda:"
"""What the text of a GPU target begins with."""


def combined(parts: Sequence[Executable]) -> Executable:
    """One executable for several targets, the first of which is the one that `target` names."""
    variants = [v for part in parts for v in part.variants]
    return replace(variants[0], others=tuple(replace(v, others=()) for v in variants[1:]))
