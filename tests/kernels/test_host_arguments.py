"""How a launch on the host finds what its arguments are: without Python, and as `arguments.bind` says."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import graphfuse
from graphfuse.artifact import elem_dtype
from graphfuse.errors import InputError
from graphfuse.ir.types import scalar
from graphfuse.kernels import call_ir, host_arguments, on_cpu
from graphfuse.kernels.arguments import bind
from graphfuse.kernels.host_arguments import HostArguments
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.signature import Parameter
from graphfuse.kernels.specialise import facts
from graphfuse.kernels.tuner import TunedKernel

ADD = """
__global__ void add(float *c, const float *a, const float *b, int n) {
  int i[SIZE] = get_program_id(0) * SIZE + 0 ... SIZE;
  *?(i < n)(c + i) = *?(i < n)(a + i) + *?(i < n)(b + i);
}
"""
AXES = """
__global__ void axes(int *x, int *y, int *z, int *unused) {
  int p = get_program_id(0), q = get_program_id(1), r = get_program_id(2);
  long at = ((r * get_num_programs(1) + q) * get_num_programs(0) + p) * 2;
  *(x + at) = p; *(x + at + 1) = get_num_programs(0);
  *(y + at) = q; *(y + at + 1) = get_num_programs(1);
  *(z + at) = r; *(z + at + 1) = get_num_programs(2);
}
"""
ELEMS = (
    "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2", "bool",
    "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
)  # fmt: skip


def array(elem: str, *shape: int) -> Any:
    return np.zeros(shape, elem_dtype(elem))


class Mine(np.ndarray[Any, Any]):
    """An array of a class of its own."""


NUMBERS: list[Any] = [
    0, 1, -1, 2, 16, 48, -32, 127, 128, 255, 1 << 15, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63),
    1 << 63, (1 << 64) - 16, 1 << 64, 1 << 200, -(10**5000), True, False, np.int64(7), np.uint8(3), np.array(5), "1",
    0.0, -0.0, 1.5, 1e-45, 3.4028235677973366e38, 3.5e38, -1e300, float("inf"), float("nan"), np.float32(2.5), None,
]  # fmt: skip


def arrays(elem: str) -> list[Any]:
    dense = array(elem, 6, 8)
    item = dense.itemsize
    frozen = array(elem, 4)
    frozen.flags.writeable = False
    raw = np.zeros(33 * item, np.uint8)

    def view(shape: tuple[int, ...], *strides: int) -> Any:
        return np.ndarray(shape, dense.dtype, raw, 0, tuple(s * item for s in strides))

    return [
        dense, dense.T, dense[:, 3], dense[::2], dense[1:, 2:5], array(elem), array(elem, 1, 1), dense[3:4, ::-1],
        dense[::-1], dense[::-1][:1], dense[:0], dense[2:2, ::-1], frozen,
        array("f32", 4), array("i32", 4), array("u8", 4),
        view((8,), 0), view((3, 8), 1, 1), view((2, 3), 4, 1), view((3, 2), 1, 4), view((2, 1), 8, 0),
        dense.view(Mine), np.broadcast_to(dense, (3, 6, 8)), raw[1 : 1 + 8 * item].view(dense.dtype), None,
        dense.astype(dense.dtype.newbyteorder()) if dense.dtype.isbuiltin == 1 else None, 3, [1.0], np.float32(1),
        np.zeros(4, "V2"), np.zeros(4, "M8[s]"), np.zeros(4, object), np.zeros(2, np.complex64),
    ]  # fmt: skip


def said(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except InputError as e:
        return str(e)


@pytest.mark.parametrize("elem", ELEMS)
@pytest.mark.parametrize("kind", ["r", "w", "number"])
def test_what_is_read_is_what_bind_finds(elem: str, kind: str) -> None:
    is_pointer = kind != "number"
    p = Parameter("x", scalar(elem), is_pointer, mode=kind if is_pointer else "i")
    read = HostArguments("k", (p,))
    told_apart: dict[object, bytes] = {}
    for value in arrays(elem) if is_pointer else NUMBERS:
        wanted = said(lambda v=value: bind("k", (p,), (v,), {}).slots)
        seen = said(lambda v=value: read.read((2, 1), (v,)))
        if isinstance(seen, str):
            assert seen == wanted
            continue
        assert (read.axes(seen), read.slots(seen)) == ((2,), wanted)
        known = facts((p,), wanted, 1)
        assert told_apart.setdefault(known, read.kind(seen)) == read.kind(seen)
    assert len(set(told_apart.values())) == len(told_apart), "what code differs by is told apart"


@pytest.mark.parametrize(
    ("grid", "axes"),
    [((3,), (3,)), ((3, 1, 1), (3,)), ((1, 1), (1,)), ((1, 1, 2), (1, 1, 2)), ((0, 4), (0, 4)),
     ((2**31 - 1, 1), (2**31 - 1,)), ((True,), False), ((2.0,), False), ((np.int64(2),), False), ([2], False),
     (2, False), ((), False), ((1, 1, 1, 1), False), ((-1,), False), ((2**31,), False), ((2**20, 2**20), False),
     ((1 << 64,), False), ("a", False)],
)  # fmt: skip
def test_grids(grid: Any, axes: Any) -> None:
    read = HostArguments("k", (Parameter("n", scalar("i32"), is_pointer=False),))
    seen = read.read(grid, (1,))
    assert (read.axes(seen) if seen else seen) == axes
    assert read.read((1,), (1, 2)) is read.read((1,), ()) is read.read((1,), [1]) is False


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("grid", [(3,), (3, 2), (3, 2, 1), (3, 2, 2), (1, 1, 4), (5, 1, 1)], ids=str)
def test_programs_know_their_axes(grid: tuple[int, ...], threads: int) -> None:
    """With more memory behind the slots than there are axes: an end for each of four pointers."""
    sizes = (*grid, 1, 1)[:3]
    found = [np.full((*sizes[::-1], 2), -1, np.int32) for _ in range(3)]
    graphfuse.kernel(AXES, threads=threads)[grid](*found, None)
    for axis, there in enumerate(found):
        np.testing.assert_array_equal(there[..., 0], np.indices(sizes[::-1])[2 - axis])
        assert (there[..., 1] == sizes[axis]).all()


@pytest.mark.parametrize("grid", [0, (0, 7), (0, 2**40), (2**20, 2**20, 0), (2**31, 0)], ids=str)
def test_grids_without_programs(grid: Any) -> None:
    found = np.full(8, -1, np.int32)
    k = graphfuse.kernel(AXES)
    k[grid](found, found, found, None)
    k[lambda _: grid](found, found, found, unused=None)
    assert (found == -1).all()


def launched(k: Kernel | TunedKernel, c: Any, a: Any, b: Any, n: int = 64) -> None:
    k[lambda m: (-(-n // m.SIZE), 1)](c, a, b, n)
    found, *given = (np.asarray(x).reshape(-1)[:n] for x in (c, a, b))
    np.testing.assert_array_equal(found, given[0] + given[1])


def three(n: int = 64, seed: int = 0) -> list[Any]:
    return list(np.random.default_rng(seed).random((3, n), np.float32))


@pytest.fixture(params=["plain", "tuned", "two threads"])
def add(request: pytest.FixtureRequest) -> Any:
    sizes = [32, 64] if request.param == "tuned" else 64
    return graphfuse.kernel(ADD, SIZE=sizes, threads=2 if request.param == "two threads" else 1)


def test_other_arguments_after_good_ones(add: Any) -> None:
    """What was right once says nothing of the next call."""
    c, a, b = three()
    launched(add, c, a, b)
    frozen = c.copy()
    frozen.flags.writeable = False
    for bad, message in (
        ((c, a.astype(np.float64), b, 64), "'a': expected an array of f32, found one of float64"),
        ((c, a, b[::-1], 64), "'b': expected an array whose first element comes first in memory"),
        ((frozen, a, b, 64), "'c': expected an array that can be written"),
        ((c, None, b, 64), "'a': expected an array, as .*, found None"),
        ((c, a, b, 64.0), "'n': expected an integer, found 64.0"),
        ((c, a, b, 1 << 31), "'n': expected i32"),
        ((c, a, b), "no argument for 'n'"),
        ((c, a.astype(">f4"), b, 64), "'a': expected an array of f32, found one of >f4"),
    ):
        with pytest.raises(InputError, match=message):
            add[1](*bad)
    launched(add, c, frozen, b)
    for n in (1, 3, 63, 64, 640, 641):
        launched(add, *three(n, seed=n), n)
        launched(add, *(x[1:] for x in three(n + 1)), n)
        launched(add, *(x.reshape(1, n).view(Mine) for x in three(n)), n)
    table = np.arange(192, dtype=np.float32).reshape(3, 64)
    launched(add, table[0], table[1], table[2])
    add[2](n=64, b=b, a=a, c=c)
    np.testing.assert_array_equal(c, a + b)
    memory = np.zeros((64, 2), np.float32)
    add[1](memory[:, 1], a, b, 1)
    np.testing.assert_array_equal(memory[0], [0, a[0] + b[0]])


def test_promises_after_good_arguments() -> None:
    k = graphfuse.kernel(
        ADD.replace("*c", "*c __noalias").replace("int n", "int n __multipleof(4)"), SIZE=64, threads=1
    )
    memory = np.zeros(256, np.float32)
    launched(k, memory[:64], memory[64:128], memory[128:192])
    for _ in range(2):
        with pytest.raises(InputError, match="'c': expected an array that lies apart, as __noalias promises"):
            k[1](memory[:64], memory[63:127], memory[128:], 64)
        with pytest.raises(InputError, match="'n': expected a number that is a multiple of 4, found 63"):
            k[1](memory[:64], memory[64:], memory[128:], 63)
        launched(k, memory[64:128], memory[:64], memory[:64])
    columns = memory.reshape(128, 2)
    k[1](columns[:, 0], columns[:, 1], columns[:, 1], 4)


def test_threads_launch_at_the_same_time(add: Any) -> None:
    def repeat(seed: int) -> None:
        for n in (64, 65, 200):
            c, a, b = three(n, seed)
            for _ in range(50):
                c[:] = 0
                launched(add, c, a, b, n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(repeat, range(8)))


def test_threads_that_come_first_have_one_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of another would go, and the threads that run it stay."""
    meeting = threading.Barrier(2, timeout=20)

    class Meeting(on_cpu._Executor):
        def __init__(self) -> None:
            super().__init__()
            meeting.wait()

    monkeypatch.setattr(on_cpu, "_Executor", Meeting)
    monkeypatch.setattr(on_cpu, "_executors", {})
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(on_cpu._executor) for _ in range(2))
        assert first.result() is second.result()


def test_few_functions_of_python_are_called() -> None:
    """A launch is microseconds: what it costs is its calls (130 before `call_ir`)."""
    grids: list[Any] = [(1,), lambda m: (64 // m.SIZE,)]
    args = (*three(), 64)
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    for size in (64, [32, 64]):
        k = graphfuse.kernel(ADD, SIZE=size, threads=1)
        for grid in grids:
            k[grid](*args)
            called.clear()
            sys.setprofile(note)
            try:
                k[grid](*args)
            finally:
                sys.setprofile(None)
            assert len(called) <= 16, called


def test_nothing_is_kept_of_a_launch(add: Any) -> None:
    torch = pytest.importorskip("torch")
    arrays, tensors = three(), [torch.from_numpy(x) for x in three()]
    odd = (arrays[0].astype(np.float64), tensors[0].double(), None, tensors[0].to_sparse(), torch._neg_view(tensors[0]))
    watched = [None, True, False, int, np.ndarray, torch.float32, torch.strided, *arrays, *tensors]

    def launches() -> None:
        for _ in range(200):
            add[1](*arrays, 64)
            add[1](*tensors, 64)
            add[1, 1](tensors[0], arrays[1], tensors[2], n=np.int64(64))
            for value in odd:
                with pytest.raises(InputError):
                    add[(1,)](arrays[0], value, arrays[2], 64)

    launches()
    gc.collect()  # what other tests have left refers to None, too
    before = [sys.getrefcount(x) for x in watched]
    launches()
    gc.collect()
    assert max(abs(sys.getrefcount(x) - n) for x, n in zip(watched, before, strict=True)) < 100


def test_functions_keep_what_they_call() -> None:
    """Threads that make the first ones at once have a method and code each, and caches keep those of one."""
    function, method = call_ir.launcher(0, 0), weakref.ref(call_ir._method(call_ir.LAUNCH))
    library = weakref.ref(call_ir._library())
    call_ir._method.cache_clear()
    call_ir._library.cache_clear()
    gc.collect()
    assert method() is not None
    assert library() is not None
    del function
    assert method() is None
    assert library() is None


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    k = graphfuse.kernel(ADD, SIZE=64, threads=1)
    c, a, b = (torch.from_numpy(x) for x in three())
    launched(k, c, a, b)
    launched(k, c, torch.nn.Parameter(a).detach(), b)
    k[(1,)](c, torch.nn.Parameter(a), b.requires_grad_(requires_grad=True), 64)
    launched(k, torch.zeros(8, 8), a.reshape(8, 8).contiguous(), b.detach())
    wide = torch.zeros(8, 8)
    k[(1,)](wide.t(), a, b, 64)  # an address is an address
    assert torch.equal(wide.reshape(-1), a + b)
    with pytest.raises(InputError, match="'a': expected a tensor on a CPU or a CUDA device, found one on meta"):
        k[(1,)](c, a.to("meta"), b, 64)
    with pytest.raises(InputError, match="'a': expected a tensor of f32, found one of float64"):
        k[(1,)](c, a.double(), b, 64)
    k[(1,)](torch.zeros(0), a, b, 0)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_tensors_without_memory(device: str) -> None:
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch._subclasses.fake_tensor")

    class Wrapper(torch.Tensor):
        """As tensors made of tensors are."""

        @staticmethod
        def __new__(cls) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, (64,), dtype=torch.float32)

        @classmethod
        def __torch_dispatch__(cls, *_: Any) -> Any:
            raise AssertionError

        def __repr__(self) -> str:
            return "a wrapper"

    with fake.FakeTensorMode():
        none = torch.zeros(128)
    k = graphfuse.kernel(ADD, SIZE=64, threads=1, device=device)
    for a in (none, none[::2], Wrapper()):
        with pytest.raises(InputError, match="'a': expected a tensor whose memory holds its elements, found a"):
            k[(1,)](three()[0], a, three()[1], 64)


def test_torch_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(host_arguments, "torch_module", lambda: None)
    read = HostArguments("k", (Parameter("x", scalar("f32"), is_pointer=True),))
    before = read._read
    monkeypatch.undo()
    x = torch.zeros(4)
    assert read.slots(read.read((1,), (x,))) == (x.data_ptr(),)
    assert read._read is not before
    assert read.slots(read.read((1,), (x,))) == (x.data_ptr(),)


def test_arrays_that_a_file_holds(tmp_path: Path) -> None:
    k = graphfuse.kernel(ADD, SIZE=64, threads=1)
    c, a, b = three()
    a.tofile(tmp_path / "a")
    mapped = np.memmap(tmp_path / "a", np.float32, "r")
    launched(k, c, mapped, b)
    with pytest.raises(InputError, match="'c': expected an array that can be written"):
        k[1](mapped, a, b, 64)


def test_elements_that_numpy_has_no_type_for() -> None:
    source = "__global__ void copy(bf16 *y, const bf16 *x) { int i[16] = 0 ... 16; *(y + i) = *(x + i); }"
    k = graphfuse.kernel(source, threads=1)
    x, y = np.arange(16).astype(ml_dtypes.bfloat16), np.zeros(16, ml_dtypes.bfloat16)
    for _ in range(2):
        y[:] = 0
        k[1](y, x)
        np.testing.assert_array_equal(y, x)
    with pytest.raises(InputError, match="expected an array of bf16, found one of int16"):
        k[1](y, x.view(np.int16))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork() -> None:
    """In a process of its own: pytest and its plugins do not expect to be forked."""
    script = f"""
        import os, sys
        import numpy as np
        import graphfuse
        k = graphfuse.kernel({ADD!r}, SIZE=64, threads=1)
        a, b, c = np.ones(64, np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
        k[1](c, a, b, 64)
        pid = os.fork()
        k[1](c, c, b, 64)
        if pid == 0:
            os._exit(0 if (c == 3).all() else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


class Elsewhere:
    """An array of some other device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (8, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros(4, np.float32)[::-1],
            "expected an array whose first element comes first in memory, found strides of (-4,) bytes",
        ),
        (
            np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (2, 2), (4, 4)),
            (
                "expected an array whose elements lie apart, as it is written, "
                "found one of shape (2, 2) with strides of (4, 4) bytes"
            ),
        ),
        (
            torch.zeros(4, dtype=torch.complex64).conj().imag,
            "expected a tensor whose memory holds its elements, found one that is negated when it is read",
        ),
        (Elsewhere(), "expected an array on a CPU or a CUDA device, found DLPack device type 8"),
    ],
    ids=["backwards", "overlapping", "negated", "elsewhere"],
)
def test_arrays_that_a_kernel_cannot_use(value: Any, message: str) -> None:
    p = Parameter("x", scalar("f32"), is_pointer=True, mode="w")
    with pytest.raises(InputError) as e:
        bind("k", (p,), (value,), {})
    assert e.value.message == f"kernel 'k': argument 'x': {message}"
