"""The public calls, and the pipeline from a model to something that runs. The one module that sees everything.

import_model        ONNX file to graph IR                  frontends/onnx
compiler.build      fuse, outline, blockgen, cpu, plan     compiler.py, one stage per line
Session             artifact to results                    runtime
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphfuse.artifact import Array, Executable, Signature, combined
from graphfuse.devices import Targets, driver_of, targets_of
from graphfuse.errors import ArtifactError, FileError, GraphfuseError, Loc, ParseError, UsageError
from graphfuse.knobs import (
    NUMERICS,
    Numerics,
    Options,
    Precision,
    check_environment,
    code_key,
    numerics_of,
    precision_of,
    settings,
)
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.runtime import gfx
from graphfuse.runtime.device import Device
from graphfuse.runtime.report import report
from graphfuse.runtime.session import Profile, Session
from graphfuse.target import Target

if TYPE_CHECKING:
    from graphfuse.frontends.tc_ops import Operator
    from graphfuse.ir.core import Func
    from graphfuse.runtime.cuda.session import CudaSession

log = logging.getLogger(__name__)

Dims = Mapping[str, "int | tuple[int, int]"]
Kernels = str | Path | Sequence[str | Path]
Progress = Callable[[str], None]
CHECKED = {"f32": 1e-3, "f16": 2e-2, "bf16": 1e-1}
"""How far results may be from the interpreter's under `GRAPHFUSE_CHECK`, by precision."""


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
) -> CompiledModel:
    """Compile a model, or take it from the cache.

    Args:
        model: An ONNX file, or a `ModelProto` or its bytes (with the weights inside).
        target: `cpu` is this machine; `cpu:NAME` one of `graphfuse.target.CPUS`, `cuda:ARCH` one of its `GPUS`; or
            several of these. Default: what `device` runs.
        dims: The model's symbolic dims by name: a number to fix one, or inclusive bounds.
        threads: How many threads run it; default: `GRAPHFUSE_THREADS`, else the usable cores.
        numerics: `strict`, `eager` or `fast` (docs/numerics.md); default: what `options` says, else `eager`.
        precision: `f32`, `f16` or `bf16`: what an f32 model multiplies and stores (docs/precision.md); default: what
            `options` says, else `f32`, the model's own. Inputs and outputs keep their types.
        options: What else to choose.
        device: Where it runs: `cpu`, `cuda`, `cuda:N`, or `emulator`, which executes a GPU's code on the CPU.
        kernels: A folder, or several, of `.tc` files that implement operators of the model (docs/triton-c-ops.md).
        progress: Called with the name of each stage as it begins.
    """
    check_environment()
    configure_logging()
    where = Device.parse(device)
    chosen = _chosen(options, numerics, precision)
    source, operators = _source(model), operators_of(kernels)
    built = [
        build(source, t, dims or {}, chosen, progress or (lambda _: None), operators) for t in targets_of(target, where)
    ]
    return CompiledModel(combined(built), threads, where)


def operators_of(kernels: Kernels) -> tuple[Operator, ...]:
    """The operators that the `.tc` files of folders implement."""
    folders = [kernels] if isinstance(kernels, (str, Path)) else list(kernels)
    if not folders:
        return ()
    # reading kernels takes a front end that few models need
    from graphfuse.frontends.tc_ops import read_operators

    return read_operators(*folders)


def _chosen(options: Options | None, numerics: str, precision: str) -> Options:
    chosen = options or Options()
    if numerics:
        chosen = dataclasses.replace(chosen, numerics=numerics_of(numerics))
    return dataclasses.replace(chosen, precision=precision_of(precision)) if precision else chosen


def artifact_numerics(executable: Executable) -> Numerics:
    """What an executable was compiled with; `eager` where it does not say."""
    text = str(executable.meta.get("numerics", "eager"))
    try:
        return numerics_of(text)
    except UsageError as e:
        raise ArtifactError(e.message) from None


def artifact_precision(executable: Executable) -> Precision:
    """What an executable multiplies and stores; `f32` where it does not say."""
    text = str(executable.meta.get("precision", "f32"))
    try:
        return precision_of(text)
    except UsageError as e:
        raise ArtifactError(e.message) from None


def load(path: str | os.PathLike[str], threads: int | None = None, device: str = "") -> CompiledModel:
    """Load an artifact, to run on `device`. Neither onnx nor torch is imported, and no code is generated."""
    check_environment()
    configure_logging()
    return CompiledModel(gfx.load(path), threads, device)


def build(
    model: Any,
    target: Target,
    dims: Dims,
    options: Options,
    progress: Progress,
    operators: Sequence[Operator] = (),
) -> Executable:
    """The executable of a model: from the cache, else compiled and put there."""
    source = _source(model)

    def made() -> Executable:
        return _build(source, target, dims, options, progress, operators)

    if settings.cache == "0":
        return made()
    # locks and user folders take 30 ms to import, which loading an artifact need not pay
    from graphfuse.runtime.cache import default_cache

    if (cache := default_cache()) is None:
        return made()
    progress("looking into the cache")
    return cache.get_or_make(_key(source, target, dims, options, operators), made, progress)


def _source(model: Any) -> Path | Any:
    """A path that exists, or a `ModelProto`."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(os.fspath(cast("str", model)))
        if not path.exists():
            raise FileError("no such file", Loc(str(path)))
        if path.is_dir():
            raise FileError("expected a file, found a folder", Loc(str(path)))
        return path
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parsed(bytes(cast("bytes", model)))
    if not hasattr(model, "SerializeToString"):
        raise UsageError(f"model: expected a path, bytes or a ModelProto, got {type(model).__name__}")
    return model


def _parsed(data: bytes) -> Any:
    if data.startswith(gfx.MAGIC[:4]):
        raise UsageError("the bytes of an artifact cannot be mapped: save them and pass the path")
    # only the onnx frontend imports onnx, and only when there is something to parse
    from graphfuse.frontends.onnx.load import DecodeError, onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as e:
        raise ParseError(f"not an ONNX model: {str(e).lower()}") from None
    return model


def _key(source: Path | Any, target: Target, dims: Dims, options: Options, operators: Sequence[Operator]) -> str:
    from graphfuse.runtime.cache import cache_key, model_digest

    model = source if isinstance(source, Path) else source.SerializeToString(deterministic=True)
    return cache_key(
        {
            "model": model_digest(model),
            "dims": repr(sorted(dims.items())),
            "target": repr(target),
            "options": repr(sorted(dataclasses.asdict(options).items())),
            "knobs": repr(sorted(code_key().items())),
            "assembler": _assembler_version() if target.kind == "cuda" else "",
            **({"kernels": repr([o.text_of_all() for o in operators])} if operators else {}),
        }
    )


def _assembler_version() -> str:
    from graphfuse.gpu.assembler import assembler_version

    return assembler_version()


def _build(
    source: Path | Any,
    target: Target,
    dims: Dims,
    options: Options,
    progress: Progress,
    operators: Sequence[Operator],
) -> Executable:
    # compiling needs onnx, networkx and LLVM; loading an artifact must not pay for them
    from graphfuse import compiler
    from graphfuse.frontends.onnx import import_model

    name = str(source) if isinstance(source, Path) else "<model>"
    try:
        progress("importing")
        func = import_model(source, dims=dims, kernels=operators)
        progress("compiling")
        executable = compiler.build(func, target, options)
    except Exception as e:
        if not isinstance(e, GraphfuseError):
            e.add_note(f"while compiling; replay: GRAPHFUSE_CACHE=0 graphfuse compile {name} --debug")
        raise
    if settings.dump:
        dump(executable, Path(settings.dump))
    return executable


def dump(executable: Executable, folder: Path) -> None:
    """Write the text of each stage as a numbered file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, (stage, text) in enumerate(executable.ir.items()):
            (folder / f"{i:02}-{stage}.gf").write_text(text)
    except OSError as e:
        raise FileError(f"cannot write: {(e.strerror or str(e)).lower()}", Loc(str(folder))) from None


def graph_func(executable: Executable) -> Func:
    """The graph IR an executable carries, parsed and verified, its constants taken by digest.

    It is the partitioned graph with the regions dissolved: the one whose constants the artifact holds.
    """
    from graphfuse.fusion.inline import inline_regions  # the dialects it imports register the ops the text names
    from graphfuse.ir.dense import Dense
    from graphfuse.ir.parser import parse
    from graphfuse.ir.verifier import verify

    if "regions" not in executable.ir:
        raise ArtifactError("the artifact carries no IR to rebuild from")
    constants = {(d := Dense(w.array)).digest: d for w in executable.weights}
    func = parse(executable.ir["regions"], "<artifact>", constants)
    verify(func)
    return inline_regions(func)


def recompile(
    path: str | os.PathLike[str],
    *,
    target: Targets = "",
    numerics: str = "",
    precision: str = "",
    options: Options | None = None,
) -> Executable:
    """Build an artifact again from the IR it carries. Its code is ignored, so it need not be trusted.

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
    func = graph_func(executable)
    return combined([compiler.build(func, t, chosen) for t in targets_of(target, Device())])


def emit(executable: Executable, stage: str) -> str:
    """The text of a stage: `graph`, `regions`, `block` as the executable carries them; `llvm`, `asm` made from that.

    A GPU's has `ptx` in the place of `asm`, and layouts in `block`.
    """
    if stage in executable.ir:
        return executable.ir[stage]
    made = ("llvm", "ptx") if executable.is_gpu else ("llvm", "asm")
    if stage not in made or "block" not in executable.ir:
        raise UsageError(f"no stage {stage!r} of {executable.target}: one of {', '.join((*executable.ir, *made))}")
    if stage == "ptx":
        return executable.code[executable.target].ptx
    importlib.import_module("graphfuse.dialects")  # registers the ops the text names
    from graphfuse.cpu.lower import lower
    from graphfuse.ir.parser import parse_module
    from graphfuse.llvm.codegen import assembly

    funcs = list(parse_module(executable.ir["block"], "<artifact>"))
    if executable.is_gpu:
        from graphfuse.gpu.lower import lower as lower_for_gpu

        return lower_for_gpu(funcs, parse_target(executable.target)).text
    host = host_target()
    target = host if str(host) == executable.target else parse_target(executable.target)
    text = lower(funcs, target).text
    return text if stage == "llvm" else assembly(text, target)


def optimize_text(text: str, passes: str, file: str = "<string>") -> str:
    """Parse IR text, run a pipeline such as `canonicalize, dead-code` over each function, and print it."""
    importlib.import_module("graphfuse.dialects")  # registers the ops the text names
    from graphfuse.blockgen.numerics import BLOCK_PASSES
    from graphfuse.fusion.passes import PASSES
    from graphfuse.ir.parser import parse_module
    from graphfuse.ir.passes import Pipeline, parse_pipeline
    from graphfuse.ir.printer import module_text
    from graphfuse.ir.verifier import verify

    check_environment()
    known = (*PASSES.values(), *(p for group in BLOCK_PASSES.values() for p in group))
    pipeline = Pipeline(parse_pipeline(passes, known), check=settings.verify)
    funcs = parse_module(text, file)
    for func in funcs:
        verify(func)
    return module_text([pipeline.run(f) for f in funcs])


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
    from graphfuse import checking
    from graphfuse.frontends.onnx import import_model

    if gfx.is_artifact(model):
        executable = gfx.load(model)
        func = graph_func(executable)
        numerics, precision = artifact_numerics(executable), artifact_precision(executable)
    else:
        func = import_model(Path(model), dims=dims, kernels=operators_of(kernels))
    where = Device.parse(device)
    (wanted,), options = targets_of(target, where), _chosen(None, numerics, precision)
    driver = driver_of(where, wanted.cpu) if where.is_gpu else None
    found = checking.verify_regions(func, wanted, list(inputs), options, driver, where.index)
    return [{**dataclasses.asdict(r), "ok": not r.is_suspect} for r in found]


def cpu_variant(executable: Executable) -> Executable:
    """The one of its variants that a CPU runs."""
    found = next((v for v in executable.variants if not v.is_gpu), None)
    if found is None:
        have = ", ".join(v.target for v in executable.variants)
        raise ArtifactError(
            f"there is code for {have} only: run it with device 'cuda' or 'emulator', or rebuild it for the cpu "
            "with 'graphfuse compile --recompile --target cpu'"
        )
    return found


def gpu_target_of(executable: Executable) -> Target:
    """The first GPU that it has code for."""
    found = next((v for v in executable.variants if v.is_gpu), None)
    if found is None:
        raise ArtifactError(f"there is code for {executable.target} only: compile it for a GPU, such as cuda:sm_90a")
    return parse_target(found.target)


class CompiledModel:
    """A compiled model: call it with inputs by name, get outputs by name.

    Code is loaded at the first call, so a model for another machine can be saved from here. On a GPU inputs may be
    there or on the host; see `graphfuse.runtime.cuda.session` for what outputs are then.
    """

    def __init__(self, executable: Executable, threads: int | None = None, device: str | Device = "") -> None:
        self.executable = executable
        self.device = device if isinstance(device, Device) else Device.parse(device)
        self._threads = threads

    @functools.cached_property
    def session(self) -> Session | CudaSession:
        """What runs it."""
        if not self.device.is_gpu:
            return Session(cpu_variant(self.executable), self._threads)
        from graphfuse.runtime.cuda.session import CudaSession

        driver = driver_of(self.device, gpu_target_of(self.executable).cpu)
        return CudaSession(self.executable, driver, self.device.index)

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and the ranges of symbolic dims."""
        return self.executable.signature

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Run: `model({"x": x})` or `model(x=x)`, with numpy arrays or DLPack objects."""
        feed = {**(inputs or {}), **named}
        if settings.interpret:
            return self.interpret(feed)
        outputs = self._timed(feed) if settings.debug else self.session.run(feed)
        if settings.check:
            self._check(feed, outputs)
        return outputs

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """Run with the time of each step."""
        return self.session.profile(inputs)

    def interpret(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run the graph IR in numpy: the specification, and slow."""
        from graphfuse.interp.graph import run
        from graphfuse.runtime.binding import Binder

        binder = Binder(self.signature)
        arrays = binder.arrays(inputs)
        symbols = binder.bind([a.shape for a in arrays])
        names = (s.name for s in self.signature.outputs)
        return dict(zip(names, run(self._graph, *arrays, symbols=symbols), strict=True))

    @functools.cached_property
    def _graph(self) -> Func:
        return graph_func(self.executable)

    def _timed(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        profile = self.session.profile(feed)
        for s in profile.steps:
            log.warning("%10.1f us  %-24s x%d  %s", s.ns / 1e3, s.kernel, s.launches, s.label)
        return profile.outputs

    def _check(self, feed: Mapping[str, Any], outputs: Mapping[str, Array]) -> None:
        tolerance = CHECKED[artifact_precision(self.executable)]
        for name, expected in self.interpret({k: _on_host(v) for k, v in feed.items()}).items():
            found = np.asarray(_on_host(outputs[name])).astype(np.float64)
            wanted = np.asarray(expected).astype(np.float64)
            scale = float(np.std(wanted[np.isfinite(wanted)])) if wanted.size else 0.0
            bad = ~np.isclose(found, wanted, rtol=tolerance, atol=tolerance * scale + 1e-6, equal_nan=True)
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                raise AssertionError(
                    f"output {name!r} differs from the interpreter at {at}: {found[at]} and {wanted[at]}"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact, whole or not at all."""
        gfx.save(self.executable, path)

    def inspect(self, dims: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Kernels, steps, traffic and memory as plain data, at these values of symbolic dims."""
        return report(self.executable, dims)


def _on_host(value: Any) -> Any:
    """A copy of a torch tensor on a GPU; anything else as it is."""
    device = getattr(value, "device", None)
    return value.cpu() if getattr(device, "type", "cpu") == "cuda" else value


def configure_logging() -> None:
    """Point the loggers that `GRAPHFUSE_LOG` and `GRAPHFUSE_DEBUG` ask for to stderr."""
    if not settings.log and not settings.debug:
        return
    root = logging.getLogger("graphfuse")
    if not any(h.name == "graphfuse" for h in root.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        handler.name = "graphfuse"  # so that it is added once
        root.addHandler(handler)
    if settings.debug >= 2:
        root.setLevel(logging.DEBUG if settings.debug >= 4 else logging.INFO)
    for word in settings.log:
        name = word.removeprefix("+")
        level = logging.DEBUG if word.startswith("+") else logging.INFO
        logging.getLogger(f"graphfuse.{name}").setLevel(level)
