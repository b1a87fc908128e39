"""Sessions: numbers, shapes, inputs of all kinds, errors, threads, forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from graphfuse.artifact import Code, Loop, Pointer, Scalar, Signature, Step, TensorSpec
from graphfuse.constraints import Constraint
from graphfuse.errors import ArtifactError, InputError, UsageError
from graphfuse.knobs import scope
from graphfuse.llvm.host import cgroup_cores, host_target
from graphfuse.runtime import gfx
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.native import address_of, choose_target
from graphfuse.runtime.report import edges, report
from graphfuse.runtime.session import Session, available_cores
from graphfuse.runtime.workspace import aligned_bytes
from graphfuse.symbolic import floordiv, sym
from tests.runtime.sample import WIDTH, executable, expected, inputs, with_plan


@pytest.fixture(scope="module")
def session():
    with Session(executable(), threads=2) as session:
        yield session


def assert_right(session: Session, n: int, seed: int = 0) -> None:
    feed = inputs(n, seed)
    found = session.run(feed)
    wanted = expected(feed)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_numbers_at_every_shape(threads):
    with Session(executable(), threads=threads) as session:
        for n in (1, 64, 2, 17, 64, 3, 1):
            assert_right(session, n, seed=n)


def test_runs_from_a_file(tmp_path):
    gfx.save(executable(), tmp_path / "m.gfx")
    assert_right(Session(gfx.load(tmp_path / "m.gfx")), 5)


def test_outputs_are_fresh_and_aligned(session):
    first, second = session.run(inputs(4)), session.run(inputs(4, seed=1))
    assert not np.array_equal(first["y"], second["y"])
    big = Session(executable(), 1).run(inputs(64))["total"].reshape(-1)
    assert big.nbytes < 4096 or big.__array_interface__["data"][0] % 64 == 0
    assert not np.shares_memory(first["y"], second["y"])


@pytest.mark.parametrize("shift", [-16, 0, 16, 64])
def test_an_output_over_an_input(session, shift):
    """The running sum is written row by row, and reads rows of its input after that."""
    feed = inputs(64)
    room = aligned_bytes(2 * feed["past"].nbytes).view(np.float32)
    past, total = (room[i : i + feed["past"].size].reshape(feed["past"].shape) for i in (16, 16 + shift))
    past[...] = feed["past"]
    found = session.run({**feed, "past": past}, {"total": total})
    assert found["total"] is total
    np.testing.assert_allclose(total, expected(feed)["total"], rtol=1e-5, atol=1e-5)


def test_outputs_that_cannot_be_written(session):
    feed, room = inputs(4), np.zeros(1000, np.float32)
    given = {k: room[i : i + a.size].reshape(a.shape) for i, (k, a) in enumerate(expected(feed).items())}
    with pytest.raises(InputError, match="outputs 'y' and 'total': expected arrays that lie apart"):
        session.run(feed, given)
    with pytest.raises(InputError, match=r"output 'y': expected a writable float32 array of shape .*, found list"):
        session.run(feed, {"y": []})
    shape = expected(feed)["y"].shape
    for strides in ((0, 0), (0, 4), (4, 4), (8, 8), (6, 4), (4 * shape[1] - 4, 4)):
        windows = np.lib.stride_tricks.as_strided(room, shape, strides)
        with pytest.raises(InputError, match=r"output 'y': expected an array whose elements lie apart, found one of"):
            session.run(feed, {"y": windows})


@pytest.mark.parametrize("strides", [(4, 16), (-32, 4), (64, -8), (12, 16)])
def test_outputs_in_any_order(session, strides):
    """In the last, neither dim lies within the other, and yet no two elements are one."""
    feed, room = inputs(4), np.full(1000, 7, np.float32)
    y = np.lib.stride_tricks.as_strided(room[500:], expected(feed)["y"].shape, strides)
    assert session.run(feed, {"y": y})["y"] is y
    np.testing.assert_array_equal(y, session.run(feed)["y"])


def test_non_contiguous_inputs(session):
    feed = inputs(6)
    x = np.asfortranarray(feed["x"])
    past = np.repeat(feed["past"], 2, axis=0)[::2]
    found = session.run({"past": past, "x": x})
    np.testing.assert_array_equal(found["y"], session.run(feed)["y"])


def test_unaligned_input(session):
    feed = inputs(2)
    raw = np.frombuffer(b"x" + feed["x"].tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(2, WIDTH)
    np.testing.assert_array_equal(session.run({**feed, "x": raw})["y"], session.run(feed)["y"])


def test_dlpack_inputs(session):
    class Foreign:
        """An array type of which only the protocol is known."""

        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    feed = inputs(3)
    found = session.run({k: Foreign(v) for k, v in feed.items()})
    np.testing.assert_array_equal(found["y"], session.run(feed)["y"])


def test_negated_views_of_torch(session):
    """Their memory has the numbers that they negate."""
    torch = pytest.importorskip("torch")
    feed = inputs(3)
    negated = torch._neg_view(torch.from_numpy(feed["x"]))
    assert negated.is_neg()
    found = session.run({**feed, "x": negated})
    np.testing.assert_allclose(found["y"], expected({**feed, "x": -feed["x"]})["y"], rtol=1e-6)


def test_torch_inputs(session):
    torch = pytest.importorskip("torch")
    feed = inputs(3)
    found = session.run({k: torch.from_numpy(v) for k, v in feed.items()})
    np.testing.assert_array_equal(found["y"], session.run(feed)["y"])
    with pytest.raises(InputError, match="input 'x': cannot be read through DLPack: "):
        session.run({**feed, "x": torch.ones(3, WIDTH, requires_grad=True)})


GOOD = inputs(3)
BAD = [
    ({"x": GOOD["x"]}, "missing input 'past'"),
    ({}, "missing inputs 'x', 'past'"),
    (
        {"x": GOOD["x"], "pas": GOOD["past"]},
        "unknown input 'pas': expected 'x', 'past'; did you mean 'past'?",
    ),
    ({**GOOD, "x": GOOD["x"].astype(np.float64)}, "input 'x': expected float32, found float64"),
    ({**GOOD, "x": GOOD["x"].astype(">f4")}, "input 'x': expected float32, found >f4"),
    ({**GOOD, "x": GOOD["x"].astype(ml_dtypes.bfloat16)}, "input 'x': expected float32, found bfloat16"),
    ({**GOOD, "x": np.array(["a"])}, "input 'x': expected float32, found <U1"),
    ({**GOOD, "x": np.float32(3)}, "input 'x': expected rank 2 (n, 5), found rank 0 ()"),
    ({**GOOD, "x": [[1.0]]}, "input 'x': expected an array (numpy or DLPack), found list"),
    ({**GOOD, "x": None}, "input 'x': expected an array (numpy or DLPack), found NoneType"),
    ({**GOOD, "x": GOOD["x"][0]}, "input 'x': expected rank 2 (n, 5), found rank 1 (5)"),
    ({**GOOD, "x": GOOD["x"][:, :4]}, "input 'x': dim 1: expected 5, found 4"),
    ({**GOOD, "past": GOOD["past"][:4]}, "input 'past': dim 0: expected 2*n = 6, found 4"),
    (
        {**GOOD, "x": np.zeros((65, 5), np.float32)},
        "input 'x': dim 0: expected n in 1..64, found 65; compiled with --dim n=1..65 it fits",
    ),
    (
        {**GOOD, "x": np.zeros((0, 5), np.float32)},
        "input 'x': dim 0: expected n in 1..64, found 0; compiled with --dim n=0..64 it fits",
    ),
]


@pytest.mark.parametrize(("feed", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_inputs(session, feed, message):
    with pytest.raises(InputError) as e:
        session.run(feed)
    assert e.value.message == message
    assert_right(session, 3)  # and the session is as good as before


def test_device_arrays_are_refused(session):
    class OnGpu:
        def __dlpack__(self, **_):
            raise AssertionError("asked for although it is not on the cpu")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(InputError, match="input 'x': expected an array on the cpu, found DLPack device 2"):
        session.run({**GOOD, "x": OnGpu()})


# symbols from shapes


def binder(*shapes, dims):
    return Binder(Signature(tuple(TensorSpec(f"t{i}", "f32", s) for i, s in enumerate(shapes)), (), dims))


def test_derived_dims():
    n, past = sym("n"), sym("past")
    b = binder((n * 2 + 1,), (n + past, n * past), dims=(("n", 1, 9), ("past", 0, 9)))
    assert b.bind([(7,), (5, 6)]) == {"n": 3, "past": 2}
    with pytest.raises(InputError, match=r"input 't0': dim 0: expected 2\*n \+ 1 for an integer n, found 8"):
        b.bind([(8,), (5, 6)])
    with pytest.raises(InputError, match=r"'t1': dim 0: expected past in 0\.\.9, found -1 \(n \+ past = 2\)"):
        b.bind([(7,), (2, 6)])
    with pytest.raises(InputError, match=r"'t1': dim 1: expected n\*past = 6, found 7"):
        b.bind([(7,), (5, 7)])


def test_fixed_symbol_needs_no_axis():
    assert binder((4,), dims=(("n", 3, 3),)).bind([(4,)]) == {"n": 3}


def test_dims_that_were_taken_to_be_equal():
    n, m = sym("n"), sym("m")
    specs = TensorSpec("x", "f32", (n,)), TensorSpec("y", "f32", (2 * m,))
    b = Binder(
        Signature(specs, (), (("n", 1, 9), ("m", 1, 9)), (Constraint("equal", n, 2 * m, "k", "node 'p' (MatMul)"),))
    )
    assert b.bind([(4,), (4,)]) == {"n": 4, "m": 2}
    with pytest.raises(
        InputError,
        match=r"inputs 'x' \(6\), 'y' \(2\): node 'p' \(MatMul\): k: expected dims n .* equal, found 6 and 2$",
    ):
        b.bind([(6,), (2,)])


def test_undetermined_symbol():
    with pytest.raises(ArtifactError, match="the shapes of the inputs do not determine n"):
        binder((floordiv(sym("n"), 2),), dims=(("n", 1, 9),))


# plans that only turn out wrong at some shapes


def bind_error(**changes) -> str:
    with pytest.raises(ArtifactError) as e:
        Session(with_plan(executable(), **changes), 1).run(inputs(3))
    return e.value.message


def test_offsets_are_checked_when_bound():
    steps = list(executable().plan.steps)
    bad = Step("add", (Pointer(0, sym("n") * sym("n") * 7), Pointer(0), Pointer(4)), 1)
    message = bind_error(steps=(*steps[:1], bad, *steps[2:]))
    assert message == "plan: expected an offset in 0..60 into buffer 0, found 63"


def test_division_by_zero_is_refused():
    steps = executable().plan.steps
    zero = floordiv(sym("n"), sym("n") - 3)
    assert "plan: cannot be evaluated: " in bind_error(steps=(replace(steps[0], work=zero), *steps[1:]))


def test_negative_grid_is_refused():
    steps = executable().plan.steps
    message = bind_error(steps=(replace(steps[0], grid=sym("n") - 4), *steps[1:]))
    assert message == "plan: expected grids and work of at least 0, found -1"


def test_endless_loop_is_refused():
    steps = executable().plan.steps
    message = bind_error(steps=(*steps[:3], replace(steps[3], count=sym("n") * 10**9)))
    assert message == "plan: expected at most 4194304 launches, found 3000000000"


def test_huge_buffer_is_refused():
    buffers = list(executable().plan.buffers)
    buffers[3] = replace(buffers[3], nbytes=sym("n") * 2**50)
    assert bind_error(buffers=tuple(buffers)).startswith("plan: buffer 3: expected 0..")


def test_more_memory_than_there_is():
    buffers = list(executable().plan.buffers)
    buffers[3] = replace(buffers[3], nbytes=2**46)
    with pytest.raises(InputError, match=r"these shapes need \d+ bytes of memory, which is not available"):
        Session(with_plan(executable(), buffers=tuple(buffers)), 1).run(inputs(1))


def test_zero_grids_are_not_launched():
    steps = executable().plan.steps
    idle = replace(steps[0], grid=sym("n") - sym("n") + 0)
    with Session(with_plan(executable(), steps=(idle, *steps[1:])), 1) as session:
        profile = session.profile(inputs(2))
    assert [s.launches for s in profile.steps] == [0, 1, 1, 3]


def test_nested_loops():
    """for i < n: for j < 2: total[2i + j + 1] = total[2i + j] + past[2i + j + 1], all but the last."""
    i, j, row = sym("i"), sym("j"), 4 * WIDTH
    at = (i * 2 + j) * row
    inner = Step("add", (Pointer(5, at), Pointer(1, at + row), Pointer(5, at + row)), WIDTH)
    steps = (*executable().plan.steps[:3], Loop("i", sym("n") - 1, (Loop("j", 2, (inner,)), inner_idle())))
    feed = inputs(4)
    with Session(with_plan(executable(), steps=steps), 2) as session:
        found = session.run(feed)["total"]
    np.testing.assert_allclose(found[:7], expected(feed)["total"][:7], rtol=1e-5, atol=1e-5)


def inner_idle() -> Step:
    return Step("scale_row", (Pointer(0), Pointer(2), Pointer(4), Scalar(0)), 0)


# code


def test_other_cpu():
    source = executable()
    object_ = source.code["cpu:host"]
    host = host_target()
    for code, message in [
        (replace(object_, arch="sparc"), f"expected a {host.arch} {sys.platform} object, found sparc linux"),
        (replace(object_, os="beos"), f"object, found {object_.arch} beos"),
        (replace(object_, features=("avx99",)), "it needs avx99, which this cpu"),
        (replace(object_, object=b"MZ" * 99), "expected an object file, found b'MZMZ'"),
        (replace(object_, object=object_.object[:18] + b"\x08\0" + object_.object[20:]), "expected machine 62"),
    ]:
        with pytest.raises(ArtifactError) as e:
            Session(replace(source, code={"cpu:host": code}), 1)
        assert message in e.value.message and "--recompile" in e.value.message


def test_code_for_this_cpu_is_chosen():
    source = executable()
    code = {"cpu:host": replace(source.code["cpu:host"], arch="sparc"), "b": source.code["cpu:host"]}
    assert choose_target(replace(source, code=code), host_target()) == "b"


def test_missing_kernel():
    source = executable()
    kernels = (replace(source.kernels[0], name="nowhere"), *source.kernels)
    with pytest.raises(ArtifactError, match="nowhere|linked"):
        Session(replace(source, kernels=kernels), 1)


def test_requirements_of_code():
    assert Code.of(host_target(), b"").os == sys.platform


# threads and processes


def test_threads():
    assert Session(executable()).threads == available_cores()
    with scope(threads=3):
        assert Session(executable()).threads == 3
    with pytest.raises(UsageError, match=r"threads: expected 1\.\.1024, got 0"):
        Session(executable(), threads=0)


def test_many_threads_share_a_session(session):
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(1, 40):
                assert_right(session, 1 + (n * seed) % 64, seed)
        except BaseException as e:  # noqa: BLE001  # reported by the main thread
            failures.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_close_and_use_again():
    session = Session(executable(), threads=2)
    assert_right(session, 2)
    session.close()
    assert_right(session, 2)
    session.close()
    del session
    gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork():
    """In a process of its own: pytest and its plugins do not expect to be forked."""
    script = """
        import os, sys
        from graphfuse.runtime.session import Session
        from tests.runtime.sample import executable, inputs
        session = Session(executable(), threads=2)
        feed = inputs(9)
        before = session.run(feed)["y"].tobytes()
        pid = os.fork()
        again = session.run(feed)["y"].tobytes()
        if pid == 0:
            os._exit(0 if again == before else 1)
        assert again == before
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], timeout=60, check=False)
    assert done.returncode == 0


def test_loading_imports_no_compiler(tmp_path):
    gfx.save(executable(), tmp_path / "m.gfx")
    script = f"""
        import sys, numpy as np, graphfuse
        assert not {{"numpy", "onnx", "llvmlite"}} & set(sys.modules) - {{"numpy"}}
        model = graphfuse.load({str(tmp_path / "m.gfx")!r})
        model(x=np.ones((2, 5), np.float32), past=np.ones((4, 5), np.float32))
        bad = [m for m in sys.modules if m.split(".")[0] in ("onnx", "torch", "networkx")
               or m.startswith(("graphfuse.ir", "graphfuse.dialects", "graphfuse.cpu", "graphfuse.fusion"))]
        sys.exit(", ".join(bad) or 0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)


# facts


def test_profile_names_every_step(session):
    profile = session.profile(inputs(2))
    assert [s.label for s in profile.steps] == ["x * w", "+ x", "past[0] + 0", "running sum"]
    assert [s.launches for s in profile.steps] == [1, 1, 1, 3]
    np.testing.assert_array_equal(profile.outputs["y"], session.run(inputs(2))["y"])


def test_memory(session):
    memory = session.memory({"x": (64, WIDTH), "past": (128, WIDTH)})
    assert memory.arena == memory.arena_bound == 64 * WIDTH * 4
    assert memory.weights == 2 * WIDTH * 4
    assert session.arena_plan(inputs(64)).peak == memory.arena


def test_report():
    found = report(executable(), {"n": 4})
    assert found["totals"] == {"flops": 80, "bytes_read": 580, "bytes_written": 320}
    assert found["kinds"] == {"pointwise": 4} and found["at"] == {"n": 4}
    with pytest.raises(UsageError, match="unknown dim 'm': expected one of n"):
        report(executable(), {"m": 4})
    with pytest.raises(InputError, match=r"dim 'n': expected 1\.\.64, found 65"):
        report(executable(), {"n": 65})


def test_edges():
    assert (0, 1) in edges(executable()) and (2, 3) in edges(executable())
    assert ("input x", 0) in edges(executable()) and (1, "output y") in edges(executable())


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2),
        ("0::/a/b\n", {"a/cpu.max": "800000 100000\n", "a/b/cpu.max": "50000 100000\n"}, 1),
        ("0::/where/the/host/has/it\n", {"cpu.max": "300000 100000\n"}, 3),
        (
            "4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n",
            {"cpu/a/cpu.cfs_quota_us": "400000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("0::/\n", {"cpu.max": "garbage\n"}, None),
        (None, {}, None),
    ],
)
def test_quota_of_a_container(tmp_path, groups, files, cores):
    texts = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in (texts | ({"proc/self/cgroup": groups} if groups else {})).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cgroup_cores(tmp_path) == cores


def test_default_threads_are_within_the_quota(monkeypatch):
    monkeypatch.delenv("GRAPHFUSE_THREADS", raising=False)
    monkeypatch.setattr("graphfuse.llvm.host.cgroup_cores", lambda _: 1)
    assert Session(executable()).threads == 1
    monkeypatch.setattr("graphfuse.llvm.host.cgroup_cores", lambda _: 1000)
    assert Session(executable()).threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "array",
    [
        np.empty(0),
        np.array(3.0),
        np.ones((3, 4))[1:, ::2],
        np.frombuffer(b"abcd", np.uint8),
        np.ones(3).view(np.recarray),
    ],
    ids=["empty", "scalar", "strided", "borrowed", "subclass"],
)
def test_where_the_data_of_an_array_starts(array):
    assert address_of(array) == array.__array_interface__["data"][0]
