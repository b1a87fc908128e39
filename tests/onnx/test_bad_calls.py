"""Values that an operator executed by Python does not take: one message each, with the node's place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from graphfuse.errors import InputError, Loc
from graphfuse.frontends.onnx.python_ops import (
    ml,
    random,
    selection,
    sequences,
    sizes,
    strings,
)
from graphfuse.frontends.onnx.python_ops.call import call_of

X = np.zeros((2, 2), np.float32)
TEXTS = np.array(["a", "b"], object)
GRAMS = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 1,
    "max_skip_count": 0,
    "ngram_counts": [0],
    "ngram_indexes": [0],
    "pool_int64s": [1],
}

Case = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def bad(message: str, fn: Any, *inputs: Any, **attributes: Any) -> Case:
    return message, fn, inputs, attributes


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


CASES = [
    bad("CastMap: input 0: expected a map, found list", ml.cast_map, [X]),
    bad("CastMap: cast_to and map_form: expected TO_FLOAT, ... and DENSE or SPARSE, found TO_FLOAT and THIN",
        ml.cast_map, {1: 2.0}, map_form="THIN"),
    bad("CastMap: max_map: expected 0..16777216, found -1", ml.cast_map, {1: 2.0}, map_form="SPARSE", max_map=-1),
    bad("ZipMap: input 0: expected rows of 3 elements, found shape (2, 2)", ml.zip_map, X, classlabels_int64s=[1, 2,
        3]),
    bad("CategoryMapper: expected as many numbers as texts, found 1 and 2", ml.category_mapper, TEXTS,
        cats_int64s=[1], cats_strings=["a", "b"]),
    bad("OneHotEncoder: an element is none of the categories", ml.one_hot_encoder, TEXTS, cats_strings=["a"],
        zeros=0),
    bad("ArrayFeatureExtractor: expected indices from 0 to 1, found [0, 2]", ml.array_feature_extractor, X, ints(0, 2)),
    bad("LabelEncoder: expected as many values as keys, found 1 and 2", ml.label_encoder, TEXTS, keys_strings=["a",
        "b"], values_int64s=[1]),
    bad("Multinomial: sample_size: expected up to 268435456 draws, found 40000000000", random.multinomial, X,
        sample_size=10**10),
    bad("NonMaxSuppression: boxes and scores: expected (b, n, 4) and (b, c, n), found (1, 2, 4) and (1, 1, 3)",
        selection.non_max_suppression, np.zeros((1, 2, 4)), np.zeros((1, 1, 3))),
    bad("SequenceErase: the sequence is empty", sequences.sequence_erase, []),
    bad("ConcatFromSequence: the sequence is empty", sequences.concat_from_sequence, []),
    bad("SplitToSequence: split: expected a positive size, found 0", sequences.split_to_sequence, X, np.array(0)),
    bad("SplitToSequence: split: expected sizes that add up to 2, found [1, 2]", sequences.split_to_sequence, X, ints(1,
        2)),
    bad("OptionalGetElement: the optional is empty", sequences.optional_get_element, None),
    bad("SequenceLength: input 0: expected a sequence, found nothing", sequences.sequence_length, None),
    bad("ZipMap: input 0: expected a tensor, found a sequence", ml.zip_map, [X]),
    bad("Range: input 0: expected one element, found 2", sizes.range_, ints(0, 1), ints(1), ints(1)),
    bad("Range: delta must not be 0", sizes.range_, ints(0), ints(1), ints(0)),
    bad("Split: split: expected lengths with the sum 2, found [1, 2]", sizes.split, X, ints(1, 2)),
    bad("OneHot: depth: expected at least 0, found -1", sizes.one_hot, ints(0), ints(-1), X[0]),
    bad("OneHot: off and on: expected 2 elements, found 4", sizes.one_hot, ints(0), ints(1), X),
    bad("StringConcat: expected texts of up to 67108864 characters, found 67108865", strings.string_concat,
        np.array("a" * (1 << 25), object), np.array("b" * ((1 << 25) + 1), object)),
    bad("StringNormalizer: input 0: expected shape (n) or (1, n), found (2, 1)", strings.string_normalizer, TEXTS[:,
        None]),
    bad("StringNormalizer: case_change_action must be NONE, LOWER or UPPER, got TITLE", strings.string_normalizer,
        TEXTS, case_change_action="TITLE"),
    bad("TfIdfVectorizer: input 0: expected one or two dims, found 3", strings.tf_idf_vectorizer, np.zeros((1, 2, 2)),
        **GRAMS),
    bad("TfIdfVectorizer: ngram_indexes: expected 0..16777215, found -1 and -1", strings.tf_idf_vectorizer, ints(1),
        **{**GRAMS, "ngram_indexes": [-1]}),
    bad("TfIdfVectorizer: mode must be TF, IDF or TFIDF, got COUNT", strings.tf_idf_vectorizer, ints(1), **{**GRAMS,
        "mode": "COUNT"}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "fn", "inputs", "attributes"), CASES, ids=[c[0] for c in CASES])
def test_is_refused(message: str, fn: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    node = helper.make_node(message.partition(":")[0], [], ["y"], **attributes)
    with pytest.raises(InputError) as e:
        fn(call_of(node, inputs, Loc("model")))
    assert str(e.value) == f"model: error: {message}"
