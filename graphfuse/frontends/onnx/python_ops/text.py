"""Counts of n-grams."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from graphfuse.frontends.onnx.limits import MOST_TABLE
from graphfuse.frontends.onnx.node import one_of
from graphfuse.frontends.onnx.python_ops.call import Call, python_op


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
