"""The PTX of data exchange assembles for every architecture it is for, without spills."""

import pytest

from graphfuse.gpu import lower
from graphfuse.gpu.assembler import assemble
from graphfuse.ir.layout_families import Mma, Operand
from graphfuse.ir.parser import parse
from graphfuse.targets import Target
from tests.gpu.launching import compiled
from tests.gpu.test_convert_lowering import COLUMNS, ELEMS, PAIRS, ROWS, program
from tests.gpu.test_dot import CHAIN
from tests.gpu.test_pipeline_loads import matmul
from tests.gpu.test_reduce import CASES, SOFTMAX
from tests.gpu.test_reduce import program as reduction

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90")
LARGE = (4096, 4096, 4096)
WARPS = 8


def resources(ptx, arch):
    """Registers and spills of the only kernel; the test is skipped where nothing can tell."""
    done = assemble(ptx, arch)
    if done is None:
        pytest.skip(f"no assembler for {arch}")
    (found,) = done.resources.values()
    assert not done.warnings
    assert found.spill_bytes == 0
    return found


def resident(found):
    """Blocks of WARPS warps whose registers a multiprocessor has; a warp is given eight of each thread at a time."""
    return 65536 // (WARPS * 32 * -(-found.registers // 8) * 8)


@pytest.mark.some(12)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("tile", "elem", "acc", "dot", "most"),
    [
        ((128, 128, 32), "f16", "f32", "", 160),
        ((128, 256, 32), "bf16", "f32", "", 224),
        ((128, 128, 64), "i8", "i32", "", 160),
        ((128, 128, 32), "f8e4m3", "f32", "", 224),
        ((128, 128, 16), "f32", "f32", "", 200),
        ((128, 128, 16), "f32", "f32", ' {precision = "tf32x3"}', 200),
    ],
)
def test_products(arch, tile, elem, acc, dot, most):
    """`most` is of fragments read as they are needed; a slice ahead of that costs registers, but no resident block."""
    target = Target.parse(f"cuda:{arch}")
    for right in (False, True):
        text = matmul(tile, LARGE, elem, acc, warps=WARPS, right=right, dot=dot)
        ahead, _ = compiled(text, target)
        plain, _ = compiled(text.replace("warps =", "prefetch = false, warps =", 1), target)
        found = resources(plain, arch)
        assert found.registers <= most
        assert plain == ahead or resident(resources(ahead, arch)) == resident(found)


@pytest.mark.parametrize("elem", ELEMS)
def test_conversions(elem):
    families = (ROWS, COLUMNS, PAIRS, Mma((2, 2)), Operand(16, 0, (2, 2)), Operand(16, 1, (2, 2)))
    text = program([f.linear((64, 32)) for f in families], (64, 32), elem)
    resources(lower.emit_ptx(lower.lower([parse(text)], Target.parse("cuda:sm_80"))), "sm_80")


@pytest.mark.parametrize(("kind", "elem"), CASES)
def test_reductions(kind, elem):
    for axis in (0, 1):
        resources(compiled(reduction((64, 100), elem, axis, kind, 4))[0], "sm_80")


@pytest.mark.parametrize("text", [SOFTMAX, CHAIN])
def test_chains(text):
    resources(compiled(text)[0], "sm_80")
