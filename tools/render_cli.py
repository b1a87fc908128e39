"""Renders docs/cli.md: every verb of the command line and its options, as click knows them.

python tools/render_cli.py > docs/cli.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click

from graphfuse.cli.program import cli

INTRODUCTION = """# Command line

Rendered by `make docs` from what `graphfuse VERB --help` prints; what is *repeated* may be given several times.
`graphfuse --version` prints the version, and `--debug`, anywhere on a line, adds a traceback to an error.
[Errors](errors.md) has the exit codes, [environment variables](knobs.md) what else there is to set, and
[shell completion](shell-completion.md) how a shell completes all of this."""


def contexts(context: click.Context) -> Iterator[click.Context]:
    """A command and those below it, each by its name."""
    yield context
    if isinstance(group := context.command, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, name
            yield from contexts(click.Context(command, info_name=name, parent=context))


def option_line(option: click.Option, context: click.Context) -> str:
    """Names, what it takes, what it does, its bounds and default."""
    takes = "" if option.is_flag else f" {option.make_metavar(context)}"
    notes = dict(option.get_help_extra(context))
    shown = [str(notes[key]) for key in ("range", "required") if key in notes]
    shown += ["repeated"] if option.multiple else []
    shown += [f"default: {notes['default']}"] if "default" in notes else []
    behind = f" ({'; '.join(shown)})" if shown else ""
    return f"- `{', '.join([*option.opts, *option.secondary_opts])}{takes}`: {(option.help or '').rstrip('.')}{behind}."


def main() -> None:
    """Print the page."""
    root = click.Context(cli, info_name="graphfuse")
    print(INTRODUCTION)
    for context in [*contexts(root)][1:]:
        command = context.command
        print(f"\n{'##' if context.parent is root else '###'} {context.command_path}\n\n{command.help}\n")
        print(f"`{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`\n")
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                print(option_line(parameter, context))


if __name__ == "__main__":
    main()
