"""`graphfuse.kernel("f.tc", TM=128)`: a source and values for its macros make a kernel, or one that is tuned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

from graphfuse import usage
from graphfuse.errors import UsageError
from graphfuse.frontends.tc.defines import alternatives
from graphfuse.frontends.tc.kernel import MOST
from graphfuse.kernels.configs import Space
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.source import choose, compiled, read_source
from graphfuse.kernels.tuner import TunedKernel
from graphfuse.runtime.session import thread_count


def kernel(
    source: str | os.PathLike[str],
    name: str | None = None,
    *,
    num_warps: int | Sequence[int] | None = None,
    num_stages: int | Sequence[int] | None = None,
    num_ctas: int | Sequence[int] | None = None,
    schedule: str | Sequence[str] | None = None,
    require: str | Sequence[str] = (),
    warnings: str | Sequence[str] = (),
    device: str = "",
    threads: int | None = None,
    debug: bool = False,
    **macros: Any,
) -> Kernel | TunedKernel:
    """A Triton-C kernel: `k = graphfuse.kernel("matmul.tc", TM=128, TN=128)`, then `k[grid](a, b, c, n)`.

    Lists of values, of a macro (`TM=[64, 128]`) or for `num_warps`, `num_stages`, `num_ctas` and `schedule`, make it
    one that is tuned when it is called with sizes it has not seen.

    Args:
        source: A path, or text: with a line break, `__global__`, a semicolon or a brace in it.
        name: Which kernel, where the source has several.
        num_warps: Warps of 32 threads that a GPU runs a program by: a power of two.
        num_stages: Steps of a loop that a GPU loads ahead.
        num_ctas: With 2, two blocks of a GPU make each program of a product together (docs/hopper.md).
        schedule: How a product's warps take turns (docs/hopper.md).
        require: C expressions over macros that configurations must satisfy.
        warnings: `-W` switches (`"no-shadow"`, `"error"`); a warning of the source is a `SourceWarning` of Python's.
        device: Where it runs if not where its arrays are: `cpu`, `cuda:1`, `emulator`.
        threads: How many threads run it on a CPU; default: the usable cores.
        debug: `printf` prints and `assert` holds: on a CPU and on the emulator one that fails is an error, on a GPU
            the process has to start anew. Fused into a model, and without `debug`, both do nothing.
        macros: Values of the source's macros: numbers, types and other text.

    Returns:
        A kernel that is compiled when it is called; `k[grid]` is what to call with arrays and numbers.

    Raises:
        SourceError: The source does not compile; it holds every diagnostic.
        UsageError: The source has no kernel of that name, or an option is out of its range.
        FileError: There is no such file.
    """
    given = {"num_warps": num_warps, "num_stages": num_stages, "num_ctas": num_ctas, "schedule": schedule}
    options: dict[str, tuple[Any, ...]] = {name: found for name, value in given.items() if (found := _listed(value))}
    for what in MOST:
        for value in options.get(what, ()):
            usage.integer(what, value)
    texts = {"schedule": schedule or (), "require": require, "warnings": warnings, "name": name or ()}
    require, switches = [usage.texts(what, value) for what, value in texts.items()][1:3]
    if threads is not None:
        thread_count(usage.integer("threads", threads))
    text, filename = read_source(source)
    for name_ in macros:
        if not name_.isidentifier():
            raise UsageError(f"macros: expected names such as TM, found {name_!r}")
    values = {key: alternatives(value) for key, value in macros.items()}
    space = Space(values, require=require, **options)
    if len(space) > 1:
        if debug:
            raise UsageError(f"debug: expected one configuration, found {len(space)}")
        return TunedKernel(text, filename, name, space, device=device, threads=threads, switches=switches)
    defines = {key: value[0] for key, value in values.items()}
    found = choose(compiled(text, filename, defines, switches), name, filename)
    single = {name: value[0] for name, value in options.items()}
    return Kernel(found.func, defines, device=device, threads=threads, debug=debug, **single)


def _listed(value: Any) -> tuple[Any, ...]:
    """Alternatives of an option; none where nobody says."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(cast("Sequence[Any]", value))
    return () if value is None else (value,)
