"""The verbs, and how a command line ends.

Owns exit codes and the form of errors: one line on stderr, the exit code of the error's class, and no
traceback without `--debug`.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence

import click

from graphfuse import __version__
from graphfuse.cli.exit_codes import BROKEN_PIPE, INTERNAL_ERROR, INTERRUPTED
from graphfuse.errors import FileError, GraphfuseError, TooLargeError, UsageError, printable
from graphfuse.files import reason
from graphfuse.knobs import check_environment

STDOUT_FAILS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)
"""Errors without a file's name: a disk behind `>` is full, or gone."""

VERBS = {
    "compile": "Compile an ONNX model to an artifact.",
    "run": "Run a model or an artifact once.",
    "generate": "Continue texts by a language model.",
    "bench": "Time a model, alone or beside ONNX Runtime.",
    "profile": "Time each kernel of a model, the slowest first.",
    "verify": "Compare a model with ONNX Runtime and its regions with the interpreter.",
    "quantize": "Round a model's weights to 4 or 8 bits.",
    "reduce": "Cut a model that fails down to a few nodes.",
    "explain": "Show which operators are one kernel, and why others are not.",
    "inspect": "Show what an artifact is made of.",
    "kernel": "Compile, check, run or tune a kernel written in Triton-C.",
    "check": "Check a kernel in PTX, of any compiler, on the emulator.",
    "gallery": "Kernels and a model to begin with.",
    "lsp": "A language server for Triton-C.",
    "opt": "Run passes over IR text.",
    "cache": "The cache of compiled models.",
    "knobs": "List the GRAPHFUSE_* environment variables.",
    "errors": "List the errors and their exit codes.",
}


class _Verbs(click.Group):
    """Imports a verb's file when the verb is used, so that `--help` and typos cost nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"graphfuse.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))
        formatter.write("\nDocumentation: https://github.com/graphfuse/graphfuse/tree/main/docs\n")


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks; may stand anywhere on the line.")
@click.version_option(__version__)
def cli(debug: bool) -> None:
    """Compile tensor graphs into a few fused kernels, and run them."""


def run_line(args: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    _mend_streams()
    try:
        if odd := [a for a in args if "\0" in a]:  # which no shell can pass, nor any file be called
            raise UsageError(f"expected words without a NUL, found {odd[0]!r}")
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            check_environment()
            _begin_device(args)
            code = cli.main(args=args, prog_name="graphfuse", standalone_mode=False)
        if not sys.stdout.closed:  # a language server ends with its streams
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe is gone
        _forget_stdout()
        return BROKEN_PIPE
    except BaseException as e:  # noqa: BLE001  # the one place where errors become exit codes
        return _report(e, debug)
    return code if isinstance(code, int) else 0


def _begin_device(args: Sequence[str]) -> None:
    """Let the driver of a device that a line names begin what takes it long, while what it is for is imported."""
    line = "\0".join(["", *args, ""])
    if m := re.search(r"\0--device[=\0]([a-z]+)(?::(\d{1,3}))?\0", line):
        with contextlib.suppress(ModuleNotFoundError):  # few have anything to begin
            importlib.import_module(f"graphfuse.runtime.{m[1]}.early").begin_context(int(m[2] or 0))


def _show_warning(message: Warning | str, *_: object) -> None:
    click.echo(printable(f"warning: {message}", keep="\n\t"), err=True)


def _mend_streams() -> None:
    """Streams that were closed lead nowhere, and what no encoding has is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # for good
        elif mode == "w" and hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError):  # a file's, behind which a pipe was put
                stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Python would complain of it once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _report(error: BaseException, debug: bool) -> int:
    """Say what went wrong in one line, and with what code to leave."""
    if debug and not isinstance(error, click.exceptions.NoArgsIsHelpError):
        traceback.print_exception(error)
    match error:
        case GraphfuseError():
            message, code = str(error), error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            message, code = error.format_message(), 2
        case click.ClickException():
            message, code = f"error: {_lowered(error.format_message())}", 2
        case click.exceptions.Exit():
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            message, code = "interrupted", INTERRUPTED
        case SystemExit() if isinstance(error.__context__, BrokenPipeError) or _is_pacified():
            return BROKEN_PIPE  # click or rich saw it first
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case OSError() if error.filename is None and error.errno in STDOUT_FAILS:
            _forget_stdout()
            message, code = f"error: cannot write to standard output: {reason(error)}", FileError.exit_code
        case MemoryError():
            message, code = "error: it takes more memory than there is", TooLargeError.exit_code
        case _:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            message, code = f"internal error: {text[:300]}; rerun with --debug", INTERNAL_ERROR
    with contextlib.suppress(OSError):  # nobody is told
        click.echo(printable(message, keep="\n\t"), err=True)
    return code


def _is_pacified() -> bool:
    """Whether click has put something in the place of stdout, as it does when a pipe's reader is gone."""
    return type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def _lowered(message: str) -> str:
    """Click's sentences in the form of graphfuse's errors."""
    first = message.split("\n", maxsplit=1)[0].strip().rstrip(".")
    return first[:1].lower() + first[1:]
