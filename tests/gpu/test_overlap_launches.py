"""Kernels that begin while those before them run: where they wait, what comes before, what the emulator says if not."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import graphfuse.dialects  # noqa: F401  the parser finds ops by name
from benchmarks.gemm_kernels import Gemm, text
from graphfuse.artifact import Buffer as Tensor
from graphfuse.artifact import Plan, Pointer, Step
from graphfuse.gpu.emulator import Buffer, Emulator, EmulatorError, TensorMap
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.gpu.transforms.overlap_launches import with_constants
from graphfuse.ir.parser import parse
from graphfuse.runtime.bound import Regions
from graphfuse.targets import Target
from tests.gpu.launching import SM_80, SM_90A, compiled
from tests.gpu.test_hopper import inputs
from tests.gpu.test_hopper import run as gemm_run

BF16 = ml_dtypes.bfloat16

ADD = """
func @f(%x: ptr<f32>, %w: ptr<f32>, %o: ptr<f32>) {grid = 4, warps = 1ATTRS} {
  %p = block.program_id() : i64
  %at = block.index(%p) {expr = (64*p), names = ["p"]} : i64
  %b = block.load_view(%w, %at) {shape = [64], strides = [1]} : tile<64xf32>
  %a = block.load_view(%x, %at) {shape = [64], strides = [1]} : tile<64xf32>
  %c = block.add(%a, %b) : tile<64xf32>
  block.store_view(%o, %at, %c) {strides = [1]}
  return()
}
"""
WAIT, NEXT = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"


def order(func):
    """The names of the outermost ops that matter here."""
    known = ("load_view", "store_view", "copy_async", "wait_launches", "next_launch", "for")
    return [n for op in func.body.ops if (n := op.kind.name.split(".")[-1]) in known]


def add(attrs=""):
    return ADD.replace("ATTRS", attrs)


@pytest.mark.parametrize(
    ("attrs", "found"),
    [
        ("", "wait_launches load_view load_view next_launch store_view"),
        (", constants = [1]", "load_view wait_launches load_view next_launch store_view"),
        (', trigger = "early"', "wait_launches next_launch load_view load_view store_view"),
        (', trigger = "end"', "wait_launches load_view load_view store_view next_launch"),
    ],
)
def test_constants_before_and_the_last_stores_after(attrs, found):
    assert order(transformed(parse(add(attrs)), SM_90A)) == found.split()


@pytest.mark.parametrize(("programs", "lets"), [("264", True), ("265", False), ("(4*n)", True), ("(265*n)", False)])
def test_many_blocks_let_go_by_ending(programs, lets):
    text = add().replace("grid = 4, warps = 1}", f"grid = {programs}, warps = 4}} dims (n in 1..2)")
    text = text.replace("%o: ptr<f32>)", "%o: ptr<f32>, %n: i64)")
    found = order(transformed(parse(text), SM_90A))
    assert found.count("wait_launches") == 1
    assert ("next_launch" in found) == lets


def test_constants_are_what_no_launch_of_a_run_writes():
    buffers = [Tensor(kind, 16, index) for kind, index in (("weight", 0), ("input", 0), ("input", 1), ("output", 0))]
    steps = [Step("f", tuple(map(Pointer, numbers)), 1) for numbers in ((0, 1, 2), (1, 0, 3))]

    def constants(*steps, written=()):
        plan = Plan((*buffers, Tensor("arena", 16)), steps)
        return with_constants({"f": parse(add())}, plan, written)["f"].attrs.get("constants")

    assert constants(steps[0]) == (0, 1, 2)
    assert constants(*steps) == (0, 1)
    assert constants(steps[0], written={1}) == (0, 1)
    assert constants(Step("f", tuple(map(Pointer, (3, 4, 2))), 1), written={1}) is None


def test_inputs_in_the_memory_of_results_are_no_constants():
    regions = Regions(*(np.array(n) for n in (range(4), [8, 8, 8, 0], [0, 1, 2, -1], [-1, -1, -1, -1], [0] * 4)), 2)
    for output, expected in ((32, [True, True]), (24, [True, True]), (15, [False, False]), (16, [True, False])):
        bases = np.array([8, 16, output, 64])
        assert [regions.is_constant(i, bases) for i in range(3)] == [*expected, False]
    assert regions.is_constant(3, np.array([8, 16, 24, 64]))


def test_only_where_the_machine_can():
    assert "griddepcontrol" not in compiled(add(), SM_80)[0]
    assert compiled(add(), Target.parse("cuda:sm_90"))[0].count(WAIT) == 1


# on the emulator


def run(ptx, kernel, *, seed=0, constant=True):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    out = np.zeros(256, np.float32)
    args = [x, Buffer(w, constant=constant), Buffer(out, initialised=False), 0]
    Emulator(ptx, seed=seed, name="k.ptx").launch(kernel.name, (4,), (32,), args)
    np.testing.assert_array_equal(out, x + w)


def moved(ptx, what, before):
    """An instruction from its place to the line before the first that has `before`."""
    lines = ptx.splitlines()
    place = next(i for i, line in enumerate(lines) if what in line)
    text = lines.pop(place)
    at = next(i for i, line in enumerate(lines) if before in line)
    return "\n".join([*lines[:at], text, *lines[at:]])


def test_constants_may_be_read_before_the_wait():
    ptx, kernel = compiled(add(", constants = [1]"), SM_90A)
    assert ptx.index("ld.global") < ptx.index(WAIT) < ptx.index(NEXT) < ptx.index("st.global")
    run(ptx, kernel)
    with pytest.raises(EmulatorError, match=r"ld.global.*before griddepcontrol.wait: element 0 of f_param_1"):
        run(ptx, kernel, constant=False)


@pytest.mark.parametrize(
    ("what", "before", "message"),
    [
        (WAIT, "st.global", "ld.global.*global memory before griddepcontrol.wait: element 0 of f_param_0"),
        (WAIT, "ret;", "ld.global.*global memory before griddepcontrol.wait"),
        (NEXT, WAIT, "griddepcontrol.launch_dependents: launches the next grid before griddepcontrol.wait"),
    ],
)
def test_planted(what, before, message):
    ptx, kernel = compiled(add(), SM_90A)
    run(ptx, kernel)
    with pytest.raises(EmulatorError, match=message):
        run(moved(ptx, what, before), kernel)


def test_a_store_before_the_wait():
    ptx, kernel = compiled(add(", constants = [0, 1]"), SM_90A)
    late = moved(ptx, WAIT, "ret;")
    late = moved(late, NEXT, "ret;")
    args = [Buffer(np.zeros(256, np.float32), constant=True) for _ in range(2)]
    with pytest.raises(EmulatorError, match=r"st.global.*before griddepcontrol.wait: element 0 of f_param_2"):
        Emulator(late).launch(kernel.name, (4,), (32,), [*args, Buffer(np.zeros(256, np.float32)), 0])


def test_every_block_waits():
    ptx, kernel = compiled(add(), SM_90A)
    leave = ".reg .pred q;\n.reg .b32 mine;\nmov.u32 mine, %ctaid.x;\nsetp.eq.u32 q, mine, 2;\n@q ret;"
    leaving = ptx.replace(WAIT, f"{{\n{leave}\n}}\n{WAIT}")
    with pytest.raises(EmulatorError, match="the CTA ends without griddepcontrol.wait"):
        run(leaving, kernel)


# products by TMA


def hopper(rows, **attrs):
    """A product of few rows whose second factor is a weight, transformed."""
    func = parse(text(Gemm(rows, 64, 256, (64, 64, 64))))
    return transformed(replace(func, attrs={**func.attrs, "constants": (1,), **attrs}), SM_90A)


def roles(func):
    """For each role its outermost ops."""
    (special,) = [op for op in func.body.ops if op.kind.name == "gpu.warp_specialize"]
    return [[op.kind.name for op in body.ops] for body in special.bodies]


def test_roles_wait_and_weights_are_copied_before():
    consumer, producer = roles(hopper(16))
    assert consumer.count("gpu.wait_launches") == producer.count("gpu.wait_launches") == 1
    loops = [name for name in producer if name in ("for", "gpu.wait_launches", "gpu.for_tiles")]
    assert loops == ["for", "gpu.wait_launches", "for", "gpu.for_tiles"]
    assert producer.index("gpu.next_launch") > producer.index("gpu.for_tiles")
    assert "gpu.next_launch" not in consumer
    assert "for" not in roles(hopper(16, constants=()))[1]
    consumer, producer = roles(hopper(16, trigger="end"))
    assert consumer[-2:] == ["gpu.next_launch", "yield"]
    assert "gpu.next_launch" not in producer


def test_products_wait():
    """Copies of weights may begin before; a wait that the producer lacks is found."""
    func = hopper(16)
    lowered = lower([func], SM_90A)
    ptx, kernel = emit_ptx(lowered), lowered.kernels[0]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((rows, 256)).astype(BF16) for rows in (16, 64))

    def run(ptx):
        out = np.zeros((16, 64), BF16)
        arrays = x, w, out
        maps = [
            TensorMap(arrays[m.param], m.box, m.swizzle, m.dims, tuple(2 * s for s in m.strides))
            for m in kernel.tensor_maps
        ]
        args = [x, Buffer(w, constant=True), out, 0, *maps]
        Emulator(ptx).launch(kernel.name, (1,), (kernel.threads,), args, shared_bytes=kernel.shared_bytes)
        return out.astype(np.float32)

    np.testing.assert_allclose(run(ptx), x.astype(np.float32) @ w.astype(np.float32).T, rtol=1e-2, atol=0.1)
    place = ptx.index(WAIT, ptx.index("complete_tx"))
    with pytest.raises(EmulatorError, match="complete_tx.*global memory before griddepcontrol.wait"):
        run(ptx[:place] + ptx[place + len(WAIT) :])


def test_promises_that_nobody_else_writes():
    """LLVM would move loads of such pointers over the wait."""
    func = parse(add(", constants = [1]"))
    for name, waits in (("%w", True), ("%x", False)):
        promised = replace(func, attrs={**func.attrs, "noalias": (name.removeprefix("%"),)})
        assert ("wait_launches" in order(transformed(promised, SM_90A))) == waits


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "gemm",
    [
        Gemm(40, 136, 456, (64, 64, 64), attrs=(("ring", "3"),)),
        Gemm(16, 128, 512, (64, 64, 64), attrs=(("split", "2"),)),
        Gemm(200, 128, 128, (64, 64, 64), attrs=(("schedule", '"pingpong"'),)),
        Gemm(70, 72, 40, (64, 64, 64), tb=False, gate=True),
    ],
    ids=["rests", "split", "pingpong", "gate"],
)
def test_products_that_begin_with_weights_give_the_same_bits(gemm):
    """Fewer steps than slots, more, several tiles for a block, sums shared by blocks."""
    arrays = inputs(gemm)
    found = []
    for constants in ((), tuple(range(1, len(arrays)))):
        func = parse(text(gemm))
        func = transformed(replace(func, attrs={**func.attrs, "constants": constants}), SM_90A)
        lowered = lower([func], SM_90A)
        held = [Buffer(a, constant=True) if i in constants else a for i, a in enumerate(arrays)]
        found += [gemm_run(gemm, emit_ptx(lowered), lowered.kernels[0], held, seed=s) for s in range(2)]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize(
    ("grid", "width", "waits"), [(1 << 14, 64, True), ((1 << 14) + 1, 64, False), ((1 << 14) + 1, 1024, True)]
)
def test_many_blocks_that_are_over_at_once_do_not_wait(grid, width, waits):
    text = add().replace("grid = 4", f"grid = {grid}").replace("[64]", f"[{width}]").replace("<64x", f"<{width}x")
    assert ("wait_launches" in order(transformed(parse(text), SM_90A))) == waits
