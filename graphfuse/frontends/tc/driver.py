"""The stages in order, each from the text on: tokens, tree, typed tree, block functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from graphfuse.frontends.tc import ast, typed
from graphfuse.frontends.tc.check import check_unit
from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.kernel import Kernel
from graphfuse.frontends.tc.lower import lower_unit
from graphfuse.frontends.tc.offsets import find_overflows
from graphfuse.frontends.tc.parser import parse_unit
from graphfuse.frontends.tc.preprocess import Include, Watch, preprocess, read_include
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.switches import parse_switches
from graphfuse.frontends.tc.tokens import Token

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Where includes come from; whether a missing `;` is an error; whether printf and assert do anything.

    `warnings` is what stands behind `-W` on a command line: codes of findings, `no-` and a code, `extra`, `error`.
    `watch` is told of each condition that is evaluated.
    """

    include: Include = read_include
    pedantic: bool = True
    debug: bool = False
    warnings: tuple[str, ...] = ()
    watch: Watch | None = None

    def reporter(self) -> Reporter:
        """An empty reporter that follows these options."""
        return Reporter(pedantic=self.pedantic, switches=parse_switches(self.warnings))


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Stage(Generic[T]):
    """All up to a stage, from the text on: `make` reports what it finds, and the stage raises it."""

    make: Callable[[Source, Mapping[str, str], Options, Reporter], T]

    def __call__(
        self,
        source: str,
        filename: str = "<string>",
        defines: Mapping[str, str] | None = None,
        *,
        options: Options = DEFAULTS,
        report: Reporter | None = None,
    ) -> T:
        """What `make` makes of a source; raises `SourceError` with everything found if any of it is an error."""
        report = report or options.reporter()
        try:
            out = self.make(Source(filename, source), defines or {}, options, report)
        except StopError:
            report.check()
            raise AssertionError("stopped without an error") from None
        report.check()
        return out


def preprocessed(source: Source, defines: Mapping[str, str], options: Options, report: Reporter) -> list[Token]:
    """The preprocessed tokens of a source."""
    return preprocess(source, defines, report, options.include, options.watch)


def parsed(source: Source, defines: Mapping[str, str], options: Options, report: Reporter) -> ast.Unit:
    """The tree of a source as it is written."""
    return parse_unit(preprocessed(source, defines, options, report), report)


def checked(source: Source, defines: Mapping[str, str], options: Options, report: Reporter) -> typed.Unit:
    """The typed tree of a source, which means something only if nothing was reported as an error."""
    out = check_unit(parsed(source, defines, options, report), report, defines)
    if "offset-overflow" in report.switches.on and not report.errors:
        find_overflows(out, report)
    return out


def lowered(source: Source, defines: Mapping[str, str], options: Options, report: Reporter) -> tuple[Kernel, ...]:
    """The kernels of a source as block functions, in the order of the file; none if an error was reported."""
    unit = checked(source, defines, options, report)
    return () if report.errors else lower_unit(unit, report, debug=options.debug)


tokens, parse, check, compile_text = Stage(preprocessed), Stage(parsed), Stage(checked), Stage(lowered)
