"""The stages in order, each from the text on: tokens, tree, typed tree, block functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from graphfuse.frontends.tc import ast, typed
from graphfuse.frontends.tc.check import check_unit
from graphfuse.frontends.tc.diagnostics import Reporter, StopError
from graphfuse.frontends.tc.kernel import Kernel
from graphfuse.frontends.tc.lower import lower_unit
from graphfuse.frontends.tc.offsets import find_overflows
from graphfuse.frontends.tc.parser import parse_unit
from graphfuse.frontends.tc.preprocess import Include, preprocess, read_include
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.switches import parse_switches
from graphfuse.frontends.tc.tokens import Token

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Where includes come from; whether a missing `;` is an error; whether printf and assert do anything.

    `warnings` is what stands behind `-W` on a command line: codes of findings, `no-` and a code, `extra`, `error`.
    """

    include: Include = read_include
    pedantic: bool = True
    debug: bool = False
    warnings: tuple[str, ...] = ()

    def reporter(self) -> Reporter:
        """An empty reporter that follows these options."""
        return Reporter(pedantic=self.pedantic, switches=parse_switches(self.warnings))


DEFAULTS = Options()


def tokens(
    source: str,
    filename: str = "<string>",
    defines: Mapping[str, str] | None = None,
    *,
    options: Options = DEFAULTS,
    report: Reporter | None = None,
) -> list[Token]:
    """The preprocessed tokens of a source; raises `SourceError` with everything found if any of it is an error."""
    return staged(lambda r: _tokens(source, filename, defines or {}, options, r), options, report)


def parse(
    source: str,
    filename: str = "<string>",
    defines: Mapping[str, str] | None = None,
    *,
    options: Options = DEFAULTS,
    report: Reporter | None = None,
) -> ast.Unit:
    """The tree of a source as it is written."""
    return staged(lambda r: parse_unit(_tokens(source, filename, defines or {}, options, r), r), options, report)


def check(
    source: str,
    filename: str = "<string>",
    defines: Mapping[str, str] | None = None,
    *,
    options: Options = DEFAULTS,
    report: Reporter | None = None,
) -> typed.Unit:
    """The typed tree of a source."""
    return staged(lambda r: checked(source, filename, defines or {}, options, r), options, report)


def checked(source: str, filename: str, defines: Mapping[str, str], options: Options, report: Reporter) -> typed.Unit:
    """The typed tree, which means something only if nothing was reported as an error."""
    unit = parse_unit(_tokens(source, filename, defines, options, report), report)
    out = check_unit(unit, report, defines)
    if "offset-overflow" in report.switches.on and not report.errors:
        find_overflows(out, report)
    return out


def compile_text(
    source: str,
    filename: str = "<string>",
    defines: Mapping[str, str] | None = None,
    *,
    options: Options = DEFAULTS,
    report: Reporter | None = None,
) -> tuple[Kernel, ...]:
    """The kernels of a source as block functions, in the order of the file."""
    return staged(lambda r: lowered(source, filename, defines or {}, options, r), options, report)


def lowered(
    source: str, filename: str, defines: Mapping[str, str], options: Options, report: Reporter
) -> tuple[Kernel, ...]:
    """The kernels; none if an error was reported."""
    unit = checked(source, filename, defines, options, report)
    return () if report.errors else lower_unit(unit, report, debug=options.debug)


def staged(stage: Callable[[Reporter], T], options: Options, report: Reporter | None) -> T:
    """Run a stage; raise what it reported if there is an error among it."""
    report = report or options.reporter()
    try:
        out = stage(report)
    except StopError:
        report.check()
        raise AssertionError("stopped without an error") from None
    report.check()
    return out


def _tokens(source: str, filename: str, defines: Mapping[str, str], options: Options, report: Reporter) -> list[Token]:
    return preprocess(Source(filename, source), defines, report, options.include)
