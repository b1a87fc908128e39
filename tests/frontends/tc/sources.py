"""Kernels of the corpus, rewritten: what the other tests mutate, time and run."""

from __future__ import annotations

import textwrap

PREFETCHED_DOT = textwrap.dedent("""\
    __global__ void dot_%d(TYPE * A __readonly, TYPE * B __readonly, TYPE * C, int M, int N, int K,
                     int lda __multipleof(8), int ldb __multipleof(8), int ldc __multipleof(8)) {
      // prologue
      int pm = get_program_id(0);
      int pn = get_program_id(1);
      int rm[TM] = pm * TM + 0 ... TM;
      int rn[TN] = pn * TN + 0 ... TN;
      int rk[TK] = 0 ... TK;
      float c[TM, TN] = 0;
      // pointers to operands
      TYPE* pa[TM, TK] = A + rk[newaxis, :] * STRIDE_AK + rm[:, newaxis] * lda;
      TYPE* pb[TK, TN] = B + rk[:, newaxis] * ldb + rn[newaxis, :] * 1;
      bool checka[TM, TK] = rk[newaxis, :] < K;
      bool checkb[TK, TN] = rk[:, newaxis] < K;
      TYPE a[TM, TK] = checka ? *pa : 0;
      TYPE b[TK, TN] = checkb ? *pb : 0;
      // reduction loop
      for(int k = K; k > 0; k -= TK){
        c += a @ b;
        pa += TK * STRIDE_AK;
        pb += TK * ldb;
        bool check[TM, TK] = k > TK;
        a = check ? *pa : 0;
        b = (bool[TK, TN])(k > TK) ? *pb : 0;
      }
      // epilogue
      int rcm[TM] =  pm * TM + 0 ... TM;
      int rcn[TN] =  pn * TN + 0 ... TN;
      TYPE* pc[TM, TN] = C + rcn[newaxis, :] + rcm[:, newaxis] * ldc;
      bool checkc[TM, TN] = (rcm < M)[:, newaxis] && (rcn < N)[newaxis, :];
      *?(checkc) pc = c;
    }
    """)
TRANSPOSABLE_DOT = textwrap.dedent("""\
    void product(TYPE *A, TYPE *B, TYPE *C, int M, int N, int K,
                 int lda __multipleof(8), int ldb __multipleof(8), int ldc) {
      int m[TM] = get_program_id(0) * TM + 0 ... TM, n[TN] = get_program_id(1) * TN + 0 ... TN, k[TK] = 0 ... TK;
      TYPE* pa[SHAPE_A] = A + k[AXES_AK] * STRIDE_AK + m[AXES_AM] * STRIDE_AM;
      TYPE* pb[SHAPE_B] = B + k[AXES_BK] * STRIDE_BK + n[AXES_BN] * STRIDE_BN;
      float c[TM, TN] = 0;
      for (int left = K; left > 0; left -= TK) {
        TYPE a[SHAPE_A] = (k < left)[AXES_AK] ? *pa : 0, b[SHAPE_B] = (k < left)[AXES_BK] ? *pb : 0;
        c += USE_A @ USE_B;
        pa += TK * STRIDE_AK; pb += TK * STRIDE_BK;
      }
      bool inside[TM, TN] = (m < M)[:, newaxis] && (n < N)[newaxis, :];
      *?(inside)(C + m[:, newaxis] * ldc + n[newaxis, :]) = c;
    }
    """)
LAYOUTS = {
    "A": {
        False: ["-DUSE_A=a", "-DSTRIDE_AK=1-DSTRIDE_AM=lda", "-DAXES_AK=newaxis,:",
               "-DAXES_AM=:,newaxis", "-DSHAPE_A=TM,TK"],
        True: ["-DUSE_A=^a", "-DSTRIDE_AK=lda-DSTRIDE_AM=1", "-DAXES_AK=:,newaxis",
              "-DAXES_AM=newaxis,:", "-DSHAPE_A=TK,TM"],
    },
    "B": {
        False: ["-DUSE_B=b", "-DSTRIDE_BK=ldb-DSTRIDE_BN=1", "-DAXES_BK=:,newaxis",
               "-DAXES_BN=newaxis,:", "-DSHAPE_B=TK,TN"],
        True: ["-DUSE_B=^b", "-DSTRIDE_BK=1-DSTRIDE_BN=ldb", "-DAXES_BK=newaxis,:",
              "-DAXES_BN=:,newaxis", "-DSHAPE_B=TN,TK"],
    },
}  # fmt: skip
"""Options for operands as they are, and transposed; two of each are glued together, as documents print them."""
SMALL = textwrap.dedent("""\
    #define CAT(a, b) a ## b
    #define MAX(a, b, ...) ((a) > (b) ? (a) : (b))
    #ifdef WIDE
    typedef long index;
    #elif defined(N) && N > 4
    typedef int index;
    #endif
    char __constant__ * LUT = calloc(64);
    int twice(int x) { if (x > 3) return x * 2; return x + x; }
    float[8] row(float *p, bool m[8]) { return *?(m)(p + 0 ... 8); }
    /* a comment */
    __global__ void k(float *X __aligned(16), half * restrict H, int n __multipleof(8), bool flag) {
      index i = CAT(get_program_, id)(0) * 8;
      float t[8] = row(X, i + (0 ... 8) < n), u[2, 8] = t;
      const half h = 2.0;
      int j = MAX(twice(n), 3, ignored);
      while (j > 0) { j -= 3; if (j == 5) break; else if (j == 2) continue; t = t * exp(t) + j; }
      do j++; while (j < 10 && flag);
      switch (j & 3) { case 0: j = 1; case 1: t += 1; break; default: if (flag) return; }
      for (int q = 0; q < n; ++q) { u[^1, ^0]; t += u[+, :] + (flag ? *(X + q) : 0.5f); }
      atomic_add(X + 0 ... 8, t, (0 ... 8) < n);
      printf("%d %f\\n", 0 ... 8, t); assert(n > 0, "n");
      int __constant__ *lut = (int __constant__ *)LUT;
      *?(t > 0)(H + 0 ... 8) = (half[8])(t + *lut) / h @ u;
      *H = bitcast<half>((int16)0x7C00) + t[max] + (^u)[argmax, :][newaxis, +] ?: 1.5e3, ++*X, ~j, !flag, -h;
    }
    """)
"""Every construct once; it does not type-check (the product of the last but one statement)."""
POINT = {"TM": "32", "TN": "16", "TK": "8", "TYPE": "half", "STRIDE_AK": "1"}
