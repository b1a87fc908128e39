"""Errors of elementwise functions on a GPU: `python -m benchmarks.gpu_functions --device cuda`.

Every function that takes floats, over samples of the whole range of f32, f16 and bf16, against float64, in units in the
last place of the element (`--numerics strict|eager|fast`). One-argument functions of halves are tried at every number.
Columns: the largest error and where, the mean, the share of results that are correctly rounded, and how often one is
NaN or infinite where the other is not. `--device emulator` needs no GPU; its special function unit rounds correctly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.gpu_timing import arguments, asked
from graphfuse.compiler import build
from graphfuse.devices import driver_of
from graphfuse.dialects.elementwise import FUNCTIONS, Function
from graphfuse.interp import elementwise
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from graphfuse.runtime.device import Device
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from graphfuse.targets.driver import Driver

Array = np.ndarray[Any, Any]
ELEMS = ("f32", "f16", "bf16")
MANTISSA = {"f32": 23, "f16": 10, "bf16": 7}
LEAST_EXPONENT = {"f32": -126, "f16": -14, "bf16": -126}
JUMPS = ("floordiv", "floormod", "truncmod")
"""Where the rounding of a quotient decides which side of a jump the result is on: nothing that float64 could judge."""
AT_ONCE = 8
"""Functions of one kernel."""


def functions() -> tuple[Function, ...]:
    """Those of floats."""
    return tuple(
        f
        for f in FUNCTIONS
        if f.takes in ("float", "number") and not f.to_bool and f.arity <= 2 and f.name not in JUMPS
    )


def samples(elem: str, arity: int, count: int) -> list[Array]:
    """Numbers of all magnitudes and signs, zeros and infinities among them; all there are where that is fewer."""
    dtype = numpy_dtype(Scalar(elem))
    bits = np.dtype(f"u{dtype.itemsize}")
    if arity == 1 and dtype.itemsize == 2:
        return [np.arange(1 << 16, dtype=bits).view(dtype)]
    rng = np.random.default_rng(record.SEED + arity)
    every = [rng.integers(0, 1 << 8 * dtype.itemsize, count, dtype=np.uint64).astype(bits).view(dtype) for _ in "xy"]
    near = [(rng.standard_normal(count) * np.exp(2 * rng.standard_normal(count))).astype(dtype) for _ in "xy"]
    edges = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, 0.5, 2]).astype(dtype)
    out = [np.concatenate([e, n, rng.permutation(edges)]) for e, n in zip(every, near, strict=True)]
    return out[:arity]


def compiled(names: Sequence[Function], elem: str, arity: int, count: int, target: Target, numerics: str) -> Any:
    """One graph with a result for each function."""
    tensor = f"tensor<{count}x{elem}>"
    takes = ["x", "y"][:arity]
    lines = [f"%{f.name}_ = graph.{f.name}({', '.join('%' + t for t in takes)}) : {tensor}" for f in names]
    head = f"inputs = [{', '.join(repr(t) for t in takes)}], outputs = [{', '.join(repr(f.name) for f in names)}]"
    func = parse(
        f"func @main({', '.join(f'%{t}: {tensor}' for t in takes)}) {{{head}}} {{\n  ".replace("'", '"')
        + "\n  ".join([*lines, f"return({', '.join(f'%{f.name}_' for f in names)})"])
        + "\n}\n"
    )
    verify(func)
    return build(func, target, Options(numerics=numerics))


def errors(got: Array, exact: Array, elem: str) -> dict[str, Any]:
    """In units in the last place of the exact result, rounded; NaN and infinities are counted apart."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(got.dtype)
    with np.errstate(invalid="ignore"):
        g, r = got.astype(np.float64), rounded.astype(np.float64)
    finite = np.isfinite(g) & np.isfinite(r)
    same = (g == r) | (np.isnan(g) & np.isnan(r))
    exponent = np.frexp(np.where(exact == 0, 1, exact))[1] - 1
    ulp = np.exp2(np.maximum(exponent, LEAST_EXPONENT[elem]).astype(np.float64) - MANTISSA[elem])
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(g - exact) / ulp, 0.0)
    worst = int(error.argmax())
    return {
        "ulp": float(error.max()),
        "at": worst,
        "mean": float(error[finite].mean()) if finite.any() else 0.0,
        "rounded": float(same.mean()),
        "special": int((~finite & ~same).sum()),
    }


def measured(elem: str, target: Target, driver: Driver, numerics: str, words: list[str], count: int) -> Iterator[Any]:
    """A row for each function."""
    for arity in (1, 2):
        inputs = samples(elem, arity, count)
        feed = dict(zip("xy", inputs, strict=False))
        wanted = [f for f in functions() if f.arity == arity and asked(f.name, words)]
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            executable = compiled(some, elem, arity, inputs[0].size, target, numerics)
            with GpuSession(executable, driver) as session:
                found = session.run(feed)
            for f in some:
                with np.errstate(all="ignore"):
                    exact = elementwise.apply(f.name, *(x.astype(np.float64) for x in inputs))
                row = errors(np.asarray(found[f.name]), exact, elem)
                row["at"] = [float(x[row["at"]]) for x in inputs]
                yield {"function": f.name, "elem": elem, "numerics": numerics, "samples": inputs[0].size, **row}


def open_device(name: str) -> tuple[Target, Driver, str]:
    """What to compile for, the driver, and the GPU's name."""
    driver = driver_of(Device.parse(name))
    info = driver.device_info(0)
    return Target.parse(f"cuda:{info.best_target}"), driver, info.name


def main() -> int:
    """See the module."""
    parser = arguments(__doc__, budget=60)
    parser.add_argument("--device", default="cuda", choices=("cuda", "emulator"))
    parser.add_argument("--elem", action="append", choices=ELEMS, default=[])
    parser.add_argument("--numerics", action="append", choices=("strict", "eager", "fast"), default=[])
    parser.add_argument("--samples", type=int, help="f32 and pairs; 2^20 on a GPU, 2^11 on the emulator")
    args = parser.parse_args()
    target, driver, gpu = open_device(args.device)
    count = args.samples or (1 << 11 if args.device == "emulator" else 1 << 20)
    rows: list[dict[str, Any]] = []
    print(f"{gpu}; {'function':10s} elem numerics     ulp    mean  rounded  special  at")
    for numerics in args.numerics or ["eager"]:
        for elem in args.elem or ELEMS:
            for row in measured(elem, target, driver, numerics, args.only, count // (16 if args.quick else 1)):
                at = ", ".join(f"{x:.6g}" for x in row["at"])
                print(
                    f"{row['function']:10s} {elem:4s} {numerics:8s} {row['ulp']:8.3f} {row['mean']:7.4f} "
                    f"{row['rounded']:8.5f} {row['special']:8d}  {at}",
                    flush=True,
                )
                rows.append({**row, "gpu": gpu})
    if args.json:
        record.write(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
