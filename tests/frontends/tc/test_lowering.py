"""Kernels run by the block interpreter against numpy and against C's meaning, construct by construct."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.frontends.tc import Options, SourceError, compile_text, lower_expr, parse_defines
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify
from tests.frontends.tc.sources import LAYOUTS, POINT, PREFETCHED_DOT, TRANSPOSABLE_DOT


def compiled(source, defines=None, **options):
    """The only kernel of a source, verified, after its text was read back."""
    kernels = compile_text(source, "k.tc", defines or {}, options=Options(**options))
    for kernel in kernels:
        verify(kernel.func)
        text = to_text(kernel.func)
        assert to_text(parse(text)) == text
    return kernels[-1]


def run(source, *args, grid=(1,), defines=None, **numbers):
    kernel = compiled(source, defines)
    launch(kernel.func, list(args), numbers, grid=grid)


def ints(body, n=7, m=3, size=32, helpers=""):
    """What a kernel leaves in `int *I` of zeros."""
    out = np.zeros(size, np.int32)
    run(f"{helpers}\n__global__ void k(int *I, int n, int m) {{ {body} }}", out, n=n, m=m)
    return out


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("*I = n / -2; *(I+1) = -n / 2; *(I+2) = -n % 4; *(I+3) = n % -4;", [-3, -3, -3, 3]),
        ("*I = -n >> 1; *(I+1) = (unsigned)-n >> 28; *(I+2) = n << 3; *(I+3) = ~n;", [-4, 15, 56, -8]),
        ("*I = n & m; *(I+1) = n | 8; *(I+2) = n ^ m; *(I+3) = !n + !!n;", [3, 15, 4, 1]),
        ("*I = (char)200; *(I+1) = (unsigned char)200; *(I+2) = (int)-2.7f; *(I+3) = (bool)n;", [-56, 200, -2, 1]),
        ("*I = n++ + n; *(I+1) = --m; *(I+2) = m--; *(I+3) = m;", [15, 2, 2, 1]),
        ("*I = n > 5 ? m : n; *(I+1) = n ?: 3; *(I+2) = 0 ?: m; *(I+3) = (n, m);", [3, 7, 3, 3]),
        ("n += 2; *I = n; n *= m; *(I+1) = n; n /= 4; *(I+2) = n; n <<= m; *(I+3) = n;", [9, 27, 6, 48]),
        ("*I = 2.5f * n; *(I+1) = n / 2.0; *(I+2) = (n < m) + (n > m) * 2; *(I+3) = min(n, m) - max(n, m);",
         [17, 3, 2, -4]),
        ("int *p = I + 2; *(p - 2) = p - I; p += 1; *(p - 2) = *I + (p > I); *p = 5; *p++ = 6; *p = p == I + 4;",
         [2, 3, 0, 6, 1]),
        ("long big = 2147483647; big += n; *I = big >> 3; unsigned u = -1; u /= 2; *(I+1) = u == 2147483647;",
         [268435456, 1]),
        ("*I = cdiv(n, m); *(I+1) = abs(-n); *(I+2) = popcount(n); *(I+3) = clz(1);", [3, 7, 3, 31]),
        ("*I = sizeof(int[4]) + (int)bitcast<float>(0x40400000); *(I+1) = bitcast<int>(1.0f * m);", [19, 0x40400000]),
        ("*I += 3; *I *= *I + 1; ++*I; *(I+1) = (*I)++; *?(n > 9)(I+2) = 5; *?(n > 2)(I+3) = 6; *I = *?(n > 9)(I+3);",
         [0, 13, 0, 6]),
    ],
)  # fmt: skip
def test_scalars(body, want):
    np.testing.assert_array_equal(ints(body)[: len(want)], want)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("if (n > m) *I = 1; else *I = 2;", 1),
        ("if (n < m) *I = 1; else if (n == 7) *I = 2; else *I = 3;", 2),
        ("int s = 0; for (int i = 0; i < n; i++) s += i; *I = s;", 21),
        ("int s = 0; for (int i = n; i > 0; i -= m) s = s * 10 + i; *I = s;", 741),
        ("int i; for (i = 1; i <= n; i += m); *I = i;", 10),
        ("int i; for (i = 9; n <= i; i = i - 1); *I = i;", 6),
        ("int s = 0; for (unsigned i = 0; i < 5u; i++) s += i; *I = s;", 10),
        ("int s = 0; for (int i = 0; i != n; ++i) s += 2; *I = s;", 14),
        ("int s = 0; for (int i = 9; i < n; i++) s += 1; *I = s;", 0),
        ("int i; for (i = 9; i < n; i++); *I = i;", 9),
        ("int s = 0; for (long i = 0; i < n; i += 2) s += i; *I = s;", 12),
        ("int s = 0; for (char i = 0; i < n; i++) s += i; *I = s;", 21),
        ("int s = 0; for (int i = 0; i < n; i++) { i++; s += i; } *I = s;", 16),
        ("int s = 0; for (int i = 0; i < n; i++) { n--; s++; } *I = s;", 4),
        ("int s = 0; for (int i = 0; ; i++) { if (i == n) break; s += i; } *I = s;", 21),
        ("int s = 0; for (int i = 0; i < n; i++) { if (i & 1) continue; s += i; } *I = s;", 12),
        ("int s = 0; for (int i = 0; i < n; i++) { if (i == 2) continue; if (i == 5) break; s = s * 10 + i; } *I = s;",
         134),
        ("while (n) { *I += n; n -= 1; }", 28),
        ("do { *I += n; } while (n < 0); do { *I += 1; if (n-- == 3) break; } while (1);", 12),
        ("do { n--; if (n & 1) continue; *I += n; } while (n > 0);", 12),
        ("for (int i = 0; i < 3; i++) for (int j = 0; j < 4; j++) { if (j == i) break; *I += 10 * i + j; }", 51),
        ("for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) if (i * j == 12) { *I = 10 * i + j; return; }", 26),
        ("for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) if (i * j == 99) return; *I = 9;", 9),
        ("switch (n) { case 6: *I = 1; break; case 7: *I = 2; break; default: *I = 3; }", 2),
        ("switch (n) { case 6: *I = 1; case 7: *I += 2; case 8: *I += 4; break; default: *I = 3; }", 6),
        ("switch (m) { default: *I += 1; case 7: *I += 2; break; case 8: *I = 8; }", 3),
        ("switch (m) { case 1: case 3: *I = 5; break; case 4: *I = 6; }", 5),
        ("switch (m) { case 1: *I = 5; }", 0),
        ("while (n--) { switch (n) { case 1: continue; case 3: break; case 4: *I += 1; default: *I += 9; } *I += 9; }",
         100),
        ("switch (n) { case 7: if (m == 3) break; *I = 1; default: *I = 2; } *(I + 1) = 1;", 0),
        ("if (n == 7) { if (m == 3) return; *I = 1; } *I = 2;", 0),
        ("if (n == 7) { if (m == 4) return; *I = 1; } *I += 2;", 3),
        ("int x; for (int i = 0; i < n; i++) { if (i == 0) x = 5; *I += x; }", 35),
        ("int a = 1, b = 2; for (int i = 0; i < 3; i++) { int t = a; a = b; b = t + b; } *I = a * 100 + b;", 508),
        ("for (int i = 0; i < n; i++) { int a = 1; { int a = 2; *I += a; } *I += a; }", 21),
        ("*I = (m > 9 && *(I + 1000)) + (m < 9 || *(I + 1000)) * 2;", 2),
        ("*I = m > 9 ? *(I + 1000) : m < 0 ? *(I - 1000) : 4;", 4),
        ("int y = m > 9 ? (n = 1) : 3; *I = n * 10 + y;", 73),
        ("while (n > 0 && m > 0) { n -= 2; m -= 1; } *I = n * 10 + m;", 10),
        ("while (*I < 5) { *I += 2; if (*I == 4) break; } *I += 100;", 104),
        ("while ((m = *I) < 5) *I = m + 2; *I += m;", 12),
        ("int c; while ((c = n--) > 0) { if (c == 3) continue; *I += c; }", 25),
        ("int c; do { c = n * 2; *I += c; } while (--n); *I = *I * 10 + c;", 562),
        ("for (int c; (c = n) > 2; n--) { int d = c; *I += d; }", 25),
        ("*I = 1; __debug_barrier(); *I += *I;", 2),
    ],
)  # fmt: skip
def test_control_flow(body, want):
    assert ints(body)[0] == want


@pytest.mark.parametrize(
    ("helpers", "body", "want"),
    [
        ("int twice(int x) { return x + x; }", "*I = twice(twice(n));", 28),
        ("int f(int x) { if (x > 5) return 1; x = x * 2; if (x > 5) return 2; return 3; }",
         "*I = f(7) * 100 + f(3) * 10 + f(1);", 123),
        ("int f(int x) { for (int i = 0; i < 10; i++) if (i * i > x) return i; return -1; }",
         "*I = f(n) * 10 + f(1000);", 29),
        ("void put(int *p, int x) { if (x == 3) return; *p = x; }", "put(I, 4); put(I, 3);", 4),
        ("int[4] ramp(int x) { return x + 0 ... 4; }", "*I = ramp(n)[+];", 34),
        ("int sum(int x[8]) { return x[+]; }", "*I = sum(0 ... 8) + sum(1);", 36),
        ("int g(int x); int f(int x) { return g(x) + 1; } int g(int x) { return x * 2; }", "*I = f(n);", 15),
        ("int *next(int *p) { return p + 1; }", "*next(I - 1) = 6;", 6),
    ],
)  # fmt: skip
def test_calls(helpers, body, want):
    assert ints(body, helpers=helpers)[0] == want


def test_pointers_that_change_their_array():
    a, b, out = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) * 10, np.zeros(8, np.float32)
    source = """__global__ void k(float *a, float *b, float *out, int n) {
      float *p = n > 0 ? a : b, *q = b;
      for (int i = 0; i < n; i++) { *(out + i) = *p; float *t = p; p = q + 1; q = t + 1; }
      if (n > 3) p = out;
      *(p + 7) = 99;
    }"""
    run(source, a, b, out, n=4)
    np.testing.assert_array_equal(out, [0, 10, 2, 30, 0, 0, 0, 99])


def test_pointers_by_a_branch():
    for n, want in ((1, [0, 1, 2, 3]), (0, [8, 9, 10, 11])):
        a, b, out = np.arange(8, dtype=np.int32), np.arange(8, 16, dtype=np.int32), np.zeros(4, np.int32)
        source = """__global__ void k(int *a, int *b, int *out, int n) {
          int *p[4]; if (n) p = a + 0 ... 4; else p = b + 0 ... 4;
          *(out + 0 ... 4) = *p;
        }"""
        run(source, a, b, out, n=n)
        np.testing.assert_array_equal(out, want)


def test_pointer_casts():
    a, out = np.array([1.0, 2.0, -3.0, 4.0], np.float32), np.zeros(9, np.int32)
    source = """__global__ void k(float *a, int *out) {
      *(out + 0 ... 4) = *(int *)(a + 0 ... 4);
      short *s[8] = (short *)(a + 2) - 4 + (0 ... 8); *(out + 4) = (*s)[+];
      void *v = a; *(out + 5) = *((float *)v + 3);
      char *c = (char *)a; *(out + 6) = *(float *)(c + 8);
    }"""
    run(source, a, out)
    bits = a.view(np.int32)
    want = [*bits, np.sum(a.view(np.int16), dtype=np.int32), 4, -3, 0, 0]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.bool_])
def test_narrow_integers_are_summed_as_c_sums_them(dtype):
    a = np.full(16, 1 if dtype is np.bool_ else np.iinfo(dtype).max, dtype)
    a[::5] = 3 if dtype is not np.bool_ else 0
    out = np.zeros(19, np.int32)
    name = {"int8": "char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short", "bool": "bool"}
    source = f"""__global__ void k({name[np.dtype(dtype).name]} *a, int *out) {{
      {name[np.dtype(dtype).name]} x[16] = *(a + 0 ... 16);
      *(out + 0 ... 16) = cumsum(x); *(out + 16) = x[+]; *(out + 17) = x[max]; *(out + 18) = cumprod(x)[max];
    }}"""
    run(source, a, out)
    wide = a.astype(np.int32)
    products = np.cumprod(wide.astype(object)).tolist()
    wrapped = [(p + 2**31) % 2**32 - 2**31 for p in products]
    np.testing.assert_array_equal(out, [*np.cumsum(wide), wide.sum(), wide.max(), max(wrapped)])


X = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
H = X.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(
    ("expression", "shape", "want"),
    [
        ("x", (16, 8), X),
        ("x[:, +]", (16,), X.sum(1)),
        ("x[max, :]", (8,), X.max(0)),
        ("x[min, :][newaxis, :] + x", (16, 8), X.min(0) + X),
        ("x - x[:, max, newaxis]", (16, 8), X - X.max(1, keepdims=True)),
        ("x[+, +]", (), X.sum()),
        ("x[:, argmax]", (16,), X.argmax(1)),
        ("x[argmin, :]", (8,), X.argmin(0)),
        ("^x", (8, 16), X.T),
        ("x[^1, ^0]", (8, 16), X.T),
        ("(float[4, 32])x", (4, 32), X.reshape(4, 32)),
        ("cumsum(x, 1)", (16, 8), X.cumsum(1)),
        ("cummax(x, 0)", (16, 8), np.maximum.accumulate(X, 0)),
        ("x @ ^x", (16, 16), X @ X.T),
        ("x + x @ (^x @ x)", (16, 8), X + X @ (X.T @ X)),
        ("(half[16, 8])x @ (half[8, 16])^x",
         (16, 16), X.astype(np.float16).astype(np.float32) @ X.astype(np.float16).astype(np.float32).T),
        ("x > 0 ? x : -x", (16, 8), np.abs(X)),
        ("exp(x) / (1 + exp(x))", (16, 8), np.exp(X) / (1 + np.exp(X))),
        ("where(x > 1, 1.0, sqrt(abs(x)))", (16, 8), np.where(X > 1, 1, np.sqrt(np.abs(X)))),
        ("fma(x, x, 1.0)", (16, 8), X * X + 1),
        ("(x > 0)[:, +]", (16,), (X > 0).sum(1)),
        ("(x > -9)[min, min]", (), 1),
        ("(int[16, 8])(x * 100)", (16, 8), np.trunc(X * 100)),
        ("(float)(0 ... 8) * x", (16, 8), X * np.arange(8)),
        ("max(x, 0.0) + min(x, 0.0)", (16, 8), X),
        ("rsqrt(x * x)", (16, 8), 1 / np.abs(X)),
    ],
)  # fmt: skip
def test_tiles(expression, shape, want):
    size = int(np.prod(shape))
    out = np.zeros(size, np.float32)
    store = f"*(out + 0 ... {size}) = (float[{size}])r;" if shape else "*out = r;"
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    source = f"""__global__ void k(float *X, float *out) {{
      float x[16, 8] = *(X + (0 ... 16)[:, newaxis] * 8 + 0 ... 8);
      float r{dims} = {expression};
      {store}
    }}"""
    run(source, X.copy(), out)
    np.testing.assert_allclose(out.reshape(shape), want, rtol=2e-5, atol=1e-5)


def test_shapes_that_are_no_powers_of_two():
    x, out = np.arange(48, dtype=np.float32), np.zeros(24, np.float32)
    source = """__global__ void k(float *x, float *out) {
      float a[6, 7] = *(x + (0 ... 6)[:, newaxis] * 8 + 0 ... 7);
      *(out + 0 ... 6) = a[:, +]; *(out + 6 + 0 ... 7) = a[max, :]; *(out + 20) = (0 ... 3)[+];
    }"""
    run(source, x, out)
    a = x.reshape(6, 8)[:, :7]
    np.testing.assert_array_equal(out, [*a.sum(1), *a.max(0), *[0] * 7, 3, 0, 0, 0])


@pytest.mark.parametrize("shape", ["[1]", "[1, 1]"])
def test_tiles_of_one_element_are_scalars(shape):
    body = f"""int v{shape} = n; bool found{shape} = v > m; int one = v; bool is_larger = found;
               *I = one; *(I + 1) = is_larger ? 1 : 2;"""
    assert ints(body, n=-7, m=-9, size=2).tolist() == [-7, 1]
    assert ints(body, n=-7, m=9, size=2).tolist() == [-7, 2]


def test_batched_product():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 8, s).astype(np.int8) for s in ((4, 8, 2, 2), (8, 4, 2, 2)))
    out = np.zeros(64, np.int32)
    source = """__global__ void k(int8 *a, int8 *b, int *out) {
      int8 x[4, 8, 2, 2] = *(a + 0 ... 128), y[8, 4, 2, 2] = *(b + 0 ... 128);
      int z[4, 4, 2, 2] = 1; z += x @ y;
      *(out + 0 ... 64) = (int[64])z;
    }"""
    run(source, a, b, out)
    want = np.einsum("mkab,knab->mnab", a.astype(np.int32), b.astype(np.int32)) + 1
    np.testing.assert_array_equal(out.reshape(4, 4, 2, 2), want)


def test_masks():
    x, out = np.arange(8, dtype=np.float32) + 1, np.full(16, -1, np.float32)
    source = """__global__ void k(float *x, float *out, int n) {
      float *p[16] = x + 0 ... 16; bool m[16] = (0 ... 16) < n;
      float a[16] = *?(m)p, b[16] = m ? *p : -2.5, c[16] = !m ? 3 : *p * 2;
      *?(m)(out + 0 ... 16) = a + b + c;
      *?((0 ... 16) == 12)(out + 0 ... 16) += 5;
      *?((0 ... 16) == 13)(out + 0 ... 16) = b;
    }"""
    run(source, x, out, n=8)
    np.testing.assert_array_equal(out, [*(x * 4), -1, -1, -1, -1, 4, -2.5, -1, -1])


def test_a_choice_between_a_load_and_a_constant_is_one_load():
    source = "__global__ void k(float *x, bool c) { *(x + 0 ... 4) = c ? *(x + 0 ... 4) : 1.5; }"
    text = to_text(compiled(source).func)
    assert "{other = 1.5}" in text
    assert "block.select" not in text


def test_atomics_and_grids():
    counts, lock, last = np.zeros(4, np.int32), np.zeros(1, np.int32), np.zeros(2, np.float32)
    source = """__global__ void k(int *counts, int *lock, float *last, int n) {
      int id = get_program_id(0) + get_program_id(1) * get_num_programs(0);
      atomic_add(counts + (0 ... 8) % 4, 1, (0 ... 8) < n);
      int old = atomic_add(lock, id); while (atomic_cas(lock, old + id, old + id) < 0);
      f32_atomic_add(last, 0.5f); atomic_max((int *)last + 1, id); atomic_xchg(counts + 3, 7);
    }"""
    run(source, counts, lock, last, n=5, grid=(3, 2))
    np.testing.assert_array_equal(counts, [12, 6, 6, 7])
    assert (lock[0], last[0], last.view(np.int32)[1]) == (15, 3.0, 5)


def test_narrow_parameters():
    out = np.zeros(4, np.float32)
    source = """__global__ void k(float *out, half a, bool b, char c, unsigned d) {
      *(out + 0 ... 4) = a; *?(b)out = c; *(out + 1) = d; *(out + 2) = b;
    }"""
    run(source, out, a=1.5, b=True, c=-3, d=4_000_000_000)
    np.testing.assert_array_equal(out, np.float32([-3, 4_000_000_000, 1, 1.5]))


def test_constant_pool_is_a_parameter():
    source = """char __constant__ * LUT = calloc(16);
    __global__ void k(int *out, int n) { int __constant__ *lut = (int __constant__ *)LUT; *out = *(lut + n); }"""
    kernel = compiled(source)
    assert [(p.name, p.ctype, p.pool_bytes) for p in kernel.params] == [
        ("out", "int*", 0), ("n", "int", 0), ("LUT", "char __constant__ *", 16),
    ]  # fmt: skip
    out, lut = np.zeros(1, np.int32), np.array([4, 5, 6, 7], np.int32)
    launch(kernel.func, [out, lut.view(np.int8)], {"n": 2}, grid=(1,))
    assert out[0] == 6


@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("flip_a", [False, True])
def test_products_of_transposed_operands(flip_a, flip_b):
    rng = np.random.default_rng(3)
    m, n, k = 24, 24, 40
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    left, right = (np.ascontiguousarray(x.T) if flip else x for x, flip in ((a, flip_a), (b, flip_b)))
    # rows of a that are beyond m are read, and masked away when stored
    left = np.concatenate([left.ravel(), np.full(1000, np.nan, np.float32)])
    right = np.concatenate([right.ravel(), np.full(1000, np.nan, np.float32)])
    options = [*LAYOUTS["A"][flip_a], *LAYOUTS["B"][flip_b], "-DTM=16", "-DTN=16", "-DTK=16", "-DTYPE=float"]
    (defines,) = parse_defines(options).points()
    c = np.zeros((m, n), np.float32)
    numbers = {"M": m, "N": n, "K": k, "lda": m if flip_a else k, "ldb": k if flip_b else n, "ldc": n}
    run(TRANSPOSABLE_DOT, left, right, c.reshape(-1), grid=(2, 2), defines=defines, **numbers)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_promises():
    source = """__global__ void k(float *a __aligned(16) __readonly __noalias, int n __multipleof(8) __retune,
                      float *b __writeonly) {
      int m __multipleof(4) = n + 4; *(b + m) = *a;
    }"""
    kernel = compiled(source)
    assert dict(kernel.func.attrs) == {
        "assume": (("a", 16), ("n", 8)), "readonly": ("a",), "writeonly": ("b",), "noalias": ("a",),
    }  # fmt: skip
    assert dict(kernel.params[1].attributes) == {"multipleof": 8, "retune": 0}
    assert "{multiple_of = 4}" in to_text(kernel.func)


def test_locations():
    kernel = compiled("__global__ void k(int *p) {\n  *p =\n    *p + N;\n}\n", {"N": "2 * 3"})
    locs = {op.kind.name: str(op.loc) for op in kernel.func.walk()}
    assert (locs["block.add"], locs["block.store"], locs["block.load"]) == ("k.tc:3:8", "k.tc:2:6", "k.tc:3:5")


def test_debugging_is_off_unless_asked_for():
    source = '__global__ void k(int n) { assert(n > 0, "n"); printf("%d", n); }'
    assert "debug" not in compiled(source).func.attrs
    assert compiled(source, debug=True).func.attrs["debug"] is True


def test_product_of_matrices():
    rng = np.random.default_rng(2)
    m, n, k = 40, 24, 24
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    padded = [np.concatenate([x.ravel(), np.full(9000, np.nan, np.float16)]) for x in (a, b)]
    numbers = {"M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n}
    run(PREFETCHED_DOT % 0, *padded, c.reshape(-1), grid=(2, 2), defines=POINT, **numbers)
    want = a.astype(np.float32) @ b.astype(np.float32)
    rows, cols = slice(0, 32), slice(0, 16)
    np.testing.assert_allclose(c[rows, cols], want[rows, cols], atol=0.02)
    np.testing.assert_allclose(c[:, cols], want[:, cols], atol=0.02)


def test_products_summed_in_the_accumulators_type():
    source = """__global__ void k(float *x, double *d, half *s, float *t) {
      int at[16, 16] = (0 ... 16)[:, newaxis] * 16 + 0 ... 16;
      float a[16, 16] = *(x + at);
      *(d + at) = dot(a, a, (double)0);
      *(s + at) = dot((half[16, 16])a, (half[16, 16])a, (half)1);
      *(t + at) = dot(a, a, a, tf32x3);
    }"""
    x = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)
    d, s, t = np.zeros(256), np.zeros(256, np.float16), np.zeros(256, np.float32)
    run(source, x.ravel(), d, s, t)
    wide = x.astype(np.float64)
    # sums of doubles show that the operands were not summed in float
    np.testing.assert_allclose(d.reshape(16, 16), wide @ wide, rtol=0, atol=1e-13)
    np.testing.assert_allclose(s.reshape(16, 16), wide @ wide + 1, atol=0.05)
    np.testing.assert_allclose(t.reshape(16, 16), wide @ wide + x, atol=1e-4)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void k(int *p, short *s) { *((long *)(s + 0 ... 4)) = 1; }",
         "tiles of pointers to i16 cannot be cast to wider i64: cast the pointer they are made of"),
        ("__global__ void k(int *p, int *q) { bool c[4] = (0 ... 4) > 1; int *r[4] = c ? p : q; *r = 1; }",
         "a choice between pointers into two arrays: expected a scalar condition, found a tile"),
        ("__global__ void k(int n) { int *p; *p = n; }", "pointer 'p' is read before it is set"),
        ("".join(f"int f{i + 1}(int x) {{ return f{i}(x) + 1; }}\n" for i in range(80))
         + "int f0(int x) { return x; } __global__ void k(int *p) { *p = f80(1); }",
         "the code is nested too deeply, calls inlined"),
    ],
)  # fmt: skip
def test_what_cannot_be_lowered(source, message):
    with pytest.raises(SourceError) as e:
        compile_text(source, "k.tc")
    assert e.value.message == message


def test_inlining_is_bounded(monkeypatch):
    monkeypatch.setattr(lower_expr, "MAX_OPS", 1000)
    helpers = "".join(f"int f{i + 1}(int x) {{ return f{i}(x) + f{i}(x); }}\n" for i in range(30))
    with pytest.raises(SourceError) as e:
        compile_text(f"{helpers} int f0(int x) {{ return x; }} __global__ void k(int *p) {{ *p = f30(1); }}", "k.tc")
    assert e.value.message == "the kernel has more than 1000 operations, calls inlined"
