"""Functions whose results are only read rounded to a half: where they get short, and how far off they then are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphfuse.dialects  # noqa: F401  the parser finds ops by name
from graphfuse.gpu.emulator import Buffer, Emulator
from graphfuse.gpu.lower import emit_ptx
from graphfuse.gpu.pipeline import compile_functions, transformed
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import scalar
from tests.gpu.test_arith import TARGET, TILE, exact, run, steps

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN and overflow
Array = np.ndarray[Any, Any]


def kernel(body: str, out: str, numerics: str = "eager") -> str:
    """A kernel that computes `%y` of the element `out` from tiles `%x` and `%z` of f32."""
    return (
        f"""
func @k(%px: ptr<f32>, %pz: ptr<f32>, %o: ptr<{out}>, %n: i64) {{grid = (n), warps = 2, numerics = "{numerics}"}}
    dims (n in 1..4096) {{
  %p = block.program_id() : i64
  %at = block.index(%p) {{expr = ({TILE}*p), names = ["p"]}} : i64
  %x = block.load_view(%px, %at) {{shape = [{TILE}], strides = [1]}} : tile<{TILE}xf32>
  %z = block.load_view(%pz, %at) {{shape = [{TILE}], strides = [1]}} : tile<{TILE}xf32>
  {body.strip()}
  block.store_view(%o, %at, %y) {{strides = [1]}}
  return()
}}
""".replace("TILE", f"tile<{TILE}xf32>")
        .replace("BOOL", f"tile<{TILE}xbool>")
        .replace("OUT", f"tile<{TILE}x{out}>")
    )


SILU = """
  %s = block.sigmoid(%x) : TILE
  %m = block.mul(%x, %s) : TILE
"""
EXP = "%m = block.exp(%x) : TILE"
ROUND = "\n  %y = block.cast(%m) {to = HALF} : OUT"


def count(body: str, out: str = "bf16", numerics: str = "eager") -> int:
    """How many functions of the kernel are short."""
    text = kernel(body.replace("HALF", out), out, numerics)
    return sum(op.kind.name == "gpu.short" for op in transformed(parse(text), TARGET).walk())


@pytest.mark.parametrize("out", ["f16", "bf16"])
@pytest.mark.parametrize("body", [SILU, EXP], ids=["silu", "exp"])
def test_what_is_rounded_to_a_half_is_short_but_strictly(body, out):
    assert count(body + ROUND, out) == 1
    assert count(body + ROUND, out, "fast") == 1
    assert count(body + ROUND, out, "strict") == 0


@pytest.mark.parametrize("body", [SILU, EXP], ids=["silu", "exp"])
def test_what_is_stored_as_f32_is_not_short(body):
    assert count(body.replace("%m", "%y"), "f32") == 0


@pytest.mark.parametrize(
    ("between", "shorts"),
    [
        ("%m = block.div(%z, %e) : TILE", 1),
        ("%a = block.neg(%e) : TILE\n  %m = block.abs(%a) : TILE", 1),
        ("%c = block.lt(%x, %z) : BOOL\n  %m = block.select(%c, %e, %z) : TILE", 1),
        ("%c = block.lt(%e, %z) : BOOL\n  %m = block.select(%c, %e, %z) : TILE", 0),
        ("%m = block.sub(%e, %z) : TILE", 0),
        ("%m = block.fma(%e, %x, %z) : TILE", 0),
        ("%m = block.sigmoid(%e) : TILE", 1),  # the outer one
        ("%a = block.mul(%e, %e) : TILE\n  %m = block.mul(%a, %a) : TILE", 1),
        ("%a = block.mul(%e, %e) : TILE\n  %b = block.mul(%a, %e) : TILE\n  %m = block.mul(%a, %b) : TILE", 0),
    ],
    ids=["quotient", "signs", "choice", "condition", "sum", "fma", "argument", "fourth power", "fifth power"],
)
def test_what_hands_a_relative_error_on(between, shorts):
    assert count(f"%e = block.exp(%x) : TILE\n  {between}{ROUND}") == shorts


def arguments(n: int) -> Array:
    """Sizes at which results are normal, subnormal, 0 and infinite, and special values."""
    rng = np.random.default_rng(7)
    parts = [rng.uniform(-115, 95, n), rng.uniform(-20, 12, n), rng.normal(0, 1, n), rng.normal(0, 1e-3, n)]
    x = np.concatenate(parts).astype(np.float32)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40]
    return x


@pytest.mark.parametrize("out", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["silu", "exp"])
def test_errors_in_units_of_the_half(name, out):
    """At most 0.51; and what is no number, infinite or 0 in the interpreter is so here."""
    x = arguments(32 * TILE)
    func = parse(kernel({"silu": SILU, "exp": EXP}[name] + ROUND.replace("HALF", out), out))
    want = np.zeros(x.size, numpy_dtype(scalar(out)))
    launch(func, [x, x, want], {"n": x.size // TILE})
    got = np.zeros_like(want)
    lowered = compile_functions([func], TARGET)
    Emulator(emit_ptx(lowered)).launch(
        "k",
        (x.size // TILE,),
        (lowered.kernels[0].threads,),
        [x.view(np.uint8), x.view(np.uint8), Buffer(got.view(np.uint8), initialised=False), x.size // TILE, 0],
        shared_bytes=lowered.kernels[0].shared_bytes,
    )
    assert steps(got, want).max() <= 1
    wide = x.astype(np.float64)
    value = exact("exp", x) if name == "exp" else wide * exact("sigmoid", x)
    digits, least = (10, -24) if out == "f16" else (7, -133)
    unit = np.ldexp(1.0, np.maximum(np.frexp(value)[1] - 1 - digits, least))
    off = np.abs(got.astype(np.float64) - value) / unit
    finite = np.isfinite(want.astype(np.float64)) & np.isfinite(got.astype(np.float64))
    assert finite.sum() > 0.8 * x.size
    worst = int(np.argmax(np.where(finite, off, 0)))
    assert off[worst] <= 0.51, f"{name}({x[worst]!r}) = {got[worst]!r} is {off[worst]} ulp off"


def test_relative_errors():
    """2^-16 where results are normal, as `docs/numerics.md` says; subnormals are not flushed."""
    x = arguments(32 * TILE)
    names = ("exp", "sigmoid")
    got, _, _ = run([(f'gpu.short(%x) {{function = "{n}"}}', "f32") for n in names], {"x": ("f32", x)}, interpret=False)
    for name, g in zip(names, got, strict=True):
        want = exact(name, x)
        rounded = want.astype(np.float32)
        assert np.array_equal(np.isnan(g), np.isnan(rounded))
        finite = np.isfinite(rounded)
        assert np.array_equal(g[~finite], rounded[~finite], equal_nan=True)
        allowed = np.maximum(np.abs(want) * 2.0**-16, 2.0**-149)
        assert (np.abs(g.astype(np.float64) - want) <= allowed)[finite].all()
        assert (g[finite & (want > 2.0**-148)] > 0).all()
