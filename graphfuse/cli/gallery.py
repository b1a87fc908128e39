"""`graphfuse gallery`: files that come with graphfuse, listed and copied."""

from __future__ import annotations

from pathlib import Path

import click

from graphfuse import gallery
from graphfuse.cli.common import echo
from graphfuse.errors import UsageError
from graphfuse.files import exists, writing

_WHAT = {
    "digits.onnx": "A classifier of handwritten digits: image f32[batch, 1, 8, 8] to logits f32[batch, 10].",
    "digits.npy": "Sixteen digits that it has not been trained on: 0 1 2 ... 9 0 1 ... 5.",
}


@click.command("gallery", help="List kernels and a model to begin with, or copy those named into this folder.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def command(names: tuple[str, ...]) -> None:
    """List, or copy; a file of the user's is not replaced."""
    if not names:
        for name, path in gallery.files().items():
            echo(f"{name}\n    {_WHAT.get(name) or _first_line(path)}")
        return
    copies: dict[Path, bytes] = {}
    for name in names:
        path, data = Path(Path(name).name), gallery.path(name).read_bytes()
        if exists(path) and not (path.is_file() and path.read_bytes() == data):
            raise UsageError(f"{path} is here already, and is another file: expected a folder without it")
        if copies.setdefault(path, data) != data:
            clash = " and ".join(repr(n) for n in names if Path(n).name == path.name)
            raise UsageError(f"{clash} have one name: expected to copy them into two folders")
    for path, data in copies.items():
        with writing(path) as file:
            file.write(data)
        echo(str(path))


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("//").strip()
