"""Pointers to pointers: tables of addresses that a launch makes of lists of arrays, on every machine."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.errors import InputError, UnsupportedError
from graphfuse.frontends.tc import SourceError, compile_text
from graphfuse.frontends.tc_ops import read_operators
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.gpu.emulator.errors import EmulatorError
from graphfuse.ir.core import Params
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import I64, Tensor
from graphfuse.kernels.checking import check
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.tuner import TunedKernel, _kept
from graphfuse.kernels.values import read_values
from graphfuse.runtime.gpu.context import context_of

MACHINES = ("interpreter", "cpu", "sm_80", "sm_90a")
GROUPED = """
__global__ void grouped(const TYPE **a, const TYPE **b, TYPE **c, const int *m, int n, int k) {
  int g = get_program_id(0);
  const TYPE *pa = a[g], *pb = *(b + g);
  TYPE *pc = c[g];
  int rows = *(m + g);
  for (int r = 0; r < rows; r += 16) {
    int i[16] = r + 0 ... 16, j[16] = 0 ... 16;
    ACC acc[16, 16] = 0;
    for (int q = 0; q < k; q += 16) {
      int x[16] = q + 0 ... 16;
      TYPE left[16, 16] = *?((i < rows)[:, newaxis] && (x < k)[newaxis, :])(pa + i[:, newaxis] * k + x[newaxis, :]);
      TYPE right[16, 16] = *?((x < k)[:, newaxis] && (j < n)[newaxis, :])(pb + x[:, newaxis] * n + j[newaxis, :]);
      acc += left @ right;
    }
    *?((i < rows)[:, newaxis] && (j < n)[newaxis, :])(pc + i[:, newaxis] * n + j[newaxis, :]) = acc;
  }
}
"""
ADD = """
__global__ void add(const float *const *x, float **y, const int *n, int count) {
  for (int t = 0; t < count; t++) {
    const float *from = x[t];
    float *to = y[t];
    int i[32] = 0 ... 32;
    if (from != 0 && to) { *?(i < *(n + t))(to + i) += *?(i < *(n + t))(from + i); }
  }
}
"""


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def kernel_of(source, machine, **macros):
    device = {"interpreter": "", "cpu": "cpu"}.get(machine, "emulator")
    made = graphfuse.kernel(source, device=device, **macros)
    assert isinstance(made, Kernel)
    if device == "emulator":
        made._contexts["emulator"] = context_of(EmulatedDriver(machine), 0)
    return made


def run(source, machine, grid, args, **macros):
    """A launch; in the interpreter one that finds nothing wrong."""
    made = kernel_of(source, machine, **macros)
    if machine == "interpreter":
        values = dict(zip((p.name for p in made.parameters), args, strict=True))
        assert check(made, grid, values, frozenset(), emulate=False) == []
    else:
        made[grid](*args)


def message(machine, source, grid, *args):
    with pytest.raises(InputError) as found:
        kernel_of(source, machine)[grid](*args)
    return found.value.message


# values


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("ctype", "dtype"), [("float", np.float32), ("half", np.float16), ("double", np.float64)])
def test_a_grouped_product_of_ragged_sizes(machine, ctype, dtype):
    rng, sizes, n, k = np.random.default_rng(3), np.array([7, 19, 0, 3, 31], np.int32), 13, 29
    a = [rng.standard_normal((m, k)).astype(dtype) for m in sizes]
    b = [rng.standard_normal((k, n)).astype(dtype) for _ in sizes]
    c = [np.zeros((m, n), dtype) for m in sizes]
    run(
        GROUPED,
        machine,
        (len(sizes),),
        [a, b, c, sizes, n, k],
        TYPE=ctype,
        ACC="double" if ctype == "double" else "float",
    )
    for left, right, got in zip(a, b, c, strict=True):
        want = left.astype(np.float64) @ right.astype(np.float64)
        error = {np.float16: 2e-2, np.float32: 2e-5, np.float64: 2e-5}[dtype]
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=error, atol=error)


@pytest.mark.parametrize("machine", MACHINES)
def test_adding_lists_with_null_entries(machine):
    sizes = np.array([5, 17, 2, 31, 11], np.int32)
    x = [np.arange(n, dtype=np.float32) + 1 for n in sizes]
    y = [np.full(n, 100 * i, np.float32) for i, n in enumerate(sizes)]
    want = [b if i in (1, 3) else a + b for i, (a, b) in enumerate(zip(x, y, strict=True))]
    kept = y[3].copy()
    run(ADD, machine, (1,), [[None if i == 1 else a for i, a in enumerate(x)],
                             tuple(None if i == 3 else b for i, b in enumerate(y)), sizes, 5])  # fmt: skip
    for got, wanted in zip(y, want, strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(y[3], kept)


@pytest.mark.parametrize("machine", MACHINES)
def test_pointers_that_are_chosen_carried_and_handed_on(machine):
    source = """
    float *pick(float *const *t, int i) { return *(t + i); }
    __global__ void k(float **t, int **counts, int n) {
      float *p = n > 1 ? t[0] : t[1], *q = t[0];
      for (int i = 0; i < 3; i++) { q = pick(t, i); *(q + n) = *(q + n) + i + 1; }
      if (n > 1) q = t[1]; else q = t[0];
      *q = *p + sizeof(t);
      atomic_add(*counts + (0 ... 8) / 4, 0 ... 8);
      *?(0 ... 4 < n)(counts[1] + 1 + 0 ... 4) = (counts[1] + 3) - counts[1];
    }
    """
    t = [np.full(5, 10.0 * i, np.float32) for i in range(3)]
    counts = [np.zeros(2, np.int32), np.zeros(7, np.int32)]
    run(source, machine, (1,), [t, counts, 2])
    np.testing.assert_array_equal(t, [[0, 0, 1, 0, 0], [8, 10, 12, 10, 10], [20, 20, 23, 20, 20]])
    np.testing.assert_array_equal(counts[0], [6, 22])
    np.testing.assert_array_equal(counts[1], [0, 3, 3, 0, 0, 0, 0])


@pytest.mark.parametrize("machine", MACHINES)
def test_entries_that_are_one_array_are_in_order(machine):
    """What a program stores through one pointer it loads through another, by other threads of a GPU."""
    source = """
    __global__ void k(float **t, float *x, float *y) {
      int i[128] = 0 ... 128;
      for (int r = 0; r < 3; r++) { *(t[0] + i) = *(t[r & 1] + (127 - i)) + 1; }
      *(y + i) = *(x + (127 - i));
      for (int r = 0; r < 3; r++) { *(t[1] + i) = *(x + (127 - i)) * 2; }
    }
    """
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(source, machine, (1,), [[x, x], x, y])
    want = np.arange(128, dtype=np.float32)[::-1] + 3
    np.testing.assert_array_equal(y, want[::-1])
    np.testing.assert_array_equal(x, want[::-1] * 8)


@pytest.mark.parametrize("machine", ["cpu", "sm_90a"])
def test_what_tuning_writes_is_put_back(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path))
    source = (
        "__global__ void k(float **t, int n) { int i[SIZE] = 0 ... SIZE; *?(i < n)(t[1] + i) += *?(i < n)(t[0] + i); }"
    )
    made = graphfuse.kernel(source, device="cpu" if machine == "cpu" else "emulator", SIZE=[16, 32])
    t = [np.arange(13, dtype=np.float32) + s for s in range(2)]
    if machine == "cpu":
        made[1](t, 13)
    else:
        assert isinstance(made, TunedKernel)
        first = made.variant(made.space.points().__next__())
        with _kept(first, first.bind([t, 13])):
            first[1](t, 13)
        np.testing.assert_array_equal(t[1], np.arange(13) + 1)
        first[1](t, 13)
    np.testing.assert_array_equal(t[1], 2 * np.arange(13) + 1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_addresses_in_an_array_reach_them_on_a_cpu(dtype):
    sizes = np.array([5, 17], np.int32)
    x, y = ([np.arange(n, dtype=np.float32) + s for n in sizes] for s in (1, 2))
    tables = [np.array([a.ctypes.data for a in arrays], dtype) for arrays in (x, y)]
    want = [a + b for a, b in zip(x, y, strict=True)]
    run(ADD, "cpu", (1,), [*tables, sizes, 2])
    for got, wanted in zip(y, want, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    sizes = torch.tensor([5, 3], dtype=torch.int32)
    x, y = ([torch.arange(n, dtype=torch.float32) for n in (5, 3)] for _ in range(2))
    run(ADD, "cpu", (1,), [x, y, sizes, 2])
    run(ADD, "cpu", (1,), [torch.tensor([t.data_ptr() for t in x]), torch.tensor([t.data_ptr() for t in y]), sizes, 2])
    assert [t.tolist() for t in y] == [[0, 3, 6, 9, 12], [0, 3, 6]]


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
def test_machine_code(target):
    """Only the alignment of an element is taken for granted, and no tensor map is made of an address in memory."""
    made = kernel_of(GROUPED, "cpu", TYPE="half", ACC="float").compile(target)
    code = made.code[made.target]
    assert code.warnings == ()
    assert "ld.global" in code.ptx
    assert "v4" not in code.ptx
    assert "tensormap" not in code.ptx


# what is wrong


def test_launches_that_do_not_fit():
    sizes, x, y = np.array([2, 2], np.int32), [np.zeros(2, np.float32)] * 2, [np.zeros(2, np.float32) for _ in "ab"]
    for machine in ("cpu", "sm_90a"):
        halves, ints = [x[0], x[0].astype(np.float16)], np.zeros(2, np.int32)
        found = message(machine, ADD, (1,), halves, y, sizes, 2)
        assert found == "kernel 'add': argument 'x', entry 1: expected an array of f32, found one of float16"
        found = message(machine, ADD, (1,), [], y, sizes, 2)
        assert found == "kernel 'add': argument 'x': expected a list of arrays of f32, found an empty list"
        for wrong, name in (
            (x[0], "one of float32"),
            (ints, "one of int32"),
            (7, "int"),
            (dict.fromkeys("ab"), "dict"),
        ):
            expected = "expected a list of arrays of f32, or an array of addresses (i64)"
            assert (
                message(machine, ADD, (1,), wrong, y, sizes, 2)
                == f"kernel 'add': argument 'x': {expected}, found {name}"
            )
        assert "argument 'x': expected an array, as the kernel reads" in message(machine, ADD, (1,), None, y, sizes, 2)
        assert "argument 'n': expected an array of i32, found list" in message(machine, ADD, (1,), x, y, [sizes], 2)
        read_only = np.zeros(2, np.float32)
        read_only.flags.writeable = False
        assert "argument 'y', entry 0: expected an array that can be" in message(
            machine, ADD, (1,), x, [read_only], sizes, 1
        )
        kernel_of(ADD, machine)[(1,)]([read_only], y[:1], sizes, 1)


def test_promises_are_about_entries_too():
    source = "__global__ void k(float **t, const float *x __noalias) { *(t[0] + 1) = *x; }"
    x = np.zeros(4, np.float32)
    assert "found one that overlaps 't[1]'" in message("cpu", source, (1,), [np.zeros(4, np.float32), x], x)


def test_what_lies_outside_is_found():
    x, y = [np.zeros(5, np.float32) for _ in "ab"], [np.zeros(9, np.float32) for _ in "ab"]
    args = [x, y, np.array([5, 7], np.int32), 2]
    made = kernel_of(ADD, "cpu")
    values = dict(zip(["x", "y", "n", "count"], args, strict=True))
    (found,) = check(made, (1,), values, frozenset(), emulate=True)
    assert (found.about.kind, found.about.parameter, found.about.element) == ("out-of-bounds", "x[1]", 5)
    (found,) = check(made, (1,), {**values, "count": 1}, frozenset(["y[0]"]), emulate=True)
    assert (found.about.kind, found.about.parameter) == ("uninitialised", "y[0]")
    (found,) = check(made, (1,), {**values, "n": np.array([5, 5, 5], np.int32), "count": 3}, frozenset(), emulate=True)
    assert (found.about.kind, found.about.parameter, found.about.element) == ("out-of-bounds", "x", 2)
    assert check(made, (1,), {**values, "count": 1}, frozenset(), emulate=True) == []
    for machine in ("sm_80", "sm_90a"):
        with pytest.raises(EmulatorError, match=r"out of bounds: element 5 of x\[1\] \(5 elements\)"):
            run(ADD, machine, (1,), args)


def test_races_through_tables_are_found():
    source = "__global__ void k(float **t) { *t[get_program_id(0)] = get_program_id(0); }"
    x = [np.zeros(1, np.float32) for _ in "abc"]
    run(source, "interpreter", (3,), [x])
    found = check(kernel_of(source, "cpu"), (3,), {"t": [x[0], x[1], x[1]]}, frozenset(), emulate=False)
    assert [f.about.kind for f in found] == ["race"]
    assert found[0].about.parameter == "t[1]"


def test_addresses_of_nobody():
    source = "__global__ void k(float **t, int n, float *y) { float *p = t[n]; if (n) *y = *p; }"
    y, addresses = np.zeros(2, np.float32), np.array([0, 24], np.int64)
    for table, n, what in ((addresses, 1, "address 0x18, which is in no array"), ([y, None], 1, "a null pointer")):
        (found,) = check(kernel_of(source, "cpu"), (1,), {"t": table, "n": n, "y": y}, frozenset(), emulate=False)
        assert f"access through {'the ' * ('address' in what)}{what}" in found.message
        assert check(kernel_of(source, "cpu"), (1,), {"t": table, "n": 0, "y": y}, frozenset(), emulate=True) == []
    inside = np.array([y.ctypes.data + 4, y.ctypes.data + 2], np.int64)
    values = {"t": inside, "n": 1, "y": y}
    (found,) = check(kernel_of(source, "cpu"), (1,), values, frozenset(), emulate=False)
    assert "where no f32 of y begins" in found.message
    with pytest.raises(EmulatorError, match="near no buffer"):
        kernel_of("__global__ void k(float **t, float *y) { *y = **t; }", "sm_90a")[(1,)](inside, y)


def test_a_graph_takes_no_tables(tmp_path):
    header = "// op: t::pick\n// inputs: x: int64[N]\n// outputs: y: float[N]\n// grid: 1\n// args: x, y\n"
    (tmp_path / "k.tc").write_text(header + "__global__ void k(float **x, float *y) { *y = *x[0]; }\n")
    (operator,) = read_operators(tmp_path)
    builder = Params((Tensor((4,), I64),), ("x",))
    with pytest.raises(UnsupportedError, match=r"kernel 'k': expected pointers to numbers, .* found 'float\*\* x'"):
        operator.call(builder.values, {})


# the language


def test_text_of_a_load_through_a_table():
    (kernel,) = compile_text("__global__ void k(const float **a, float *y) { *y = *a[3]; }", "k.tc", {})
    wanted = ("block.load", "block.pointer_at", "block.store")
    names = [op.kind.name for op in kernel.func.walk() if op.kind.name in wanted]
    assert names == ["block.load", "block.pointer_at", "block.load", "block.store"]
    text = to_text(kernel.func)
    assert 'tables = [["a", f32]]' in text
    assert to_text(parse(text)) == text
    by_name = {p.name: p for p in kernel_of("void k(const float **a, float **y) { **y = **a; }", "cpu").parameters}
    assert {n: (str(p), p.mode, p.entry.mode) for n, p in by_name.items() if p.entry} == {
        "a": ("f32 **a", "r", "r"),
        "y": ("f32 **y", "r", "x"),
    }


@pytest.mark.parametrize(
    ("parameter", "statement", "what"),
    [
        ("float ***a", "", "expected one to numbers or to pointers to numbers, found one to float**"),
        ("const float **a", "*a[0] = 1;", "expected a pointer to writable memory, found const float*"),
        ("const float **a", "float *p = a[0];", "the conversion drops 'const'"),
        ("float *const *a", "float **b = a;", "the conversion drops 'const'"),
        ("float **a", "*a = 0;", "tables of pointers are only read"),
        ("float **a", "a[1] = 0;", "an element of a table, which is only read"),
        ("float **a", "*(*(a + 0 ... 4) + 1) = 0;", "pointers are read one by one, found float**[4]"),
        ("float **a", "half *h = a[0];", "expected half*, found float*: write the conversion as a cast"),
    ],
)
def test_one_error(parameter, statement, what):
    with pytest.raises(SourceError) as found:
        compile_text(f"__global__ void k({parameter}) {{ {statement} }}", "k.tc", {})
    (diagnostic,) = (d for d in found.value.diagnostics if d.severity == "error")
    assert what in diagnostic.message


def test_lists_on_a_command_line():
    made = kernel_of(ADD, "cpu")
    texts = ["x=[ones(3), null, empty(m)]", "y=[zeros(3),zeros(1),zeros(2)]", "n=arange(3)", "count=3"]
    values, empty = read_values(made.parameters, texts, {"m": "4"})
    assert [None if x is None else (x.shape, str(x.dtype)) for x in values["x"]] == [
        ((3,), "float32"),
        None,
        ((4,), "float32"),
    ]
    assert empty == {"x[2]"}
    with pytest.raises(
        graphfuse.GraphfuseError, match=r"--arg x: expected a list of arrays such as \[random\(8\), null\]"
    ):
        read_values(made.parameters, ["x=ones(3)", *texts[1:]], {})
