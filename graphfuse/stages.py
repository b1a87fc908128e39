"""The IR that an executable carries: read back, printed by stage, written down; text through passes.

Nothing here compiles a model; what is made of IR is made from the text that the artifact has.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from graphfuse.artifact import Executable
from graphfuse.errors import ArtifactError, FileError, Loc, UsageError
from graphfuse.knobs import Numerics, Precision, check_environment, numerics_of, precision_of, settings
from graphfuse.llvm.host import host_target, parse_target

if TYPE_CHECKING:
    from graphfuse.ir.core import Func

T = TypeVar("T")


def artifact_numerics(executable: Executable) -> Numerics:
    """What an executable was compiled with; `eager` where it does not say."""
    return _setting(executable, "numerics", "eager", numerics_of)


def artifact_precision(executable: Executable) -> Precision:
    """What an executable multiplies and stores; `f32` where it does not say."""
    return _setting(executable, "precision", "f32", precision_of)


def _setting(executable: Executable, name: str, default: str, read: Callable[[str], T]) -> T:
    try:
        return read(str(executable.meta.get(name, default)))
    except UsageError as e:
        raise ArtifactError(e.message) from None


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


def emit(executable: Executable, stage: str) -> str:
    """The text of a stage: `graph`, `regions`, `block` as the executable carries them; `llvm`, `asm` made from that.

    A GPU's has `ptx` in the place of `asm`, and layouts in `block`. Of a model with host code, that of each part.
    """
    if executable.host is not None:
        return "\n".join(f"// part {i}\n{emit(p, stage)}" for i, p in enumerate(executable.parts))
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


def dump(executable: Executable, folder: Path) -> None:
    """Write the text of each stage as a numbered file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, (stage, text) in enumerate(executable.ir.items()):
            (folder / f"{i:02}-{stage}.gf").write_text(text)
        for i, part in enumerate(executable.parts):
            dump(part, folder / f"part-{i}")
    except OSError as e:
        raise FileError(f"cannot write: {(e.strerror or str(e)).lower()}", Loc(str(folder))) from None
