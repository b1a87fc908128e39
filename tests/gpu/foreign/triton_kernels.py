"""Kernels in Triton, in the forms that its tutorials have: `make.py` compiles them to the PTX in this folder."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, columns, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    numerator = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, numerator / tl.sum(numerator, axis=0), mask=at < columns)


@triton.jit
def matmul(out, a, b, m, n, k, out_row, a_row, b_row, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    left = a + i[:, None] * a_row + d[None, :]
    right = b + d[:, None] * b_row + j[None, :]
    acc = tl.zeros((rows, columns), tl.float32)
    for begin in range(0, k, depth):
        x = tl.load(left, mask=(i[:, None] < m) & (begin + d[None, :] < k), other=0.0)
        y = tl.load(right, mask=(begin + d[:, None] < k) & (j[None, :] < n), other=0.0)
        acc = tl.dot(x, y, acc)
        left += depth
        right += depth * b_row
    to = out + i[:, None] * out_row + j[None, :]
    tl.store(to, tl.maximum(acc, 0.0).to(out.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def attention(out, q, k, v, row, length, scale, width: tl.constexpr, rows: tl.constexpr, keys: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    head = tl.program_id(1) * length * row
    n = tl.arange(0, keys)
    d = tl.arange(0, width)
    query = tl.load(q + head + i[:, None] * row + d[None, :], mask=i[:, None] < length, other=0.0)
    largest = tl.full([rows], -float("inf"), tl.float32)
    total = tl.zeros([rows], tl.float32)
    acc = tl.zeros([rows, width], tl.float32)
    for start in range(0, tl.minimum((tl.program_id(0) + 1) * rows, length), keys):
        at = start + n
        there = at < length
        key = tl.load(k + head + at[None, :] * row + d[:, None], mask=there[None, :], other=0.0)
        scores = tl.dot(query, key) * (scale * 1.4426950408889634)
        scores = tl.where(there[None, :] & (i[:, None] >= at[None, :]), scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        shrunk = tl.exp2(largest - larger)
        total = total * shrunk + tl.sum(p, 1)
        value = tl.load(v + head + at[:, None] * row + d[None, :], mask=there[:, None], other=0.0)
        acc = tl.dot(p.to(value.dtype), value, acc * shrunk[:, None])
        largest = larger
    to = out + head + i[:, None] * row + d[None, :]
    tl.store(to, (acc / total[:, None]).to(out.dtype.element_ty), mask=i[:, None] < length)


@triton.jit
def layer_norm(out, x, weight, bias, columns, eps, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], tl.float32)
    for begin in range(0, columns, block):
        at = begin + tl.arange(0, block)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([block], tl.float32)
    for begin in range(0, columns, block):
        at = begin + tl.arange(0, block)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        value = tl.where(at < columns, value - mean, 0.0)
        total += value * value
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    for begin in range(0, columns, block):
        at = begin + tl.arange(0, block)
        inside = at < columns
        w, b = tl.load(weight + at, mask=inside), tl.load(bias + at, mask=inside)
        value = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * columns + at, (value - mean) * scale * w + b, mask=inside)


@triton.jit
def add_at(out, index, x, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    tl.atomic_add(out + tl.load(index + at, mask=inside, other=0), tl.load(x + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def scan(out, last, x, columns, block: tl.constexpr):
    """Sums of a row up to each element, and where its largest is."""
    row = tl.program_id(0)
    at = tl.arange(0, block)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-1e9)
    tl.store(last + row, tl.argmax(values, axis=0))
    tl.store(out + row * columns + at, tl.cumsum(values, axis=0), mask=at < columns)


@triton.jit
def dropout(out, x, count, p, seed, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    kept = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=at < count) / (1 - p), 0.0), mask=at < count)


@triton.jit
def locked(lock, total, x, columns, rows: tl.constexpr, block: tl.constexpr):
    """A sum over rows, by programs that take turns at a lock."""
    at = tl.arange(0, block)
    part = tl.zeros([block], tl.float32)
    for i in range(rows):
        part += tl.load(x + (tl.program_id(0) * rows + i) * columns + at, mask=at < columns, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(total + at, mask=at < columns)
    tl.store(total + at, before + part, mask=at < columns)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
