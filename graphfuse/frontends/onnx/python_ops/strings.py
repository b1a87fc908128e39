"""Tensors of strings: their own operators, n-grams, and movement and comparison of what is no tensor of numbers."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from typing import Any

import numpy as np

from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.limits import MOST_TABLE
from graphfuse.frontends.onnx.node import one_of
from graphfuse.frontends.onnx.python_ops.call import Call, by_value, on_strings, python_op, strings, texts_of
from graphfuse.frontends.onnx.python_ops.regex import Pattern, PatternError

MOST_TEXT = 1 << 26
"""Characters that one text can be made longer to: doubling it again and again is all it takes to fill a memory."""


@python_op("StringConcat")
def string_concat(c: Call) -> Any:
    """One text after the other, with broadcasting."""
    first, second = (texts_of(c.array(i)) for i in (0, 1))
    if (longest := sum(map(len, first)) + sum(map(len, second))) > MOST_TEXT:
        raise c.error(f"expected texts of up to {MOST_TEXT} characters, found {longest}")
    a, b = strings(first, c.array(0).shape), strings(second, c.array(1).shape)
    return np.asarray(np.frompyfunc(operator.add, 2, 1)(a, b), dtype=object)


@python_op("StringSplit")
def string_split(c: Call) -> tuple[Array, Array]:
    """The parts of each text along a new last axis, short ones filled up with empty texts, and how many there are."""
    x = c.array(0)
    parts = [s.split(c.get("delimiter") or None, int(c.get("maxsplit", -1))) for s in texts_of(x)]
    longest = max(map(len, parts), default=0)
    flat = [part for p in parts for part in (*p, *[""] * (longest - len(p)))]
    counts = np.array([len(p) for p in parts], dtype=np.int64).reshape(x.shape)
    return strings(flat, (*x.shape, longest)), counts


@python_op("StringNormalizer")
def string_normalizer(c: Call) -> Any:
    """Texts that are no stop words, in the case asked for; one empty text where none is left."""
    x = c.array(0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise c.error(f"input 0: expected shape (n) or (1, n), found {x.shape}")
    exact = bool(c.get("is_case_sensitive", 0))
    stop = {w if exact else w.lower() for w in c.get("stopwords", [])}
    kept = [w for w in texts_of(x) if (w if exact else w.lower()) not in stop] or [""]
    change = one_of("case_change_action", c.get("case_change_action", "NONE"), ("NONE", "LOWER", "UPPER"), c.error)
    kept = [w.lower() if change == "LOWER" else w.upper() if change == "UPPER" else w for w in kept]
    return strings(kept, (*x.shape[:-1], len(kept)))


@python_op("RegexFullMatch")
def regex_full_match(c: Call) -> Any:
    """Whether all of a text matches a pattern."""
    try:
        pattern = Pattern(str(c.get("pattern", "")))
    except PatternError as e:
        raise c.error(f"pattern: {e}") from None
    x = c.array(0)
    return np.array([pattern.fullmatch(s) for s in texts_of(x)], dtype=np.bool_).reshape(x.shape)


@on_strings("Identity")
def identity(c: Call) -> Any:
    """The same value."""
    return c.inputs[0]


@on_strings("Equal")
def equal(c: Call) -> Any:
    """Whether texts are equal, with broadcasting."""
    return np.asarray(c.array(0) == c.array(1), dtype=np.bool_)


@on_strings("Shape")
def shape(c: Call) -> Any:
    """The dims from `start` to `end`."""
    return np.array(c.array(0).shape[slice(c.get("start", 0), c.get("end"))], dtype=np.int64)


@on_strings("Size")
def size(c: Call) -> Any:
    """How many elements there are."""
    return np.array(c.array(0).size, dtype=np.int64)


@by_value("Reshape")
@on_strings("Reshape")
def reshape(c: Call) -> Any:
    """The same elements under another shape: 0 keeps a dim, unless `allowzero`."""
    x, dims = c.array(0), c.ints(1)
    if not c.get("allowzero", 0):
        dims = [x.shape[i] if d == 0 else d for i, d in enumerate(dims)]
    if min(dims, default=0) < -1:  # which numpy takes for -1
        raise c.error(f"shape: expected at most one -1 and nothing below, found {dims}")
    return x.reshape(dims)


@on_strings("Concat")
def concat(c: Call) -> Any:
    """Joined along an axis."""
    return np.concatenate([c.array(i) for i in range(len(c.inputs))], int(c.get("axis")))


@on_strings("Gather")
def gather(c: Call) -> Any:
    """Whole slices along an axis."""
    return np.asarray(np.take(c.array(0), c.array(1), int(c.get("axis", 0))), dtype=object)


@on_strings("Squeeze")
def squeeze(c: Call) -> Any:
    """Without the axes given, or without all dims of 1."""
    return np.squeeze(c.array(0), tuple(c.ints(1)) if c.has(1) else None)


@on_strings("Unsqueeze")
def unsqueeze(c: Call) -> Any:
    """With new dims of 1."""
    return np.expand_dims(c.array(0), tuple(c.ints(1)))


@on_strings("Flatten")
def flatten(c: Call) -> Any:
    """As a matrix."""
    x, axis = c.array(0), int(c.get("axis", 1))
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


@on_strings("Transpose")
def transpose(c: Call) -> Any:
    """With its dims in another order."""
    return np.transpose(c.array(0), c.get("perm"))


@by_value("Expand")
@on_strings("Expand")
def expand(c: Call) -> Any:
    """Repeated by numpy's rule."""
    x = c.array(0)
    shape = np.broadcast_shapes(x.shape, tuple(c.ints(1)))
    return np.broadcast_to(x, c.fitting(shape, x.itemsize)).copy()


@on_strings("Where")
def where(c: Call) -> Any:
    """Elementwise choice."""
    return np.where(c.array(0), c.array(1), c.array(2))


@on_strings("Constant")
def constant(c: Call) -> Any:
    """Texts as a tensor."""
    if "value_string" in c.attributes:
        return strings([c.get("value_string")], ())
    if "value_strings" in c.attributes:
        texts = c.get("value_strings")
        return strings(texts, (len(texts),))
    if (value := c.get("value")) is None:
        raise c.error("expected one attribute, its value, found none")
    return strings(texts_of(value), value.shape)


@on_strings("Cast")
def cast(c: Call) -> Any:
    """Texts as numbers, or numbers as texts."""
    x, to = c.array(0), c.dtype("to")
    if to.hasobject:
        return strings(texts_of(x), x.shape)
    try:
        if to.kind in "iub":
            return np.array([int(s) for s in texts_of(x)]).astype(to).reshape(x.shape)
        return np.array([float(s) for s in texts_of(x)]).astype(to).reshape(x.shape)
    except ValueError as e:
        raise c.error(str(e)) from None


# counts of n-grams


@python_op("TfIdfVectorizer")
def tf_idf_vectorizer(c: Call) -> Any:
    """How often each n-gram of a pool occurs in each row, items up to `max_skip_count` apart; weighted on request."""
    x = c.array(0)
    if x.ndim not in (1, 2):
        raise c.error(f"input 0: expected one or two dims, found {x.ndim}")
    places, indexes = c.once("places", _places), c.get("ngram_indexes")
    if not 0 <= min(indexes) <= max(indexes) < MOST_TABLE:
        raise c.error(f"ngram_indexes: expected 0..{MOST_TABLE - 1}, found {min(indexes)} and {max(indexes)}")
    counts = np.zeros((*x.shape[:-1], max(indexes) + 1), dtype=np.float32)
    rows = [x.tolist()] if x.ndim == 1 else x.tolist()
    for row, found in zip(rows, counts.reshape(-1, counts.shape[-1]), strict=True):
        for n in range(max(int(c.get("min_gram_length")), 1), min(int(c.get("max_gram_length")), len(row)) + 1):
            # a single item has nothing to skip, and no more is skipped than there is
            skips = min(int(c.get("max_skip_count")), (len(row) - 1) // (n - 1) - 1) if n > 1 else 0
            for step in range(1, skips + 2):
                grams = Counter(zip(*(row[i * step :] for i in range(n)), strict=False))
                for gram in grams.keys() & places.keys():
                    found[indexes[places[gram]]] += grams[gram]
    mode = one_of("mode", c.get("mode"), ("TF", "IDF", "TFIDF"), c.error)
    if mode == "TF":
        return counts
    weights = np.zeros(counts.shape[-1], dtype=np.float32)
    weights[indexes] = c.get("weights") or 1
    return np.where(counts > 0, weights, 0).astype(np.float32) if mode == "IDF" else counts * weights


def _places(c: Call) -> dict[tuple[Any, ...], int]:
    """Each n-gram of the pool, and which it is. The pool lists all of one item, then all of two, and so on."""
    pool: list[Any] = c.get("pool_strings") or c.get("pool_int64s", [])
    starts = [*c.get("ngram_counts"), len(pool)]
    places: dict[tuple[Any, ...], int] = {}
    for n, (start, end) in enumerate(itertools.pairwise(starts), 1):
        for at in range(start, end - n + 1, n):
            places[tuple(pool[at : at + n])] = len(places)
    return places
