"""Random regions: products, convolutions, reductions and attention, with random work in front and behind, as kernels.

    python -m tests.gpu.random_regions --count 3000 --seed 0                  # on the GPU that is there
    python -m tests.gpu.random_regions --count 20 --device emulator --arch sm_80
    python -m tests.gpu.random_regions --count 20 --device cpu --kind chain   # of one kind, on this processor
    python -m tests.gpu.random_regions --count 20 --device none               # compiled for a GPU, not run

A case is a graph function in the notation of `tests.blockgen.support`, drawn from its number: sizes are log-uniform,
with primes among them; operands are permuted, sliced, shifted, computed. It goes through all of the compiler, and each
region that becomes of it runs on what the interpreter computed before it. An element may be as far from float64 (or
from the interpreter in the model's own precision) as twice what the interpreter itself is anywhere, and a few units in
the last place of the largest. Now and then the tiles are those of a GPU with few multiprocessors, which are large ones.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from graphfuse import compiler, devices
from graphfuse.checking import GpuRunner, Runner, runner_of
from graphfuse.dialects import graph
from graphfuse.errors import DeviceError, ParseError, VerifyError
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, Op
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.llvm.host import parse_target
from graphfuse.runtime.device import Device
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from graphfuse.targets.driver import Driver
from graphfuse.targets.profiles.nvidia import GPUS, Profile
from tests.blockgen.support import graph_func, widened

Array = np.ndarray[Any, Any]
Dims = list[int]

PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 97, 127, 131, 193, 251, 257, 509, 521, 769, 1021, 2039, 4099)
UNITS = {"f64": 2.0**-46, "f32": 2.0**-17, "f16": 2.0**-10, "bf16": 2.0**-7}
"""Of the largest element: what another order of sums and one more rounding make of it. Tensor cores cut sums of halves
off toward zero, once in 16 terms: of 2048 as much as 2^-17 is lost."""


class Named(int):
    """A size that is not known when the case is compiled: as text it is a symbol."""

    name = "n"

    def __repr__(self) -> str:
        return f"({self.name})"

    __str__ = __repr__

    def times(self, n: int) -> Named:
        """A size that is a multiple of this one, or a product of two."""
        found = Named(self * n)
        found.name = f"{self.name}*{n.name if isinstance(n, Named) else n}"
        return found


@dataclass
class Drawing:
    """A function under construction: ops in short notation, and what is known of values."""

    rng: random.Random
    work: int
    """Multiplications that the case may have, about."""
    has_symbols: bool = True
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    params: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    shapes: dict[str, Dims] = field(default_factory=dict[str, Dims])
    elems: dict[str, str] = field(default_factory=dict[str, str])
    scales: dict[str, float] = field(default_factory=dict[str, float])
    outputs: list[str] = field(default_factory=list[str])
    is_plain: bool = False
    """Whether products end with themselves."""

    # drawing

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def size(self, low: int, high: int) -> int:
        """Log-uniform; rounded to what tiles like, a prime, or as it is."""
        n = round(2 ** self.rng.uniform(np.log2(low), np.log2(max(low, high))))
        how = self.rng.random()
        if how < 0.5:
            unit = self.one(8, 8, 16, 32, 64)
            n = max(unit, n // unit * unit) if high >= unit else n
        elif how < 0.7:
            n = min((p for p in PRIMES if low <= p <= high), key=lambda p: abs(p - n), default=n)
        return min(max(n, low), high)

    def unknown(self, n: int) -> int:
        """The size, or a symbol for it."""
        if not self.has_symbols or not self.maybe(0.12) or len(self.symbols) == 2 or n < 1:
            return n
        found = Named(n)
        found.name = "nm"[len(self.symbols)]
        self.symbols[found.name] = n
        return found

    def elem(self) -> str:
        return self.rng.choices(("f16", "bf16", "f32"), (45, 35, 20))[0]

    # ops

    def param(self, shape: Sequence[int], elem: str, scale: float = 1.0) -> str:
        name = f"x{len(self.params)}"
        self.params.append(f"{name}: {'x'.join([*map(str, shape), elem])}")
        self.scales[name] = scale
        return self._known(name, list(shape), elem)

    def _known(self, name: str, shape: Dims, elem: str) -> str:
        self.shapes[name], self.elems[name] = shape, elem
        return name

    def op(self, kind: str, *operands: str, shape: Dims | None = None, elem: str = "", attrs: str = "") -> str:
        """One op; its shape and element are its first operand's unless they are given."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {kind}({', '.join(operands)})" + (f" {{{attrs}}}" if attrs else ""))
        first = operands[0] if operands else ""
        return self._known(name, shape if shape is not None else self.shapes[first], elem or self.elems[first])

    def full(self, like: str, value: float) -> str:
        shape, elem = self.shapes[like], self.elems[like]
        return self.op("full", shape=shape, elem=elem, attrs=f"elem = {elem}, shape = {shape}, value = {value}")

    def cast(self, x: str, to: str) -> str:
        return x if self.elems[x] == to else self.op("cast", x, elem=to, attrs=f"to = {to}")

    def reshape(self, x: str, shape: Dims) -> str:
        return x if shape == self.shapes[x] else self.op("reshape", x, shape=shape, attrs=f"shape = {shape}")

    def permute(self, x: str, perm: Sequence[int]) -> str:
        shape = [self.shapes[x][p] for p in perm]
        return self.op("permute", x, shape=shape, attrs=f"perm = {list(perm)}")

    def broadcast(self, x: str, shape: Dims) -> str:
        return x if shape == self.shapes[x] else self.op("broadcast", x, shape=shape, attrs=f"shape = {shape}")

    def slice(self, x: str, starts: Dims, sizes: Dims) -> str:
        attrs = f"starts = {starts}, sizes = {sizes}, steps = {[1] * len(sizes)}"
        return self.op("slice", x, shape=sizes, attrs=attrs)

    def reduce(self, x: str, axes: Sequence[int], kind: str, *, keepdims: bool = True) -> str:
        old = self.shapes[x]
        shape = [1 if i in axes else n for i, n in enumerate(old)]
        shape = shape if keepdims else [n for i, n in enumerate(old) if i not in axes]
        more = ", keepdims = true" if keepdims else ""
        return self.op("reduce", x, shape=shape, attrs=f'axes = {list(axes)}, kind = "{kind}"{more}')

    def combined(self, x: str, y: str) -> str:
        """The sum, product, ... of two tensors of one shape."""
        return self.op(self.one("add", "add", "mul", "sub", "max"), x, self.cast(y, self.elems[x]))

    # operands

    def operand(self, shape: Dims, elem: str, scale: float = 1.0) -> str:
        """A tensor as a model may come by it: memory, a view of it, or computed."""
        how = self.rng.random()
        if how < 0.45:
            return self.param(shape, elem, scale)
        if how < 0.6 and len(shape) > 1:
            perm = list(range(len(shape)))
            self.rng.shuffle(perm)
            back = [perm.index(i) for i in range(len(perm))]
            return self.permute(self.param([shape[p] for p in perm], elem, scale), back)
        if how < 0.75:
            more = [self.one(0, 0, 1, 3, 8, 64) for _ in shape]
            starts = [self.rng.randint(0, n) for n in more]
            whole = self.param([n + extra for n, extra in zip(shape, more, strict=True)], elem, scale)
            return self.slice(whole, starts, shape)
        if how < 0.8:
            low = [self.one(0, 0, 1) if n > 2 else 0 for n in shape]
            inner = [n - lo for n, lo in zip(shape, low, strict=True)]
            x = self.param(inner, elem, scale)
            return self.op("pad", x, shape=shape, attrs=f"low = {low}, high = {[0] * len(low)}, value = 0.0")
        if how < 0.83:
            kept = [i for i in range(len(shape)) if self.maybe(0.5)]
            return self.vector(shape, kept, elem)
        if how < 0.86:
            axes = sorted(self.rng.sample(range(len(shape)), 1))
            return self.op("flip", self.param(shape, elem, scale), attrs=f"axes = {axes}")
        x = self.param(shape, self.one(elem, elem, "f32", "f16"), scale)
        return self.cast(self.elementwise(x) if self.maybe(0.5) else self.beside(x), elem)

    # elementwise work

    def elementwise(self, z: str) -> str:
        """A function of every element."""
        kind = self.one("relu", "silu", "gelu", "erf", "tanh", "neg", "abs", "scaled", "leaky")
        if kind in ("tanh", "neg", "abs"):
            return self.op(kind, z)
        if kind == "relu":
            return self.op("max", z, self.full(z, 0.0))
        if kind == "scaled":
            return self.op("mul", z, self.full(z, 0.25))
        if kind == "leaky":
            small = self.op("mul", z, self.full(z, 0.125))
            return self.op("select", self.op("lt", z, self.full(z, 0.0), elem="bool"), small, z, elem=self.elems[z])
        if kind == "silu":
            return self.op("mul", z, self.op("sigmoid", z))
        inner = self.op("mul", z, self.full(z, 0.70703125))
        return self.op("mul", z, self.op("add", self.op("erf" if kind == "erf" else "tanh", inner), self.full(z, 1.0)))

    def vector(self, shape: Dims, kept: Sequence[int], elem: str) -> str:
        """A tensor with the dims that are kept, spread over a shape."""
        own = [n for i, n in enumerate(shape) if i in kept]
        x = self.param(own or [1], elem)
        return self.broadcast(self.reshape(x, [n if i in kept else 1 for i, n in enumerate(shape)]), list(shape))

    def beside(self, z: str) -> str:
        """Combined with a vector along some dims, or a tensor of the same shape."""
        shape = self.shapes[z]
        elem = self.elems[z] if self.maybe(0.8) else self.elem()
        kept = [i for i in range(len(shape)) if self.maybe(0.5)]
        if len(kept) == len(shape) and self.maybe(0.5):
            perm = list(range(len(shape)))
            self.rng.shuffle(perm)
            back = [perm.index(i) for i in range(len(perm))]
            return self.combined(z, self.permute(self.param([shape[p] for p in perm], elem), back))
        return self.combined(z, self.vector(shape, kept, elem))

    def epilogue(self, z: str) -> str:
        """Some steps behind a product."""
        if self.is_plain:
            return z
        steps: list[Callable[[str], str]] = [
            self.beside, self.beside, self.beside, self.of_each_column, self.elementwise, self.residual,
            self.split_rows, self.heads, self.cast_to_another, self.also_returned, self.halves,
        ]  # fmt: skip
        for _ in range(self.one(0, 1, 1, 2, 2, 3, 4)):
            z = self.one(*steps)(z)
        if self.maybe(0.35):
            z = self.one(self.rope, self.gate, self.total, self.softmax, self.norm, self.turned, self.joined)(z)
        return z

    def of_each_column(self, z: str) -> str:
        shape = self.shapes[z]
        return self.combined(z, self.vector(shape, [len(shape) - 1], self.elems[z]))

    def residual(self, z: str) -> str:
        return self.combined(z, self.operand(self.shapes[z], self.elems[z]))

    def cast_to_another(self, z: str) -> str:
        return self.cast(z, self.elem())

    def also_returned(self, z: str) -> str:
        if z not in self.outputs and not z.startswith("x"):
            self.outputs.append(z)
        return z

    def split_rows(self, z: str) -> str:
        """A number for each part of the rows and each column."""
        shape = self.shapes[z]
        parts = [g for g in (2, 3, 4, 5, 7, 8, 16) if len(shape) > 1 and shape[-2] % g == 0]
        if not parts:
            return z
        g = self.one(*parts)
        new = [*shape[:-2], g, shape[-2] // g, shape[-1]]
        z = self.reshape(z, new)
        return self.combined(
            z, self.vector(new, [len(new) - 3, *([len(new) - 1] if self.maybe(0.7) else [])], self.elems[z])
        )

    def heads(self, z: str) -> str:
        shape = self.shapes[z]
        found = [h for h in (2, 3, 4, 5, 8, 16) if shape[-1] % h == 0 and shape[-1] > h]
        return self.reshape(z, [*shape[:-1], h := self.one(*found), shape[-1] // h]) if found and len(shape) < 5 else z

    def halves(self, z: str) -> str:
        """Part of the columns."""
        shape = self.shapes[z]
        if shape[-1] < 4:
            return z
        size = self.one(shape[-1] // 2, shape[-1] - 1)
        start = self.one(0, shape[-1] - size)
        return self.slice(z, [*([0] * (len(shape) - 1)), start], [*shape[:-1], size])

    def regrouped(self, z: str) -> str:
        """The same elements in other dims: neighbours are joined, dims cut, 1s come and go; or dims of any factors."""
        shape = list(self.shapes[z])
        if self.maybe(0.4) and not any(isinstance(n, Named) for n in shape):
            return self.reshape(z, self.factors(int(np.prod(shape)), self.rng.randint(1, 5)))
        for _ in range(self.one(1, 1, 2, 3, 4)):
            i = self.rng.randrange(len(shape)) if shape else 0
            n = shape[i] if shape else 1
            parts = [d for d in range(2, min(n, 64)) if n % d == 0] if not isinstance(n, Named) else []
            if self.maybe(0.1):
                shape = [d for d in shape if d != 1] if 1 in shape else [*shape[:i], 1, *shape[i:]]
            elif i + 1 < len(shape) and (self.maybe(0.5) or not parts or len(shape) > 5):
                m = shape[i + 1]
                joined = n.times(m) if isinstance(n, Named) else m.times(n) if isinstance(m, Named) else n * m
                shape[i : i + 2] = [joined]
            elif parts and len(shape) < 6:
                d = self.one(*parts)
                shape[i : i + 1] = self.one([d, n // d], [n // d, d])
        return self.reshape(z, shape)

    def factors(self, n: int, count: int) -> Dims:
        """So many sizes whose product is n."""
        found, prime = [1] * count, 2
        while n > 1:
            prime = prime if prime * prime <= n else n
            if n % prime:
                prime += 1
            else:
                found[self.rng.randrange(count)] *= prime
                n //= prime
        return found

    def part(self, z: str) -> str:
        """Some of the elements along one dim."""
        shape = self.shapes[z]
        found = [i for i, n in enumerate(shape) if n > 1 and not isinstance(n, Named)]
        if not found:
            return z
        axis = self.one(*found)
        n = shape[axis]
        if equal := [g for g in (2, 3, 5) if n % g == 0 and self.maybe(0.5)]:
            size = n // self.one(*equal)
            start = size * self.rng.randrange(n // size)
        else:
            size = self.rng.randint(max(1, n // 2), n)
            start = self.rng.randint(0, n - size)
        starts, sizes = [0] * len(shape), list(shape)
        starts[axis], sizes[axis] = start, size
        return self.slice(z, starts, sizes)

    def tiled(self, z: str) -> str:
        """The elements of one dim, one behind the other, some times over."""
        shape = self.shapes[z]
        i = self.rng.randrange(len(shape)) if shape else 0
        if not shape or isinstance(shape[i], Named):
            return z
        times = self.one(2, 2, 3, 5)
        z = self.broadcast(self.reshape(z, [*shape[:i], 1, *shape[i:]]), [*shape[:i], times, *shape[i:]])
        return self.reshape(z, [*shape[:i], times * shape[i], *shape[i + 1 :]])

    def every_other(self, z: str) -> str:
        """Elements at even distances."""
        shape = self.shapes[z]
        steps = [1 if isinstance(n, Named) or n < 3 else self.one(1, 1, 2, 3) for n in shape]
        sizes = [n if step == 1 else (n - 1) // step + 1 for n, step in zip(shape, steps, strict=True)]
        return self.op("slice", z, shape=sizes, attrs=f"starts = {[0] * len(shape)}, sizes = {sizes}, steps = {steps}")

    def flipped(self, z: str) -> str:
        rank = len(self.shapes[z])
        return self.op("flip", z, attrs=f"axes = {[self.rng.randrange(rank)]}") if rank else z

    def widened(self, z: str) -> str:
        """Padded along one dim, with zeros or with what is there."""
        shape = self.shapes[z]
        found = [i for i, n in enumerate(shape) if not isinstance(n, Named) and n > 1]
        if not found:
            return z
        axis, mode = self.one(*found), self.one("constant", "edge", "wrap", "reflect")
        low, high = ([self.rng.randint(0, 3) if i == axis else 0 for i in range(len(shape))] for _ in "lh")
        new = [n + a + b for n, a, b in zip(shape, low, high, strict=True)]
        how = "value = 0.0" if mode == "constant" else f'mode = "{mode}", value = 0.0'
        return self.op("pad", z, shape=new, attrs=f"low = {low}, high = {high}, {how}")

    # ends

    def rope(self, z: str) -> str:
        z = self.heads(z)
        shape = self.shapes[z]
        if shape[-1] % 2 or len(shape) < 2:
            return z
        n, first = shape[-1] // 2, [0] * (len(shape) - 1)
        low, high = self.slice(z, [*first, 0], [*shape[:-1], n]), self.slice(z, [*first, n], [*shape[:-1], n])
        turned = self.op("concat", self.op("neg", high), low, shape=shape, attrs=f"axis = {len(shape) - 1}")
        kept = [0, len(shape) - 1] if len(shape) < 4 else [len(shape) - 3, len(shape) - 1]
        cos, sin = (self.vector(shape, kept, self.elems[z]) for _ in range(2))
        return self.op("add", self.op("mul", z, cos), self.op("mul", turned, sin))

    def gate(self, z: str) -> str:
        shape = self.shapes[z]
        if shape[-1] % 2:
            return z
        n, first = shape[-1] // 2, [0] * (len(shape) - 1)
        a, b = self.slice(z, [*first, 0], [*shape[:-1], n]), self.slice(z, [*first, n], [*shape[:-1], n])
        return self.op("mul", self.op("mul", a, self.op("sigmoid", a)), b)

    def total(self, z: str) -> str:
        rank = len(self.shapes[z])
        axes = sorted(self.rng.sample(range(rank), self.rng.randint(1, min(2, rank))))
        wide = self.cast(z, "f32") if self.maybe(0.5) else z
        return self.reduce(wide, axes, self.one("sum", "sum", "max", "min"), keepdims=self.maybe(0.5))

    def along(self, z: str) -> Dims:
        """The dims of rows: the last one, as a rule."""
        rank = len(self.shapes[z])
        return (
            [rank - 1] if self.maybe(0.4) else sorted(self.rng.sample(range(rank), self.rng.randint(1, min(2, rank))))
        )

    def softmax(self, z: str, axes: Dims | None = None) -> str:
        shape, axis = self.shapes[z], axes or self.along(z)
        top = self.broadcast(self.reduce(z, axis, "max"), shape)
        e = self.op("exp", self.op("sub", z, top))
        return self.op("div", e, self.broadcast(self.reduce(e, axis, "sum"), shape))

    def norm(self, z: str) -> str:
        shape, axis = self.shapes[z], self.along(z)
        wide = self.cast(z, "f32")
        mean = self.op(
            "mul",
            t := self.reduce(self.op("mul", wide, wide), axis, "sum"),
            self.full(t, 1.0 / np.prod([shape[a] for a in axis])),
        )
        by = self.op("div", self.full(mean, 1.0), self.op("sqrt", self.op("add", mean, self.full(mean, 1e-3))))
        scaled = self.cast(self.op("mul", wide, self.broadcast(by, shape)), self.elems[z])
        return self.op("mul", scaled, self.vector(shape, axis, self.elems[z]))

    def turned(self, z: str) -> str:
        perm = list(range(len(self.shapes[z])))
        self.rng.shuffle(perm)
        return self.permute(z, perm) if perm != sorted(perm) else z

    def joined(self, z: str) -> str:
        shape = self.shapes[z]
        axis = self.rng.randrange(len(shape))
        other = [self.one(1, 3, 8) if i == axis else n for i, n in enumerate(shape)]
        new = [n + m if i == axis else n for i, (n, m) in enumerate(zip(shape, other, strict=True))]
        pair = [z, self.param(other, self.elems[z])]
        self.rng.shuffle(pair)
        return self.op("concat", *pair, shape=new, attrs=f"axis = {axis}")

    # kinds

    def product(self) -> str:
        """A product of matrices, perhaps many, perhaps two of one operand."""
        batch = self.one([], [], [], [], [self.size(2, 6)])
        k = self.size(1, 2048)
        if self.maybe(0.3):  # both sides as long as may be
            m = n = max(1, min(8192, round((self.work / k) ** 0.5)))
            m, n = self.size(max(1, m // 2), m), self.size(max(1, n // 2), n)
        else:
            m = self.size(1, max(2, min(8192, self.work // (k * 8))))
            n = self.size(1, max(1, min(8192, self.work // (k * m))))
        m, n = self.one((m, n), (n, m))
        for d in batch:
            m = max(1, m // d)
        m, n, k = self.unknown(m), self.unknown(n), self.unknown(k)
        elem = self.elem()
        shared = self.maybe(0.3)
        lhs = ["b" * len(batch) + "mk", "b" * len(batch) + "km"]
        rhs = [("" if shared else "b" * len(batch)) + s for s in ("kn", "nk")]
        left, right = self.one(lhs[0], *lhs), self.one(*rhs)
        sizes = dict(zip("mnkb", (m, n, k, *batch), strict=False))
        x = self.operand([sizes[c] for c in left], elem)
        to = self.one(elem, elem, "f32")
        how = f'spec = "{left},{right}->{"b" * len(batch)}mn"' + (f", elem = {to}" if to != elem else "")

        def one() -> str:
            w = self.operand([sizes[c] for c in right], elem, k**-0.5)
            return self.op("contract", x, w, shape=[*batch, m, n], elem=to, attrs=how)

        z = one()
        if self.maybe(0.15):  # gate and up
            z = self.op("mul", self.op("sigmoid", z), one())
        if not batch and self.maybe(0.3):
            parts = [g for g in (2, 3, 4, 7) if m % g == 0]
            z = self.reshape(z, [g := self.one(*parts), m // g, n]) if parts else z
        return self.epilogue(z)

    def chain(self) -> str:
        """Reshapes, transposes, slices and elementwise work behind one of the others."""
        kinds = (self.product, self.product, self.convolution, self.attention, self.bytes_product, self.reduction)
        self.is_plain = True
        z = self.one(*kinds)()
        if self.elems[z] == "i32":
            z = self.op("mul", f := self.cast(z, "f32"), self.full(f, 2.0**-8))
        steps: list[Callable[[str], str]] = [
            self.regrouped, self.regrouped, self.regrouped, self.turned, self.part, self.elementwise, self.beside,
            self.beside, self.residual, self.cast_to_another, self.also_returned,
        ]  # fmt: skip
        for _ in range(self.rng.randint(3, 9)):
            z = self.one(*steps)(z)
        return self.one(self.total, self.softmax, self.norm)(z) if self.maybe(0.2) and self.shapes[z] else z

    def movement(self) -> str:
        """Elements taken from elsewhere, again and again, with elementwise work and perhaps a sum in between."""
        shape: Dims = []
        for _ in range(self.one(1, 2, 2, 3)):
            shape.append(self.size(1, max(1, min(512, self.work // 64 // int(np.prod(shape or [1]))))))
        z = self.param([self.unknown(n) for n in shape], self.elem())
        steps: list[Callable[[str], str]] = [
            self.regrouped, self.regrouped, self.regrouped, self.tiled, self.turned, self.part, self.part,
            self.every_other, self.flipped, self.widened, self.elementwise, self.beside, self.also_returned,
        ]  # fmt: skip
        for _ in range(self.rng.randint(3, 9)):
            if self.shapes[z] and int(np.prod(self.shapes[z])) < self.work:
                z = self.one(*steps, self.joined)(z)
        return self.one(self.total, self.softmax, self.norm)(z) if self.maybe(0.3) and self.shapes[z] else z

    def bytes_product(self) -> str:
        """Integers, whose sums are exact."""
        k, m = self.size(1, 1024), self.size(1, 512)
        n = self.size(1, max(1, min(2048, self.work // (k * m))))
        spec = self.one("mk,nk->mn", "mk,kn->mn")
        x = self.param([m, k], "i8")
        w = self.param([n, k] if "nk" in spec else [k, n], "i8")
        z = self.op("contract", x, w, shape=[m, n], elem="i32", attrs=f'spec = "{spec}", elem = i32')
        if self.maybe(0.5):
            return z
        scaled = self.op("mul", f := self.cast(z, "f32"), self.full(f, 2.0**-8))
        return self.epilogue(scaled)

    def convolution(self) -> str:
        rank = self.one(1, 2, 2, 2, 2, 3)
        taps = [self.one(1, 3, 3, 5) if rank < 3 else self.one(1, 2, 3) for _ in range(rank)]
        strides = [self.one(1, 1, 1, 2) for _ in range(rank)]
        dilation = [self.one(1, 1, 1, 1, 2) for _ in range(rank)]
        groups = self.one(1, 1, 1, 1, 1, 2)
        c, o = (groups * self.size(1, 320 // groups) for _ in range(2))
        if self.maybe(0.5):
            c, o = (groups * max(8, n // groups // 8 * 8) for n in (c, o))
        images = self.unknown(self.one(1, 1, 2, 3, 5))
        pads = [(self.one(0, t // 2, t // 2, 1), self.one(0, t // 2, t // 2)) for t in taps]
        positions = max(1, self.work // (c * o // groups * int(np.prod(taps)) * images))
        sides = [max(1, min(64, round(positions ** (1 / rank) * self.rng.uniform(0.7, 1.3)))) for _ in range(rank)]
        least = [(t - 1) * d + 1 for t, d in zip(taps, dilation, strict=True)]
        sides = [max(s, n) for s, n in zip(sides, least, strict=True)]
        elem = self.elem()
        last = self.maybe(0.75)
        wide = (c // groups * int(np.prod(taps))) ** -0.5
        if last:
            x = self.operand([images, *sides, c], elem)
            w = self.param([*taps, c // groups, o], elem, wide)
            if self.maybe(0.5):  # as torch has them
                w = self.permute(self.param([o, *taps, c // groups], elem, wide), [*range(1, rank + 2), 0])
        else:
            x, w = self.operand([images, c, *sides], elem), self.param([o, c // groups, *taps], elem, wide)
        padded = [s + a + b for s, (a, b) in zip(sides, pads, strict=True)]
        out = [(p - t) // s + 1 for p, t, s in zip(padded, least, strides, strict=True)]
        low, high = [p[0] for p in pads], [p[1] for p in pads]
        if self.maybe(0.5):  # a padding of its own
            around = ([0, *low, 0], [0, *high, 0]) if last else ([0, 0, *low], [0, 0, *high])
            shape = [images, *padded, c] if last else [images, c, *padded]
            x = self.op("pad", x, shape=shape, attrs=f"low = {around[0]}, high = {around[1]}, value = 0.0")
            low = high = [0] * rank
        attrs = f"strides = {strides}, low = {low}, high = {high}, dilation = {dilation}, "
        attrs += f'input_dilation = {[1] * rank}, groups = {groups}, layout = "{"nhwc" if last else "nchw"}"'
        shape = [images, *out, o] if last else [images, o, *out]
        z = self.op("conv", x, w, shape=shape, attrs=attrs)
        if self.maybe(0.4):  # a number for each image and channel
            z = self.combined(z, self.vector(shape, [0, len(shape) - 1 if last else 1], elem))
        return self.epilogue(z)

    def reduction(self) -> str:
        rank = self.one(1, 2, 2, 3, 4)
        shape: Dims = []
        for _ in range(rank):
            shape.append(self.size(1, max(1, min(60000, self.work // 16 // int(np.prod(shape or [1]))))))
        self.rng.shuffle(shape)
        shape = [self.unknown(n) for n in shape]
        z = self.operand(shape, self.elem())
        for _ in range(self.one(0, 1, 2)):
            z = self.one(self.beside, self.elementwise, self.cast_to_another)(z)
        end = self.one(self.total, self.total, self.softmax, self.norm)
        z = end(z)
        return self.beside(z) if self.maybe(0.4) and self.shapes[z] else z

    def scan(self) -> str:
        shape: Dims = []
        for _ in range(self.one(1, 2, 2, 3)):
            shape.append(self.size(1, max(1, min(60000, self.work // 16 // int(np.prod(shape or [1]))))))
        self.rng.shuffle(shape)
        shape = [self.unknown(n) for n in shape]
        z = self.operand(shape, self.elem())
        if self.maybe(0.3):
            z = self.elementwise(z)
        how = f'axis = {self.rng.randrange(len(shape))}, kind = "{self.one("sum", "sum", "max", "min")}"'
        how += "".join(f", {flag} = true" for flag in ("exclusive", "reverse") if self.maybe(0.3))
        z = self.op("cumulate", z, attrs=how)
        return self.epilogue(z) if self.maybe(0.3) else z

    def attention(self) -> str:
        b, h, d = self.size(1, 3), self.size(1, 4), self.one(8, 16, 24, 32, 40, 64, 64, 80, 96, 128)
        e = d if self.maybe(0.8) else self.size(1, 96)
        q = self.size(1, 512)
        k = q if self.maybe(0.5) else self.size(1, max(1, min(2048, self.work // (b * h * q * d))))
        b, k = self.unknown(b), k if k is q else self.unknown(k)
        elem = self.elem()
        order = self.one("bshd", "bhsd")

        def heads(name: str, s: int, n: int, scale: float) -> tuple[str, str]:
            sizes = {"b": b, "h": h, "s": s, "d": n}
            labels = {"b": "b", "h": "h", "s": name[0], "d": name[1]}
            return self.operand([sizes[c] for c in order], elem, scale), "".join(labels[c] for c in order)

        (x, lx), (y, ly), (v, lv) = heads("qd", q, d, 1.0), heads("kd", k, d, 1.0), heads("ke", k, e, 1.0)
        score = self.one(elem, "f32") if elem != "f32" else elem
        how = f'spec = "{lx},{ly}->bhqk"' + (f", elem = {score}" if score != elem else "")
        shape = [b, h, q, k]
        s = self.op("contract", x, y, shape=shape, elem=score, attrs=how)
        s = self.op("mul", s, self.full(s, round(d**-0.5, 4)))
        kind = self.one("plain", "plain", "causal", "causal", "mask", "keys", "bias")
        if kind == "causal":
            i, j = (
                self.op("iota", shape=shape, elem="i64", attrs=f"shape = {shape}, elem = i64, axis = {a}")
                for a in (2, 3)
            )
            i = self.op("add", i, self.full(i, self.one(0, max(0, k - q))))
            keep = self.op("ge", i, j, elem="bool")
            s = self.op("select", keep, s, self.full(s, "-inf"), elem=score)  # type: ignore[arg-type]  # as text
        elif kind == "keys":
            keep = self.broadcast(self.reshape(self.param([b, k], "bool"), [b, 1, 1, k]), shape)
            s = self.op("select", keep, s, self.full(s, -1000.0), elem=score)
        elif kind != "plain":
            kept = [0, 2, 3] if kind == "mask" else [1, 2, 3]
            s = self.op("add", s, self.vector(shape, kept, score))
        p = self.cast(self.softmax(self.cast(s, "f32") if self.maybe(0.7) else s, [3]), elem)
        result = "bqhe" if order == "bshd" else "bhqe"
        out = [b, q, h, e] if order == "bshd" else [b, h, q, e]
        z = self.op("contract", p, v, shape=out, attrs=f'spec = "bhqk,{lv}->{result}"')
        if order == "bshd" and self.maybe(0.5):
            z = self.reshape(z, [b, q, h * e])
        return self.one(self.elementwise, self.residual, self.cast_to_another, str)(z)

    def pointwise(self) -> str:
        rank = self.one(1, 2, 3, 4)
        shape: Dims = []
        for _ in range(rank):
            shape.append(self.size(1, max(1, min(4096, self.work // 16 // int(np.prod(shape or [1]))))))
        shape = [self.unknown(n) for n in shape]
        return self.turned(self.epilogue(self.operand(shape, self.elem())))


KINDS = {
    "product": 35, "convolution": 22, "reduction": 11, "attention": 12, "bytes_product": 4, "pointwise": 4, "chain": 12,
    "movement": 8, "scan": 5,
}  # fmt: skip
"""How often each is drawn."""


@dataclass(frozen=True)
class RandomCase:
    """A function, its inputs, and for how many multiprocessors it is compiled (0: those there are)."""

    seed: int
    kind: str
    text: tuple[str, str, str]
    func: Func
    inputs: list[Array]
    multiprocessors: int


def drawn(seed: int, work: int, kind: str = "") -> RandomCase:
    """Case number `seed` of at most about `work` multiplications, of one kind or of any."""
    case = _drawn(seed, work, kind, has_symbols=True) or _drawn(seed, work, kind, has_symbols=False)
    assert case, "what has known sizes fits together"
    return case


def _drawn(seed: int, work: int, kind: str, *, has_symbols: bool) -> RandomCase | None:
    """The case; None where a step computes with a size that is a symbol, or no input says what that is."""
    rng = random.Random(seed)
    kind = kind or rng.choices(list(KINDS), list(KINDS.values()))[0]
    d = Drawing(rng, max(1 << 12, round(2 ** rng.uniform(np.log2(work) - 6, np.log2(work)))), has_symbols)
    z = getattr(d, kind)()
    if z.startswith("x"):
        z = d.op("neg", z)
    results = [*(v for v in d.outputs if v != z), z]
    dims = ", ".join(f"{name} in 1..{max(64, 2 * n)}" for name, n in d.symbols.items())
    text = ", ".join(d.params), "; ".join([*d.lines, f"return({', '.join(results)})"]), dims
    try:
        func = graph_func(*text)
    except (ParseError, VerifyError):
        if has_symbols:
            return None
        raise
    if any(f"({name})" not in text[0] for name in d.symbols):
        return None
    numbers = np.random.default_rng(seed)
    inputs = [_array(numbers, d.shapes[v.hint], d.elems[v.hint], d.scales[v.hint]) for v in func.params]
    return RandomCase(seed, kind, text, func, inputs, rng.choice((0, 0, 1, 1, 4, 16)))


def _array(rng: np.random.Generator, shape: Dims, elem: str, scale: float) -> Array:
    if elem == "bool":
        return rng.random(shape) < 0.8
    if elem == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    shape = [int(n) for n in shape]
    return (rng.standard_normal(shape, np.float32) * scale).astype(numpy_dtype(scalar(elem)))


@dataclass(frozen=True)
class Outcome:
    """Of one result of one region: how far it is from what it should be, of how far it may be."""

    kernel: str
    ratio: float
    instruction: str
    tile: int
    """Elements of the largest tile that is a sum of products."""
    spill_bytes: int
    """-1 where there was no assembler."""


def outcomes(case: RandomCase, target: Target, driver: Driver | None = None) -> Iterator[Outcome]:
    """Compile a case, and run every region; for a GPU without a driver it is compiled only."""
    few = case.multiprocessors if target.kind == "cuda" else 0
    backend, sizes = backend_of(target), dict[str, Profile]()
    machine = replace(backend.machine, multiprocessors=few) if few else backend.machine
    if few:
        sizes[target.cpu] = replace(GPUS[target.cpu], machine=machine)
    with mock.patch.dict(GPUS, sizes), mock.patch.object(backend, "machine", machine):
        done = compiler.stages(case.func, target, Options())
        if target.kind == "cuda" and driver is None:
            backend.code(done)
            return
        runner = runner_of(done, target, driver, 0)
    env = dict(zip(done.regions.params, case.inputs, strict=True))
    symbols = interp.bind(done.regions, [a.shape for a in case.inputs], {})
    for op in done.regions.body.ops[:-1]:
        operands = [env[v] for v in op.operands]
        results = interp.evaluate_op(op, operands, symbols)
        if op.kind is graph.region:
            yield from _checked(op, operands, results, runner, symbols)
        env.update(zip(op.results, results, strict=True))


def _checked(
    op: Op, operands: Sequence[Array], plain: Sequence[Array], runner: Runner, symbols: Mapping[str, int]
) -> Iterator[Outcome]:
    exact = interp.evaluate_op(op, [widened(a) for a in operands], symbols, wide=True)
    got = [np.empty(a.shape, a.dtype) for a in plain]
    for a in got:
        a.reshape(-1).view(np.uint8)[...] = 0xFF
    runner(op, [np.ascontiguousarray(a) for a in operands], got, symbols)
    name = str(op.attrs["kernel"])
    text = runner.texts[name] if isinstance(runner, GpuRunner) else ""
    made = [int(m) * int(n) for m, n in re.findall(r"(?:gpu\.wgmma|block\.dot)\(.*: tile<(\d+)x(\d+)x", text)]
    instruction = "wgmma" if "gpu.wgmma(" in text else "dot" if made else "none"
    assert instruction != "dot" or "schedule = " not in text, "a tile for wgmma is multiplied by mma.sync"
    spills = runner.launches[name].spill_bytes if isinstance(runner, GpuRunner) else 0
    for g, p, e in zip(got, plain, exact, strict=True):
        yield Outcome(name, excess(g, p, e), instruction, max(made, default=0), spills)


def excess(got: Array, plain: Array, exact: Array) -> float:
    """The largest error over the largest that may be; infinite for a difference where there may be none."""
    if not got.size:
        return 0.0
    g, p, e = (a.astype(np.float64) for a in (got, plain, exact))
    finite = np.isfinite(e) & np.isfinite(p)
    own, size = np.abs(p[finite] - e[finite]), np.abs(e[finite])
    distance = np.minimum(_distance(g, e), _distance(g, p))
    unit = UNITS.get(str(interp.ew.elem_of(plain.dtype)), 0.0)
    limit = 2 * np.max(own, initial=0.0) + unit * np.max(size, initial=0.0)
    worst = float(distance.max())
    return worst / limit if limit else float("inf") if worst else 0.0


def _distance(a: Array, b: Array) -> Array:
    """|a - b|; infinite where only one is NaN, or infinities differ."""
    with np.errstate(invalid="ignore"):
        found = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(found), np.inf, found))


# the command


def driver_of(device: str, arch: str) -> Driver | None:
    """The GPU's, or the emulator's, or none."""
    return None if device == "cpu" else devices.driver_of(Device.parse(device), arch)


def work(args: argparse.Namespace) -> None:
    """Some of the cases: a line of JSON for each, as soon as it is done."""
    driver = driver_of(args.device, args.arch)
    target = parse_target("cpu" if args.device == "cpu" else f"cuda:{args.arch}")
    for seed in range(args.seed, args.seed + args.count, args.step):
        start = time.time()
        said: dict[str, Any] = {"seed": seed}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        try:
            case = drawn(seed, args.work, args.kind)
            said["kind"] = case.kind
            found = list(outcomes(case, target, driver))
            said["regions"] = [(o.kernel, o.ratio, o.instruction, o.tile, o.spill_bytes) for o in found]
        except Exception as e:  # noqa: BLE001  # whatever it is, it is a finding
            where = traceback.extract_tb(e.__traceback__)[-1]
            said["error"] = f"{type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"[:600]
            if isinstance(e, DeviceError):  # the context may be lost
                sys.stdout.write(json.dumps(said) + "\n")
                sys.stdout.flush()
                sys.exit(1)
        said["seconds"] = time.time() - start
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


class Tally:
    """What came of the cases so far."""

    def __init__(self) -> None:
        self.cases = self.regions = 0
        self.kinds: collections.Counter[str] = collections.Counter()
        self.instructions: collections.Counter[str] = collections.Counter()
        self.large = 0
        self.spills = (0, -1)
        self.wrong: list[dict[str, Any]] = []
        self.worst = (0.0, -1)

    def add(self, said: dict[str, Any]) -> None:
        self.cases += 1
        self.kinds[said.get("kind", "?")] += 1
        for _, ratio, instruction, tile, spilled in said.get("regions", ()):
            self.spills = max(self.spills, (spilled, said["seed"]))
            self.regions += 1
            self.instructions[instruction] += 1
            self.large += tile >= 128 * 192
            self.worst = max(self.worst, (ratio, said["seed"]))
        if "error" in said or any(not r[1] <= 1 for r in said["regions"]):
            self.wrong.append(said)
            sys.stdout.write(f"WRONG {json.dumps(said)}\n")
            sys.stdout.flush()

    def report(self) -> str:
        kinds = ", ".join(f"{n} {k}" for k, n in self.kinds.most_common())
        made = ", ".join(f"{n} {k}" for k, n in self.instructions.most_common())
        large, (worst, seed), (spilled, spills) = self.large, self.worst, self.spills
        return (
            f"{self.cases} cases ({kinds}); {self.regions} results of regions ({made}), {large} by tiles of 128x192 "
            f"and more; {len(self.wrong)} wrong; worst error {worst:.2f} of what it may be (seed {seed}); "
            f"at most {spilled} bytes spilled (seed {spills})"
        )


def main() -> None:
    """Share the cases out to processes; a process that dies is seen, and another goes on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "emulator", "cpu", "none"), default="cuda")
    parser.add_argument("--kind", choices=("", *KINDS), default="")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--work", type=int, default=1 << 30, help="multiplications of the largest cases")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after that")
    parser.add_argument("--step", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        work(args)
        return
    end, tally = time.time() + args.seconds, Tally()
    running = [_Process(args, args.seed + i) for i in range(args.jobs)]
    while running:
        for process in running:
            process.collect(tally)
        if time.time() > end:
            for process in running:
                process.kill()
        running = [p for p in running if p.going]
        time.sleep(0.2)
    print(tally.report())  # noqa: T201  # what the command is for
    sys.exit(bool(tally.wrong))


class _Process:
    """Cases `first`, `first + jobs`, ... in a process of its own, started again behind a case it died of."""

    def __init__(self, args: argparse.Namespace, first: int) -> None:
        self.args, self.going = args, True
        self._start(first)

    def _start(self, first: int) -> None:
        a = self.args
        self.begun: int | None = None
        count = a.seed + a.count - first
        if count <= 0:
            self.going = False
            return
        command = [sys.executable, "-m", "tests.gpu.random_regions", "--step", str(a.jobs), "--seed", str(first)]
        command += ["--count", str(count), "--device", a.device, "--arch", a.arch]
        command += ["--work", str(a.work), "--kind", a.kind]
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "GRAPHFUSE_THREADS": "1", "GRAPHFUSE_CACHE": "0"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **alone})
        self.lines: collections.deque[str] = collections.deque()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def collect(self, tally: Tally) -> None:
        """What was said since the last time."""
        if not self.going:
            return
        ended = self.process.poll() is not None
        if ended:
            self.reader.join()
        while self.lines:
            said = json.loads(self.lines.popleft())
            if len(said) == 1:
                self.begun = said["seed"]
            else:
                tally.add(said)
                last, self.begun = said["seed"], None
                self.next = last + self.args.jobs
        if not ended:
            return
        if self.begun is not None:
            tally.add({"seed": self.begun, "error": f"the process ended with {self.process.returncode}", "regions": []})
            self._start(self.begun + self.args.jobs)
        elif self.process.returncode:
            self._start(self.next)
        else:
            self.going = False

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        self.going = False


if __name__ == "__main__":
    main()
