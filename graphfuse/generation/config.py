"""How tokens are chosen, and when a sequence ends: the names are transformers', a temperature of 0 is greedy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from graphfuse import usage
from graphfuse.errors import UsageError, meant


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """What a caller may choose; checked when it is made.

    Raises:
        UsageError: A value is of another type, or out of its range.
    """

    max_new_tokens: int = 128
    """Of each sequence, at least 1."""
    temperature: float = 0.0
    """What logits are divided by; 0 takes the likeliest token, whatever `top_k` and `top_p` are."""
    top_k: int = 0
    """Draw from as many of the likeliest tokens, and those that are as likely as the last; 0 is all."""
    top_p: float = 1.0
    """Draw from the tokens than which likelier ones have less than this probability, in (0, 1]; behind `top_k`."""
    repetition_penalty: float = 1.0
    """Logits of tokens that the sequence has, prompt included, are divided by it, or multiplied if negative."""
    seed: int = 0
    """Of a sequence's random numbers, with the sequence's number: they depend on nothing else."""
    eos_token_ids: tuple[int, ...] = ()
    """Tokens that end a sequence. They are no text."""
    stop_strings: tuple[str, ...] = ()
    """Texts that end a sequence; neither they nor what comes behind is given out."""
    draft_tokens: int = 4
    """How many tokens a draft model proposes at once."""

    def __post_init__(self) -> None:
        for name, least, most in _INTEGERS:
            value = usage.integer(name, getattr(self, name))
            if not least <= value <= most:
                raise UsageError(f"{name}: expected an integer from {least} to {most}, found {value}")
            object.__setattr__(self, name, value)
        for name, positive, most in _NUMBERS:
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise usage.wrong(name, "a number", value)
            if not (value > 0 or (value == 0 and not positive)) or value > most or not math.isfinite(value):
                range_text = (
                    f"a number {'above' if positive else 'of at least'} 0{f' and at most {most}' * (most == 1)}"
                )
                raise UsageError(f"{name}: expected {range_text}, found {value}")
        eos: Any = self.eos_token_ids
        if not isinstance(eos, Sequence) or isinstance(eos, str):
            raise usage.wrong("eos_token_ids", "several token ids", eos)
        ids = tuple(usage.integer("eos_token_ids", i) for i in cast("Sequence[Any]", eos))
        object.__setattr__(self, "eos_token_ids", ids)
        object.__setattr__(self, "stop_strings", usage.texts("stop_strings", self.stop_strings))
        if "" in self.stop_strings:
            raise UsageError("stop_strings: expected texts of at least one character, found an empty one")

    def changed(self, **options: Any) -> GenerationConfig:
        """Another one, with other values for some fields. Raises UsageError for a name that is none."""
        known = [f.name for f in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                hint = meant(name, known) or f"; expected one of {', '.join(known)}"
                raise UsageError(f"unknown option {name!r}{hint}")
        return dataclasses.replace(self, **options)


_INTEGERS = (
    ("max_new_tokens", 1, 1 << 40), ("top_k", 0, 1 << 40), ("seed", 0, (1 << 64) - 1), ("draft_tokens", 1, 1 << 10),
)  # fmt: skip
_NUMBERS = (("temperature", False, math.inf), ("top_p", True, 1), ("repetition_penalty", True, math.inf))
