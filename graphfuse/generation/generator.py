"""The loop: prompts are read, tokens are chosen and fed, one at a time, or several that a draft model proposed.

All that is known of a sequence is fed but its last token, so that the first token is made as the ones after it are:
each turn feeds the last token, and what a draft proposed behind it, and keeps what the target would have chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import Array
from graphfuse.errors import InputError, UsageError
from graphfuse.generation.config import GenerationConfig
from graphfuse.generation.decoder import Cache, Decoder
from graphfuse.generation.sampling import choose
from graphfuse.generation.text import TextStream, Tokenizer

Prompt = str | Sequence[int]
FinishReason = Literal["", "stop", "length"]
"""Nothing, while a sequence goes on; a token or text that ends it; `max_new_tokens`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One more token of a sequence, and the text that is certain with it (none, without a tokenizer)."""

    row: int
    token: int
    text: str
    finish_reason: FinishReason = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """All that was generated for one prompt. `tokens` has the one that ended it, `text` has not."""

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason


class Generator:
    """Continues prompts: a decoder, its tokenizer, and what is chosen where a call does not say.

        generator = graphfuse.generation.load("model/", device="cuda")
        for piece in generator.stream("Once upon a time", max_new_tokens=64, temperature=0.8):
            print(piece.text, end="")

    With a `draft`, a smaller decoder of the same tokens, what is generated is the same, sampled tokens too, as far as
    the target's logits of several tokens at once are those of one after the other: to a rounding.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer | None = None,
        config: GenerationConfig | None = None,
        *,
        draft: Decoder | None = None,
    ) -> None:
        self.decoder, self.tokenizer, self.draft = decoder, tokenizer, draft
        self.config = config or GenerationConfig()

    def stream(self, prompts: Prompt | Sequence[Prompt], *, first_row: int = 0, **options: Any) -> Stream:
        """Tokens as they are chosen, of all prompts in turns.

        Args:
            prompts: A prompt, or several that are continued side by side: a text, or token ids.
            first_row: The number of the first prompt: random numbers depend on it and on the seed alone.
            options: Fields of `GenerationConfig` that are not as in `config`.

        Raises:
            UsageError: An option or a prompt is none.
            InputError: A prompt is empty, has tokens that the model does not know, or is too long, or there are more
                of them than the model takes. Nothing has been run then.
        """
        return Stream(self, self._tokens(prompts), self.config.changed(**options), first_row)

    def generate(self, prompts: Prompt | Sequence[Prompt], *, first_row: int = 0, **options: Any) -> list[Completion]:
        """What `stream` gives in the end, for each prompt."""
        stream = self.stream(prompts, first_row=first_row, **options)
        pieces: list[list[Piece]] = [[] for _ in stream.prompts]
        for piece in stream:
            pieces[piece.row].append(piece)
        return [
            Completion(tuple(p.token for p in row), "".join(p.text for p in row), row[-1].finish_reason)
            for row in pieces
        ]

    def _tokens(self, prompts: Any) -> list[list[int]]:
        if isinstance(prompts, np.ndarray):
            prompts = cast("Array", prompts).tolist()
        if isinstance(prompts, str) or (isinstance(prompts, Sequence) and prompts and _is_integer(prompts[0])):
            prompts = [prompts]
        if not isinstance(prompts, Sequence) or isinstance(prompts, bytes):
            raise usage.wrong("prompts", "a text, token ids, or several of these", prompts)
        found: list[list[int]] = []
        for row, prompt in enumerate(cast("Sequence[Any]", prompts)):
            if isinstance(prompt, str):
                if self.tokenizer is None:
                    raise UsageError(f"prompt {row} is a text, and there is no tokenizer: expected token ids")
                ids = self.tokenizer.encode(prompt)
            elif isinstance(prompt, (Sequence, np.ndarray)):
                ids = [usage.integer(f"prompt {row}", i) for i in cast("Sequence[Any]", prompt)]
            else:
                raise usage.wrong(f"prompt {row}", "a text or token ids", prompt)
            if not ids:
                raise InputError(f"prompt {row} has no tokens: expected at least one")
            vocabulary = self.decoder.vocabulary
            if odd := [i for i in ids if not 0 <= i < vocabulary]:
                raise InputError(f"prompt {row}: expected token ids from 0 to {vocabulary - 1}, found {odd[0]}")
            found.append(ids)
        if not found:
            raise UsageError("prompts: expected at least one, found none")
        return found


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


class _Row:
    """One sequence."""

    def __init__(self, number: int, text: TextStream, config: GenerationConfig) -> None:
        self.number, self.count, self.is_open = number, 0, True
        self._text, self._config = text, config

    def take(self, token: int) -> Piece:
        """The next token of it."""
        self.count += 1
        reason: FinishReason = "length" if self.count == self._config.max_new_tokens else ""
        if token in self._config.eos_token_ids:
            text, reason = "", "stop"
        else:
            text, stopped = self._text.push(token)
            if stopped:
                self.is_open = False
                return Piece(self.number, token, text, "stop")
        if reason:
            self.is_open = False
            text += self._text.flush()
        return Piece(self.number, token, text, reason)


class Stream(Iterator[Piece]):
    """Pieces, as they are made; those of one token of each sequence follow one another."""

    def __init__(
        self, generator: Generator, prompts: list[list[int]], config: GenerationConfig, first_row: int
    ) -> None:
        self.prompts, self.config = prompts, config
        self.proposed = self.accepted = 0
        """Tokens of the draft, so far."""
        if config.stop_strings and generator.tokenizer is None:
            raise UsageError("stop_strings: expected a tokenizer, found none")
        self._numbers = range(first_row, first_row + len(prompts))
        if not 0 <= usage.integer("first_row", first_row) < 1 << 62:
            raise UsageError(f"first_row: expected a number of at least 0, found {first_row}")
        longest = max(map(len, prompts))
        decoders = [d for d in (generator.decoder, generator.draft) if d is not None]
        most = min(d.context_length for d in decoders)
        if longest + config.max_new_tokens > most:
            found = f"{longest} and {config.max_new_tokens}"
            raise InputError(f"expected up to {most} tokens, of a prompt and max_new_tokens together, found {found}")
        self._caches = [d.cache(len(prompts), longest + config.max_new_tokens) for d in decoders]
        is_ragged = len(prompts) > 1 and (len({len(p) for p in prompts}) > 1 or len(decoders) > 1)
        if is_ragged and not all(d.takes_padding for d in decoders):
            raise InputError("the model does not leave padding out: expected one prompt, or prompts of one length")
        self._rows = [
            _Row(i, TextStream(generator.tokenizer, config.stop_strings), config) for i in range(len(prompts))
        ]
        self._vocabulary = generator.decoder.vocabulary
        self._pieces = self._run()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        return next(self._pieces)

    def _run(self) -> Iterator[Piece]:
        target, *drafts = self._caches
        behind = self._read()
        seen = np.zeros((len(self.prompts), self._vocabulary if self.config.repetition_penalty != 1 else 0), np.bool_)
        for row, prompt in enumerate(self.prompts if seen.size else ()):
            seen[row, prompt] = True
        last = np.array([p[-1] for p in self.prompts])
        while (is_open := np.array([r.is_open for r in self._rows])).any():
            before = target.lengths
            fed = self._propose(drafts[0], last, is_open, seen) if drafts else last[:, None]
            logits = np.asarray(target.feed(fed)) if behind is None else behind
            behind = None
            if logits.shape[1] != fed.shape[1]:
                raise UsageError("a draft: expected a model that gives logits of all tokens, found those of the last")
            goes_on, kept = is_open, np.zeros_like(before)
            for step in range(fed.shape[1]):
                rows: list[int] = np.flatnonzero(goes_on).tolist()
                chosen = self._choose(logits[:, step], rows, seen, 0)
                last[rows] = chosen
                kept[rows] += 1
                for row, token in zip(rows, chosen.tolist(), strict=True):
                    yield self._rows[row].take(token)
                goes_on = goes_on & [r.is_open for r in self._rows]
                if step + 1 < fed.shape[1]:
                    self.proposed += int(goes_on.sum())
                    goes_on &= last == fed[:, step + 1]
                    self.accepted += int(goes_on.sum())
            if drafts:
                for cache in self._caches:
                    cache.rewind(np.where([r.is_open for r in self._rows], before + kept, 0))

    def _read(self) -> Array | None:
        """Read the prompts: the logits [batch, 1, vocabulary] behind them, or None if last tokens are still to feed.

        A draft's proposals are fed together with the last token.
        """
        target, *drafts = self._caches
        if drafts:
            for cache in self._caches if max(map(len, self.prompts)) > 1 else ():
                cache.read([p[:-1] for p in self.prompts])
            return None
        if (found := target.read(self.prompts)) is not None:
            return np.stack(found)[:, None]
        target.rewind(target.lengths - 1)
        return None

    def _choose(self, logits: Array, rows: list[int], seen: Array, ahead: int) -> Array:
        """The next tokens of some sequences, `ahead` tokens behind what they have; they are `seen` then."""
        numbers = [self._numbers[row] for row in rows]
        places = [self._rows[row].count + ahead for row in rows]
        chosen = choose(logits[rows, : self._vocabulary], self.config, seen[rows, : logits.shape[-1]], numbers, places)
        if seen.size:
            seen[rows, chosen] = True
        return chosen

    def _propose(self, draft: Cache, last: Array, is_open: Array, seen: Array) -> Array:
        """The last token of each sequence and those that the draft puts behind it, i64 [batch, steps].

        The draft reads all of them, as the target will.
        """
        left = min(self.config.max_new_tokens - r.count for r in self._rows if r.is_open)
        depth = min(self.config.draft_tokens, left - 1)
        rows, seen, fed = np.flatnonzero(is_open).tolist(), seen.copy(), last[:, None]
        for ahead in range(depth + 1):
            logits = np.asarray(draft.feed(fed[:, -1:]))
            if ahead < depth:
                following = np.zeros((len(last), 1), np.int64)
                following[rows, 0] = self._choose(logits[:, -1], rows, seen, ahead)
                fed = np.concatenate([fed, following], 1)
        return fed
