"""`graphfuse lsp`: the language server for Triton-C."""

from __future__ import annotations

import gc

import click

from graphfuse.errors import UsageError


@click.command("lsp", help="Serve an editor of Triton-C over standard input and output.")
def command() -> None:
    """Run until the editor ends it."""
    try:
        from graphfuse.lsp.server import make_server
    except ModuleNotFoundError as e:
        raise UsageError(f"the language server needs the package {e.name}: pip install 'graphfuse[lsp]'") from None
    # each reading makes many objects that live as long as the next: to look for garbage among them takes a third of it
    gc.set_threshold(200_000, 20, 20)
    make_server().start_io()
