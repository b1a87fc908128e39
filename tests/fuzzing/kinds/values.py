"""Models that are right, given values that are not: indices, lengths, divisors, counts and sizes out of anywhere.

What numpy or the standard gives for them is what must come out, or a refusal where they mean nothing. All that a kernel
reads and writes lies between pages that cannot be touched, whether or not the values are checked.
"""

from __future__ import annotations

import random

import numpy as np
from onnx import TensorProto, helper

import graphfuse
import graphfuse.cli.run  # all that a child would have to import otherwise
import graphfuse.compiler
import graphfuse.frontends.onnx.python_ops
import graphfuse.host.build
import graphfuse.host.session
from graphfuse.errors import DivisionByZeroError, GraphfuseError, IndexRangeError
from graphfuse.runtime import session
from tests.fuzzing.support import Patch
from tests.guarded import guard_runs, guarded

assert session
HUGE = (1 << 20, 1 << 31, -(1 << 31), 1 << 40, -(1 << 40), 1 << 62, (1 << 63) - 1, -(1 << 63))
MICROSOFT = "com.microsoft"
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Drawn:
    """A node with its inputs, and what must come of it: `wanted` (None: whatever it gives) unless it is `refused`."""

    def __init__(self, rng):
        self.rng, self.inputs, self.attributes, self.outputs = rng, [], {}, 1
        self.op, self.domain, self.opset = "", "", 24
        self.constant, self.static = set(), set()
        self.wanted, self.refused = None, False
        self.sized = False
        """Whether its result is as large as a value says: no memory for it is a refusal, too."""

    def numbers(self, *shape, kind="float32"):
        return np.random.default_rng(self.rng.randrange(1 << 30)).integers(-9, 9, shape).astype(kind)

    def dims(self, rank, least=1):
        return [self.rng.choice([n for n in (0, 1, 2, 3, 5, 7, 17, 64) if n >= least]) for _ in range(rank)]

    def indices(self, shape, low, high, kind="int64"):
        """Integers in `low..high`, some of them not in it in half of the cases; a refusal is what that is to end in."""
        ends = [v for v in (low, high, 0, 1) if low <= v <= high]
        values = [
            self.rng.choice(ends) if self.rng.random() < 0.3 and ends else self._inside(low, high)
            for _ in range(np.prod(shape, dtype=int))
        ]
        if values and (low > high or self.rng.random() < 0.5):
            for _ in range(self.rng.choice([1, 1, len(values)])):
                values[self.rng.randrange(len(values))] = self.rng.choice([low - 1, high + 1, *HUGE])
        info = np.iinfo(kind)
        array = np.array([min(max(v, info.min), info.max) for v in values], kind).reshape(shape)
        self.refused |= any(not low <= int(v) <= high for v in array.reshape(-1))
        return array

    def _inside(self, low, high):
        return self.rng.randint(low, high) if low <= high else low

    def size(self):
        """A size or a position, often a mad one."""
        return self.rng.choice([*range(-9, 10), *HUGE, *HUGE])


def gather(d):
    d.op, shape = "Gather", d.dims(d.rng.randint(1, 3), least=0)
    axis = d.rng.randrange(len(shape))
    x = d.numbers(*shape, kind=d.rng.choice(["float32", "float16", "int8", "int64"]))
    at = d.indices(d.dims(d.rng.randint(0, 2)), -shape[axis], shape[axis] - 1, d.rng.choice(["int32", "int64"]))
    d.inputs, d.attributes = [x, at], {"axis": axis - d.rng.choice([0, len(shape)])}
    if not d.refused:
        d.wanted = np.take(x, at.astype(np.int64) % max(shape[axis], 1), axis)


def along(d):
    """x, axis and indices as `GatherElements` and `ScatterElements` have them."""
    shape = d.dims(d.rng.randint(1, 3))
    axis, x = d.rng.randrange(len(shape)), d.numbers(*shape)
    count = [n if i == axis else d.rng.randint(1, n) for i, n in enumerate(shape)]
    count[axis] = d.rng.choice([1, 3, shape[axis]])
    d.attributes["axis"] = axis
    return x, axis, d.indices(count, -shape[axis], shape[axis] - 1)


def gather_elements(d):
    x, axis, at = along(d)
    d.op, d.inputs = "GatherElements", [x, at]
    if not d.refused:
        d.wanted = np.take_along_axis(
            x[tuple(slice(n) if i != axis else slice(None) for i, n in enumerate(at.shape))], at, axis
        )


def scatter_elements(d):
    x, axis, at = along(d)
    d.op, updates = "ScatterElements", d.numbers(*at.shape)
    kind = d.rng.choice(["none", "add", "mul", "max", "min"])
    d.inputs, d.attributes["reduction"] = [x, at, updates], kind
    if not d.refused:
        d.wanted = x.copy()
        for place in np.ndindex(*at.shape):
            target = (*place[:axis], at[place], *place[axis + 1 :])
            d.wanted[target] = _combined(kind, d.wanted[target], updates[place])


def _combined(kind, old, new):
    return {"none": new, "add": old + new, "mul": old * new, "max": np.maximum(old, new), "min": np.minimum(old, new)}[
        kind
    ]


def nd(d):
    shape = d.dims(d.rng.randint(1, 3))
    depth = d.rng.randint(1, len(shape))
    lead = d.dims(d.rng.randint(0, 2))
    columns = [d.indices(lead, -n, n - 1) for n in shape[:depth]]
    return d.numbers(*shape), np.stack(columns, -1) if columns else None


def gather_nd(d):
    x, at = nd(d)
    d.op, d.inputs = "GatherND", [x, at]
    if not d.refused:
        d.wanted = x[tuple(np.moveaxis(at, -1, 0))]


def scatter_nd(d):
    x, at = nd(d)
    updates = d.numbers(*at.shape[:-1], *x.shape[at.shape[-1] :])
    kind = d.rng.choice(["none", "add", "max"])
    d.op, d.inputs, d.attributes = "ScatterND", [x, at, updates], {"reduction": kind}
    if not d.refused:
        d.wanted = x.copy()
        for place in np.ndindex(*at.shape[:-1]):
            target = tuple(at[place])
            d.wanted[target] = _combined(kind, d.wanted[target], updates[place])


def _quotient(x, y):
    """Of integers of any size, towards 0."""
    return -(abs(x) // abs(y)) if (x < 0) != (y < 0) else abs(x) // abs(y)


def _floored(x, y):
    return x % y


def _truncated(x, y):
    return x - _quotient(x, y) * y


def divide(d):
    d.op, kind = d.rng.choice(["Div", "Mod"]), d.rng.choice(INTEGERS)
    info, shape = np.iinfo(kind), d.dims(d.rng.randint(0, 2))
    ends = [info.min, info.max, 0, 1, 7, *([-1, -7] if info.min else [])]
    a = np.array([d.rng.choice(ends) for _ in range(np.prod(shape, dtype=int))], kind).reshape(shape)
    b = np.array([d.rng.choice([e for e in ends if e] if d.rng.random() < 0.9 else ends) for _ in range(a.size)], kind)
    b = b.reshape(shape) if d.rng.random() < 0.8 or not a.size else b.reshape(-1)[:1]
    d.refused, d.inputs = bool((b == 0).any()), [a, b]
    if d.op == "Mod" and d.rng.random() < 0.5:
        d.attributes["fmod"] = 1
    if not d.refused:
        result = _floored if d.op == "Mod" and not d.attributes else _truncated if d.op == "Mod" else _quotient
        pairs = zip(*(x.reshape(-1).tolist() for x in np.broadcast_arrays(a, b)), strict=True)
        bits = (1 << info.bits) - 1
        unsigned = np.array([result(x, y) & bits for x, y in pairs], f"uint{info.bits}")
        d.wanted = unsigned.astype(kind).reshape(np.broadcast_shapes(a.shape, b.shape))


def one_hot(d):
    d.op, depth = "OneHot", d.rng.choice([0, 1, 5])
    at = np.array([d.size() for _ in range(d.rng.choice([1, 4]))], np.int64)
    d.inputs, d.constant = [at, np.array(depth), d.numbers(2)], {1}
    wrapped = np.where(at < 0, at + depth, at)
    off, on = d.inputs[2]
    d.wanted = np.where(wrapped[:, None] == np.arange(depth), on, off)


def lengths(d):
    d.op = "ReverseSequence"
    steps, batch = d.dims(2)
    x, n = d.numbers(steps, batch, 3), d.indices([batch], 0, steps)
    d.inputs, d.attributes = [x, n], {"time_axis": 0, "batch_axis": 1}
    if not d.refused:
        d.wanted = x.copy()
        for b in range(batch):
            d.wanted[: n[b], b] = x[: n[b], b][::-1]


def recurrent(d):
    d.op, gates = d.rng.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch = d.dims(2)
    way = d.rng.choice(["forward", "reverse"])
    d.inputs = [
        d.numbers(steps, batch, 3),
        d.numbers(1, gates * 4, 3),
        d.numbers(1, gates * 4, 4),
        None,
        d.indices([batch], 0, steps, "int32"),
    ]
    d.attributes, d.static = {"hidden_size": 4, "direction": way}, {1, 2}


def attention(d):
    d.op, (batch, keys, queries) = "Attention", d.dims(3)
    d.inputs = [
        d.numbers(batch, 2, queries, 8),
        d.numbers(batch, 2, keys, 8),
        d.numbers(batch, 2, keys, 8),
        None,
        None,
        None,
    ]
    d.inputs.append(d.indices([batch], 0, keys))
    d.attributes, d.static = {"is_causal": d.rng.choice([0, 1])}, {0, 1, 2}


def tensor_scatter(d):
    d.op, (batch, capacity) = "TensorScatter", d.dims(2)
    steps = d.rng.randint(1, capacity)
    mode = d.rng.choice(["linear", "circular"])
    at = d.indices([batch], 0, capacity - steps)
    d.inputs, d.attributes = [d.numbers(batch, 1, capacity, 4), d.numbers(batch, 1, steps, 4), at], {"mode": mode}
    if mode == "circular":
        d.refused, at[...] = False, np.where(np.abs(at) < 1 << 50, at, 3)
    if not d.refused:
        d.wanted = d.inputs[0].copy()
        for b in range(batch):
            for i in range(steps):
                d.wanted[b, 0, (int(at[b]) + i) % capacity] = d.inputs[1][b, 0, i]


def rotary(d):
    d.op, (batch, steps, rows) = "RotaryEmbedding", d.dims(3)
    tables = [d.numbers(rows, 4), d.numbers(rows, 4)]
    x, whose = d.numbers(batch, 2, steps, 8), d.rng.choice(["", MICROSOFT])
    low = 0 if whose else -rows
    d.domain, at = whose, d.indices([batch, steps], low, rows - 1)
    if whose and at.size == 1:
        d.refused = not 0 <= int(at.reshape(-1)[0]) <= rows - steps
    d.inputs = [x, at, *tables] if whose else [x, *tables, at]
    d.static = {0, 1, 2, 3}


def embed(d):
    d.op, d.domain, (words, rows) = "EmbedLayerNormalization", MICROSOFT, d.dims(2)
    ids, segments = d.indices([1, 3], 0, words - 1, "int32"), d.indices([1, 3], 0, 1, "int32")
    d.inputs = [ids, segments, d.numbers(words, 4), d.numbers(rows + 3, 4), d.numbers(2, 4), d.numbers(4), d.numbers(4)]
    d.static = set(range(7))


def pooled(d):
    d.op = d.rng.choice(["MaxUnpool", "RoiAlign"])
    if d.op == "MaxUnpool":
        batch, rows, columns = d.dims(3)
        x = d.numbers(batch, 1, rows, columns)
        d.inputs = [x, d.indices(x.shape, 0, 4 * x.size - 1)]
        d.attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
        return
    images, regions = d.dims(2)
    rois = np.array(
        [[d.rng.choice([-1e30, -3, 0, 2.5, 9, 1e30, np.nan, np.inf]) for _ in range(4)] for _ in range(regions)],
        np.float32,
    )
    d.inputs = [d.numbers(images, 2, 5, 7), rois, d.indices([regions], 0, images - 1)]
    d.attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}


def cast(d):
    """Numbers that the type does not have give some number; what reads it as an index must still be right."""
    d.op = "Cast"
    x = np.array(
        [d.rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 0.5, 255.5]) for _ in range(17)], np.float32
    )
    d.inputs, d.attributes = [x], {"to": d.rng.choice([2, 3, 4, 5, 6, 7, 9, 12, 13])}


def sampled(d):
    d.op = "GridSample"
    bad = [d.rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, -1.0, 1.0]) for _ in range(24)]
    d.inputs = [d.numbers(1, 2, *d.dims(2)), np.array(bad, np.float32).reshape(1, 3, 4, 2)]
    d.attributes = {
        "mode": d.rng.choice(["linear", "nearest", "cubic"]), "align_corners": d.rng.choice([0, 1]),
        "padding_mode": d.rng.choice(["zeros", "border", "reflection"]),
    }  # fmt: skip


SIZED = {
    "Expand": lambda d: ([d.numbers(1, 4), [d.size(), 4]], {}),
    "Tile": lambda d: ([d.numbers(2, 4), [d.size(), d.rng.choice([1, 0, 2])]], {}),
    "Pad": lambda d: (
        [d.numbers(3, 4), [0, d.size(), 0, d.size()]],
        {"mode": d.rng.choice(["constant", "edge", "reflect", "wrap"])},
    ),
    "Reshape": lambda d: ([d.numbers(3, 4), [d.size(), d.size()]], {"allowzero": d.rng.choice([0, 1])}),
    "ConstantOfShape": lambda d: ([[d.size(), d.rng.choice([0, 1, 2])]], {}),
    "Slice": lambda d: (
        [d.numbers(5, 4), [d.size()], [d.size()], [d.rng.choice([0, 1, -1, d.size()])], [d.size()]],
        {},
    ),
    "Range": lambda d: ([d.size(), d.size(), d.size()], {}),
    "Split": lambda d: ([d.numbers(5, 4), [d.size(), d.size()]], {}),
    "TopK": lambda d: ([d.numbers(5, 4), [d.size()]], {}),
    "Trilu": lambda d: ([d.numbers(5, 4), d.size()], {"upper": d.rng.choice([0, 1])}),
    "CumSum": lambda d: ([d.numbers(5, 4), d.size()], {"reverse": d.rng.choice([0, 1])}),
    "Unsqueeze": lambda d: ([d.numbers(5, 4), [d.size()]], {}),
    "Squeeze": lambda d: ([d.numbers(5, 1), [d.size()]], {}),
    "Resize": lambda d: ([d.numbers(1, 1, 3, 4), None, None, [1, 1, d.size(), d.size()]], {}),
    "HannWindow": lambda d: ([d.size()], {}),
    "Col2Im": lambda d: ([d.numbers(1, 4, 9), [d.size(), 4], [2, 2]], {}),
    "CenterCropPad": lambda d: ([d.numbers(5, 4), [d.size(), d.size()]], {}),
    "STFT": lambda d: ([d.numbers(1, 16, 1), d.size(), d.numbers(8)], {}),
    "DFT": lambda d: ([d.numbers(1, 16, 1), d.size()], {}),
    "Compress": lambda d: ([d.numbers(3, 4), np.ones(d.rng.choice([0, 1, 3, 5, 100]), bool)], {"axis": 0}),
    "SplitToSequence": lambda d: ([d.numbers(5, 4), d.size()], {}),
    "EyeLike": lambda d: ([d.numbers(3, 4)], {"k": d.size()}),
    "BitShift": lambda d: (
        [np.arange(9, dtype="uint32"), np.array([d.rng.choice([0, 1, 31, 32, 33, 255, 2**32 - 1])] * 9, "uint32")],
        {"direction": d.rng.choice(["LEFT", "RIGHT"])},
    ),
    "NonMaxSuppression": lambda d: (
        [d.numbers(1, 4, 4), d.numbers(1, 1, 4), d.size(), d.numbers(1)[0], d.numbers(1)[0]],
        {},
    ),
}
OUTPUTS = {"Split": 2, "TopK": 2}


def sized(d):
    d.op = d.rng.choice(list(SIZED))
    inputs, d.attributes = SIZED[d.op](d)
    d.inputs = [x if x is None or isinstance(x, (np.ndarray, np.generic)) else np.array(x, np.int64) for x in inputs]
    d.inputs = [np.asarray(x) if isinstance(x, np.generic) else x for x in d.inputs]
    d.outputs, d.sized = OUTPUTS.get(d.op, 1), True
    if d.rng.random() < 0.3:  # known at compile time
        d.constant = set(range(1, len(d.inputs)))


FAMILIES = (
    gather, gather, gather_elements, scatter_elements, gather_nd, scatter_nd, divide, divide, one_hot, lengths,
    recurrent, attention, tensor_scatter, rotary, embed, pooled, cast, sampled, sized, sized, sized, sized,
)  # fmt: skip


def model_of(d, *, dynamic):
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(d.inputs)]
    free = [k for k, x in enumerate(d.inputs) if x is not None and k not in d.constant]
    infos = [
        helper.make_tensor_value_info(
            names[k],
            helper.np_dtype_to_tensor_dtype(d.inputs[k].dtype),
            [
                f"{names[k]}_{j}" if dynamic and k == 0 and 0 not in d.static else n
                for j, n in enumerate(d.inputs[k].shape)
            ],
        )
        for k in free
    ]
    known = [
        helper.make_tensor(
            names[k],
            helper.np_dtype_to_tensor_dtype(d.inputs[k].dtype),
            d.inputs[k].shape,
            d.inputs[k].tobytes(),
            raw=True,
        )
        for k in d.constant
        if d.inputs[k] is not None
    ]
    made = [f"o{k}" for k in range(d.outputs)]
    node = helper.make_node(d.op, names, made, domain=d.domain, name="/it", **d.attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(n) for n in made], known)
    opsets = [helper.make_opsetid("", d.opset)] + ([helper.make_opsetid(d.domain, 1)] if d.domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {names[k]: d.inputs[k] for k in free}


assert TensorProto.INT64 == 7  # `Cast` draws types by number


def case(seed, folder):
    del folder
    rng = random.Random(seed)
    d = Drawn(rng)
    rng.choice(FAMILIES)(d)
    low, checked, dynamic = (rng.random() < 0.5 for _ in range(3))
    guard_runs(Patch(), low=low)
    model, feed = model_of(d, dynamic=dynamic)
    dims = (
        {f"i0_{j}": (0, 1 << 20) for j in range(8)}
        if dynamic and (0 in d.inputs[0].shape or rng.random() < 0.3)
        else {}
    )
    known = {p.dim_param for i in model.graph.input for p in i.type.tensor_type.shape.dim if p.dim_param}
    try:
        run = graphfuse.compile(
            model, threads=1, check_indices=checked, dims={n: r for n, r in dims.items() if n in known}
        )
        got = run({n: guarded(x, low=low) for n, x in feed.items()})
    except (IndexRangeError, DivisionByZeroError):
        assert d.refused, "what is right was refused"
        return "refused as it must be"
    except GraphfuseError:
        assert d.wanted is None or d.refused, "what is right was refused"
        raise
    if d.wanted is None and not d.refused:
        return f"ran {d.op}" if d.sized else "ran"
    assert not (d.refused and checked), "what is wrong was not refused"
    if d.refused:
        return "ran unchecked"
    (found,) = got.values()
    assert (found.shape, found.dtype) == (d.wanted.shape, d.wanted.dtype), (
        f"{found.dtype}{found.shape}, expected {d.wanted.dtype}{d.wanted.shape}"
    )
    np.testing.assert_array_equal(found, d.wanted)
    return "right"
