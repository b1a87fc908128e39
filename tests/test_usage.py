"""What callers in Python get wrong: one error of graphfuse's that names the argument, whatever they pass."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.errors import FileError, GraphfuseError, InputError, TargetError, UsageError
from graphfuse.frontends.host_values import onnx_slice
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.tuned import parse_config
from graphfuse.knobs import scope
from graphfuse.runtime.cache import trusted_cache
from graphfuse.runtime.gpu import dlpack
from graphfuse.targets import Target


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x), x: f32[n, 4]; z = relu(w), w: f32[3]."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["w"], ["z"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy")
    w, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "wz")
    graph = helper.make_graph(nodes, "g", [x, w], [y, z])
    path = tmp_path_factory.mktemp("usage") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.fixture(scope="module")
def model(path: Path) -> graphfuse.CompiledModel:
    return graphfuse.compile(path)


def test_a_model_says_what_it_is(path: Path, model: graphfuse.CompiledModel, tmp_path: Path) -> None:
    target = model.executable.target
    types = "(x: f32[n, 4], w: f32[3]) -> (y: f32[n, 4], z: f32[3])"
    assert repr(model) == f"<CompiledModel m.onnx for {target}: {types}>"
    assert repr(graphfuse.compile(onnx.load(path))) == f"<CompiledModel g for {target}: {types}>"
    model.save(tmp_path / "two.gfx")
    loaded = graphfuse.load(tmp_path / "two.gfx")
    assert repr(loaded) == repr(pickle.loads(pickle.dumps(loaded))) == f"<CompiledModel two.gfx for {target}: {types}>"


def test_an_artifact_is_not_compiled(model: graphfuse.CompiledModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.gfx")
    for given in (tmp_path / "m.gfx", (tmp_path / "m.gfx").read_bytes()):
        with pytest.raises(UsageError, match="artifact.*: expected an ONNX model; graphfuse.load takes"):
            graphfuse.compile(given)


X, W = np.arange(8, dtype=np.float32).reshape(2, 4) - 4, np.ones(3, np.float32)


def test_inputs_by_place(model: graphfuse.CompiledModel) -> None:
    for found in (model(X, W), model(X, w=W), model({"x": X}, w=W), model({"x": X, "w": W}), model(None, x=X, w=W)):
        np.testing.assert_array_equal(found["y"], np.maximum(X, 0))


@pytest.mark.parametrize("call", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("used", [False, True])
def test_copies(path: Path, call: Any, used: bool) -> None:
    model = graphfuse.compile(path, threads=1)
    if used:
        model(X, W)
    other = call(model)
    np.testing.assert_array_equal(other(X, W)["y"], np.maximum(X, 0))
    assert other.signature == model.signature
    assert other.session is not model.session
    assert other.session.threads == 1


class Meta:
    """As a tensor of torch's on the device `meta`."""

    def __dlpack__(self) -> object:
        raise ValueError("nothing there")

    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("Unknown device type meta for Dlpack")


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        (([X],), {}, "missing input 'w'"),
        ((X, W, X), {}, "expected up to 2 inputs (x, w), found 3"),
        ((X,), {"x": X}, "input 'x' is given twice"),
        (("x", W), {}, "input 'x': expected an array (numpy or DLPack), found str"),
        (({1: X, "w": W},), {}, "unknown input '1'"),
        ((), {"x": None, "w": W}, "input 'x': expected an array (numpy or DLPack), found NoneType"),
        ((Meta(), W), {}, "input 'x': cannot be read through DLPack: unknown device type meta for dlpack"),
        ((np.array([[None] * 4]), W), {}, "input 'x': expected float32, found object"),
    ],
)
def test_inputs_that_do_not_fit(
    model: graphfuse.CompiledModel, given: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as e:
        model(*given, **named)
    assert message in str(e.value)


WRONG = {
    "dims": [{"n": "4"}, {"n": 4.0}, {"n": None}, {"n": (1,)}, {"n": (1, 2, 3)}, {"n": (1, "2")}, {1: 2}, "n=4", 5],
    "threads": ["2", 2.0, 0, -1, True, [1], 10**9],
    "target": [5, b"cpu", {"cpu"}, [5], "gpu", ["cpu", "cpu"]],
    "numerics": [5, "x", ["eager"]],
    "precision": [5, "f8"],
    "options": [5, {"fuse": False}, "x"],
    "device": [5, "cpu:1", b"cpu"],
    "kernels": [5, [5], b"x", "nope"],
    "progress": [5, "x"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values], ids=repr)
def test_arguments_of_compile(path: Path, name: str, value: Any) -> None:
    with pytest.raises(GraphfuseError, match=name.removesuffix("s") + "|folder|nope"):
        graphfuse.compile(path, **{name: value})


def test_numbers_of_numpy_are_numbers(path: Path) -> None:
    graphfuse.compile(path, dims={"n": np.int64(2)}, threads=np.int64(1))  # type: ignore[arg-type]
    graphfuse.compile(path, dims={"n": [np.int64(2), 3]})  # type: ignore[dict-item]


def calls(model: graphfuse.CompiledModel, path: Path) -> dict[str, Any]:
    source = "__global__ void k(float *x, int n) { int i[32] = 0 ... 32; *?(i < n)(x + i) = SIZE; }"
    session = graphfuse.InferenceSession(path)
    kernel = graphfuse.kernel(source, SIZE=1)
    y = np.zeros(8, np.float32)
    return {
        **{f"compile {v!r}": (lambda v=v: graphfuse.compile(v)) for v in (None, 5, b"", b"a", "", ".", [1], "a\0b", W)},
        "compile a graph": lambda: graphfuse.compile(onnx.load(path).graph),
        **{f"load {v!r}": (lambda v=v: graphfuse.load(v)) for v in (None, 5, b"x", "", "/", "/dev/zero", "a\0b")},
        "load threads": lambda: graphfuse.load(path, threads="2"),  # type: ignore[arg-type]
        **{f"save {v!r}": (lambda v=v: model.save(v)) for v in (None, 5, "/", "no/x.gfx", "a\0b")},
        **{f"inspect {v!r}": (lambda v=v: model.inspect(v)) for v in ({"n": "4"}, {"n": None}, {"n": -1}, {"q": 1}, 5)},
        "profile": lambda: model.profile(X),  # type: ignore[arg-type]
        "interpret": lambda: model.interpret(X),  # type: ignore[arg-type]
        "run": lambda: model.session.run(None),  # type: ignore[arg-type]
        **{f"out {v!r}": (lambda v=v: model.session.run({"x": X, "w": W}, v)) for v in ("y", [X], {"y": 5})},
        **{f"names {v!r}": (lambda v=v: session.run(v, {"x": X, "w": W})) for v in (5, ["q"], [None])},
        **{f"feed {v!r}": (lambda v=v: session.run(None, v)) for v in (None, [X], X)},
        **{
            f"providers {v!r}": (lambda v=v: graphfuse.InferenceSession(path, providers=v))
            for v in (5, [5], [()], ["X"], "CPUExecutionProvider", [("CUDAExecutionProvider", {"device_id": "a"})])
        },
        "provider_options": lambda: graphfuse.InferenceSession(path, provider_options=5),  # type: ignore[arg-type]
        **{f"kernel {v!r}": (lambda v=v: graphfuse.kernel(v)) for v in (None, 5, [source], "", "/", "a\0b")},
        **{
            f"kernel {k}={v!r}": (lambda k=k, v=v: graphfuse.kernel(source, SIZE=1, **{k: v})[1](y, 8))
            for k, v in (
                ("num_warps", "4"), ("num_warps", 2.0), ("num_warps", [None]), ("num_stages", "x"), ("num_ctas", 3),
                ("schedule", 5), ("require", 5), ("warnings", 5), ("device", 5), ("threads", "2"), ("threads", 0),
                ("name", 5), ("name", "zz"),
            )
        },
        **{f"compile for {v!r}": (lambda v=v: kernel.compile(v)) for v in (None, 5, "x", b"x")},
        **{f"compile axes {v!r}": (lambda v=v: kernel.compile("cpu", v)) for v in (None, 0, 4, "1")},
        **{
            f"grid {v!r}": (lambda v=v: kernel[v](y, 8))
            for v in (None, "1", (), {}, 1.5, (1, "a"), lambda _: None, lambda m: m.T, -1, (1 << 40,))
        },
    }  # fmt: skip


def test_calls_with_wrong_types(model: graphfuse.CompiledModel, path: Path) -> None:
    for name, call in calls(model, path).items():
        try:
            call()
        except GraphfuseError:
            continue
        pytest.fail(f"{name}: expected an error")


def test_no_number_of_warps_is_the_default() -> None:
    source = "__global__ void k(float *x) { *x = SIZE; }"
    assert isinstance(graphfuse.kernel(source, SIZE=1, num_warps=[]), Kernel)
    with pytest.raises(UsageError, match="num_warps: expected an integer, found '4'"):
        graphfuse.kernel(source, SIZE=1, num_warps="4")  # type: ignore[arg-type]


class NoCapsule:
    def __dlpack__(self):
        return object()


def test_what_there_is_not():
    with pytest.raises(AttributeError, match="module 'graphfuse' has no attribute 'compil'"):
        graphfuse.compil  # noqa: B018
    with pytest.raises(UsageError, match="macros: expected names such as TM, found 'T M'"):
        graphfuse.kernel("__global__ void k(float *x) { *x = 0; }", **{"T M": 1})
    with pytest.raises(UsageError, match="axes: expected 1 to 3, found 9"):
        graphfuse.kernel("__global__ void k(float *x) { *x = 0; }").compile("cpu", axes=9)
    with pytest.raises(FileError, match="not a configuration: 'fast'"):
        parse_config("fast")
    with pytest.raises(TargetError, match="target 'cpu' means the host: ask graphfuse.llvm.host.host_target"):
        Target.parse("cpu")
    with pytest.raises(ValueError, match="a step must not be 0"):
        onnx_slice(0, 1, 0, 3)
    with scope(cache="0"), pytest.raises(UsageError, match="the cache is off: GRAPHFUSE_CACHE is 0"):
        trusted_cache()
    with pytest.raises(BufferError, match="DLPack has no element type for i4"):
        dlpack.export(None, 0, (1, 0), "i4", (2,))
    with pytest.raises(ValueError, match="not a DLPack capsule of version 0"):
        dlpack.Imported(NoCapsule(), None)
