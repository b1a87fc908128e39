"""The command line: one file per verb, loaded when it is asked for.

Owns exit codes and the form of errors: one line on stderr, the exit code of the error's class, and no
traceback without `--debug`.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from graphfuse.errors import GraphfuseError
from graphfuse.knobs import check_environment

INTERNAL_ERROR = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

VERBS = {
    "compile": "Compile an ONNX model to an artifact.",
    "run": "Run a model or an artifact once.",
    "bench": "Time a model, alone or beside ONNX Runtime.",
    "verify": "Compare a model with ONNX Runtime and its regions with the interpreter.",
    "inspect": "Show what an artifact is made of.",
    "kernel": "Compile, check, run or tune a kernel written in Triton-C.",
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


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks; may stand anywhere on the line.")
@click.version_option(package_name="graphfuse")
def cli(debug: bool) -> None:
    """Compile tensor graphs into a few fused kernels, and run them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    try:
        check_environment()
        code = cli.main(args=args, prog_name="graphfuse", standalone_mode=False)
        if not sys.stdout.closed:  # a language server ends with its streams
            sys.stdout.flush()
    except BrokenPipeError:
        # the reader of the pipe is gone; python would complain once more when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except BaseException as e:  # noqa: BLE001  # the one place where errors become exit codes
        return _report(e, debug)
    return code if isinstance(code, int) else 0


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
        case SystemExit() if isinstance(error.__context__, BrokenPipeError):
            return BROKEN_PIPE  # click or rich saw it first
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case _:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            message, code = f"internal error: {text[:300]}; rerun with --debug", INTERNAL_ERROR
    click.echo(message, err=True)
    return code


def _lowered(message: str) -> str:
    """Click's sentences in the form of graphfuse's errors."""
    first = message.split("\n", maxsplit=1)[0].strip().rstrip(".")
    return first[:1].lower() + first[1:]
