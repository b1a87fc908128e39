"""Small graph functions in a short notation, and runs of their regions as block programs.

`graph_func` takes ops without their types (`s = add(x, y)`); types are inferred, and the result is real IR that
prints. `check_blocks` lowers every region of a function and compares it with the interpreter on the operands that
the region really gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphfuse.blockgen.lower import EMITTERS, GPU_EMITTERS, lower_region
from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.interp import block as block_interp
from graphfuse.interp import elementwise as ew
from graphfuse.interp import graph as interp
from graphfuse.ir.core import REGISTRY, Block, Builder, Func, Op, Params, Value, attr_ints
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import I64, Ptr, Scalar, Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import evaluate
from graphfuse.targets.machine import GpuMachine, Machine

Array = np.ndarray[Any, Any]

AVX512 = Machine(vector_bytes=64, registers=32)
AVX2 = Machine(vector_bytes=32, registers=16)
NEON = Machine(vector_bytes=16, registers=16)
MACHINES = {"avx512": AVX512, "avx2": AVX2, "neon": NEON}

_LINE = re.compile(r"(?:(?P<names>\w+(?:, \w+)*) = )?(?P<kind>\w+)\((?P<operands>[^)]*)\) ?(?P<attrs>\{.*\})?")


def graph_func(params: str, body: str, dims: str = "") -> Func:
    """`graph_func("x: 4x8xf32", "y = exp(x); return(y)")`: a verified function with all types inferred."""
    takes = ", ".join(f"%{p.split(': ')[0]}: tensor<{p.split(': ')[1]}>" for p in params.split(", ") if p)
    head = parse(f"func @main({takes}){f' dims ({dims})' if dims else ''} {{ return() }}")
    names = {v.hint: v for v in head.params}
    builder = Builder()
    for line in (s.strip() for s in re.split(r"[;\n]", body)):
        if line:
            _append(builder, names, line)
    func = Func("main", builder.block(head.body.params), {}, head.dims)
    verify(func)
    return func


def _append(builder: Builder, names: dict[str, Value], line: str) -> None:
    m = _LINE.fullmatch(line)
    assert m, f"bad line {line!r}"
    operands = [names[n] for n in m["operands"].split(", ") if n]
    attrs = parse(f"func @a() {m['attrs'] or ''} {{ return() }}").attrs
    kind = REGISTRY.get(f"graph.{m['kind']}") or REGISTRY[m["kind"]]
    op = builder.append(kind(*operands, **attrs))
    names.update(zip((m["names"] or "").split(", "), op.results, strict=False))


def in_one_region(func: Func, kind: str) -> Func:
    """All ops of a function as one region of a given kind, whether or not fusion would make it."""
    params = Params(func.body.params.types, func.body.params.hints)
    body = replace(func.body, ops=(*func.body.ops[:-1], control.yield_(*func.outputs)))
    given = func.body.params.values
    scatters = (op for op in body.ops if op.kind in graph.SCATTERS and not op.attrs.get("whole", False))
    written = tuple(given.index(op.operands[0]) for op in scatters)
    attrs: dict[str, Any] = {"in_place": written} if written else {}
    region = graph.region(*params.values, kernel="k", kind=kind, bodies=(body,), **attrs)
    return Func("main", Block(params, (region, control.return_(*region.results))), {}, func.dims)


@dataclass(frozen=True)
class Case:
    """A function, the kinds of region that must be among its regions, and the symbol values to run it with."""

    name: str
    kinds: tuple[str, ...]
    func: Func
    sizes: tuple[Mapping[str, int], ...] = ({},)
    indices: int = 2
    """Inputs named `i...` hold indices in -indices .. indices - 1."""
    special: bool = False
    """Whether floats include NaN, infinities and -0.0."""
    whole: bool = False
    """Whether `func` has its regions already."""
    inputs: Mapping[str, Array] = field(default_factory=dict[str, Array])

    def arrays(self, values: Mapping[str, int], seed: int = 0) -> list[Array]:
        """Inputs for these symbol values."""
        rng = np.random.default_rng(seed)
        return [self.inputs.get(v.hint, self._array(rng, v, values)) for v in self.func.params]

    def _array(self, rng: np.random.Generator, v: Value, values: Mapping[str, int]) -> Array:
        assert isinstance(v.type, Tensor)
        shape = tuple(evaluate(d, values) for d in v.type.shape)
        if v.hint.startswith("i"):
            return rng.integers(-self.indices, self.indices, shape).astype(numpy_dtype(v.type.elem))
        out = random_array(rng, shape, v.type.elem)
        if self.special and v.type.elem.is_float:
            odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]).astype(out.dtype)
            where = rng.random(shape) < 0.2
            out[where] = rng.choice(odd, shape)[where]
        return out


def random_array(rng: np.random.Generator, shape: Sequence[int], elem: Scalar) -> Array:
    """Ordinary floats; integers of the whole range up to 16 bits, else small enough to read."""
    if elem.is_float:
        return rng.uniform(-2, 2, shape).astype(numpy_dtype(elem))
    if elem.name == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    reach = 1 << min(elem.bits - 1, 12)
    return ew.cast(np.asarray(rng.integers(-reach, reach, shape), np.int64), elem)


# running


def lowered(case: Case, machine: Machine) -> Func:
    """The function with its weights packed and its ops in regions."""
    if case.whole:
        return case.func
    func, _ = outline(pack_for_machine(case.func, machine))
    verify(func)
    return func


def region_ops(func: Func) -> Iterator[Op]:
    """All regions, those in loops too."""
    return (op for op in func.walk() if op.kind is graph.region)


def check_blocks(func: Func, inputs: Sequence[Array], machine: Machine) -> list[Func]:
    """Run every region as block programs and compare with the interpreter; returns the block functions."""
    symbols = interp.bind(func, [a.shape for a in inputs], {})
    kernels: list[Func] = []
    env = dict(zip(func.params, inputs, strict=True))
    for op in func.body.ops[:-1]:
        operands = [env[v] for v in op.operands]
        results = interp.evaluate_op(op, operands, symbols)
        if op.kind is graph.region:
            emitters = GPU_EMITTERS if isinstance(machine, GpuMachine) else EMITTERS
            kernel = lower_region(op, "k", func.ranges, machine, emitters)
            kernels.append(kernel)
            exact = interp.evaluate_op(op, [widened(a) for a in operands], symbols, wide=True)
            for got, want, wide in zip(launched(kernel, op, operands, symbols), results, exact, strict=True):
                assert_close(got, want, wide, to_text(kernel))
        env.update(zip(op.results, results, strict=True))
    return kernels


def launched(kernel: Func, region: Op, operands: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """What the programs of a kernel write, over memory full of garbage, or of what is written in place."""
    shapes = [tuple(evaluate(d, symbols) for d in t.shape) for t in region.types if isinstance(t, Tensor)]
    elems = [t.elem for t in region.types if isinstance(t, Tensor)]
    outputs = [np.full(s, 99).astype(numpy_dtype(e)) for s, e in zip(shapes, elems, strict=True)]
    for number, out in zip(attr_ints(region, "in_place", ()), outputs, strict=False):
        out[...] = operands[number]
    names = [v.hint for v in kernel.params if v.type == I64]
    assert sum(isinstance(v.type, Ptr) for v in kernel.params) == len(operands) + len(outputs)
    flat = [np.ascontiguousarray(a).reshape(-1) for a in operands]
    block_interp.launch(kernel, [*flat, *(o.reshape(-1) for o in outputs)], {n: symbols[n] for n in names})
    return outputs


def widened(array: Array) -> Array:
    """Floats as f64."""
    return array.astype(np.float64) if ew.elem_of(array.dtype).is_float else array


def assert_close(got: Array, want: Array, exact: Array, what: str = "") -> None:
    """Equal; where anything was rounded, no further from f64 than the interpreter's own errors explain."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    limit = tolerance(want, exact)
    g, w = (a.astype(np.float64) if limit else a for a in (got, want))
    np.testing.assert_allclose(g, w, rtol=0, atol=limit, err_msg=what, equal_nan=True)


def tolerance(want: Array, exact: Array) -> float:
    """16 times the interpreter's own error, and a few units in the last place; 0 where nothing was rounded."""
    elem = ew.elem_of(want.dtype)
    if not elem.is_float:
        return 0.0
    finite = np.isfinite(exact) & np.isfinite(want.astype(np.float64))
    error = np.max(np.abs(want.astype(np.float64)[finite] - exact[finite]), initial=0.0)
    if error == 0 and elem.name != "f64":
        return 0.0
    steps = {"f64": 2.0**-48, "f32": 2.0**-20, "f16": 2.0**-9, "bf16": 2.0**-6}.get(elem.name, 2.0**-2)
    return float(16 * error + steps * np.max(np.abs(exact[finite]), initial=1e-30))
