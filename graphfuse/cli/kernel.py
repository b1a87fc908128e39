"""`graphfuse kernel`: a Triton-C source compiled, shown, checked, run, tuned, formatted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from graphfuse.artifact import KernelMeta
from graphfuse.cli.common import echo, echo_document, json_option, print_json, seed_option, table, threads_option
from graphfuse.errors import UsageError
from graphfuse.files import check_outputs, writing
from graphfuse.frontends.tc import (
    Defines,
    Diagnostic,
    Options,
    Reporter,
    SourceError,
    compile_text,
    parse,
    parse_defines,
    tokens,
)
from graphfuse.frontends.tc.ast import to_text
from graphfuse.frontends.tc.format import format_text
from graphfuse.frontends.tc.lint import lint
from graphfuse.frontends.tc.preprocess import texts_read
from graphfuse.kernels.arguments import arrays_of
from graphfuse.kernels.checking import check
from graphfuse.kernels.configs import DEFAULT_CTAS, DEFAULT_SCHEDULES, DEFAULT_STAGES, DEFAULT_WARPS, Config, Space
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.on_gpu import resources
from graphfuse.kernels.source import choose, read_source
from graphfuse.kernels.tuner import TunedKernel
from graphfuse.kernels.values import grid_of, read_values

STAGES = ("tokens", "ast", "block", "llvm", "ptx", "asm", "sass-info")


class _WithDefines(click.Command):
    """Takes `-D...` off the line first: click would read `-DTYPE=half` as a bundle of letters."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        defines, rest = split_defines(args)
        ctx.meta["defines"] = parse_defines(defines)
        return super().parse_args(ctx, rest)


def split_defines(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of `-D` options, also those of lists that a shell cut at blanks, and the other words."""
    defines: list[str] = []
    rest: list[str] = []
    words = list(args)[::-1]
    while words:
        word = words.pop()
        if not word.startswith("-D"):
            rest.append(word)
            continue
        defines.append(word)
        text = word
        if word == "-D" and words:
            defines.append(words.pop())
            text = defines[-1]
        while text.partition("=")[2].lstrip().startswith("[") and text.count("[") > text.count("]") and words:
            defines.append(words.pop())
            text += defines[-1]
    return defines, rest


@click.command(
    "kernel", cls=_WithDefines, help="Compile FILE (.tc). -DNAME=VALUE defines a macro, -DNAME=[A,B] alternatives."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Which kernel of the file.")
@click.option("--target", default="cpu", show_default=True, help="`cpu`, `cpu:NAME` or `cuda:ARCH`.")
@click.option("--emit", "stage", type=click.Choice(STAGES), help="Print this stage, with --arg of that launch.")
@click.option("--num-warps", "warps", multiple=True, type=int, help="Warps of a program; several are alternatives.")
@click.option("--num-stages", "stages", multiple=True, type=int, help="Stages of pipelines; several are alternatives.")
@click.option("--num-ctas", "ctas", multiple=True, type=int, help="Blocks that make a program; several: alternatives.")
@click.option("--schedule", "schedules", multiple=True, help="How a product's warps take turns; several: alternatives.")
@click.option("--require", multiple=True, metavar="EXPR", help="A C expression that configurations must satisfy.")
@click.option("--lint", "linted", is_flag=True, help="Check every #if branch and every point of the -D lists.")
@click.option("--run", "run", is_flag=True, help="Launch it once.")
@click.option("--check", "checked", is_flag=True, help="Launch it with every access and promise checked.")
@click.option("-g", "debug", is_flag=True, help="`printf` prints, `assert` holds; PTX has lines of the source.")
@click.option("--tune", is_flag=True, help="Time every configuration.")
@click.option("--grid", default="1", metavar="X[,Y[,Z]]", help="C expressions over macros and numbers (default 1).")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="NAME=VALUE",
    help="A number, FILE.npy, random(N,..), zeros(..), ones, arange or empty; of `T **x` a list: `[zeros(3), null]`.",
)
@click.option("--device", default="", metavar="DEVICE", help="Where it runs: `cpu`, `cuda`, `cuda:N` or `emulator`.")
@click.option("--save", "saves", multiple=True, metavar="NAME=FILE.npy", help="Write an array there after the run.")
@click.option("--lock", type=click.Path(path_type=Path), help="Write what tuning has found to this file.")
@click.option(
    "-W",
    "warnings",
    multiple=True,
    metavar="NAME",
    help="Warnings by their code: -Woffset-overflow, -Wno-shadow, -Wextra, -Werror, -Werror=shadow.",
)
@click.option("--format", "formatted", is_flag=True, help="Print the source in standard form.")
@click.option("--write", is_flag=True, help="With --format: into the file instead.")
@seed_option
@threads_option
@json_option
@click.pass_context
def command(ctx: click.Context, file: Path, **options: Any) -> None:
    """One thing after another, as asked."""
    text, filename = read_source(file)
    defines: Defines = ctx.meta["defines"]
    report = Options(warnings=options["warnings"]).reporter()
    for warning in defines.warnings:
        report.add(warning)
    report.check()
    _echo(report.found)
    if options["formatted"]:
        _format(file, text, write=options["write"])
        return
    space = Space(
        defines.values, options["warps"] or DEFAULT_WARPS, options["stages"] or DEFAULT_STAGES, options["require"],
        options["ctas"] or DEFAULT_CTAS, options["schedules"] or DEFAULT_SCHEDULES,
    )  # fmt: skip
    try:
        if options["linted"]:
            _lint(file, text, filename, space, options)
        else:
            _go(file, text, filename, space, report, options)
    except SourceError as e:
        if options["as_json"]:
            print_json([d.to_json() for d in e.diagnostics])
        raise


def _go(file: Path, text: str, filename: str, space: Space, report: Reporter, options: dict[str, Any]) -> None:
    point = next(space.points(), None)
    if point is None:
        raise UsageError(f"no configuration satisfies {' and '.join(map(repr, space.require))}")
    if options["stage"]:
        echo_document(_emit(options["stage"], text, filename, options["name"], point, options))
        return
    before = len(report.found)
    found = choose(compile_text(text, filename, point.defines, report=report), options["name"], filename)
    _echo(report.found[before:])
    if not (options["run"] or options["checked"] or options["tune"]):
        echo(f"{file}: kernel {found.name}({', '.join(f'{p.ctype} {p.name}' for p in found.params)})")
        return
    if options["tune"] or len(space) > 1:
        if options["debug"]:
            raise UsageError("-g: expected one configuration and no --tune")
        tuned = TunedKernel(
            text, filename, options["name"], space, device=options["device"], threads=options["threads"]
        )
        kernel = tuned.variant(point)
    else:
        tuned = None
        kernel = Kernel(found.func, point.defines, **point.options, **_how(options))
    values, empty = read_values(kernel.parameters, options["args"], point.defines, options["seed"])
    _check_outputs(options, values, text, file)
    numbers = {p.name: str(values[p.name]) for p in kernel.parameters if not p.is_pointer}

    def grid(macros: Any) -> tuple[int, ...]:
        return grid_of(options["grid"], {**numbers, **{k: str(v) for k, v in macros.items()}})

    if options["checked"]:
        _check(kernel, grid, values, empty, options)
        return
    if tuned is not None:
        rows = tuned.tune(grid, (), values)
        for row in rows:
            echo(str(row))
        if options["lock"]:
            tuned.export(options["lock"])
        kernel = tuned.chosen(grid, (), values)
    start = time.perf_counter()
    kernel.launch(grid, (), values)
    seconds = time.perf_counter() - start
    _save(values, options["saves"])
    _summary(kernel, values, seconds, as_json=options["as_json"])


def _how(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("device", "threads", "debug")}


def _lint(file: Path, text: str, filename: str, space: Space, options: dict[str, Any]) -> None:
    # the checker knows of macros only
    points = {tuple(p.defines.items()): p.defines for p in space.points()}
    if not points:
        raise UsageError(f"no configuration satisfies {' and '.join(map(repr, space.require))}")
    done = lint(text, filename, points.values(), Options(warnings=options["warnings"]))
    if done.cut_off:
        message = f"stopped after {done.configurations} configurations: not every point and branch was looked at"
        done.found.append(Diagnostic("note", "lint-limit", message))
    if done.errors:
        raise SourceError(done.found)
    if options["as_json"]:
        print_json([d.to_json() for d in done.found])
        return
    _echo(done.found)
    never = f", {done.unreached} never reached" if done.unreached else ""
    counts = f"{done.points} points, {done.branches} branches{never}, {done.configurations} configurations"
    echo(f"{file}: no errors: {counts}")


def _check_outputs(options: dict[str, Any], values: dict[str, Any], text: str, file: Path) -> None:
    """What `--save` and `--lock` name must be arrays, and files that can be written and are not read."""
    outputs: dict[str, Path] = {"--lock": options["lock"]} if options["lock"] else {}
    for saved in options["saves"]:
        name, _, path = saved.partition("=")
        if not path or not isinstance(values.get(name), np.ndarray):
            arrays = [n for n, v in values.items() if isinstance(v, np.ndarray)]
            raise UsageError(f"--save: expected NAME=FILE.npy with one of {', '.join(arrays)}, got {saved!r}")
        outputs[f"--save {name}"] = Path(path)
    arrays = [Path(a.partition("=")[2].strip()) for a in options["args"]]
    check_outputs(outputs, (*map(Path, texts_read(text, str(file))), *arrays))


def _echo(findings: Iterable[object]) -> None:
    for finding in findings:
        echo(str(finding), err=True)


def _emit(stage: str, text: str, filename: str, name: str | None, point: Config, options: dict[str, Any]) -> str:
    switched = Options(warnings=options["warnings"])
    if stage == "tokens":
        return "\n".join(t.text for t in tokens(text, filename, point.defines, options=switched) if t.text) + "\n"
    if stage == "ast":
        return to_text(parse(text, filename, point.defines, options=switched)) + "\n"
    func = choose(compile_text(text, filename, point.defines, options=switched), name, filename).func
    kernel = Kernel(func, point.defines, **point.options, debug=options["debug"])
    target = options["target"]
    if stage in ("ptx", "sass-info") and not target.startswith("cuda:"):
        raise UsageError(f"--emit {stage}: expected a --target such as cuda:sm_90a, got {target!r}")
    axes, known = len(options["grid"].split(",")), None
    if options["args"]:  # what a launch with these would be
        values, _ = read_values(kernel.parameters, options["args"], point.defines, options["seed"])
        numbers = {p.name: str(values[p.name]) for p in kernel.parameters if not p.is_pointer}
        macros = {k: str(v) for k, v in point.defines.items()}
        known = kernel.known_of(grid_of(options["grid"], {**numbers, **macros}), values)
    made = kernel.compile(target, axes, known)
    code = made.code[made.target]
    if stage == "block":
        return made.ir["block"]
    if stage == "ptx":
        return code.ptx
    if stage == "sass-info":
        taken = (f"{k}: {'unknown' if v < 0 else v}" for k, v in resources(made.kernels[0]).items())
        return "\n".join([*taken, *code.warnings]) + "\n"
    return kernel.stage_text(stage, target, axes, known)


def _format(file: Path, text: str, *, write: bool) -> None:
    done = format_text(text)
    if not write:
        echo_document(done)
    elif done != text:
        with writing(file) as out:
            out.write(done.encode())


def _check(kernel: Kernel, grid: Any, values: dict[str, Any], empty: frozenset[str], options: dict[str, Any]) -> None:
    said = partial(echo, err=options["as_json"])
    found = check(kernel, grid, values, empty, emulate=options["device"] != "cpu", out=said)
    if options["as_json"]:
        print_json({"findings": [f.to_json() for f in found]})
    _echo(found)
    if not all(f.is_note for f in found):
        raise click.exceptions.Exit(1)
    if not options["as_json"]:
        echo("no findings" if not found else "nothing wrong")


def _save(values: dict[str, Any], texts: Sequence[str]) -> None:
    for text in texts:
        name, _, path = text.partition("=")
        with writing(Path(path)) as out:
            np.save(out, values[name])


def _taken(meta: KernelMeta) -> dict[str, int | None]:
    """What is not known is null."""
    return {name: None if value < 0 else value for name, value in resources(meta).items()}


def _summary(kernel: Kernel, values: dict[str, Any], seconds: float, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    memory = kernel.bind((), values).memory
    for p, array in arrays_of(kernel.parameters, memory):
        if p.mode != "r":
            x = np.asarray(array.owner).astype(np.float64)
            stats = {"mean": float(x.mean()), "min": float(x.min()), "max": float(x.max())} if x.size else {}
            rows.append({"name": p.name, "elem": p.elem.name, "shape": list(x.shape), **stats})
    if as_json:
        print_json({"milliseconds": seconds * 1e3, "arrays": rows, "kernels": [_taken(m) for m in kernel.compiled]})
        return
    cells = [
        (r["name"], f"{r['elem']}{r['shape']}", *(f"{r[k]:.6g}" if k in r else "" for k in ("mean", "min", "max")))
        for r in rows
    ]
    title = f"{kernel.name}: {seconds * 1e3:.2f} ms with compiling"
    table(title, ("array", "type", "mean", "min", "max"), cells, right=2)
