"""`graphfuse reduce`: cuts a model that fails down to the few nodes with which it still fails in the same way."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from graphfuse.artifact import HELD, Array
from graphfuse.cli.common import (
    check_written,
    echo,
    json_option,
    nbytes_text,
    print_json,
    random_array,
    read_archive,
    seed_option,
    write_archive,
)
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.cli.reduction import Ended, OutOfTimeError, chosen_of, in_child, without_chunks
from graphfuse.cli.reference import Reference, is_installed, preload, require_onnxruntime
from graphfuse.cli.verify import LOWERED, compare
from graphfuse.errors import (
    ArtifactError,
    DeviceError,
    FileError,
    GraphfuseError,
    InputError,
    ParseError,
    UnsupportedError,
    UsageError,
)
from graphfuse.knobs import scope
from graphfuse.runtime import gfx
from graphfuse.symbolic import evaluate, parse_dim, symbols

if TYPE_CHECKING:
    from graphfuse.frontends.onnx.part import Choice, Whole

OURS = (UsageError, FileError, InputError, ParseError, ArtifactError, DeviceError)
"""Errors that say something of how graphfuse was called, not of the model."""
AGAINST = ("onnxruntime", "interpreter")


@dataclass(frozen=True)
class Failure:
    """How something fails: what is the same of two that fail in the same way, and what is said of this one."""

    kind: str
    said: str


@click.command("reduce", help="Cut MODEL (.onnx), which fails, down to the few nodes with which it still does.")
@of_model("dim_texts", "threads", "numerics", "precision", "unchecked", "device")
@click.option("--when", metavar="CMD", help="It fails when this shell command does; {} is the path of a model.")
@click.option(
    "--against", type=click.Choice(AGAINST),
    help="It fails, too, when results differ from these (default: onnxruntime, if installed).",
)  # fmt: skip
@click.option("--inputs", type=click.Path(path_type=Path), help="Values of inputs (.npz); others are made up.")
@click.option("--seconds", type=click.FloatRange(1), default=300.0, show_default=True, help="Stop after this long.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("reduced.onnx"), show_default=True,
    help="Where the model goes; its inputs go beside it, as .npz.",
)  # fmt: skip
@seed_option
@json_option
def command(
    given: ModelOptions,
    when: str | None,
    against: str | None,
    inputs: Path | None,
    seconds: float,
    output: Path,
    seed: int,
    as_json: bool,
) -> None:
    """See it fail, find its values, leave out what it does not take, write what is left."""
    if when is not None and "{}" not in when:
        raise UsageError(f"--when: expected a command with {{}} for the path of a model, got {when!r}")
    archive = output.with_suffix(".npz")
    if archive == output:
        raise UsageError(f"--output: expected a name for a model, got {str(output)!r}")
    check_written({"--output": output, "--output: its inputs": archive}, given.model, [f"={inputs}"] if inputs else ())
    if gfx.is_artifact(given.model):
        raise UsageError(f"{given.model} is an artifact: expected an ONNX model")
    if against == "onnxruntime":
        require_onnxruntime()
    fed = read_archive(inputs) if inputs else {}
    with _noted() as note:
        search = Search(given, when, against or AGAINST[not is_installed()], time.monotonic() + seconds, note)
        found = search.run(fed, seed)
    from graphfuse.frontends.onnx.part import save

    save(found.model, output)
    write_archive(archive, found.feed)
    again = search.again(output, archive)
    ops = [n.op_type for n in found.model.graph.node]
    if as_json:
        print_json(
            {"model": str(output), "inputs": str(archive), "nodes": ops, "of": search.count, "kind": found.failure.kind,
             "said": found.failure.said, "again": again, "tries": search.tries, "complete": search.is_complete}
        )  # fmt: skip
        return
    size = sum(v.nbytes for v in found.feed.values())
    echo(f"{output}: {len(ops)} of {search.count} nodes ({', '.join(ops[:8])}{', ...' * (len(ops) > 8)})")
    echo(f"{archive}: {len(found.feed)} input{'s' * (len(found.feed) != 1)}, {nbytes_text(size)}")
    if not search.is_complete:
        echo(f"stopped after {seconds:g} s: more may be left out (--seconds)")
    echo(f"it fails: {found.failure.said}")
    echo(f"again: {again}")


@contextlib.contextmanager
def _noted() -> Generator[Callable[[str], None]]:
    """A line on stderr, on a terminal only; no thread draws it, as processes are forked."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield lambda text: click.echo(f"\r\x1b[2Kreducing: {text}", nl=False, err=True)
    finally:
        click.echo("\r\x1b[2K", nl=False, err=True)


@dataclass(frozen=True)
class Found:
    """A part that fails."""

    model: Any
    feed: dict[str, Array]
    failure: Failure


@dataclass
class Search:
    """One search: what is tried, and the best so far."""

    given: ModelOptions
    when: str | None
    against: str
    end: float
    """When to stop, on the monotonic clock."""
    note: Callable[[str], None]
    """Called with what is done."""
    tries: int = 0
    count: int = 0
    """Nodes of the whole."""
    is_complete: bool = True
    _tried: dict[Choice, bool] = field(default_factory=dict["Choice", bool])

    def run(self, given: Mapping[str, Array], seed: int) -> Found:
        """The smallest part found. Raises UsageError where nothing fails, and `OURS` as they are."""
        # what reads and writes models imports onnx, which showing help need not
        from graphfuse.frontends.onnx.part import Whole

        preload()
        for module in ("graphfuse.tuner", "graphfuse.host.build"):
            importlib.import_module(module)  # once, and not in each child
        with tempfile.TemporaryDirectory() as folder, scope(cache="0"):
            self._folder = Path(folder)
            self._whole = whole = Whole(self.given.model, dict(given))
            whole.feed = made_up(self.given, whole, given, seed)
            self.count = len(whole.nodes)
            begin = time.monotonic()
            self._failure = self._of_whole(whole.feed)
            self._each = 10 + 10 * (time.monotonic() - begin)
            everything = whole.part(whole.everything())
            if everything is None:
                raise UsageError(f"{self.given.model}: expected a model with nodes, found none")
            self._best = Found(*everything, self._failure)
            try:
                whole.values = self._values(*everything)
                self._reduce(whole)
            except OutOfTimeError:
                self.is_complete = False
        return self._best

    def again(self, model: Path, inputs: Path) -> str:
        """The command that shows the failure of a part."""
        name = shlex.quote(str(model))
        if self.when is not None:
            return self.when.replace("{}", name)
        chosen = {"numerics": self.given.numerics, "precision": self.given.precision, "device": self.given.device}
        words = [f"--{option} {shlex.quote(value)}" for option, value in chosen.items() if value]
        rest = " ".join([name, f"--inputs {shlex.quote(str(inputs))}", *words])
        if self._failure.kind.startswith(DIFFERS):
            return f"graphfuse verify {rest} --no-regions"
        check = "GRAPHFUSE_CHECK=1 " if self.against == "interpreter" else ""
        return f"{check}GRAPHFUSE_CACHE=0 graphfuse run {rest}{' --no-check-indices' * self.given.unchecked}"

    def _of_whole(self, feed: Mapping[str, Array]) -> Failure:
        found = self._failing(self.given.model, feed, max(self.end - time.monotonic(), 1.0))
        if isinstance(found, GraphfuseError):
            raise found
        if found is None:
            ends = f"that {self.when!r} ends with 0" if self.when else f"no error, and the results of {self.against}"
            raise UsageError(f"{self.given.model}: expected a model that fails, found {ends}")
        return found

    def _values(self, everything: Any, feed: Mapping[str, Array]) -> dict[str, Array]:
        """What all nodes make, as far as something can run them: ONNX Runtime, or onnx's evaluator."""
        from graphfuse.frontends.onnx.part import evaluated, save

        path = self._folder / "everything.onnx"
        save(everything, path)
        runs: list[Callable[[], dict[str, Any]]] = [lambda: evaluated(path, feed)]
        if is_installed():
            runs.insert(0, lambda: Reference(path, 1)(feed))
        for run in runs:
            found = in_child(run, max(self.end - time.monotonic(), 1.0))
            if not isinstance(found, Ended):
                return {n: v for n, v in found.items() if isinstance(v, np.ndarray)}
        return {}

    def _reduce(self, whole: Whole) -> None:
        from graphfuse.frontends.onnx.part import Choice

        outputs = frozenset(whole.outputs)

        def of_outputs(names: Sequence[str]) -> bool:
            return self._fails(Choice(whole.needed(names), frozenset(names)))

        everything = tuple(range(len(whole.nodes)))
        kept = whole.needed(without_chunks(tuple(whole.outputs), of_outputs))
        choice = Choice(kept if self._fails(Choice(kept, outputs)) else everything, outputs)
        for constant in (True, False):  # a value that decides may be what it takes, or that it is known
            choice = self._fewest(dataclasses.replace(choice, constant=constant)) or choice
        simpler: list[dict[str, Any]] = [{"outputs": frozenset[str]()}, {"static": True}]
        for change in simpler:
            if self._fails(other := dataclasses.replace(choice, **change)):
                choice = other
        for name in whole.large_constants(choice.nodes):
            if self._fails(other := dataclasses.replace(choice, ones=choice.ones | {name})):
                choice = other

    def _fewest(self, choice: Choice) -> Choice | None:
        """The fewest of a choice's nodes; None where even all do not fail."""
        if not self._fails(choice):
            return None
        found = chosen_of(choice.nodes, lambda some: self._fails(dataclasses.replace(choice, nodes=some)))
        return dataclasses.replace(choice, nodes=found)

    def _fails(self, choice: Choice) -> bool:
        """Whether a part fails in the way of the whole; it is kept then, as what is tried grows ever smaller."""
        if choice in self._tried:
            return self._tried[choice]
        if time.monotonic() >= self.end:
            raise OutOfTimeError
        made = self._whole.part(choice)
        failure = None
        if made is not None:
            from graphfuse.frontends.onnx.part import save

            self.tries += 1
            path = self._folder / "part.onnx"
            save(made[0], path)
            failure = self._failing(path, made[1], min(self._each, max(self.end - time.monotonic(), 1.0)))
        is_same = isinstance(failure, Failure) and failure.kind == self._failure.kind
        if made is not None and isinstance(failure, Failure) and is_same:
            self._best = Found(*made, failure)
            self.note(f"{len(choice.nodes)} of {self.count} nodes, {self.tries} tries")
        self._tried[choice] = is_same
        return is_same

    def _failing(self, path: Path, feed: Mapping[str, Array], seconds: float) -> Failure | GraphfuseError | None:
        if self.when is not None:
            return of_command(self.when, path, seconds)
        given = dataclasses.replace(self.given, model=path)
        found = in_child(lambda: of_model_file(given, feed, self.against), seconds)
        if isinstance(found, Ended):
            return Failure(found.how, f"the process {found.how}") if found.is_own else None
        return found


DIFFERS = "differs"


def of_model_file(given: ModelOptions, feed: Mapping[str, Array], against: str) -> Failure | GraphfuseError | None:
    """How a model fails on these inputs; an error of `OURS` as it is."""
    given = dataclasses.replace(given, dim_texts=_dims_of(given))
    try:
        with scope(check=against == "interpreter"):
            model = given.open()
            taken = {s.name: s.elem for s in model.signature.inputs}
            found = model({n: v for n, v in feed.items() if n in taken})
    except OURS as e:
        return e
    except Exception as e:  # noqa: BLE001  # any, as what is looked for is a bug
        said = str(e) if isinstance(e, GraphfuseError) else f"internal error: {type(e).__name__}: {e}"
        return Failure(f"{type(e).__name__} in {_where(e)}", " ".join(said.split())[:300])
    if against == "interpreter":
        return None
    try:
        wanted = Reference(given.model, model.session.threads)(feed)
    except GraphfuseError:
        return None
    held = {s.name for s in model.signature.outputs if s.elem in HELD}
    wanted = {n: v for n, v in wanted.items() if n not in held}
    bad = [r for r in compare(found, wanted, LOWERED.get(given.precision, 0.0)) if not r["ok"]]
    if not bad:
        return None
    if bad[0]["error"] is None:
        return Failure(f"{DIFFERS} in type", f"output {bad[0]['name']!r} has another type than in ONNX Runtime")
    off, allowed = bad[0]["error"], bad[0]["tolerance"]
    said = f"output {bad[0]['name']!r} is {off:.2g} standard deviations from ONNX Runtime's, {allowed:.0e} is allowed"
    return Failure(DIFFERS, said)


def _dims_of(given: ModelOptions) -> tuple[str, ...]:
    """What `--dim` says of dims that the inputs of a part still have."""
    if not given.ranges:
        return given.dim_texts
    from graphfuse.frontends.onnx.part import dim_names

    known = dim_names(given.model)
    return tuple(text for text in given.dim_texts if text.partition("=")[0] in known)


def _where(error: BaseException) -> str:
    """The innermost function of graphfuse in which it was raised, or else the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "graphfuse" in Path(f.filename).parts] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "nowhere"


def of_command(when: str, path: Path, seconds: float) -> Failure | None:
    """How a shell command fails on a model; not at all where it takes too long."""
    line, nothing = when.replace("{}", shlex.quote(str(path))), subprocess.DEVNULL
    with subprocess.Popen(
        line, shell=True, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    ) as running:
        try:
            code = running.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # what it started, too
    return Failure(f"exit status {code}", f"the command ends with {code}") if code else None


def made_up(given: ModelOptions, whole: Whole, fed: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Values of all inputs of a model, as `random_inputs` has them; those that are not tensors of numbers are `fed`."""
    rng, feed, sizes = np.random.default_rng(seed), dict[str, Array](), dict[str, int]()
    if unknown := fed.keys() - whole.inputs.keys():
        raise InputError(f"unknown input {min(unknown)!r}: expected some of {', '.join(map(repr, whole.inputs))}")
    declared = {name: whole.declared(name) for name in whole.inputs}
    for name, value in fed.items():
        if (known := declared[name]) is not None:
            sizes |= {d: n for d, n in zip(known[1], value.shape, strict=False) if isinstance(d, str)}
    for name, known in declared.items():
        if name in fed:
            feed[name] = fed[name]
            continue
        if known is None:
            raise UsageError(f"input {name!r}: expected a tensor of numbers, or its value in --inputs FILE.npz")
        dtype, shape = known
        feed[name] = random_array(name, dtype, [_size(d, {**sizes, **given.values}) for d in shape], rng)
    return feed


def _size(dim: int | str, sizes: Mapping[str, int]) -> int:
    """What a dim is, where it has no value, nor those that it is made of: 1."""
    if isinstance(dim, int) or dim in sizes:
        return dim if isinstance(dim, int) else sizes[dim]
    with contextlib.suppress(ParseError, UnsupportedError):
        parsed = parse_dim(dim)
        return evaluate(parsed, {s: sizes.get(s, 1) for s in symbols(parsed)})
    return 1
