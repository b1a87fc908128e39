"""Random scatters beside numpy, one update after the other: on this processor, and on GPUs, which are emulated."""

from __future__ import annotations

import ctypes
import random
import re
from dataclasses import replace

import numpy as np
import pytest

from graphfuse.blockgen.gpu_whole_scatter import columns_of
from graphfuse.blockgen.lower import EMITTERS, GPU_EMITTERS, lower_region
from graphfuse.dialects import graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.fusion.regions.whole_scatters import mark_whole
from graphfuse.fusion.simplify.canonicalize import canonicalize
from graphfuse.gpu.emulator import Buffer
from graphfuse.gpu.lower import emit_ptx
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp import graph as interp
from graphfuse.interp.arrays import COMBINE
from graphfuse.ir.core import attr_int, attr_ints, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar
from graphfuse.llvm.host import parse_target
from graphfuse.llvm.loader import load_object
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from tests.blockgen.support import graph_func
from tests.gpu.launching import emulate

FEW, MANY = 24, 200
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 31, 32, 37, 64, 97, 128, 131, 257)
ELEMS = ("f32", "f32", "f16", "bf16", "f64", "i64", "i32", "i16", "i8", "u8", "bool")


class Drawn:
    """A function with one scatter, and arguments: small whole numbers, of which every order makes the same sums."""

    def __init__(self, seed):
        self.draw, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.elem = self.draw.choice(ELEMS)
        kinds = ("set", "max") if self.elem == "bool" else ("set", "add", "add", "mul", "min", "max")
        self.kind, self.beyond = self.draw.choice(kinds), self.draw.choice((0, 0, 2))
        self.shape = self.sizes(self.draw.randint(1, 4), 1500)
        # without an order, what is stored twice may be either
        is_ordered = self.kind == "set" or self.draw.random() < 0.2
        self.attrs = f'kind = "{self.kind}"' + (", ordered = true" if is_ordered else "")
        (updates, index, scatter) = self.draw.choice((self.along, self.slices))()
        given, view = self.viewed(updates)
        arrays = {"x": self.numbers(self.shape), "i": index, "u": self.numbers(given)}
        self.arrays = list(arrays.values())
        names = {"x": self.elem, "i": f"i{8 * index.itemsize}", "u": self.elem}
        params = ", ".join(f"{n}: {'x'.join(map(str, (*a.shape, names[n])))}" for n, a in arrays.items())
        of = self.draw.choice(("z", "t", "x"))
        one = "true" if self.elem == "bool" else "1.0" if "f" in self.elem else "1"
        larger = "or" if self.elem == "bool" else "max"
        if self.draw.random() < 0.5:
            scatter = f"k = max(i, i); {scatter}".replace("(i)", "(k)").replace(" i,", " k,")
        before = f"z = full() {{shape = {self.shape}, elem = {self.elem}, value = {one}}}; t = {larger}(x, z); {view}"
        self.func = graph_func(params, f"{before} {scatter.replace('TARGET', of)}; return(y)")

    def sizes(self, rank, most):
        out = []
        for _ in range(rank):
            out.append(self.draw.choice([s for s in SIZES if s <= most]))
            most //= out[-1]
        return out

    def numbers(self, shape):
        low, high = (1, 3) if self.kind == "mul" else (0, 2) if self.elem in ("bool", "u8") else (-2, 3)
        return self.rng.integers(low, high, shape).astype(numpy_dtype(Scalar(self.elem)))

    def places(self, size, shape):
        """Indices of a dim, from its end too, some of them out of range."""
        found = self.rng.integers(-size - self.beyond, size + self.beyond, shape)
        return found.astype(self.draw.choice((np.int32, np.int64)))

    def along(self):
        axis = self.draw.randrange(len(self.shape))
        updates = [self.draw.choice((s, s, -(-s // 2))) for s in self.shape]
        updates[axis] = self.draw.choice((0, 1, 7, 33))
        given = [s if d == axis or self.draw.random() < 0.5 else 1 for d, s in enumerate(updates)]
        spread = f"j = broadcast(i) {{shape = {updates}}}"
        scatter = f"{spread}; y = scatter_along(TARGET, j, w) {{axis = {axis}, {self.attrs}}}"
        return updates, self.places(self.shape[axis], given), scatter

    def slices(self):
        depth, lead = self.draw.randint(0, len(self.shape)), self.sizes(self.draw.randint(0, 2), 12)
        columns = [self.places(n, lead) for n in self.shape[:depth]]
        index = np.stack(columns, -1) if columns else np.zeros((*lead, 0), np.int64)
        return [*lead, *self.shape[depth:]], index, f"y = scatter_nd(TARGET, i, w) {{{self.attrs}}}"

    def viewed(self, shape):
        """What the parameter's shape is, and how updates are made of it."""
        order = self.draw.sample(range(len(shape)), len(shape))
        back = [order.index(i) for i in range(len(order))]
        given = [shape[i] for i in order]
        computed = f"{'or' if self.elem == 'bool' else 'max'}(u, u)"
        made = computed if self.draw.random() < 0.5 else f"reshape(u) {{shape = {given}}}"
        return given, f"v = {made}; w = permute(v) {{perm = {back}}};"


def landings(op, shape, index):
    """Each update's index, and its place in the result, where that is one."""
    for at in np.ndindex(index.shape if op.kind is graph.scatter_along else index.shape[:-1]):
        if op.kind is graph.scatter_along:
            axis = attr_int(op, "axis")
            named, place = [(int(index[at]), axis)], list(at)
        else:
            named, place = [(int(i), d) for d, i in enumerate(index[at])], [0] * index.shape[-1]
        for i, d in named:
            place[d] = i + shape[d] if i < 0 else i
        if all(0 <= p < n for p, n in zip(place, shape, strict=False)):
            yield at, tuple(place)


def applied(op, x, index, updates):
    """A scatter by the book."""
    kind, out = str(op.attrs["kind"]), x.copy()
    for at, where in landings(op, x.shape, index):
        out[where] = updates[at] if kind == "set" else COMBINE[kind](out[where], updates[at])
    return out


def on_cpu(kernel, target, arrays):
    """Programs in any order."""
    found = load_object(backend_of(target).kernel_code(kernel).code.object, [kernel.name])
    args, scratch = np.array([a.ctypes.data for a in arrays], np.int64), np.zeros(1 << 16, np.uint8)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    room = scratch.ctypes.data + -scratch.ctypes.data % 64
    for i in np.random.default_rng(0).permutation(kernel.attrs["grid"]).tolist():
        call(found.address(kernel.name))(args.ctypes.data, i, i + 1, room)


def on_gpu(kernel, target, arrays, *, seed=0):
    """What ran."""
    lowered = compile_functions([kernel], target)
    ptx = emit_ptx(lowered)
    emulate(ptx, lowered.kernels[0], [*arrays[:-1], Buffer(arrays[-1])], seed=seed)
    return ptx


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_random_scatters(seed):
    case = Drawn(seed)
    func, _ = outline(canonicalize(case.func), Rules(computes_places=True))
    env = dict(zip(func.params, case.arrays, strict=True))
    for op in func.body.ops[:-1]:
        operands = [env[v] for v in op.operands]
        if op.kind is not graph.region or op.attrs["kind"] != "scatter":
            env.update(zip(op.results, interp.evaluate_op(op, operands, {}), strict=True))
            continue
        inner = dict(zip(op.body.params.values, operands, strict=True))
        for o in op.body.ops[:-1]:
            given = [inner[v] for v in o.operands]
            made = (applied(o, *given),) if o.kind in graph.SCATTERS else interp.evaluate_op(o, given, {})
            inner.update(zip(o.results, made, strict=True))
        (want,) = (inner[v] for v in op.body.terminator.operands)
        for name in ("cpu", "cuda:sm_80", "cuda:sm_90a"):
            target = Target.parse(name) if name != "cpu" else parse_target(name)
            kernel = lower_region(op, "k", {}, backend_of(target).machine, EMITTERS if name == "cpu" else GPU_EMITTERS)
            (number,) = attr_ints(op, "in_place")
            got, dense = operands[number].copy(), [np.ascontiguousarray(a) for a in operands]
            if name == "cpu":
                on_cpu(kernel, target, [*dense, got])
            elif kernel.attrs["grid"]:
                on_gpu(kernel, target, [*dense, got], seed=seed)
            np.testing.assert_array_equal(got, want, err_msg=name)
        env[op.results[0]] = want


# many updates of few places

SUMS = ("f32-add", "f64-add", "i32-add", "i64-add", "f32-mul", "i64-mul")
EXTREMES = ("f32-max", "f64-min", "i32-min", "i64-max", "f16-max", "bf16-max", "i16-min")
STORED = ("f32-set", "f16-set", "bf16-set", "i64-set", "bool-set")
PLACES = {"cells": "i: 5001x2xi64, u: 5001", "rows": "i: 2101x1xi32, u: 2101x2", "along": "i: 901x7xi64, u: 901x7"}


@pytest.mark.some(30)
@pytest.mark.parametrize("multiprocessors", [1, 132])
@pytest.mark.parametrize("lines", PLACES)
@pytest.mark.parametrize("combined", SUMS + EXTREMES + STORED)
def test_few_places(combined, lines, multiprocessors):
    """Programs combine updates in shared memory; on few multiprocessors in several tables, and more tiles in turn."""
    elem, kind = combined.split("-")
    rng = np.random.default_rng(0)
    target = Target.parse("cuda:sm_90a" if multiprocessors == 1 else "cuda:sm_80")
    what = "scatter_along(x, i, u) {axis = 0," if lines == "along" else "scatter_nd(x, i, u) {"
    func, _ = outline(
        graph_func(
            f"x: 5x{2 if lines == 'rows' else 7}x{elem}, {PLACES[lines]}x{elem}",
            f'y = {what} kind = "{kind}"}}; return(y)',
        )
    )
    (op,) = (o for o in func.body.ops if o.kind is graph.region)
    machine = replace(backend_of(target).machine, multiprocessors=multiprocessors)
    kernel = lower_region(op, "k", {}, machine, GPU_EMITTERS)
    assert kernel.attrs["grid"] <= 4 * multiprocessors
    x, index, updates = (np.empty(t.shape, numpy_dtype(t.elem)) for t in (tensor_of(v) for v in op.operands))
    index[...] = rng.choice([-6, -5, -4, -1, 0, 1, 4, 7], index.shape)  # of 5 rows all but two
    x[...] = rng.integers(-9, 9, x.shape)
    signs = rng.choice([-1, 1], updates.shape)
    updates[...] = signs if kind == "mul" else np.arange(updates.size).reshape(updates.shape) % 128 * signs
    if kind == "max" and elem in ("f32", "f16"):
        updates.flat[:9] = np.nan
    got, (scatter,) = x.copy(), (o for o in op.body.ops if o.kind in graph.SCATTERS)
    assert re.search(r"(red|atom)\.relaxed\.gpu\.shared", on_gpu(kernel, target, [x, index, updates, got]))
    if kind != "set":
        np.testing.assert_array_equal(got, applied(scatter, x, index, updates))
        return
    stored = {where: set() for where in np.ndindex(x.shape)}
    for at, place in landings(scatter, x.shape, index):
        for rest in np.ndindex(x.shape[len(place) :]):
            stored[*place, *rest].add(updates[*at, *rest].item())
    assert min(map(len, stored.values())) == 0 < max(map(len, stored.values())), "one place is left as it is"
    assert all(got[where].item() in (found or {x[where].item()}) for where, found in stored.items())


# all of a result

WHOLE = {
    "columns": ("67x37", "97x37", 0), "images": ("3x100x7", "3x33x7", 1), "lines": ("5x131", "5x130", 1),
    "once": ("8x40", "1x40", 0), "line": ("300", "257", 0),
}  # fmt: skip


@pytest.mark.some(8)
@pytest.mark.parametrize("multiprocessors", [1, 2])
@pytest.mark.parametrize("shapes", WHOLE)
@pytest.mark.parametrize("combined", ["f16-add", "f32-add", "f64-mul", "i32-min", "bf16-max", "i64-add"])
def test_whole_columns(combined, shapes, multiprocessors):
    """A program has all places of its columns in shared memory, and goes on with what it has made there."""
    elem, kind = combined.split("-")
    of, by, axis = WHOLE[shapes]
    func = canonicalize(
        graph_func(
            f"x: {of}x{elem}, b: {of}x{elem}, i: {by}xi64, u: {by}x{elem}",
            f"z = max(x, b); k = max(i, i); w = neg(u); "
            f'y = scatter_along(z, k, w) {{axis = {axis}, kind = "{kind}"}}; r = add(y, b); return(r, y)',
        )
    )
    target = Target.parse("cuda:sm_90a")
    machine = replace(backend_of(target).machine, multiprocessors=multiprocessors)
    func, _ = outline(mark_whole(func, lambda op: columns_of(op, machine) > 0), Rules(computes_places=True))
    (op,) = (o for o in func.body.ops if o.kind is graph.region)
    kernel, rng = lower_region(op, "k", {}, machine, GPU_EMITTERS), np.random.default_rng(0)
    arrays = {v: np.empty(t.shape, numpy_dtype(t.elem)) for v in op.operands for t in [tensor_of(v)]}
    places = tensor_of(op.results[0]).shape[axis]
    for value, array in arrays.items():
        near = range(-places - 1, places + 1) if value is func.params[2] else (-2, 1)
        array[...] = rng.choice(near, array.shape)
    env = dict(zip(op.body.params.values, arrays.values(), strict=True))
    for o in op.body.ops[:-1]:
        given = [env[v] for v in o.operands]
        made = (applied(o, *given),) if o.kind in graph.SCATTERS else interp.evaluate_op(o, given, {})
        env.update(zip(o.results, made, strict=True))
    outs = [np.empty(tensor_of(v).shape, numpy_dtype(tensor_of(v).elem)) for v in op.results]
    lowered = compile_functions([kernel], target)
    ptx = emit_ptx(lowered)
    emulate(ptx, lowered.kernels[0], [*arrays.values(), *(Buffer(o, initialised=False) for o in outs)])
    assert re.search(r"(red|atom)\.relaxed\.gpu\.shared", ptx)
    for out, value in zip(outs, op.body.terminator.operands, strict=True):
        np.testing.assert_array_equal(out, env[value])


@pytest.mark.parametrize(
    ("attrs", "is_relaxed"), [('kind = "set"', True), ('kind = "set", ordered = true', False), ('kind = "add"', False)]
)
def test_updates_that_may_meet_are_stored_relaxed(attrs, is_relaxed):
    target = Target.parse("cuda:sm_90a")
    params = "x: 900x20xf32, i: 700x1xi64, u: 700x20xf32"
    func, _ = outline(
        canonicalize(graph_func(params, f"y = scatter_nd(x, i, u) {{{attrs}}}; return(y)")), Rules(computes_places=True)
    )
    (region,) = (op for op in func.walk() if op.kind is graph.region)
    kernel = lower_region(region, "k", {}, backend_of(target).machine, GPU_EMITTERS)
    assert ("st.relaxed.gpu.global" in emit_ptx(compile_functions([kernel], target))) == is_relaxed
