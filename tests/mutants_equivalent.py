"""Mutants that change no result, and why. The laws run on them too: one that they find is found."""

from __future__ import annotations

ORDER = "only chooses the order of dims in which a value is made; every order gives the same elements"
COST = "only chooses between forms that compute the same, by what they cost"

CHOOSING: dict[tuple[str, str], str] = {
    ("simplify_movement.py", "absorbs_permute"): ORDER,
    ("simplify_movement.py", "moves_freely"): ORDER,
    ("layout.py", "_cheapest_order"): ORDER,
    ("layout.py", "_cost"): ORDER,
    ("layout.py", "_is_small"): ORDER,
    ("raise_permutes.py", "_is_read_once"): ORDER,
    (
        "index.py",
        "_grows_first",
    ): "only chooses which of two runs of dims grows; any that ends in equal products is right",
    ("canonicalize.py", "_rank_of_known"): "only chooses which operand of a commutative operator stands right",
    ("index.py", "_terms_left"): COST,
    ("winograd.py", "_has_tiles"): COST,
    ("symbolic.py", "_clip"): "only keeps bounds of nothing known from growing",
}
"""Functions whose answer no result depends on, by module and name."""

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (
        "recognise_functions.py",
        "mean_is_a_quotient",
        "is_power_of_two(float(value))",
        "False",
    ): "a quotient by a power of two is what the product by its inverse is; the guard keeps the cheaper",
    (
        "recognise_flattening.py",
        "split_shape",
        "len(g.source) > 1",
        "1 > len(g.source)",
    ): "a group of other dims stays as it is in the target, and such a form is one of it too",
    (
        "recognise_flattening.py",
        "split_shape",
        "len(g.target) > 1",
        "1 > len(g.target)",
    ): "a group of other dims stays as it is in the target, and such a form is one of it too",
    ("split_long_sums.py", "reduce_rows_first", "2", "1"): COST,
    ("split_long_sums.py", "multiply_in_parts", "1", "0"): COST,
    ("split_long_sums.py", "multiply_in_parts", "share > 1", "True"): COST,
    (
        "split_long_sums.py",
        "multiply_in_parts",
        "tensor_of(a).elem.bytes <= 2",
        "2 <= tensor_of(a).elem.bytes",
    ): COST,
    ("decompose_conv.py", "one_by_one", "out == groups > 1", "False"): COST,
    ("decompose_conv.py", "_phases_along", "0", "1"): "where a phase meets no input: its place is not asked for",
    ("simplify_movement.py", "concat_of_concat", "0", "1"): "stands for one operand: only its length is asked",
    ("simplify_movement.py", "permute_of_take", "array_of(table) is None", "False"): COST,
    (
        "multiply_quantised.py",
        "_dequantised_in_order",
        "array is None",
        "False",
    ): "the only caller has asked whether the bytes are known",
    (
        "simplify_movement.py",
        "concat_of_concat",
        "sum((len(p or (0,)) for p in parts)) > MOST_JOINED",
        "False",
    ): "joining more pieces gives the same tensor; the bound keeps 2^n of them out of the text",
    (
        "symbolic.py",
        "_is_remainder",
        "not isinstance(atom.args[1], int)",
        "True",
    ): "a remainder by a number lies between 0 and it as well: other bounds, which hold",
    ("symbolic.py", "__eq__", "self._hash == other._hash", "True"): "equal terms have equal hashes: it is only quicker",
    (
        "canonicalize.py",
        "sub_to_add",
        "not (elem.is_float or (elem.is_signed and elem.bits >= 8))",
        "False",
    ): "a full wraps to its element, so x - c = x + -c without a sign too; the guard keeps -c out of the text",
    (
        "pack_pixels.py",
        "few_channels_in_runs",
        "op.attrs.get('layout') != 'nhwc'",
        "False",
    ): "of nchw it would read a line of an image, below 8, for channels, and a filter's, at least 8, for results",
    (
        "multiply_bytes.py",
        "pad_channels_last",
        "not pads",
        "False",
    ): "without pads the product is made again of the same operands",
    (
        "symbolic.py",
        "solved",
        "not isinstance(rest, int)",
        "False",
    ): "a factor less such a rest is no int either, which the next term declines",
    (
        "symbolic.py",
        "solved",
        "not isinstance(factor, int)",
        "False",
    ): "a dim of one symbol is a number where that is one",
    (
        "symbolic.py",
        "exact_div",
        "q is None",
        "False",
    ): "only ends a division that fails: what is taken from the rest is a multiple of the divisor, whatever it is",
    (
        "symbolic.py",
        "_without_remainders",
        "not any((_is_remainder(atom) and p == 1 for monomial, _ in dim.terms for atom, p in monomial))",
        "False",
    ): "only ends sooner: the loop finds none then",
    (
        "decompose_conv.py",
        "_on_padded",
        "not any((*low, *high))",
        "False",
    ): "without padding the window is made again of the same operand",
    ("pack_pixels.py", "few_channels_in_runs", "channels - 1", "1 - channels"): (
        "a number has as many bits as its negative"
    ),
    ("pack_pixels.py", "_whole", "elements - 1", "1 - elements"): "a number has as many bits as its negative",
    ("pack_pixels.py", "_whole", "1", "2"): "a multiple of 8 has a predecessor of as many bits as the one before that",
    ("fold_batch_norm.py", "_along_weights", "1", "2"): "a size below 0 is any that fits",
    ("decompose_conv.py", "_spatial", "0", "1"): "weights have the rank of what they go over",
    ("winograd.py", "minimal_filtering", "2", "3"): "zeros beyond all tiles, which nothing reads",
    ("winograd.py", "_padded", "0", "1"): "where nothing is to grow, a padding of nothing",
    ("winograd.py", "_interleave", "0", "1"): "stands for one of the phases: only its shape is asked",
    ("winograd.py", "_interleave", "4", "5"): "of 1 column each, channels behind channels are columns side by side",
    ("winograd.py", "_interleave", "2", "3"): "of 1 line each, columns behind columns are lines one below the other",
}
"""By module, function, what was there, and what the mutant has instead."""


def reason(key: tuple[str, str, str, str]) -> str:
    """Why a mutant is equivalent, or ""."""
    return EQUIVALENT.get(key) or CHOOSING.get(key[:2], "")
