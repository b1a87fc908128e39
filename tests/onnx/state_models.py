"""A decoder whose caches are its state, and calls of it."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HEADS, GROUPS, SIZE, CAPACITY = 4, 2, 16, 24
STATE = {"past.*": "present.*"}
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


KINDS = {0: (FLOAT, SIZE), 8: (TensorProto.INT8, SIZE), 4: (TensorProto.UINT8, SIZE // 2)}
"""By the bits that a quantised cache has for a number: its element, and the elements of a head."""


def decoder(layers=2, extra=(), outputs=(), bits=0, **attributes):
    """Layers of attention with a residual, as exporters write them: a mask says how long sequences are."""
    rng, width = np.random.default_rng(0), HEADS * SIZE
    elem, held = KINDS[bits]
    steps, cache = ["batch", "steps"], ["batch", GROUPS, "capacity", held]
    angles = np.arange(CAPACITY)[:, None] / 10 ** np.linspace(0, 2, SIZE // 2)
    weights = {"cos": np.cos(angles), "sin": np.sin(angles), "axis": np.array([1]), "one": np.array(1)}
    inputs = [helper.make_tensor_value_info("x", FLOAT, [*steps, width])]
    inputs.append(helper.make_tensor_value_info("mask", INT, ["batch", "total"]))
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=1),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["total_i64"]),
        helper.make_node("Cast", ["total_i64"], ["total"], to=TensorProto.INT32),
    ]
    scales = []
    if bits:
        every = (1, GROUPS, 1, SIZE)
        weights |= {"k_scale": np.full(every, 0.02 * 2 ** (8 - bits)), "v_scale": np.full(every, 0.3)}
        kinds = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": bits}
        scales, attributes = ["", "", "", "k_scale", "v_scale"], {**attributes, **kinds}
    made, x = [], "x"
    for i in range(layers):
        names = [f"{what}{i}" for what in ("q", "k", "v")]
        for name, size in zip(names, (width, GROUPS * SIZE, GROUPS * SIZE), strict=True):
            weights[f"w{name}"] = rng.standard_normal((width, size)) / 8
            nodes.append(helper.make_node("MatMul", [x, f"w{name}"], [name]))
        kept = [f"past.{i}.key", f"past.{i}.value"]
        inputs += [helper.make_tensor_value_info(name, elem, cache) for name in kept]
        grown = [name.replace("past", "present") for name in kept]
        made += [helper.make_tensor_value_info(n, elem, ["batch", GROUPS, "grown", held]) for n in grown]
        nodes.append(
            helper.make_node(
                "GroupQueryAttention", [*names, *kept, "seqlens", "total", "cos", "sin", *scales], [f"a{i}", *grown],
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1, **attributes,
            )
        )  # fmt: skip
        nodes.append(helper.make_node("Add", [x, f"a{i}"], [f"x{i}"]))
        x = f"x{i}"
    nodes += [helper.make_node("Identity", [x], ["y"]), *extra]
    made = [helper.make_tensor_value_info("y", FLOAT, [*steps, width]), *made, *outputs]
    initial = [
        numpy_helper.from_array(w.astype(np.int64 if n in ("axis", "one") else np.float32), n)
        for n, w in weights.items()
    ]
    graph = helper.make_graph(nodes, "decoder", inputs, made, initial)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def one_node(op, inputs, outputs, **attributes):
    """A model of one of ONNX Runtime's own operators: of each input, which may be left out, the element and dims."""
    node = helper.make_node(
        op, [i[0] if i else "" for i in inputs], list(outputs), domain="com.microsoft", **attributes
    )
    infos = [helper.make_tensor_value_info(*i) for i in inputs if i]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", infos, made), opset_imports=opsets, ir_version=10)


def beam_decoder():
    """One step of attention to buffers that the sequences of a search share."""
    step, buffer = (FLOAT, ["batch", 1, 24]), (FLOAT, ["batch", 3, "capacity", 8])
    inputs = [(name, *step) for name in "qkv"] + [None, None] + [(name, *buffer) for name in ("past_k", "past_v")]
    inputs += [(name, TensorProto.INT32, [1]) for name in ("past", "width")]
    inputs.append(("beams", TensorProto.INT32, ["searches", "beams", "capacity"]))
    outputs = ["y", "present_k", "present_v"]
    return one_node("DecoderMaskedMultiHeadAttention", inputs, outputs, num_heads=3, past_present_share_buffer=1)


def paged_decoder():
    """Attention of tokens of any sequences to pages of three steps."""
    pages, integers = (FLOAT, ["pages", 3, 2, 16]), TensorProto.INT32
    inputs = [("x", FLOAT, ["tokens", 160]), None, None, ("past_k", *pages), ("past_v", *pages)]
    inputs += [("ends", integers, ["ends"]), ("past", integers, ["batch"]), ("table", integers, ["batch", "most"])]
    return one_node("PagedAttention", inputs, ["y", "present_k", "present_v"], num_heads=6, kv_num_heads=2)


def sliding_decoder():
    """Grouped queries of packed tokens, whose cache has the last ones of a window of five."""
    cache, integers = (FLOAT, ["batch", GROUPS, "capacity", SIZE]), TensorProto.INT32
    inputs = [("x", FLOAT, ["batch", "steps", (HEADS + 2 * GROUPS) * SIZE]), None, None]
    inputs += [("past_k", *cache), ("past_v", *cache), ("last", integers, ["batch"]), ("total", integers, [1])]
    heads = {"num_heads": HEADS, "kv_num_heads": GROUPS}
    outputs = ["y", "present_k", "present_v"]
    return one_node("GroupQueryAttention", inputs, outputs, local_window_size=5, sliding_window_cache=1, **heads)


def calls(lengths, *steps):
    """A prompt of sequences of some lengths, and tokens after it: inputs, and how long sequences are by then."""
    rng, lengths = np.random.default_rng(1), np.array(lengths) - steps[0]
    for n in steps:
        lengths = lengths + n
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        yield {"x": rng.standard_normal((len(lengths), n, HEADS * SIZE), np.float32), "mask": mask}, lengths


def caches(batch, layers=2, bits=0):
    elem, held = KINDS[bits]
    shape, dtype = (batch, GROUPS, CAPACITY, held), helper.tensor_dtype_to_np_dtype(elem)
    return {f"past.{i}.{what}": np.zeros(shape, dtype) for i in range(layers) for what in ("key", "value")}
