"""`graphfuse check`: PTX of any compiler on the emulator, its accesses checked and its results compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.cli.common import echo, json_option, print_json, seed_option
from graphfuse.errors import UsageError
from graphfuse.files import check_outputs, read_source, writing
from graphfuse.gpu.emulator import Emulator
from graphfuse.gpu.emulator.check import Checked, Launch, check_ptx, kernel_of, read_reference
from graphfuse.gpu.emulator.parse import Kernel
from graphfuse.kernels.values import grid_of, typed_value

SIZES = "X[,Y[,Z]]"


@click.command("check", help="Run a kernel of FILE (.ptx, of any compiler) on the emulator, with every access checked.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kernel", "name", default="", help="Which kernel of the file.")
@click.option("--grid", default="1", show_default=True, metavar=SIZES, help="Blocks.")
@click.option("--block", metavar=SIZES, help="Threads of a block; by default what the file requires.")
@click.option("--cluster", metavar=SIZES, help="Blocks of a cluster; by default what the file requires.")
@click.option("--shared", "shared_bytes", default=0, type=click.IntRange(0), help="Bytes of dynamic shared memory.")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="Of each parameter, in order: a number, FILE.npy or ELEM:FILL(N,..) as in f32:random(8,64); "
    "fills are random, zeros, ones, arange and empty.",
)
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="A file of Python whose `reference(...)` is called with all arguments, and changes arrays as the kernel does.",
)
@click.option("--tolerance", type=click.FloatRange(0), help="Errors allowed, as a part of an element.")
@click.option("--seeds", default=2, show_default=True, type=click.IntRange(1), help="Runs, in other orders of warps.")
@click.option("--save", "saves", multiple=True, metavar="NAME=FILE.npy", help="Write an array there after a run.")
@seed_option
@json_option
def command(file: Path, name: str, args: Sequence[str], as_json: bool, **options: Any) -> None:
    """Run after run, until one finds something."""
    text = read_source(file)
    kernel = kernel_of(Emulator(text, name=str(file)), name)
    launch = _launch(kernel, args, options)
    outputs = _outputs(options["saves"], launch, file)
    reference = read_reference(options["reference"]) if options["reference"] else None

    def run(seed: int) -> Checked:
        return check_ptx(Emulator(text, name=str(file), seed=seed), launch, reference, options["tolerance"])

    first = options["seed"]
    done = run(first)
    for seed in range(first + 1, first + options["seeds"]):
        if done.is_wrong:
            break
        done = run(seed)
    for array, path in outputs.items():
        with writing(path) as out:
            np.save(out, done.arguments[array])
    if as_json:
        print_json({"findings": [f.to_json() for f in done.findings]})
    else:
        if done.report is not None:
            echo(str(done.report))
        for f in done.findings:
            if not f.is_note:  # those are in the report
                echo(str(f), err=True)
    if done.is_wrong:
        raise click.exceptions.Exit(1)
    if not as_json:
        echo("nothing wrong" if done.findings else "no findings")


def _launch(kernel: Kernel, args: Sequence[str], options: dict[str, Any]) -> Launch:
    block = options["block"] or ",".join(map(str, kernel.limits.get("reqntid", ())))
    if not block:
        raise UsageError("--block: expected the threads of a block: the file requires none")
    names = [p.name for p in kernel.params]
    given: dict[str, str] = {}
    for i, text in enumerate(args):
        name, has_name, value = text.partition("=")
        if not has_name:
            name, value = names[i] if i < len(names) else "", text
        if name not in names or name in given:
            raise UsageError(f"--arg {text}: expected one for each of {', '.join(names) or 'no parameter'}")
        given[name] = value.strip()
    if missing := [n for n in names if n not in given]:
        raise UsageError(f"--arg: no value for {missing[0]!r} of {', '.join(names)}")
    rng = np.random.default_rng(options["seed"])
    found = {n: typed_value(n, given[n], rng) for n in names}
    return Launch(
        kernel=kernel.name, grid=grid_of(options["grid"], {}), block=grid_of(block, {}),
        cluster=grid_of(options["cluster"], {}) if options["cluster"] else (), shared_bytes=options["shared_bytes"],
        arguments={n: value for n, (value, _) in found.items()},
        empty=frozenset(n for n, (_, is_empty) in found.items() if is_empty),
    )  # fmt: skip


def _outputs(saves: Sequence[str], launch: Launch, file: Path) -> dict[str, Path]:
    outputs: dict[str, Path] = {}
    for saved in saves:
        name, _, path = saved.partition("=")
        arrays = [n for n, v in launch.arguments.items() if isinstance(v, np.ndarray)]
        if not path or name not in arrays:
            raise UsageError(f"--save: expected NAME=FILE.npy with one of {', '.join(arrays) or 'none'}, got {saved!r}")
        outputs[name] = Path(path)
    check_outputs({f"--save {n}": p for n, p in outputs.items()}, (file,))
    return outputs
