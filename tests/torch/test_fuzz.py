"""Random programs compiled, forward and backward, beside eager torch.

The measure is the program in float64. An error may be a small multiple of eager's, and of what inputs that differ by a
rounding make of the result: a program may be ill-conditioned, or decide by the order of numbers that are nearly equal.
"""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402

from graphfuse.torch import backend  # noqa: E402
from tests.torch.fuzz_programs import Program, programs  # noqa: E402
from tests.torch.support import CHECKED, strides_of  # noqa: E402

SLACK = 2e-6
"""How far a result may be from the exact one, relative to the largest of a tensor, whatever eager's error is."""
ROUNDING = 2.0**-22


def settings_of(count, **more):
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, print_blob=True,
        suppress_health_check=list(HealthCheck), **more,
    )  # fmt: skip


def results(fn, program, leaves):
    """Outputs and gradients."""
    leaves = [x.detach().requires_grad_() for x in program.laid_out(leaves)]
    outs = fn(*leaves)
    roots = [o for o in outs if o.requires_grad]
    seeds = [torch.linspace(-1, 1, o.numel(), dtype=torch.float64).cos().reshape(o.shape).to(o.dtype) for o in roots]
    grads = torch.autograd.grad(roots, leaves, seeds, allow_unused=True) if roots else ()
    return [o.detach() for o in outs], [torch.zeros(()) if g is None else g for g in grads]


def double(program, leaves):
    torch.set_default_dtype(torch.float64)
    try:
        return results(program.function(), program, leaves)
    finally:
        torch.set_default_dtype(torch.float32)


def check(program):
    torch._dynamo.reset()
    leaves = program.leaves()
    single = [x.float() for x in leaves]
    leaves = [x.double() for x in single]
    exact = double(program, leaves)
    noise = torch.Generator().manual_seed(1)
    near = [
        double(program, [x * (1 + ROUNDING * torch.randn(x.shape, generator=noise, dtype=x.dtype)) for x in leaves])
        for _ in range(2)
    ]
    theirs = results(program.function(), program, single)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        ours = results(torch.compile(program.function(), backend=backend, options=CHECKED), program, single)
    for what, got, want, true, *moved in zip(("output", "gradient"), ours, theirs, exact, *near, strict=True):
        assert len(got) == len(want)
        for i, (g, w, x, *ms) in enumerate(zip(got, want, true, *moved, strict=True)):
            assert (g.shape, g.dtype) == (w.shape, w.dtype), f"{what} {i}"
            assert what == "gradient" or strides_of(g) == strides_of(w), f"{what} {i}: {g.stride()}, eager {w.stride()}"
            assert torch.equal(g.isnan(), w.isnan()), f"{what} {i}: NaNs differ"
            conditioned = max(_distance(m, x) for m in ms)
            allowed = 2 * _distance(w, x) + 4 * conditioned + SLACK * float(x.abs().max())
            assert _distance(g, x) <= allowed, f"{what} {i}: error {_distance(g, x)}, allowed {allowed}"


def _distance(a, b):
    return float((a.double() - b).nan_to_num().abs().max())


def test_a_program_with_a_dim_of_one_element():
    check(Program([((2,), "{0}")], [("v0", "x0.unfold(-1, 2, 1)"), ("v1", "x0 + v0")], ["v1"]))


@given(programs())
@settings_of(4, phases=[Phase.generate])
def test_some_programs(program):
    check(program)


@pytest.mark.full
@given(programs())
@settings_of(200)
def test_programs(program):
    check(program)
