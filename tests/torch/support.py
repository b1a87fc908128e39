"""Runs functions through `torch.compile(..., backend=graphfuse.torch.backend)` beside eager torch."""

import copy
from contextlib import contextmanager

import torch

from graphfuse.torch import aot, backend
from graphfuse.torch.cut import Kind

CHECKED = {"check": True}
SLACK = {torch.float64: 1e-9, torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""How far results may be from float64, relative to the largest of a tensor, where eager is closer."""


def compiled(fn, **how):
    """`fn` compiled; what it returns is compared with what torch was promised."""
    return torch.compile(fn, backend="graphfuse", options=CHECKED, **how)


@contextmanager
def recorded_graphs():
    """The graphs that are compiled meanwhile, as `CompiledGraph`s; torch's cache would not compile them again."""
    graphs, whole = [], aot.compile_graph

    def recording(*args):
        graphs.append(whole(*args))
        return graphs[-1]

    aot.compile_graph = recording
    try:
        with torch._functorch.config.patch(enable_autograd_cache=False):
            yield graphs
    finally:
        aot.compile_graph = whole


def name_of(target):
    """`native_layer_norm` for `aten.native_layer_norm.default`."""
    return target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else str(target)


def compiled_ops(graphs):
    """The names of operators that are inside kernels."""
    return {name_of(n.target) for g in graphs for n, k in g.cut.kinds.items() if k in (Kind.COMPUTE, Kind.VIEW)}


def left_to_torch(graphs):
    """The names of operators that torch runs, and why."""
    return {
        name_of(n.target): why for g in graphs for n, why in g.cut.reasons.items() if n.op == "call_function"
    }  # fmt: skip


def strides_of(x):
    """The strides that say where elements lie: torch leaves those of dims of one element open."""
    return [s for s, d in zip(x.stride(), x.shape, strict=True) if d > 1] if x.numel() else []


def check(fn, *inputs, ops=(), left=(), dynamic=False, slack=None, training=True):
    """Compare `fn` compiled with eager, forward and, for inputs that require it, backward.

    `ops` must be compiled; only operators in `left` may be left to torch. The measure is `fn` in float64: an error
    may be twice that of eager, or `slack` of the largest value.
    """
    torch._dynamo.reset()
    with recorded_graphs() as graphs:
        got = _results(torch.compile(_copied(fn), backend=backend, dynamic=dynamic, options=CHECKED), inputs, training)
    want = _results(_copied(fn), inputs, training)
    exact = _results(_copied(fn, double=True), [_double(x) for x in inputs], training)
    assert graphs, "nothing was compiled"
    why = left_to_torch(graphs)
    missing = set(ops) - compiled_ops(graphs)
    assert not missing, f"not compiled: {missing}; left to torch: {why}"
    assert set(why) <= set(left), why
    assert len(got) == len(want) == len(exact)
    for i, (g, w, x) in enumerate(zip(got, want, exact, strict=True)):
        assert g.shape == w.shape and g.dtype == w.dtype, (i, g.dtype, w.dtype, g.shape, w.shape)
        assert strides_of(g) == strides_of(w), (i, g.stride(), w.stride())
        _assert_close(g, w, x, slack, i)
    return graphs


def _assert_close(got, want, exact, slack, which):
    if not got.dtype.is_floating_point:
        assert torch.equal(got, want), f"result {which}"
        return
    assert torch.equal(got.isnan(), want.isnan()), f"result {which}: NaNs differ"
    infinite = want.isinf()
    assert torch.equal(got[infinite], want[infinite]), f"result {which}: infinities differ"
    g, w, x = (t.double()[~(want.isnan() | infinite)] for t in (got, want, exact))
    if g.numel():
        allowed = 2 * (w - x).abs().max() + (slack or SLACK[got.dtype]) * max(x.abs().max(), 1e-3)
        assert (g - x).abs().max() <= allowed, f"result {which}: {(g - x).abs().max()} > {allowed}"


def _copied(fn, *, double=False):
    if not isinstance(fn, torch.nn.Module):
        return fn
    fn = copy.deepcopy(fn)
    return fn.double() if double else fn


def _double(x):
    if not isinstance(x, torch.Tensor) or not x.dtype.is_floating_point:
        return x
    # detach drops neither strides nor the memory format
    return x.detach().double().requires_grad_(x.requires_grad)


def _results(fn, inputs, training):
    """Outputs, gradients of inputs and parameters, and buffers after the call."""
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs]
    module = fn if isinstance(fn, torch.nn.Module) else None
    with torch.set_grad_enabled(training):
        outs = fn(*inputs)
    outs = [o for o in (outs if isinstance(outs, (tuple, list)) else [outs]) if o is not None]
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves += [p for p in module.parameters() if p.requires_grad] if module is not None else []
    grads = []
    if training and leaves:
        roots = [o for o in outs if o.requires_grad]
        seeds = [_seed(o) for o in roots]
        grads = [g for g in torch.autograd.grad(roots, leaves, seeds, allow_unused=True) if g is not None]
    buffers = [b.detach().clone() for b in module.buffers()] if module is not None else []
    return [t.detach() for t in (*outs, *grads, *buffers)]


def _seed(out):
    """The same numbers for every run and element type, not all alike."""
    numbers = torch.linspace(-1, 1, max(out.numel(), 1), dtype=torch.float64)[: out.numel()]
    return numbers.sin().mul(1.5).reshape(out.shape).to(out.dtype)
