"""Layers around matrix products, compiled from graphs, beside torch: `python -m benchmarks.gpu_fused_graphs`.

    python -m benchmarks.gpu_fused_graphs [--set swiglu ...] [--every] [--only 2048x3072x768] [--peers eager] [--json F]
    python -m benchmarks.gpu_fused_graphs --dry      no GPU: small shapes on the emulator

Layers: `swiglu` silu(x @ w) * (x @ v); `packed` the same with one matrix; `layernorm` and `rmsnorm` of the rows, then
a product; `int8` weights with a scale per column; `int8 groups` with one per column and 128 rows; `residual` product,
bias and a residual; `gelu` product, bias, GELU by tanh; `qkv` three products of one x with biases. All in bf16, weights
constant as in a model. Each is graph IR that the compiler cuts into kernels as it sees fit; the layer norm is compiled
under numerics = fast, without which its mean is subtracted before the product.

The peers are torch eager, and torch.compile with mode max-autotune-no-cudagraphs. Everything is recorded in CUDA graphs
and timed sustained (`gpu_timing`), after a check against f32. A shape is M x N x K: four of them, or with `--every`
all that the products of `gpu_gemm` have.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu_gemm, record
from benchmarks.gpu_timing import (
    AGAIN,
    QUICK,
    SUSTAINED,
    Call,
    Recorded,
    Timing,
    arguments,
    asked,
    medians,
    race,
    twice,
)
from graphfuse.compiled_model import CompiledModel
from graphfuse.compiler import build
from graphfuse.dialects import control, graph
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import BF16, F32, Tensor
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import ARENA, SCRATCH
from graphfuse.targets import Target

SHAPES = ((2048, 3072, 768), (16, 4096, 4096), (8192, 8192, 1024), (4096, 14336, 4096))
SMALL = (72, 96, 256)
HOPPER = Target.parse("cuda:sm_90a")
Array = np.ndarray[Any, Any]
GROUP = 128
EPSILON = 1e-5
BOUND = 1e-2
SECONDS_TO_AUTOTUNE = 20.0
"""What Inductor may take for a layer: without so much left, it is left out."""


@dataclass
class Layer:
    """Builds a function: `x` and `constants` by name, ops through methods."""

    m: int
    n: int
    k: int
    builder: Builder = field(default_factory=Builder)
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(record.SEED))

    def __post_init__(self) -> None:
        self.x = Tensor((self.m, self.k), BF16)

    def bf16(self, name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Value:
        """A constant of random numbers."""
        numbers = self.rng.standard_normal(shape, np.float32) * np.float32(scale) + np.float32(mean)
        return self.constant(name, numbers.astype(ml_dtypes.bfloat16))

    def constant(self, name: str, array: Array) -> Value:
        """A constant that the peer gets too."""
        self.weights[name] = array
        return self.builder(graph.constant, value=Dense(array))

    def matrix(self, name: str, count: int = 1) -> Value:
        """Weights as `torch.nn.Linear` has them."""
        return self.bf16(name, count * self.n, self.k, scale=self.k**-0.5)

    def product(self, x: Value, w: Value) -> Value:
        """x @ w.T."""
        return self.builder(graph.contract, x, w, spec="mk,nk->mn")

    def wide(self, v: Value, shape: tuple[int, ...]) -> Value:
        """Repeated to a shape."""
        return self.builder(graph.broadcast, v, shape=shape)

    def plus(self, y: Value, name: str) -> Value:
        """With a bias."""
        return self.builder(graph.add, y, self.wide(self.bf16(name, self.n), (self.m, self.n)))

    def number(self, value: float, shape: tuple[int, ...]) -> Value:
        """A number, in f32."""
        return self.builder(graph.full, shape=shape, value=value, elem=F32)

    def cast(self, v: Value, elem: Any) -> Value:
        """In another element."""
        return self.builder(graph.cast, v, to=elem)

    def gated(self, a: Value, c: Value) -> Value:
        """silu(a) * c, op by op."""
        b = self.builder
        return b(graph.mul, b(graph.mul, a, b(graph.sigmoid, a)), c)

    def normalised(self, x: Value, *, centred: bool) -> Value:
        """Layer norm, or the root mean square's, as ONNX has them: statistics in f32, the rest in bf16."""
        b, rows, whole = self.builder, (self.m, 1), (self.m, self.k)
        wide = self.cast(x, F32)

        def mean(v: Value) -> Value:
            return b(graph.div, b(graph.reduce, v, axes=(1,), kind="sum", keepdims=True), self.number(self.k, rows))

        if centred:
            wide = b(graph.sub, wide, self.wide(mean(wide), whole))
        variance = b(graph.add, mean(b(graph.mul, wide, wide)), self.number(EPSILON, rows))
        unit = self.cast(b(graph.div, wide, self.wide(b(graph.sqrt, variance), whole)), BF16)
        z = b(graph.mul, unit, self.wide(self.bf16("g", self.k, scale=0.1, mean=1.0), whole))
        return b(graph.add, z, self.wide(self.bf16("h", self.k), whole)) if centred else z

    def dequantised(self, groups: int) -> Value:
        """int8 weights times a scale for each row and group of columns."""
        b, n, k = self.builder, self.n, self.k
        q = self.constant("q", self.rng.integers(-127, 128, (n, k), np.int8))
        scales = self.rng.random((n, groups), np.float32) * np.float32(k**-0.5 / 64)
        s = self.constant("s", scales.astype(ml_dtypes.bfloat16))
        if groups == 1:
            s = self.wide(s, (n, k))
        else:
            parts = self.wide(b(graph.reshape, s, shape=(n, groups, 1)), (n, groups, k // groups))
            s = b(graph.reshape, parts, shape=(n, k))
        return self.cast(b(graph.mul, self.cast(q, F32), self.cast(s, F32)), BF16)

    def func(self, kind: str) -> Func:
        """The function of a kind of layer."""
        shape = (self.m, self.n)
        has_residual = kind == "residual"
        params = Params((self.x, *([Tensor(shape, BF16)] * has_residual)), ("x", *(["r"] * has_residual)))
        x, *more = params.values
        b = self.builder
        match kind:
            case "swiglu":
                out = [self.gated(self.product(x, self.matrix("w")), self.product(x, self.matrix("v")))]
            case "packed":
                both = self.product(x, self.matrix("w", 2))
                parts = [b(graph.slice_, both, starts=(0, i * self.n), sizes=shape, steps=(1, 1)) for i in range(2)]
                out = [self.gated(*parts)]
            case "layernorm" | "rmsnorm":
                z = self.normalised(x, centred=kind == "layernorm")
                out = [self.plus(self.product(z, self.matrix("w")), "c")]
            case "int8" | "int8 groups":
                out = [self.product(x, self.dequantised(1 if kind == "int8" else self.k // GROUP))]
            case "residual":
                out = [b(graph.add, self.plus(self.product(x, self.matrix("w")), "c"), more[0])]
            case "gelu":
                out = [self._gelu(self.plus(self.product(x, self.matrix("w")), "c"))]
            case _:
                out = [self.plus(self.product(x, self.matrix(f"w{i}")), f"c{i}") for i in range(3)]
        b.append(control.return_(*out))
        names = tuple(f"y{i}" for i in range(len(out)))
        made = Func("main", b.block(params), {"inputs": params.hints, "outputs": names}, ())
        verify(made)
        return made

    def _gelu(self, y: Value) -> Value:
        """y / 2 (1 + tanh(sqrt(2 / pi) (y + 0.044715 y^3))), in f32."""
        b, shape = self.builder, (self.m, self.n)
        v = self.cast(y, F32)
        square = b(graph.mul, b(graph.mul, v, v), self.number(0.035677408136300125, shape))
        inner = b(graph.mul, b(graph.add, square, self.number(0.7978845608028654, shape)), v)
        half = b(graph.mul, v, self.number(0.5, shape))
        return self.cast(b(graph.add, half, b(graph.mul, half, b(graph.tanh, inner))), BF16)


KINDS = ("swiglu", "layernorm", "int8", "residual", "qkv", "packed", "rmsnorm", "gelu", "int8 groups")
PRODUCTS = {"swiglu": 2, "packed": 2, "qkv": 3}


def options_of(kind: str) -> Options:
    """How a layer is compiled."""
    return Options(numerics="fast" if kind == "layernorm" else "eager")


# torch's


def peer(torch: Any, kind: str, t: Mapping[str, Any]) -> Callable[..., Any]:
    """The layer as one writes it for torch, of x and, for `residual`, r."""
    f = torch.nn.functional

    def swiglu(x: Any) -> Any:
        return f.silu(f.linear(x, t["w"])) * f.linear(x, t["v"])

    def packed(x: Any) -> Any:
        a, c = f.linear(x, t["w"]).chunk(2, -1)
        return f.silu(a) * c

    def layernorm(x: Any) -> Any:
        return f.linear(f.layer_norm(x, t["g"].shape, t["g"], t["h"], EPSILON), t["w"], t["c"])

    def rmsnorm(x: Any) -> Any:
        return f.linear(f.rms_norm(x, t["g"].shape, t["g"], EPSILON), t["w"], t["c"])

    def int8(x: Any) -> Any:
        return f.linear(x, t["q"].to(x.dtype)) * t["s"].view(1, -1)

    def groups(x: Any) -> Any:
        n, k = t["q"].shape
        w = t["q"].to(x.dtype).view(n, -1, k // t["s"].shape[1]) * t["s"].view(n, -1, 1)
        return f.linear(x, w.view(n, k))

    def residual(x: Any, r: Any) -> Any:
        return f.linear(x, t["w"], t["c"]) + r

    def gelu(x: Any) -> Any:
        return f.gelu(f.linear(x, t["w"], t["c"]), approximate="tanh")

    def qkv(x: Any) -> Any:
        return tuple(f.linear(x, t[f"w{i}"], t[f"c{i}"]) for i in range(3))

    named = {"int8 groups": groups}
    for call in (swiglu, packed, layernorm, rmsnorm, int8, residual, gelu, qkv):
        named[call.__name__] = call
    return named[kind]


def on_gpu(torch: Any, array: Array) -> Any:
    """An array as a tensor there."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(array).cuda()


def exact_of(torch: Any, kind: str, tensors: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Any]:
    """The results in f32 of the same numbers."""
    wide = {name: v.float() for name, v in tensors.items()}
    got = peer(torch, kind, wide)(*(v.float() for v in inputs.values()))
    return list(got) if isinstance(got, tuple) else [got]


def error_of(found: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest, relative in the Frobenius norm."""
    return max(((a.float() - b).norm() / b.norm()).item() for a, b in zip(found, exact, strict=True))


# ours


@dataclass
class Ours:
    """A compiled layer on fixed tensors. Holds the session, with which its memory would go."""

    session: Any
    inputs: dict[str, Any]
    out: dict[str, Any]

    def __post_init__(self) -> None:
        held, signature = self.session._callers.idle[-1], self.session.signature
        shaped = next(reversed(held.shaped.values()))  # nothing public launches into another's recording
        self.launches, self.driver = shaped.launches, self.session._driver
        io = [self.inputs[t.name].data_ptr() for t in signature.inputs]
        io += [self.out[t.name].data_ptr() for t in signature.outputs]
        scratch = self.launches.scratch_bytes and held.blocks[SCRATCH].address
        self.launches.point(self.driver, io, held.blocks[ARENA].address, scratch)

    @staticmethod
    def of(torch: Any, compiled: CompiledModel, inputs: dict[str, Any]) -> Ours:
        """Run once, so that there is memory."""
        out = {name: torch.full_like(v, float("nan")) for name, v in compiled.session.run(inputs).items()}
        torch.cuda.synchronize()
        return Ours(compiled.session, inputs, out)

    def __call__(self) -> None:
        """Queue the launches of a run on torch's current stream."""
        import torch

        self.launches.run_all(self.driver, torch.cuda.current_stream().cuda_stream)


def measure(
    torch: Any, kind: str, shape: tuple[int, int, int], peers: Sequence[str], timing: Timing, until: float
) -> dict[str, Any]:
    """One row: a layer at one shape."""
    m, n, k = shape
    row: dict[str, Any] = {"layer": kind, "shape": "x".join(map(str, shape)), "gpu": torch.cuda.get_device_name()}
    row |= {"notes": [], "errors": {}, "flops": 2 * m * n * k * PRODUCTS.get(kind, 1)}
    begun = time.perf_counter()
    layer = Layer(m, n, k)
    func = layer.func(kind)
    executable = build(func, HOPPER, options_of(kind))
    row["compile_s"] = time.perf_counter() - begun
    row["kernels"] = [getattr(s, "kernel", "copy") for s in executable.plan.steps]
    tensors = {name: on_gpu(torch, a) for name, a in layer.weights.items()}
    generator = torch.Generator("cuda").manual_seed(record.SEED + 1)
    inputs = {
        v.hint: torch.randn([int(d) for d in v.type.shape], device="cuda", generator=generator).bfloat16()
        for v in func.params
        if isinstance(v.type, Tensor)
    }
    exact = exact_of(torch, kind, tensors, inputs)
    calls: dict[str, Call] = {}
    ours = Ours.of(torch, CompiledModel(executable, None, "cuda"), inputs)
    row["launches"] = len(ours.launches.items)
    ours()
    torch.cuda.synchronize()
    row["errors"]["ours"] = error_of(list(ours.out.values()), exact)
    if row["errors"]["ours"] <= BOUND:
        calls["ours"] = ours
    eager = peer(torch, kind, tensors)
    given = list(inputs.values())
    others: dict[str, Call] = {"eager": lambda: eager(*given)} if "eager" in peers else {}
    if "inductor" in peers and time.perf_counter() + SECONDS_TO_AUTOTUNE > until:
        row["notes"].append("inductor: no time left to tune")
    elif "inductor" in peers:
        try:
            tuned = torch.compile(eager, mode="max-autotune-no-cudagraphs", dynamic=False)
            got = tuned(*given)
            row["errors"]["inductor"] = error_of(got if isinstance(got, tuple) else [got], exact)
            others["inductor"] = lambda: tuned(*given)
        except Exception as e:  # noqa: BLE001  # a compiler that is missing fails in many ways
            row["notes"].append(f"inductor: {type(e).__name__}")
    calls |= twice(others)
    del exact
    with torch.inference_mode():
        found_ms = medians(race({name: Recorded(call) for name, call in calls.items()}, timing))
    row["us"] = {name: ms * 1e3 for name, ms in found_ms.items()}
    best = min((us for name, us in row["us"].items() if name != "ours" and not name.endswith(AGAIN)), default=None)
    if best is not None and "ours" in row["us"]:
        row["ratio"] = best / row["us"]["ours"]
    torch._dynamo.reset()  # its public way to forget what was compiled before
    return row


def report(row: Mapping[str, Any]) -> str:
    """One line."""
    us = "  ".join(f"{name} {t:.1f}" for name, t in row["us"].items())
    ratio = f"x{row['ratio']:.3f}" if "ratio" in row else "WRONG" if "ours" not in row["us"] else ""
    rate = f"{row['flops'] / row['us']['ours'] / 1e6:.0f} TF" if "ours" in row["us"] else ""
    notes = f"  ({'; '.join(row['notes'])})" if row["notes"] else ""
    return (
        f"{row['layer']:12s} {row['shape']:16s} {ratio:7s} us: {us}  {rate}  error {row['errors']['ours']:.1e}  "
        f"{row['launches']} launches, compiled in {row['compile_s']:.1f} s{notes}"
    )


# anywhere


def dry(kinds: Sequence[str]) -> bool:
    """Every layer at a small shape on the emulator, beside the interpreter in f64."""
    good = True
    for kind in kinds:
        layer = Layer(*SMALL)
        func = layer.func(kind)
        executable = build(func, HOPPER, options_of(kind))
        rng = np.random.default_rng(record.SEED + 1)
        given = {
            v.hint: rng.standard_normal([int(d) for d in v.type.shape]).astype(ml_dtypes.bfloat16)
            for v in func.params
            if isinstance(v.type, Tensor)
        }
        found = CompiledModel(executable, None, "emulator")(given)
        exact = interp.run(func, *(v.astype(np.float64) for v in given.values()), wide=True)
        error = max(
            float(np.linalg.norm(g.astype(np.float64) - w) / np.linalg.norm(w))
            for g, w in zip(found.values(), exact, strict=True)
        )
        good &= error <= BOUND
        kernels = [getattr(s, "kernel", "copy") for s in executable.plan.steps]
        print(f"{kind:12s} {len(kernels)} launches {kernels} error {error:.1e}{'' if error <= BOUND else ' WRONG'}")
    return good


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=450, dry=True)
    parser.add_argument("--set", choices=KINDS, action="append", default=[])
    parser.add_argument("--every", action="store_true", help="at every shape of gpu_gemm")
    parser.add_argument("--peers", default="eager,inductor")
    args = parser.parse_args()
    kinds = args.set or KINDS
    if args.dry:
        return 0 if dry(kinds) else 1
    import torch

    until = time.perf_counter() + args.budget
    rows: list[dict[str, Any]] = []
    good = True
    for shape in gpu_gemm.SHAPES if args.every else SHAPES:
        for kind in kinds:
            name = f"{kind} {'x'.join(map(str, shape))}"
            if not asked(name, args.only) or time.perf_counter() > until:
                continue
            try:
                rows.append(
                    measure(torch, kind, shape, args.peers.split(","), QUICK if args.quick else SUSTAINED, until)
                )
                print(report(rows[-1]), flush=True)
                good &= "ours" in rows[-1]["us"]
            except Exception as e:  # noqa: BLE001  # the others are worth measuring
                print(f"{name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
                good = False
            torch.cuda.empty_cache()
            if args.json:
                record.write(args.json, rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
