"""The IR that an executable carries: read back, printed by stage, written down; text through passes.

Nothing here compiles a model; what is made of IR is made from the text that the artifact has.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from graphfuse.artifact import Executable
from graphfuse.constraints import KINDS
from graphfuse.errors import ArtifactError, UsageError
from graphfuse.files import told
from graphfuse.knobs import Numerics, Precision, check_environment, numerics_of, precision_of
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.symbolic import Expr, symbols
from graphfuse.value_checks import ATTR as CHECKS

if TYPE_CHECKING:
    from graphfuse.ir.core import Func, Op, Value

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
    from graphfuse.fusion.regions.inline import (
        inline_regions,  # the dialects it imports register the ops the text names
    )
    from graphfuse.ir.dense import Dense
    from graphfuse.ir.parser import parse
    from graphfuse.ir.verifier import verify

    if "regions" not in executable.ir:
        raise ArtifactError("the artifact carries no IR to rebuild from")
    constants = {(d := Dense(w.array)).digest: d for w in executable.weights}
    func = parse(executable.ir["regions"], "<artifact>", constants)
    verify(func)
    _check_main(func)
    return inline_regions(func)


def _check_main(func: Func) -> None:
    """Refuse attributes of a function that do not say what it takes and gives: no type rule sees them."""
    from graphfuse.dialects import graph
    from graphfuse.ir.core import strs_of
    from graphfuse.ir.types import I64, Tensor

    for v in func.params:
        if not isinstance(v.type, Tensor):
            raise ArtifactError(f"IR: expected tensors as parameters, found {v.type}")
    loops = {str(op.attrs["symbol"]) for op in func.walk() if op.kind is graph.loop}
    _check_dims(func.params, func.body.ops, set(func.ranges) | loops)
    outputs = func.outputs
    if CHECKS in func.attrs:
        checks, outputs = func.attrs[CHECKS], func.outputs[:-1]
        reported = Tensor((len(checks),), I64) if isinstance(checks, tuple) else None
        if not func.outputs or func.outputs[-1].type != reported or not _are_rows(checks, 3, (0, 2)):
            raise ArtifactError("IR: expected checks of values, and an output that reports on each")
    for key, values in (("inputs", func.params), ("outputs", outputs)):
        names = strs_of(func.attrs.get(key))
        if names is None or len(set(names)) != len(names) or len(names) != len(values):
            raise ArtifactError(f"IR: expected {len(values)} different names of {key}, found {func.attrs.get(key)}")
    needs = func.attrs.get("constraints", ())
    if not all(len(row) == 5 and row[0] in KINDS and _are_rows((row[3:] + row[1:3],), 2, (2,)) for row in _rows(needs)):
        raise ArtifactError("IR: expected constraints of dims: kind, two dims, what they are and who needs it")


def _check_dims(params: Sequence[Value], ops: Sequence[Op], known: set[str]) -> None:
    """Refuse types and attributes with dims that nobody has declared. A called kernel has its own."""
    from graphfuse.dialects import graph
    from graphfuse.ir.core import strs_of
    from graphfuse.ir.types import Tensor

    def check(what: object, dims: Iterable[object], known: set[str]) -> None:
        if unknown := {s for d in dims if isinstance(d, Expr) for s in symbols(d)} - known:
            raise ArtifactError(f"IR: {what} names the undeclared dim {min(unknown)!r}")

    for v in params:
        check(v.type, v.type.shape if isinstance(v.type, Tensor) else (), known)
    for op in ops:
        check(op.kind, _flat(tuple(op.attrs.values())), known | set(strs_of(op.attrs.get("names")) or ()))
        inside = set(strs_of(op.attrs.get("symbols")) or ()) if op.kind is graph.call else known
        for body in op.bodies:
            _check_dims(body.params.values, body.ops, inside)
        for t in op.types:
            check(t, t.shape if isinstance(t, Tensor) else (), known)


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for v in cast("tuple[object, ...]", value):
            yield from _flat(v)
    else:
        yield value


def _rows(value: object) -> list[tuple[Any, ...]]:
    """The rows of an attribute that is a table; one that fits nothing where it is none."""
    rows = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ((),)
    return [cast("tuple[Any, ...]", r) if isinstance(r, tuple) else () for r in rows]


def _are_rows(value: object, texts: int, dims: Sequence[int]) -> bool:
    """Whether each row is so many texts, then one of so many dims."""
    return all(
        len(row) - texts in dims
        and all(isinstance(v, str) for v in row[:texts])
        and all(isinstance(v, (int, Expr)) for v in row[texts:])
        for row in _rows(value)
    )


def emit(executable: Executable, stage: str) -> str:
    """The text of a stage: `graph`, `regions`, `block` as the executable carries them; `llvm`, `asm` made from that.

    A GPU's has `ptx` in the place of `asm`, and layouts in `block`. Of a model with host code, that of each part.
    """
    if executable.host is not None:
        return "\n".join(f"// part {i}\n{emit(p, stage)}" for i, p in enumerate(executable.parts))
    if stage in executable.ir:
        return executable.ir[stage]
    from graphfuse.ir.parser import parse_module
    from graphfuse.targets.backend import backend_of

    host = host_target()
    backend = backend_of(host if str(host) == executable.target else parse_target(executable.target))
    if stage not in backend.code_stages or "block" not in executable.ir:
        known = ", ".join((*executable.ir, *backend.code_stages))
        raise UsageError(f"no stage {stage!r} of {executable.target}: one of {known}")
    if ptx := executable.code[executable.target].ptx if stage == "ptx" else "":
        return ptx
    importlib.import_module("graphfuse.dialects")  # registers the ops the text names
    return backend.code_text(list(parse_module(executable.ir["block"], "<artifact>")), stage, lowered=True)


_REGION = re.compile(r'( *).*graph\.region\(.*[ {]kernel = "([^"]+)"')


def kernel_texts(executable: Executable) -> dict[str, tuple[str, str]]:
    """The region and the block function of each kernel, by its name; nothing for what the executable does not carry.

    They are parts of its text, which is not parsed: the numbers in it are not at hand.
    """
    if executable.host is not None or not {"regions", "block"} <= set(executable.ir):
        return {}
    blocks = {f.split("(", 1)[0]: f"func @{f.rstrip()}" for f in executable.ir["block"].split("func @")[1:]}
    regions: dict[str, str] = {}
    lines = executable.ir["regions"].splitlines()
    for at, line in enumerate(lines):
        if (m := _REGION.match(line)) and m[2] in blocks and m[2] not in regions:
            end = next(i for i in range(at, len(lines)) if lines[i].startswith(f"{m[1]}}}"))
            regions[m[2]] = "\n".join(text.removeprefix(m[1]) for text in lines[at : end + 1])
    return {name: (regions.get(name, ""), text) for name, text in blocks.items()}


def optimize_text(text: str, passes: str, file: str = "<string>") -> str:
    """Parse IR text, run a pipeline such as `canonicalize, dead-code` over each function, and print it.

    Without one, that of a `// RUN:` line of the text is run.
    """
    importlib.import_module("graphfuse.pipelines")  # registers the passes, and the ops that the text names
    from graphfuse.ir.parser import parse_module
    from graphfuse.ir.passes import parse_pipeline, run
    from graphfuse.ir.printer import module_text
    from graphfuse.ir.snapshots import Constants
    from graphfuse.ir.verifier import verify

    check_environment()
    named = re.search(r"^// RUN:(.*)$", text, re.MULTILINE)
    chosen = parse_pipeline(passes or (named[1] if named else ""))
    funcs = parse_module(text, file, Constants.beside(Path(file)))
    for func in funcs:
        verify(func)
    return module_text([run(f, chosen, "opt") for f in funcs])


def dump(executable: Executable, folder: Path) -> None:
    """Write the text of each stage as a numbered file."""
    with told("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for i, (stage, text) in enumerate(executable.ir.items()):
            (folder / f"{i:02}-{stage}.gf").write_text(text)
        for i, part in enumerate(executable.parts):
            dump(part, folder / f"part-{i}")
