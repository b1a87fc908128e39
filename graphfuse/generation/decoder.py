"""A decoder: token ids and the keys and values so far to logits. What it calls its tensors, and what padding it takes.

A cache holds the keys and values of some sequences, of different lengths:

- `SharedCache` is the state of a `graphfuse.Session`, written in place: sequences begin at its start, and a sequence's
  new tokens lie behind its old ones, so that what is shorter is padded on the right. What padding leaves behind a
  sequence's end is seen by nothing, and written over later.
- `GrowingCache` is what a model returns, one column longer for each token of the longest sequence, as exporters of
  transformers write it: sequences end at its end, and what is shorter is padded on the left.

The attention mask says what is padding. That a model leaves it out, wherever it takes positions from, is not taken on
trust: it is tried, with a few tokens, where something depends on it.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphfuse.artifact import Array, TensorSpec, elem_dtype
from graphfuse.compiled_model import CHECKED, CompiledModel
from graphfuse.errors import InputError, UsageError
from graphfuse.stages import artifact_precision
from graphfuse.stateful import Session
from graphfuse.symbolic import bounds

PAD = 0
"""The token that padding is; no model sees it."""
LOGITS_AT_ONCE = 1 << 26
"""Elements: longer prompts are read in chunks."""
FEW = 16
"""Tokens that are fed at once, if they are no prompt: those of a step, or of a draft."""


@dataclass(frozen=True)
class Interface:
    """What a decoder calls its inputs and outputs.

    `caches` are pairs of an input and the output that it becomes, with `%d` for the layer. An input that no pair fits
    is a cache if there is an output of its name with `present` for `past` or `past_key_values`.
    """

    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    logits: str = "logits"
    caches: tuple[tuple[str, str], ...] = ()

    def pairs(self, inputs: Sequence[str], outputs: Collection[str]) -> dict[str, str]:
        """Caches by the names of inputs, each with its output. Raises UsageError for a model that is no decoder."""
        for kind, name, known in (("input", self.input_ids, inputs), ("output", self.logits, outputs)):
            if name not in known:
                raise UsageError(f"not a decoder: expected an {kind} {name!r}, found {', '.join(known)}")
        fed = (self.input_ids, self.attention_mask, self.position_ids)
        found = {name: self._output(name, outputs) for name in inputs if name not in fed}
        if not found:
            raise UsageError("not a decoder: expected inputs that are caches of keys and values, found none")
        return found

    def _output(self, name: str, outputs: Collection[str]) -> str:
        candidates = [name.replace(past, "present", 1) for past in ("past_key_values", "past") if past in name]
        for past, present in self.caches:
            if m := re.fullmatch(re.escape(past).replace("%d", r"(\d+)"), name):
                candidates.insert(0, present.replace("%d", m[1]) if m.groups() else present)
        known = [c for c in candidates if c in outputs]
        if not known:
            raise UsageError(
                f"not a decoder: input {name!r} is neither tokens, mask nor positions, and becomes no output"
            )
        return known[0]


class Decoder:
    """A compiled decoder, whose caches `SharedCache` and `GrowingCache` are."""

    def __init__(
        self, model: CompiledModel, interface: Interface | None = None, *, context_length: int | None = None
    ) -> None:
        """Look at the model's signature.

        Args:
            model: Takes token ids, int [batch, steps], and caches [batch, heads, length, size], perhaps an attention
                mask, int [batch, length of all], and positions, int [batch, steps]; gives logits [batch, steps or 1,
                vocabulary], and the caches with the new steps. If it was compiled with `state`, they are all that.
            interface: Its names; by default the usual ones.
            context_length: How many tokens a sequence may have, if less than the model's dims allow.

        Raises:
            UsageError: It is no such model.
        """
        self.model, self.names = model, interface or Interface()
        signature = model.signature
        self.specs = {s.name: s for s in signature.inputs}
        outputs = {s.name: s for s in signature.outputs}
        self.caches = self.names.pairs(list(self.specs), outputs)
        shared = {signature.inputs[i].name: signature.outputs[o].name for o, i in model.executable.shared}
        if shared and shared != self.caches:
            found = ", ".join(shared)
            raise UsageError(f"the model's state: expected all caches ({', '.join(self.caches)}), found {found}")
        if shared and self.names.attention_mask not in self.specs:
            raise UsageError(f"a model with a state: expected an input {self.names.attention_mask!r}, found none")
        self.is_shared = bool(shared)
        self.ignores_zeros: bool | None = None
        """Of a shared cache: whether a mask may have zeros behind its end. None until it was tried."""
        shape, vocabulary = outputs[self.names.logits].shape, outputs[self.names.logits].shape[-1:]
        if len(shape) != 3 or not isinstance(vocabulary[0], int):
            raise UsageError(f"logits: expected [batch, steps, N], found {signature.text(outputs[self.names.logits])}")
        self.vocabulary: int = vocabulary[0]
        first = self.specs[next(iter(self.caches))]
        for spec, rank in ((self.specs[self.names.input_ids], 2), *((self.specs[c], 4) for c in self.caches)):
            if len(spec.shape) != rank:
                raise UsageError(f"expected an input of {rank} dims, found {signature.text(spec)}")
        self.batches, self.steps = (self._bounds(d) for d in self.specs[self.names.input_ids].shape)
        self.lengths = self._bounds(first.shape[2])
        longest = self.lengths[1] + (not self.is_shared)
        self.context_length = longest if context_length is None else min(context_length, longest)

    def _bounds(self, dim: Any) -> tuple[int, int]:
        return bounds(dim, self.model.signature.ranges)

    def cache(self, batch: int, length: int) -> Cache:
        """An empty one for so many sequences of up to `length` tokens each.

        Raises:
            InputError: The model does not take as many of them, or as long ones.
        """
        low, high = self.batches
        if not low <= batch <= high:
            expected = str(low) if low == high else f"{low} to {high}"
            raise InputError(f"the model takes {expected} sequences at once, found {batch}")
        if length > self.context_length:
            raise InputError(f"expected sequences of up to {self.context_length} tokens, found {length}")
        if not self.is_shared:
            return GrowingCache(self, batch, length)
        low, high = self.lengths
        return SharedCache(self, batch, min(max(rounded(length), low), high))

    @functools.cached_property
    def takes_padding(self) -> bool:
        """Whether sequences of a cache may have different lengths, and each is as if it were alone."""
        if self.is_shared:
            return True  # it is causal, and padding lies behind
        batch = max(self.batches[0], 1)
        found: list[Array] = []
        for padded in (0, 3):
            cache = GrowingCache(self, batch, 8)
            ids = np.pad(self._some(batch, 4), ((0, 0), (padded, 0)), constant_values=PAD)
            cache.feed(ids, np.full(batch, 4))
            found.append(cache.feed(self._some(batch, 1)))
        return self.agree(*found)

    def _some(self, batch: int, steps: int) -> Array:
        """Tokens to try."""
        return np.tile(np.arange(1, steps + 1) % self.vocabulary, (batch, 1))

    def agree(self, found: Any, expected: Any) -> bool:
        """Whether logits are the same, but for roundings."""
        found, expected = (np.asarray(x).astype(np.float64) for x in (found, expected))
        elems = {self.specs[name].elem for name in self.caches} | {artifact_precision(self.model.executable)}
        tolerance = max(CHECKED.get(elem, CHECKED["bf16"]) for elem in elems - {"f64"} | {"f32"})
        return bool(np.abs(found - expected).max() <= tolerance * expected.std())

    def feed(self, ids: Array, mask: Array, positions: Array) -> dict[str, Array]:
        """Tokens and what is said of them, by the names and in the types of the inputs that there are.

        A token of the target that a draft does not know is another one to it.
        """
        n, given = self.names, dict[str, Array]()
        ids = np.where(ids < self.vocabulary, ids, PAD)
        for name, array in ((n.input_ids, ids), (n.attention_mask, mask), (n.position_ids, positions)):
            if name in self.specs:
                given[name] = np.ascontiguousarray(array, elem_dtype(self.specs[name].elem))
        return given


def rounded(length: int) -> int:
    """A length that is up to an eighth longer, of which there are few."""
    grain = max(16, 1 << max(0, (length - 1).bit_length() - 3))
    return -(-length // grain) * grain


class Cache(ABC):
    """The keys and values of sequences. A call that raises for what it is given leaves them as they were."""

    side: ClassVar[str]
    """Where sequences are padded."""

    def __init__(self, decoder: Decoder, batch: int, capacity: int) -> None:
        self.decoder, self.batch, self.capacity = decoder, batch, capacity
        self.lengths: Array = np.zeros(batch, np.int64)
        """Tokens of each sequence."""

    @abstractmethod
    def feed(self, ids: Array, counts: Array | None = None) -> Any:
        """Append tokens.

        Args:
            ids: int [batch, steps], padded on `side`.
            counts: int [batch]: how many of them are no padding; all, by default.

        Returns:
            Logits [batch, steps or 1, vocabulary], on the host or the model's device.

        Raises:
            InputError: They do not fit into the cache.
        """

    @abstractmethod
    def rewind(self, lengths: Array) -> None:
        """Forget all but the first `lengths` [batch] tokens of each sequence."""

    def read(self, prompts: Sequence[Sequence[int]]) -> list[Array] | None:
        """Append tokens in chunks.

        Returns:
            The logits [vocabulary] behind the last token of each sequence that has one; None where the model gives
            those of a chunk's last token only, which is padding in one of them.
        """
        width = max(map(len, prompts))
        ids, valid = np.full((self.batch, width), PAD), np.zeros((self.batch, width), np.bool_)
        for row, prompt in enumerate(prompts):
            at = slice(0, len(prompt)) if self.side == "right" else slice(width - len(prompt), width)
            ids[row, at], valid[row, at] = prompt, True
        chunk = max(1, min(self.decoder.steps[1], LOGITS_AT_ONCE // (self.batch * self.decoder.vocabulary)))
        last = {row: int(np.flatnonzero(valid[row])[-1]) for row, prompt in enumerate(prompts) if prompt}
        found: dict[int, Array] = {}
        is_complete = True
        for at in range(0, width, chunk):
            part = ids[:, at : at + chunk]
            logits, steps = self.feed(part, valid[:, at : at + chunk].sum(1)), part.shape[1]
            for row, column in last.items():
                if at <= column < at + steps:
                    step = column - at - steps + logits.shape[1]  # it gives those of all, or of the last
                    is_complete &= step >= 0
                    found[row] = logits[row, max(step, 0)]
        return [found[row] for row in last] if is_complete else None

    def _check(self, length: int) -> None:
        if length > self.capacity:
            raise InputError(f"the cache is full: expected sequences of up to {self.capacity} tokens, found {length}")


class SharedCache(Cache):
    """A session's state, as long as it may become."""

    side = "right"

    def __init__(self, decoder: Decoder, batch: int, capacity: int) -> None:
        super().__init__(decoder, batch, capacity)
        shape = decoder.specs[next(iter(decoder.caches))].shape
        dims = {
            str(d): n for d, n in zip((shape[0], shape[2]), (batch, capacity), strict=True) if not isinstance(d, int)
        }
        self._session = Session(decoder.model, dims)
        self._has_answered = False

    def feed(self, ids: Array, counts: Array | None = None) -> Any:
        """Append tokens; the mask is as long as the longest sequence, or longer: then many lengths have one plan.

        Whether it may be longer is tried with the first few tokens behind those that give the first answer.
        """
        steps: int = ids.shape[1]
        ends = self.lengths + steps  # padding is written too
        self._check(longest := int(ends.max()))
        padded, decoder = min(rounded(longest), self.capacity), self.decoder
        if decoder.ignores_zeros:
            logits = self._logits(ids, ends, padded)
        elif decoder.ignores_zeros is None and self._has_answered and steps <= FEW and padded > longest:
            found = np.array(self._logits(ids, ends, padded))
            logits = self._logits(ids, ends, longest)  # the last one, whose keys and values stay
            decoder.ignores_zeros = decoder.agree(found, logits)
        else:
            logits = self._logits(ids, ends, longest)
        self._has_answered = True
        self.lengths = self.lengths + (steps if counts is None else counts)
        return logits

    def _logits(self, ids: Array, ends: Array, mask_length: int) -> Any:
        mask = np.arange(mask_length) < ends.reshape(-1, 1)
        steps: int = ids.shape[1]
        positions = self.lengths.reshape(-1, 1) + np.arange(steps)
        return self._session(self.decoder.feed(ids, mask, positions))[self.decoder.names.logits]

    def rewind(self, lengths: Array) -> None:
        """Forget; what is there is written over."""
        self.lengths = lengths


class GrowingCache(Cache):
    """What the model returned last."""

    side = "left"

    def __init__(self, decoder: Decoder, batch: int, capacity: int) -> None:
        super().__init__(decoder, batch, capacity)
        self._mask = np.zeros((batch, 0), np.bool_)
        self._arrays: Mapping[str, Any] = {name: self._empty(decoder.specs[name]) for name in decoder.caches}

    def _empty(self, spec: TensorSpec) -> Array:
        _, heads, _, size = spec.shape
        if not isinstance(heads, int) or not isinstance(size, int):
            shown = self.decoder.model.signature.text(spec)
            raise UsageError(f"a cache: expected heads and their size to be numbers, found {shown}")
        return np.zeros((self.batch, heads, 0, size), elem_dtype(spec.elem))

    def feed(self, ids: Array, counts: Array | None = None) -> Any:
        """Append a column for each step; what pads a sequence is masked for good."""
        steps: int = ids.shape[1]
        counts = np.full(self.batch, steps) if counts is None else counts
        mask = np.concatenate([self._mask, np.arange(steps) >= steps - counts.reshape(-1, 1)], 1)
        self._check(mask.shape[1])
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -steps:]
        feed: dict[str, Any] = {**self.decoder.feed(ids, mask, positions), **self._arrays}
        name = self.decoder.names.input_ids
        model = self.decoder.model
        if model.device.is_gpu and model.executable.host is None:  # outputs are where an input is
            session: Any = model.session
            feed[name] = session.resident(self.decoder.specs[name].elem, feed[name])
        outputs = model(feed)
        self._mask, self.lengths = mask, self.lengths + counts
        self._arrays = {past: outputs[present] for past, present in self.decoder.caches.items()}
        return outputs[self.decoder.names.logits]

    def rewind(self, lengths: Array) -> None:
        """Forget: what is left of each sequence is moved to the end."""
        if (lengths == self.lengths).all():
            return
        width = int(lengths.max())
        index = np.arange(width) - (width - lengths.reshape(-1, 1))
        columns = np.take_along_axis(np.argsort(~self._mask, 1, kind="stable"), np.maximum(index, 0), 1)
        self._arrays = {
            name: np.take_along_axis(np.asarray(value), columns[:, None, :, None], 2)
            for name, value in self._arrays.items()
        }
        self._mask, self.lengths = index >= 0, lengths
