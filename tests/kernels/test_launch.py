"""Kernels called from Python: arguments, grids, specialisation, on the CPU and on the emulator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphfuse
from graphfuse.errors import FileError, GraphfuseError, InputError, UsageError
from graphfuse.findings import finding_of
from graphfuse.ir.parser import parse
from graphfuse.ir.types import F16
from graphfuse.kernels.kernel import Kernel
from tests.blockopt.test_views import matmul
from tests.kernels.printing import GRIDS, check_lines, checked

SCALE = """
func @scale(%x: ptr<f32>, %y: ptr<f32>, %n: i32, %a: f32, %on: bool) {assume = [["x", 4], ["y", 4], ["n", 1]], readonly = ["x"]} {
  %p = block.program_id() : i64
  %w = block.const() {elem = i64, value = 32} : i64
  %first = block.mul(%p, %w) {nsw = true} : i64
  %lanes = block.arange() {end = 32, start = 0} : tile<32xi64>
  %at = block.splat(%first) {shape = [32]} : tile<32xi64>
  %o = block.add(%at, %lanes) {nsw = true} : tile<32xi64>
  %m = block.cast(%n) {to = i64} : i64
  %all = block.splat(%m) {shape = [32]} : tile<32xi64>
  %inside = block.lt(%o, %all) : tile<32xbool>
  %v = block.load(%x, %o, %inside) : tile<32xf32>
  %f = block.splat(%a) {shape = [32]} : tile<32xf32>
  %s = block.mul(%v, %f) : tile<32xf32>
  %flag = block.splat(%on) {shape = [32]} : tile<32xbool>
  %r = block.select(%flag, %s, %v) : tile<32xf32>
  block.store(%y, %o, %r, %inside)
  return()
}
"""  # noqa: E501
DEVICES = ["", "emulator"]


def scale(device: str = "") -> Kernel:
    return Kernel(parse(SCALE), {"SIZE": "32", "TYPE": "float"}, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 64, 77])
def test_numbers_and_masks(device: str, n: int) -> None:
    x, y = np.arange(n, dtype=np.float32), np.full(n, -1, np.float32)
    k = scale(device)
    k[-(-n // 32)](x, y, n, 2.5, True)  # noqa: FBT003
    np.testing.assert_array_equal(y, 2.5 * x)
    k[lambda m: (-(-n // m.SIZE), 1)](x, y, n=n, a=np.float64(3), on=False)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("device", DEVICES)
def test_a_product_of_two_axes(device: str) -> None:
    elem, dtype = (F16, np.float16) if device else (None, np.float32)
    func = matmul(32, 32, 16, elem=elem) if elem else matmul(32, 32, 16)
    k = Kernel(replace(func, attrs={}), device=device, num_warps=4, num_stages=2)
    rng = np.random.default_rng(0)
    a, b, c = rng.random((45, 24)).astype(dtype), rng.random((24, 67)).astype(dtype), np.zeros((45, 67), np.float32)
    k[2, 3](a, b, c, 45, 67, 24)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)


def test_what_is_compiled_anew() -> None:
    k = scale()
    x, y = np.zeros(200, np.float32), np.zeros(200, np.float32)
    for n in (16, 32, 160):
        k[7](x, y, n, 1.0, True)  # noqa: FBT003
    assert len(k.compiled) == 1, "multiples of 16 are one case"
    k[7](x, y, 17, 1.0, True)  # noqa: FBT003
    k[7](x[1:], y[1:], 17, 1.0, True)  # noqa: FBT003
    assert len(k.compiled) == 3
    k[7, 1](x, y, 19, 1.0, True)  # noqa: FBT003
    assert len(k.compiled) == 3, "axes of one program do not count"


def test_columns_of_an_array() -> None:
    """A view is an address: what lies between its elements is the caller's to know of."""
    table = np.arange(64, dtype=np.float32).reshape(8, 8).copy()
    y = np.zeros(8, np.float32)
    scale()[1](table[3], y, 8, 1.0, True)  # noqa: FBT003
    np.testing.assert_array_equal(y, table[3])


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((1, 2), {}, "no argument for 'n' (f32 *x, f32 *y, i32 n, f32 a, bool on)"),
        ((), {"z": 1}, "no argument for 'x'"),
        ((1, 2, 3, 4, 5, 6), {}, "expected 5 arguments (f32 *x, f32 *y, i32 n, f32 a, bool on), found 6"),
        (("x", "y", 3, 4.0, True), {"n": 1}, "two values for 'n'"),
        (("x", "y", 3, 4.0, True), {"q": 1}, "no parameter 'q'"),
        ((np.zeros(4), "y", 3, 4.0, True), {}, "argument 'x': expected an array of f32, found one of float64"),
        ((3, "y", 3, 4.0, True), {}, "argument 'x': expected an array of f32, found int"),
        (("x", "y", 3.5, 4.0, True), {}, "argument 'n': expected an integer, found 3.5"),
        (("x", "y", 1 << 31, 4.0, True), {}, "expected i32 (-2147483648 to 2147483647), found 2147483648"),
        (("x", "y", 3, "four", True), {}, "argument 'a': expected a number, found 'four'"),
        (("x", "y", 3, 4.0, 2), {}, "argument 'on': expected bool (0 to 1), found 2"),
        (("x", "frozen", 3, 4.0, True), {}, "argument 'y': expected an array that can be written, found one that is read-only"),  # noqa: E501
        (("x", "shifted", 3, 4.0, True), {}, "argument 'y': expected an address that is a multiple of 4, found"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(args: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    shifted = np.zeros(17, np.uint8)[1:].view(np.float32)
    known = {"x": np.zeros(4, np.float32), "y": np.zeros(4, np.float32), "frozen": frozen, "shifted": shifted}
    given = [known.get(a, a) if isinstance(a, str) else a for a in args]
    with pytest.raises(InputError) as caught:
        scale()[1](*given, **named)
    assert message in str(caught.value)
    assert "kernel 'scale'" in str(caught.value)


COPY = """
__global__ void copy(float *y, const float *x, const float *bias, int flag, int n __multipleof(4), int unread __multipleof(8)) {
  int i[32] = get_program_id(0) * 32 + 0 ... 32;
  float v[32] = *?(i < n)(x + i);
  if (flag) v += *?(i < n)(bias + i);
  *?(i < n)(y + i) = v;
}
"""  # noqa: E501


@pytest.mark.parametrize("device", DEVICES)
def test_no_array(device: str) -> None:
    """What has no memory is refused where an op could read it, whatever decides at run time whether it does."""
    k, x = graphfuse.kernel(COPY, device=device), np.zeros(8, np.float32)
    for i, line in ((0, 6), (1, 4), (2, 5)):
        args = [x, x, x]
        args[i] = None
        with pytest.raises(InputError, match=rf"<string>:{line}:\d+: error: .* expected an array, as .*, found None"):
            k[1](*args, 0, 8, 0)
    tested = graphfuse.kernel(COPY.replace("if (flag)", "if (bias && flag)"), device=device)
    tested[1](x, x, None, 1, 8, 0)
    cast = graphfuse.kernel(COPY.replace("if (flag)", "if ((int *)bias != 0)"), device=device)
    cast[1](x, x, None, 1, 8, 0)
    chosen = graphfuse.kernel(COPY.replace("(bias + i)", "((flag > 1 ? bias : x) + i)"), device=device)
    with pytest.raises(InputError, match="argument 'bias': expected an array"):
        chosen[1](x, x, None, 1, 8, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_without_elements_are_not_null(device: str) -> None:
    torch = pytest.importorskip("torch")
    k = graphfuse.kernel(COPY, device=device)
    k[1](torch.zeros(0), torch.zeros(0), torch.zeros(3, 0), 1, 0, 0)
    k[1](np.zeros(0, np.float32), np.zeros((4, 0), np.float32)[::-1], np.zeros(0, np.float32), 1, 0, 0)


def test_promises_of_what_nobody_reads() -> None:
    k, x = graphfuse.kernel(COPY), np.zeros(8, np.float32)
    k[1](x, x, x, 0, 8, 7)
    with pytest.raises(InputError, match="argument 'n': expected a number that is a multiple of 4, found 7"):
        k[1](x, x, x, 0, 7, 7)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_only_read_may_be_read_only(device: str) -> None:
    y, x = np.zeros(8, np.float32), np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    graphfuse.kernel(COPY.replace("const ", ""), device=device)[1](y, x, x, 1, 8, 0)
    np.testing.assert_array_equal(y, 2 * x)


def test_strides_that_go_back() -> None:
    """A kernel gets the address of the first element, and goes forward from there."""
    k, x, y = graphfuse.kernel(COPY), np.zeros((4, 8), np.float32), np.zeros(8, np.float32)
    for back in (x[:, ::-1], x[::-1], x[::-1, ::2], x.T[::-1]):
        with pytest.raises(InputError, match="argument 'x': expected an array whose first element comes first"):
            k[1](y, back, y, 0, 8, 0)
    k[1](y, x[::-4], y, 0, 8, 0)  # one row


def test_arrays_that_overlap_themselves() -> None:
    """They can be read, by a kernel that knows their strides, but what is written there would depend on its order."""
    k, x, y = graphfuse.kernel(COPY), np.ones(64, np.float32), np.zeros(64, np.float32)
    k[1](y, np.broadcast_to(x[0], 8), x, 1, 0, 0)
    torch = pytest.importorskip("torch")
    view = np.lib.stride_tricks.as_strided
    for bad in (view(x, (8,), (0,)), view(x, (3, 8), (4, 4)), torch.ones(1).expand(8), torch.ones(8).unfold(0, 4, 2)):
        with pytest.raises(InputError, match="argument 'y': expected an array whose elements lie apart, as it is writ"):
            k[1](bad, x, x, 0, 8, 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [-8, 0, 8, 40])
def test_arrays_that_overlap_do_so_on_a_gpu(device: str, shift: int) -> None:
    room = np.arange(200, dtype=np.float32)
    y, x = room[100 + shift :][:16], room[100:][:16]
    wanted = x.copy()
    graphfuse.kernel(COPY, device=device)[1](y, x, x, 0, 16, 0)
    np.testing.assert_array_equal(y, wanted)
    rest = np.delete(np.arange(200), np.arange(100 + shift, 116 + shift))
    np.testing.assert_array_equal(room[rest], rest)


def test_arrays_that_are_promised_to_lie_apart() -> None:
    k = graphfuse.kernel(COPY.replace("*y", "*y __noalias"))
    table = np.zeros((8, 16), np.float32)
    x = table.reshape(-1)
    k[1](x[:8], x[8:16], x[8:16], 1, 8, 0)
    k[1](table[:, :8], table[:, 8:], x[16:], 1, 8, 0)  # between one another
    with pytest.raises(InputError, match="'y': expected an array that lies apart, .* found one that overlaps 'x'"):
        k[1](x[:8], x[7:15], x[:0], 0, 8, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_names_that_no_assembler_knows(device: str) -> None:
    y = np.zeros(8, np.float32)
    graphfuse.kernel("__global__ void gr\u00f6\u00dfe(float *\u5d19, int $n) { *\u5d19 = $n; }", device=device)[1](y, 3)
    assert y[0] == 3


def test_parameters_called_as_the_sizes_of_the_grid() -> None:
    """They would be one symbol: `grid_x` programs, whatever was launched."""
    with pytest.raises(UsageError, match="expected parameters that are not called grid_x, .* found 'grid_y'"):
        graphfuse.kernel("__global__ void k(float *y, int grid_y) { *y = grid_y; }")


def test_calls_without_a_grid() -> None:
    with pytest.raises(UsageError, match=r"'scale': called without a grid: expected scale\[grid\]\(x, y, n, a, on\), "):
        scale()(1, 2)
    with pytest.raises(UsageError, match=r"kernel 'copy': called without a grid: expected copy\[grid\]"):
        graphfuse.kernel(COPY.replace("\n", " "), num_warps=[1, 2])(1)
    with pytest.raises(UsageError, match="no macro 'TM': there are SIZE, TYPE"):
        scale()[lambda m: m.TM](np.zeros(4, np.float32), np.zeros(4, np.float32), 4, 1.0, True)  # noqa: FBT003


def test_a_source_is_text_or_a_path(tmp_path: Path) -> None:
    line = "void one(float *x) { int i[4] = 0 ... 4; *(x + i) = 1; }"
    x = np.zeros(4, np.float32)
    graphfuse.kernel(line)[1](x)
    np.testing.assert_array_equal(x, 1)
    odd = tmp_path / "one; {two}.tc"
    odd.write_text(line.replace("one", "two"))
    for path in (odd, str(odd)):
        assert graphfuse.kernel(path).name == "two"
    for source, error, message in (
        ("void f(float *x);", UsageError, "<string>: there is no kernel: expected a function such as '__global__ "),
        ("int n = 3", FileError, "int n = 3: error: cannot read: no such file"),
        (" ", UsageError, "source: expected a path or the text of a kernel, found ' '"),
        (line.replace("1;", "1"), GraphfuseError, "<string>:1:.* missing ';'"),
    ):
        with pytest.raises(error, match=message):
            graphfuse.kernel(source)


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), (-1,), "abc", 2.5, (1 << 20, 1 << 20)])
def test_grids_that_do_not_fit(grid: Any) -> None:
    with pytest.raises(InputError, match=r"kernel 'scale': grid: expected one to three"):
        scale().axes(grid)


def test_no_programs() -> None:
    y = np.full(4, 7, np.float32)
    scale()[0](np.zeros(4, np.float32), y, 4, 1.0, True)  # noqa: FBT003
    np.testing.assert_array_equal(y, 7)


def test_configurations_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="num_warps: expected a power of two up to 32, got 3"):
        Kernel(parse(SCALE), num_warps=3)
    with pytest.raises(UsageError, match="num_stages: expected at most 16, got 0"):
        Kernel(parse(SCALE), num_stages=0)


def test_macros() -> None:
    k = scale()
    assert k.macros.SIZE == 32
    assert k.macros["TYPE"] == "float"
    with pytest.raises(AttributeError, match="no macro 'TN': there are SIZE, TYPE"):
        _ = k.macros.TN
    with pytest.raises(KeyError, match="no macro 'TN': there are SIZE, TYPE"):
        _ = k.macros["TN"]
    assert k.macros.get("TN", 3) == 3
    assert not hasattr(k.macros, "TN")


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(50.0), torch.zeros(50)
    scale()[2](x, y, 50, 2.0, True)  # noqa: FBT003
    assert torch.equal(y, 2 * x)
    with pytest.raises(InputError, match="expected a tensor of f32, found one of float64"):
        scale()[2](x.double(), y, 50, 2.0, True)  # noqa: FBT003


def test_tensors_of_torch_whose_memory_is_another() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(8), torch.zeros(8)
    for odd, found in ((x.to_sparse(), "torch.sparse_coo"), (torch._neg_view(x), "negated when it is read")):
        with pytest.raises(InputError, match=f"'x': expected a tensor whose memory holds its elements, .* {found}"):
            scale()[1](odd, y, 8, 1.0, True)  # noqa: FBT003


def test_ahead_of_time() -> None:
    executable = scale().compile("cuda:sm_80")
    assert ".target sm_80" in executable.code[executable.target].ptx


def test_without_masks_boxes_reach_as_far_as_they_are_asked_to() -> None:
    """Nothing says how large the tensors are, and TMA need not know."""
    func = matmul(64, 64, 32, masked=False, elem=F16)
    k = Kernel(replace(func, attrs={}), device="emulator")
    rng = np.random.default_rng(0)
    a, b = rng.random((128, 64)).astype(np.float16), rng.random((64, 128)).astype(np.float16)
    c = np.zeros((128, 128), np.float32)
    k[2, 2](a, b, c, 128, 128, 64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)
    (meta,) = k.compiled
    assert meta.launch is not None
    assert len(meta.launch.tensor_maps) == 3


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_lines_name_programs(device: str, grid: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    check_lines(device, grid, capfd)


@pytest.mark.parametrize(
    ("device", "where"), [("emulator", "assertion failed: all are below n at <string>:5"), ("cpu", "all are below n$")]
)
def test_assertions(device: str, where: str) -> None:
    kernel = checked(device)
    kernel[1](100)
    for _ in range(2):
        with pytest.raises(GraphfuseError, match=f"^<string>:5:.*{where}") as e:
            kernel[4](99)
        assert finding_of(e.value).about.kind == "assertion"
    kernel[4](100)


def test_assertions_and_lines_of_a_source(capfd: pytest.CaptureFixture[str]) -> None:
    """Without `debug` both do nothing."""
    source = """__global__ void k(int *y, int n) {
  int p = get_program_id(0);
  printf("p = %d", p);
  for (int i = 0; i < n; i += 1) {
    assert(i != 3, "i is 3");
    *(y + p) = i;
  }
}
"""
    for device in ("cpu", "emulator"):
        kernel, y = graphfuse.kernel(source, debug=True, device=device, threads=1), np.zeros(1, np.int32)
        with pytest.raises(GraphfuseError, match=r"^<string>:5:11: error: .*assertion failed: i is 3"):
            kernel[1](y, 9)
        kernel[1](y, 3)
        assert y == 2
        assert "(0, 0, 0) p = 0\n" in capfd.readouterr().out
        graphfuse.kernel(source, device=device)[1](y, 9)
        assert (int(y[0]), capfd.readouterr().out) == (8, "")
    with pytest.raises(UsageError, match="debug: expected one configuration, found 2"):
        graphfuse.kernel(source, debug=True, num_warps=[1, 2])


NUMBERS = """
func @numbers(%o: ptr<i64>, %a: i8, %b: i32, %c: i64, %d: u16) {assume = []} {
  %z = block.const() {elem = i64, value = 0} : i64
  %wide = block.cast(%a) {to = i64} : i64
  %more = block.cast(%b) {to = i64} : i64
  %last = block.cast(%d) {to = i64} : i64
  %sum = block.index(%wide, %more, %c, %last) {expr = (a + 10*b + 100*c + 1000*d), names = ["a", "b", "c", "d"]} : i64
  block.store(%o, %z, %sum)
  return()
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_may_be_negative(device: str) -> None:
    out = np.zeros(1, np.int64)
    k = Kernel(parse(NUMBERS), device=device)
    for numbers in ((-1, -2, -3, 4), (0, 0, 0, 0), (1, 2, 3, 4)):
        k[1](out, *numbers)
        assert out[0] == sum(n * f for n, f in zip(numbers, (1, 10, 100, 1000), strict=True))


WARNED = "__global__ void f(float *x, int n) { int i = 0; { int i = n; *x = i; } *x = *x + i; }\n"


def test_warnings_of_a_source_are_pythons() -> None:
    with pytest.warns(graphfuse.SourceWarning) as found:
        graphfuse.kernel(WARNED)
    assert [w.message.diagnostic.code for w in found] == ["shadow"]  # type: ignore[union-attr]
    assert (found[0].filename, found[0].lineno) == ("<string>", 1)
    tuned = graphfuse.kernel(WARNED, T=[1, 2], warnings="no-unused-define")
    with pytest.warns(graphfuse.SourceWarning, match="shadow"):
        assert tuned.name == "f"


def test_warnings_that_are_switched() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphfuse.kernel(WARNED, warnings="no-shadow")
    with pytest.raises(GraphfuseError, match=r"error: .*\[shadow\]"):
        graphfuse.kernel(WARNED, warnings=["extra", "error=shadow"])
    with pytest.raises(UsageError, match="there is no warning 'shadows'; did you mean 'shadow'"):
        graphfuse.kernel(WARNED, warnings=["no-shadows"])
