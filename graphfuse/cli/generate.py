"""`graphfuse generate`: prompts continued by a language model, as the text is made."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from graphfuse.cli.common import echo, json_option, print_json, progress
from graphfuse.cli.model_options import ModelOptions, of_model
from graphfuse.errors import UsageError, printable
from graphfuse.generation import Generator, Stream, load
from graphfuse.knobs import scope, settings

SECONDS = 0.1
"""Between two changes of the progress line."""


@click.command(
    "generate", help="Continue texts by MODEL: a folder with a genai_config.json, an ONNX model, or an artifact."
)
@of_model("dim_texts", "threads", "numerics", "precision", "device")
@click.option("--target", default="", metavar="TARGET", help="What to compile for, if not for the device as it is.")
@click.option("--prompt", "prompts", multiple=True, required=True, help="A text to continue; several are a batch.")
@click.option(
    "--tokenizer", type=click.Path(path_type=Path), metavar="FILE", help="Default: tokenizer.json beside MODEL."
)
@click.option("--draft", type=click.Path(path_type=Path), metavar="MODEL", help="A small model that proposes tokens.")
@click.option("--draft-tokens", type=int, help="How many it proposes at once.")
@click.option("--max-new-tokens", type=int, help="For each prompt.")
@click.option("--temperature", type=float, help="0 takes the likeliest token.")
@click.option("--top-k", type=int, help="Draw from so many of the likeliest tokens.")
@click.option("--top-p", type=float, help="Draw from the likeliest tokens of this probability together.")
@click.option("--repetition-penalty", type=float, help="Above 1, tokens that were there are less likely.")
@click.option("--seed", type=int, help="Of the draws.")
@click.option("--stop", "stop_strings", multiple=True, metavar="TEXT", help="A text that ends it.")
@click.option("--eos-token-id", "eos_token_ids", type=int, multiple=True, metavar="ID", help="A token that ends it.")
@click.option("--context-length", type=click.IntRange(1), metavar="N", help="How many tokens a sequence may have.")
@click.option("--quiet", is_flag=True, help="No figures on stderr.")
@json_option
def command(
    given: ModelOptions,
    target: str,
    prompts: tuple[str, ...],
    tokenizer: Path | None,
    draft: Path | None,
    context_length: int | None,
    quiet: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Load, generate, print; what no option says is as the folder's config has it."""
    options = {name: value for name, value in chosen.items() if value not in (None, ())}
    with progress("loading") as note, scope(weights=settings.weights or "mapped"):
        compiling = {"dims": given.dims, "numerics": given.numerics, "precision": given.precision, "target": target}
        generator = load(
            given.model, tokenizer=tokenizer, draft=draft, device=given.device, threads=given.threads,
            context_length=context_length, progress=note, **compiling,
        )  # fmt: skip
        _check(generator, options)
        stream = generator.stream(prompts, **options)
    meter, texts = _Meter(stream, quiet), [""] * len(prompts)
    tokens: list[list[int]] = [[] for _ in prompts]
    reasons = [""] * len(prompts)
    shown = 0
    for piece in stream:
        meter.count()
        texts[piece.row] += piece.text
        tokens[piece.row].append(piece.token)
        reasons[piece.row] = piece.finish_reason
        if as_json:
            continue
        if piece.row == shown:
            _write(piece.text)
        while shown < len(prompts) and reasons[shown]:  # the one whose turn it is, and what waited for it
            shown += 1
            _write("\n" + (texts[shown] if shown < len(prompts) else ""))
    if as_json:
        rows = zip(prompts, texts, tokens, reasons, strict=True)
        print_json([{"prompt": p, "text": t, "tokens": i, "finish_reason": r} for p, t, i, r in rows])
    meter.end()


def _check(generator: Generator, options: dict[str, Any]) -> None:
    if options.get("temperature", generator.config.temperature) == 0:
        for name in ("top_k", "top_p"):
            if name in options:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: the likeliest token is taken: expected a --temperature above 0")


def _write(text: str) -> None:
    """On stdout, at once: as it is, but for what a terminal would obey."""
    click.echo(printable(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False)


class _Meter:
    """Figures on stderr: a line that changes where nothing else is on that terminal, and one at the end."""

    def __init__(self, stream: Stream, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._is_live = sys.stderr.isatty() and not sys.stdout.isatty() and not quiet
        self._begin = self._first = self._shown = time.perf_counter()
        self._tokens = 0

    def count(self) -> None:
        """One more token."""
        now = time.perf_counter()
        self._tokens += 1
        if self._tokens == 1:
            self._first = now
        elif self._is_live and now > self._shown + SECONDS:
            self._shown = now
            click.echo(f"\r{self._figures(now)}", err=True, nl=False)

    def end(self) -> None:
        """The last line."""
        if self._quiet:
            return
        lead = "\r" if self._is_live else ""
        prompts, stream = sum(map(len, self._stream.prompts)), self._stream
        text = f"{prompts} prompt tokens, first token after {self._first - self._begin:.3f} s; "
        text += self._figures(time.perf_counter())
        if stream.proposed:
            text += f"; {stream.accepted} of {stream.proposed} draft tokens accepted"
        click.echo(lead, err=True, nl=False)
        echo(text, err=True)

    def _figures(self, now: float) -> str:
        count, seconds = self._tokens - 1, now - self._first
        rate = f", {count / seconds:.1f} tokens/s" if count and seconds > 0 else ""
        return f"{self._tokens} tokens{rate}"
