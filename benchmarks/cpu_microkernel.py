"""GFLOP/s of the dot microkernel on one core, beside numpy's BLAS and the peak of the machine's FMA units.

    OPENBLAS_NUM_THREADS=1 python benchmarks/cpu_microkernel.py
    python tools/without_avx512.py python benchmarks/cpu_microkernel.py

A stays in rows (leading dimension K), B is packed [K, NR]; both fit the cache, so this is the loop over k alone, warm.
BLAS is a whole product (512 x K x 512) with its packing: it says what a GEMM around the microkernel has to beat,
no more.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import graphfuse.dialects.block
import graphfuse.dialects.control  # noqa: F401  the parser finds ops by name
from benchmarks import record
from graphfuse.cpu.lower import compile_object, emit_assembly, lower
from graphfuse.ir.parser import parse
from graphfuse.llvm.host import parse_target
from graphfuse.llvm.loader import Library, load_object

TARGET = parse_target(os.environ.get("GRAPHFUSE_TARGET", "cpu"))
K = 768
PROGRAMS = 16
SHAPES = {
    64: ((14, 32), (12, 32), (8, 48), (6, 64), (8, 32)),
    32: ((6, 16), (5, 16), (4, 16), (4, 24), (3, 32)),
    16: ((14, 8), (8, 8), (6, 16), (8, 12)),
}
"""Rows and columns of a tile, by the bytes of a vector."""
DEPTHS = (1, 4, 256)

PEAK = """
define i64 @peak(i64 %n) "prefer-vector-width"="512" {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
HEADS
BODY
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
TAIL
  %first = extractelement <LANES x float> %tDEPTH, i64 0
  %out = fptosi float %first to i64
  ret i64 %out
}
declare <LANES x float> @llvm.fma.vLANESf32(<LANES x float>, <LANES x float>, <LANES x float>)
"""


def kernel_text(rows: int, columns: int, depth: int, *, limited: bool = False) -> str:
    """C tile = A rows @ packed B; `limited` bounds rows and k as the kernel of an odd size would."""
    acc = f"tile<{rows}x{columns}xf32>"
    left, right = f"tile<{rows}x{depth}xf32>", f"tile<{depth}x{columns}xf32>"
    limits = ", %lm, %lk" if limited else ""
    attr = "limited = [0, 1], " if limited else ""
    return f"""
func @mk(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>, %K: i64, %m: i64) {{grid = {PROGRAMS}}} dims (K in 1..100000) {{
  %pid = block.program_id() : i64
  %zero = block.const() {{elem = i64, value = 0}} : i64
  %lm = block.index(%pid) {{expr = (m - {rows}*p), names = ["p"]}} : i64
  %acc0 = block.const() {{elem = f32, shape = [{rows}, {columns}], value = 0.0}} : {acc}
  %acc = for(%zero, %K, %acc0) {{step = {depth}}} do (%k: i64, %s: {acc}) {{
    %ab = block.index(%pid, %k) {{expr = ({rows}*p*K + k), names = ["p", "k"]}} : i64
    %bb = block.index(%k) {{expr = ({columns}*k), names = ["k"]}} : i64
    %lk = block.index(%k) {{expr = (K - k), names = ["k"]}} : i64
    %x = block.load_view(%a, %ab{limits}) {{{attr}shape = [{rows}, {depth}], strides = [(K), 1]}} : {left}
    %y = block.load_view(%b, %bb) {{shape = [{depth}, {columns}], strides = [{columns}, 1]}} : {right}
    %d = block.dot(%x, %y, %s) : {acc}
    yield(%d)
  }} : {acc}
  %cb = block.index(%pid) {{expr = ({rows * columns}*p), names = ["p"]}} : i64
  block.store_view(%c, %cb, %acc) {{strides = [{columns}, 1]}}
  return()
}}
"""


def best_seconds(*fns: Callable[[], object]) -> list[float]:
    """The least seconds of each; in turns, so that all see the same machine, and in fives, so that each is warm."""
    best = [float("inf")] * len(fns)
    for _ in range(25):
        for i, fn in enumerate(fns):
            for _ in range(5):
                start = time.perf_counter()
                fn()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def fma_chains() -> tuple[Library, Callable[[], object], int]:
    """Twenty independent chains of FMAs, and their flops: what the units can do."""
    from graphfuse.llvm.codegen import object_code

    lanes, chains = TARGET.vector_bytes // 4, min(20, TARGET.registers - 4)
    v = f"<{lanes} x float>"
    heads = [f"  %a{c} = phi {v} [ splat (float {c}.0), %entry ], [ %b{c}, %loop ]" for c in range(chains)]
    body = [
        f"  %b{c} = call {v} @llvm.fma.v{lanes}f32({v} %a{c}, {v} splat (float 0.5), {v} splat (float 1.0))"
        for c in range(chains)
    ]
    tail = [f"  %t0 = fadd {v} %b0, %b0"]
    tail += [f"  %t{c} = fadd {v} %t{c - 1}, %b{c}" for c in range(1, chains)]
    text = PEAK.replace("HEADS", "\n".join(heads)).replace("BODY", "\n".join(body)).replace("TAIL", "\n".join(tail))
    text = text.replace("LANES", str(lanes)).replace("DEPTH", str(chains - 1))
    text = f'target triple = "{TARGET.triple}"\n{text}'
    library = load_object(object_code(text, TARGET), ["peak"])
    fn = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("peak"))
    n = 20_000
    return library, lambda: fn(n), 2 * lanes * chains * n


def microkernel(text: str) -> tuple[Library, Callable[..., None], str, float]:
    """The loaded kernel, its assembly, and the milliseconds it took to make."""
    start = time.perf_counter()
    lowered = lower([parse(text)], TARGET)
    code = compile_object(lowered)
    elapsed = 1e3 * (time.perf_counter() - start)
    library = load_object(code, ["mk"])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return library, kind(library.address("mk")), emit_assembly(lowered), elapsed


def main() -> None:
    """Print one line for each shape and depth; the peak and BLAS are the best of the whole run."""
    chains_library, chains, chains_flops = fma_chains()
    rng = np.random.default_rng(record.SEED)
    left, right = rng.random((512, K), np.float32), rng.random((K, 512), np.float32)
    peak = blas = 0.0
    rows_out: list[tuple[str, float, str]] = []
    for rows, columns in SHAPES[TARGET.vector_bytes]:
        a = rng.random((PROGRAMS * rows, K), np.float32)
        b = rng.random((K, columns), np.float32)
        c = np.zeros((PROGRAMS * rows, columns), np.float32)
        args = np.array([a.ctypes.data, b.ctypes.data, c.ctypes.data, K, a.shape[0] - 1], np.int64)
        for depth, limited in [*((d, False) for d in DEPTHS), (256, True)]:
            library, fn, asm, elapsed = microkernel(kernel_text(rows, columns, depth, limited=limited))
            seconds, blas_seconds, chains_seconds = best_seconds(
                lambda fn=fn, args=args: fn(args.ctypes.data, 0, PROGRAMS, 0), lambda: left @ right, chains
            )
            blas = max(blas, 2 * 512 * 512 * K / blas_seconds / 1e9)
            peak = max(peak, chains_flops / chains_seconds / 1e9)
            done = a.shape[0] - limited
            error = np.abs(c[:done] - a[:done] @ b).max() / np.abs(c).max()
            spills = sum("zmm" in line and "rsp" in line for line in asm.splitlines())
            rows_out.append((
                f"{rows:3}x{columns} depth {depth:3}{' limited' if limited else '        '}",
                2 * a.shape[0] * columns * K / seconds / 1e9,
                f"error {error:.0e}, vector stack accesses {spills:3}, compiled in {elapsed:.0f} ms",
            ))  # fmt: skip
            del library
    print(f"{TARGET}, K = {K}: peak {peak:.1f} GFLOP/s (FMA chains), BLAS {blas:.1f} GFLOP/s")
    for name, flops, rest in rows_out:
        print(f"{name}: {flops:6.1f} GFLOP/s, {flops / peak:6.1%} of peak, {flops / blas:.2f} x BLAS, {rest}")
    del chains_library


if __name__ == "__main__":
    main()
