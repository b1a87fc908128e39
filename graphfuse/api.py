"""The public calls: from a model, or an artifact, to something that runs.

import_model        ONNX file to graph IR                  frontends/onnx
tuner.build         fuse, outline, blockgen, cpu, plan     compiler.py, one stage per line; tuner.py, if asked
Cache               what was compiled before               runtime/cache.py
CompiledModel       artifact to results                    compiled_model.py, runtime

quantize            weights to fewer bits, as ONNX has it  quantization.py
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphfuse import usage
from graphfuse.artifact import Array, Executable, Plan, Step, combined
from graphfuse.artifact import Loop as PlanLoop
from graphfuse.compiled_model import CompiledModel
from graphfuse.devices import Targets, compiled_key, driver_of, targets_of
from graphfuse.errors import (
    FileError,
    GraphfuseError,
    Loc,
    ParseError,
    TooLargeError,
    UnsupportedError,
    UsageError,
    printable,
)
from graphfuse.files import is_regular, kind, told
from graphfuse.knobs import NUMERICS, Options, Tuning, check_environment, numerics_of, precision_of, settings
from graphfuse.runtime import gfx
from graphfuse.runtime.bound import MAX_BYTES, MAX_LAUNCHES
from graphfuse.runtime.device import Device
from graphfuse.runtime.session import thread_count
from graphfuse.stages import artifact_numerics, artifact_precision, dump, graph_func
from graphfuse.targets import Target

if TYPE_CHECKING:
    from graphfuse.frontends.tc_ops import Operator
    from graphfuse.quantization import QuantizedModel

log = logging.getLogger(__name__)

Dims = Mapping[str, "int | tuple[int, int]"]
Kernels = str | Path | Sequence[str | Path]
Progress = Callable[[str], None]


def compile(
    model: Any,
    *,
    target: Targets = "",
    dims: Dims | None = None,
    threads: int | None = None,
    numerics: str = "",
    precision: str = "",
    options: Options | None = None,
    device: str = "",
    kernels: Kernels = (),
    progress: Progress | None = None,
    host: bool = True,
    check_indices: bool | None = None,
    tune: bool = False,
    state: Mapping[str, str] | None = None,
    outputs: Sequence[str] = (),
) -> CompiledModel:
    """Compile a model, or take it from the cache.

    Args:
        model: An ONNX file, or a `ModelProto` or its bytes (with the weights inside).
        target: `cpu` is this machine; `cpu:NAME` one of `graphfuse.targets.cpu.CPUS`, `cuda:ARCH` one of
            `graphfuse.targets.nvidia.GPUS`, `portable` most processors (docs/platforms.md); or several of these.
            Default: what `device` runs.
        dims: The model's symbolic dims by name: a number to fix one, or inclusive bounds.
        threads: How many threads run it; default: `GRAPHFUSE_THREADS`, else the usable cores.
        numerics: `strict`, `eager` or `fast` (docs/numerics.md); default: what `options` says, else `eager`.
        precision: `f32`, `f16` or `bf16`: what an f32 model multiplies and stores (docs/precision.md); default: what
            `options` says, else `f32`, the model's own. Inputs and outputs keep their types.
        options: What else to choose.
        device: Where it runs: `cpu`, `cuda`, `cuda:N`, or `emulator`, which executes a GPU's code on the CPU.
        kernels: A folder, or several, of `.tc` files that implement operators of the model (docs/triton-c-ops.md).
        progress: Called with the name of each stage as it begins.
        host: Whether Python may run what is not compiled between compiled parts (docs/onnx.md); else it is refused.
        check_indices: Whether indices and lengths out of range, and integers divided by 0, are errors on a CPU
            (docs/onnx.md); default: what `options` says, else they are.
        tune: Whether the ways to make each kernel are tried on this machine, on `device` (docs/tuning.md). It takes
            seconds for each, and is kept.
        state: Inputs that the model writes over, by name, each with the output that it becomes, such as
            `{"past_key_values.*": "present.*"}`: caches, which `graphfuse.Session` owns (docs/onnx.md).
        outputs: Names of values of the graph, also of ones between its nodes, that are its outputs, in this order;
            default: the model's own.

    Returns:
        The model. Code and weights are loaded by its first call, or by `prepare`.

    Raises:
        UsageError: An argument is of another type, or no such choice.
        FileError: There is no such file, or it cannot be read.
        ParseError: It is no ONNX model.
        VerifyError: The model contradicts itself.
        UnsupportedError: Operators, or features of them, that are not compiled; the message lists all.
        TargetError: A target does not exist.
        DeviceError: `device` is a GPU, and there is none.
    """
    check_environment()
    configure_logging()
    where = Device.parse(device)
    chosen = _chosen(options, numerics, precision)
    if check_indices is not None:
        chosen = dataclasses.replace(chosen, check_indices=bool(check_indices))
    wanted, threads = usage.dims(dims or {}), _threads(threads)
    if tune:
        chosen = dataclasses.replace(chosen, tuning=Tuning(str(where), threads or 0))
    source, operators = _source(model), operators_of(kernels)
    if progress is not None and not callable(cast("object", progress)):
        raise usage.wrong("progress", "a function", progress)
    note: Progress = progress or (lambda _: None)
    found = targets_of(target, where)
    states, named = usage.names("state", state or {}), usage.texts("outputs", outputs)
    jobs = [_Job(source, t, wanted, chosen, operators, bool(host), note, states, named) for t in found]
    return CompiledModel(combined([job.executable() for job in jobs]), threads, where, name=_name(source))


def _threads(threads: int | None) -> int | None:
    return None if threads is None else thread_count(usage.integer("threads", threads))


def operators_of(kernels: Kernels) -> tuple[Operator, ...]:
    """The operators that the `.tc` files of folders implement."""
    passed = cast("Any", kernels)  # a caller without a type checker may pass anything
    if not isinstance(passed, (str, Path, Sequence)) or isinstance(passed, bytes):
        raise usage.wrong("kernels", "a folder or several", kernels)
    folders = [usage.path("kernels", k) for k in ([kernels] if isinstance(kernels, (str, Path)) else kernels)]
    if not folders:
        return ()
    # reading kernels takes a front end that few models need
    from graphfuse.frontends.tc_ops import read_operators

    return read_operators(*folders)


def _chosen(options: Options | None, numerics: str, precision: str) -> Options:
    if not isinstance(cast("object", options), (Options, type(None))):
        raise usage.wrong("options", "graphfuse.knobs.Options", options)
    chosen = options or Options()
    if numerics:
        chosen = dataclasses.replace(chosen, numerics=numerics_of(numerics))
    return dataclasses.replace(chosen, precision=precision_of(precision)) if precision else chosen


def load(path: str | os.PathLike[str], threads: int | None = None, device: str = "") -> CompiledModel:
    """Load an artifact. Neither onnx nor torch is imported, and no code is generated.

    Args:
        path: What `CompiledModel.save` or `graphfuse compile -o` wrote. It is a program: load what you would run.
        threads: How many threads run it; default: `GRAPHFUSE_THREADS`, else the usable cores.
        device: Where it runs: `cpu` (the default), `cuda`, `cuda:N` or `emulator`. It needs code for that.

    Returns:
        The model. Its file has been checked; weights are when they are first read.

    Raises:
        FileError: There is no such file, or it cannot be read.
        ArtifactError: It is no artifact, is damaged, or of a version that this graphfuse does not read. That it has no
            code for this machine is found by the first call.
    """
    check_environment()
    configure_logging()
    file = usage.path("path", path)
    return CompiledModel(gfx.load(file), _threads(threads), device, name=file.name)


def quantize(
    model: Any,
    *,
    weights: str = "int4",
    block: int = 32,
    symmetric: bool = True,
    accuracy_level: int = 0,
    exclude: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> QuantizedModel:
    """Round the weights of products with constant matrices to the nearest of a few codes, in blocks along k.

    Each MatMul by a constant matrix of f32, f16 or bf16, and each Gemm with alpha and beta of 1, becomes ONNX Runtime's
    `MatMulNBits`, which a CPU multiplies by as it is stored (docs/onnx.md). Each block is clipped where that makes the
    squared error of its weights least. Everything else stays as it is, and keeps its name.

    Args:
        model: An ONNX file, or a `ModelProto` or its bytes (with the weights inside).
        weights: `int4` or `int8`.
        block: How many weights along k have a scale of their own: 16, 32, 64, 128 or 256.
        symmetric: Whether the middle code stands for 0, else each block has a code for it.
        accuracy_level: 4 if products may round what they multiply by the weights to 8 bits, which is faster; else 0.
        exclude: Names of nodes to leave as they are, or patterns of such, as `*lm_head*`.
        progress: Called with the name of each node as it begins.

    Returns:
        The model, to be saved or compiled, and what rounding each layer lost.

    Raises:
        UsageError: An argument is of another type, or no such choice; there is no matrix to quantise, or no node of a
            name to exclude.
        FileError: There is no such file, or it cannot be read.
        ParseError: It is no ONNX model.
        VerifyError: The model contradicts itself.
        UnsupportedError: Weights are not finite, or of a kind that is not built.
    """
    # it needs onnx, which loading an artifact need not
    from graphfuse.quantization import quantized

    check_environment()
    configure_logging()
    return quantized(
        _source(model), weights=usage.text("weights", weights), block=usage.integer("block", block),
        symmetric=bool(symmetric), accuracy_level=usage.integer("accuracy_level", accuracy_level),
        exclude=usage.texts("exclude", exclude), progress=progress or (lambda _: None),
    )  # fmt: skip


def _name(source: Path | Any) -> str:
    return source.name if isinstance(source, Path) else str(source.graph.name)


@dataclasses.dataclass(frozen=True)
class _Job:
    """A model to compile for one target, and what was chosen."""

    source: Path | Any
    target: Target
    dims: Dims
    options: Options
    operators: Sequence[Operator]
    host: bool
    progress: Progress
    state: Mapping[str, str]
    outputs: Sequence[str]

    def executable(self) -> Executable:
        """From the cache, else compiled and put there."""
        if settings.cache == "0":
            return self._compiled()
        # locks and user folders take 30 ms to import, which loading an artifact need not pay
        from graphfuse.runtime.cache import default_cache

        if (cache := default_cache()) is None:
            return self._compiled()
        self.progress("looking into the cache")
        return cache.get_or_make(self._key(), self._compiled, self.progress)

    def _key(self) -> str:
        from graphfuse.runtime.cache import model_digest

        model = self.source if isinstance(self.source, Path) else _serialised(self.source)
        made_from = {
            "model": model_digest(model), "dims": repr(sorted(self.dims.items())), "options": repr(self.options)
        }  # fmt: skip
        if self.host:
            made_from["host"] = "allowed"
        if self.state:
            made_from["state"] = repr(sorted(self.state.items()))
        if self.outputs:
            made_from["outputs"] = repr(list(self.outputs))
        if self.operators:
            made_from["kernels"] = repr([o.text_of_all() for o in self.operators])
        return compiled_key(made_from, self.target)

    def _compiled(self) -> Executable:
        name = str(self.source) if isinstance(self.source, Path) else "<model>"
        try:
            executable = self._built()
            for piece in (executable, *executable.parts):
                _check_plan(piece.plan, name)
        except MemoryError as e:
            raise TooLargeError("compiling the model takes more memory than there is", Loc(name)) from e
        except Exception as e:
            if not isinstance(e, GraphfuseError):
                e.add_note(f"while compiling; replay: GRAPHFUSE_CACHE=0 graphfuse compile {name} --debug")
            raise
        if settings.dump:
            dump(executable, Path(settings.dump))
        return executable

    def _built(self) -> Executable:
        # importing needs onnx; loading an artifact must not pay for it
        from graphfuse.frontends.onnx import import_model

        self.progress("importing")
        try:
            func = import_model(
                self.source, dims=self.dims, kernels=self.operators, state=self.state, outputs=self.outputs
            )
        except TooLargeError:
            raise
        except UnsupportedError as e:
            if not self.host or self.operators or self.state:
                raise
            return self._with_host_code(e)
        # compiling needs networkx and LLVM; a model that is refused must not pay for them
        from graphfuse import tuner

        self.progress("tuning" if self.options.tuning else "compiling")
        from graphfuse.fusion.regions.plan import shared_pairs

        executable = tuner.build(func, self.target, self.options)
        for output, number in shared_pairs(func):
            if (output, number) in executable.shared:
                continue
            names = executable.signature.inputs[number].name, executable.signature.outputs[output].name
            why = "it is not what scatters make of the input alone, or the input is read afterwards"
            raise UnsupportedError(f"state: {names[1]!r} cannot be written over {names[0]!r}: {why}")
        return executable

    def _with_host_code(self, why: UnsupportedError) -> Executable:
        # few models need it
        from graphfuse.host.build import host_executable

        log.info("host code: %s", why)
        self.progress("compiling parts")
        try:
            return host_executable(self.source, self.target, self.dims, self.options, self.outputs)
        except TooLargeError:
            raise
        except UnsupportedError as e:
            if "unsupported operator" in e.message:  # which the first error lists
                raise why from None
            found = f"{why.message}; nor can its parts be compiled: {e.message}"
            raise UnsupportedError(found, e.loc or why.loc) from None


def _source(model: Any) -> Path | Any:
    """A path that exists, or a `ModelProto`."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(os.fspath(cast("str", model)))
        with told("read", path):  # no permission, too long, a NUL
            if not path.exists():
                raise FileError("no such file", Loc(str(path)))
            if not is_regular(path):
                raise FileError(f"expected a file, found {kind(path)}", Loc(str(path)))
        if gfx.is_artifact(path):
            raise UsageError(f"{path} is an artifact: expected an ONNX model; graphfuse.load takes artifacts")
        return path
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parsed(bytes(cast("bytes", model)))
    if not hasattr(model, "SerializeToString") or not hasattr(model, "ir_version"):
        raise UsageError(f"model: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    # whoever has a ModelProto has imported onnx
    from graphfuse.frontends.onnx.limits import check_depth

    check_depth(model, "<model>")  # serialising it is recursive
    return model


def _parsed(data: bytes) -> Any:
    if data.startswith(gfx.MAGIC[:4]):
        raise UsageError("the bytes are an artifact's: expected an ONNX model; graphfuse.load takes its path")
    # only the onnx frontend imports onnx, and only when there is something to parse
    from graphfuse.frontends.onnx.load import DecodeError, onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as e:
        raise ParseError(f"not an ONNX model: {str(e).lower()}") from None
    return model


def _serialised(model: Any) -> bytes:
    # an error type of a package that only the onnx frontend imports
    from graphfuse.frontends.onnx.load import EncodeError

    try:
        return model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as e:
        raise ParseError(f"not an ONNX model that can be written: {str(e).lower()}") from None


def _check_plan(plan: Plan, name: str) -> None:
    """Refuse a model that no shape of its inputs makes small enough to run."""
    for b in plan.buffers:
        if isinstance(b.nbytes, int) and b.nbytes > MAX_BYTES:
            raise TooLargeError(f"expected buffers of up to {MAX_BYTES} bytes, found one of {b.nbytes}", Loc(name))
    if (launches := sum(map(_launches, plan.steps))) > MAX_LAUNCHES:
        raise TooLargeError(f"expected loops of up to {MAX_LAUNCHES} launches, found {launches}", Loc(name))


def _launches(step: Step | PlanLoop) -> int:
    """How many there are at least."""
    if isinstance(step, Step):
        return 1
    return (step.count if isinstance(step.count, int) else 0) * sum(map(_launches, step.steps))


def recompile(
    path: str | os.PathLike[str],
    *,
    target: Targets = "",
    numerics: str = "",
    precision: str = "",
    options: Options | None = None,
) -> Executable:
    """Build an artifact again from the IR it carries.

    Neither its code nor its IR need be trusted: kernels that it calls are kept inside of their tensors
    (`blockgen/confine.py`).

    `numerics` and `precision` are the artifact's own by default. Its IR has been rewritten with those, so a stricter
    numerics is an error, and so is another precision of one that has halves.
    """
    from graphfuse import compiler

    check_environment()
    executable = gfx.load(path)
    had, stored = artifact_numerics(executable), artifact_precision(executable)
    chosen = _chosen(options, numerics or had, precision or stored)
    if NUMERICS.index(chosen.numerics) < NUMERICS.index(had):
        raise UsageError(f"{path} was compiled with numerics {had!r}: expected that or freer, got {chosen.numerics!r}")
    if stored not in ("f32", chosen.precision):
        raise UsageError(f"{path} was compiled with precision {stored!r}: expected that, got {chosen.precision!r}")
    targets = targets_of(target, Device())
    if executable.host is not None:
        funcs = [compiler.confined(graph_func(p)) for p in executable.parts]
        made = [tuple(compiler.build(f, t, chosen) for f in funcs) for t in targets]
        plain = dataclasses.replace(executable, others=())
        each = [dataclasses.replace(plain, target=str(t), parts=p) for t, p in zip(targets, made, strict=True)]
        return combined(each)
    func = compiler.confined(graph_func(executable))
    return combined([compiler.build(func, t, chosen) for t in targets])


def verify_regions(
    model: str | os.PathLike[str],
    inputs: Sequence[Array],
    *,
    dims: Dims | None = None,
    target: str = "",
    numerics: str = "",
    precision: str = "",
    device: str = "",
    kernels: Kernels = (),
) -> list[dict[str, Any]]:
    """Each region's error against float64, on the inputs it really gets: one row a result, `ok` or not."""
    from graphfuse import checking, compiler
    from graphfuse.frontends.onnx import import_model

    if gfx.is_artifact(model):
        executable = gfx.load(model)
        func = compiler.confined(graph_func(executable))
        numerics, precision = artifact_numerics(executable), artifact_precision(executable)
    else:
        func = import_model(Path(model), dims=dims, kernels=operators_of(kernels))
    where = Device.parse(device)
    (wanted,), options = targets_of(target, where), _chosen(None, numerics, precision)
    driver = driver_of(where, wanted.cpu) if where.is_gpu else None
    found = checking.verify_regions(func, wanted, list(inputs), options, driver, where.index)
    return [{**dataclasses.asdict(r), "ok": not r.is_suspect} for r in found]


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


def configure_logging() -> None:
    """Point the loggers that `GRAPHFUSE_LOG` and `GRAPHFUSE_DEBUG` ask for to stderr."""
    if not settings.log and not settings.debug:
        return
    root = logging.getLogger("graphfuse")
    if not any(h.name == "graphfuse" for h in root.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Formatter("%(name)s: %(message)s"))
        handler.name = "graphfuse"  # so that it is added once
        root.addHandler(handler)
    if settings.debug >= 2:
        root.setLevel(logging.DEBUG if settings.debug >= 4 else logging.INFO)
    for word in settings.log:
        name = word.removeprefix("+")
        level = logging.DEBUG if word.startswith("+") else logging.INFO
        logging.getLogger(f"graphfuse.{name}").setLevel(level)
